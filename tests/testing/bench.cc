// SPDX-License-Identifier: BSD-3-Clause
// What a task costs on a runtime of one's own: what is measured, and what is refused.
#include "nntile/testing/bench.hh"

#include "nntile/runtime/adaptors/forward.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/testing/broken_replay.hh"

namespace {

using namespace nntile;
using test::Broken;
using test::Defect;

testing::SubmitBenchOptions const small{.tasks = 500, .runs = 1};

/// Refuses a submission, and counts the handles of adopted memory and the waits.
class Refusing : public Forward<Serial> {
 public:
  Handle adopt(std::span<std::byte> bytes, Place place = host, Release release = {}) {
    if (adopted == most_adopted) throw OutOfMemory("mine: no record");
    ++adopted;
    return inner().adopt(bytes, place, release);
  }
  void retire(Handle handle) {
    retired_unwaited += submitted;
    if (keeps) throw LifetimeError("mine: not now");
    --adopted;
    inner().retire(handle);
  }
  Event submit(Task<Handle> const& task) {
    if (++submissions == 1'100) throw OutOfMemory("mine: no room");
    submitted = true;
    return inner().submit(task);
  }
  void wait_all() {
    submitted = false;
    inner().wait_all();
  }

  int adopted = 0, submissions = 0, retired_unwaited = 0;
  int most_adopted = -1;
  bool submitted = false, keeps = false;
};

TEST_CASE("the cases of submit are measured in one call", "[testing][bench]") {
  Serial serial;
  std::vector<std::string> cases;
  for (testing::BenchRecord const& record : testing::bench_submit(serial, "mine", small)) {
    CHECK(record.runtime == "mine");
    CHECK(record.value > 0);
    cases.push_back(record.case_name);
  }
  CHECK(cases == std::vector<std::string>{"independent", "chain", "three_handles"});
}

TEST_CASE("three handles are distinct, of 4,096, and most of these are named", "[testing][bench]") {
  testing::detail::SubmitProblem const problem(20'000);
  std::vector<int> named(4096);
  for (auto const& [a, b, c] : problem.triples) {
    REQUIRE((a != b && a != c && b != c));
    ++named.at(a), ++named.at(b), ++named.at(c);
  }
  CHECK(std::count(named.begin(), named.end(), 0) == 0);
}

TEST_CASE("nothing is not measured", "[testing][bench]") {
  Serial serial;
  auto const refused = [&](testing::SubmitBenchOptions const& options) {
    return test::message_of<ValueError>([&] { testing::bench_submit(serial, "mine", options); });
  };
  CHECK(refused({.tasks = 500, .runs = 0}) == "bench: 500 tasks in 0 runs; 1 or more of each");
  CHECK(refused({.tasks = -1, .runs = 1}) == "bench: -1 tasks in 1 runs; 1 or more of each");
  for (int const rounds : {0, -3})
    CHECK(test::message_of<ValueError>([&] {
            testing::bench_patterns(
                serial, "mine",
                {.width = 2, .steps = 2, .rounds = rounds, .patterns = {testing::Pattern::chain}});
          }) == concat("bench: ", rounds, " rounds; 1 or more"));
}

TEST_CASE("a runtime that loses tasks or an order of three handles is refused",
          "[testing][bench]") {
  for (Defect const defect :
       {Defect::drops_tasks, Defect::drops_write_after_read, Defect::reorders_two_writers,
        Defect::skips_read_after_write, Defect::sees_one_operand}) {
    CAPTURE(static_cast<int>(defect));
    Broken broken(defect);
    CHECK_THROWS_WITH(testing::bench_submit(broken, "mine", small),
                      Catch::Matchers::Contains("bench: mine broke an order of "));
  }
}

TEST_CASE("a bench that an exception ends leaves neither tasks nor memory behind",
          "[testing][bench]") {
  Refusing submits, runs_patterns;
  CHECK_THROWS_AS(testing::bench_submit(submits, "mine", small), OutOfMemory);
  CHECK_THROWS_AS(
      testing::bench_patterns(runs_patterns, "mine",
                              {.width = 4, .steps = 50, .patterns = {testing::Pattern::chain}}),
      OutOfMemory);
  for (Refusing const* const runtime : {&submits, &runs_patterns}) {
    CHECK(runtime->adopted == 0);
    CHECK(runtime->retired_unwaited == 0);
  }
}

TEST_CASE("a bench gives a runtime that waits for nothing no task", "[testing][bench]") {
  Refusing runtime;
  auto const locked = runtime.allocate(8);
  (void)runtime.lock(locked, Access::write);
  CHECK_THROWS_AS(testing::bench_submit(runtime, "mine", small), LifetimeError);
  CHECK(runtime.submissions == 0);
  CHECK(runtime.adopted == 0);
}

TEST_CASE("a bench ends with its error where memory is not adopted, or not retired",
          "[testing][bench]") {
  Refusing adopts, keeps;
  adopts.most_adopted = 100;
  CHECK(test::message_of([&] { (void)testing::bench_submit(adopts, "mine", small); }) ==
        "mine: no record");
  CHECK(adopts.adopted == 0);
  keeps.keeps = true;
  CHECK(test::message_of([&] { (void)testing::bench_submit(keeps, "mine", small); }) ==
        "mine: no room");
}

}  // namespace
