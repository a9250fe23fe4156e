// SPDX-License-Identifier: BSD-3-Clause
// Runs whose tasks submit tasks, written down, saved, repeated and reduced.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nntile/runtime/adaptors/check.hh"
#include "nntile/runtime/adaptors/record.hh"
#include "nntile/testing/conformance/nested_program.hh"
#include "tests/support/message.hh"
#include "tests/support/sanitized.hh"
#include "tests/testing/nesting_run.hh"

using namespace nntile;
using namespace nntile::test;
using nntile::testing::first_difference;
using nntile::testing::TaskResult;
using CallKind = TranscribedCall::Kind;
using Outcome = TranscribedCall::Outcome;

namespace {

static_assert(NestingRuntime<Transcribe<Serial>> && NestingRuntime<Transcribe<Threads>> &&
              NestingRuntime<Transcribe<Ring>> && NestingRuntime<Transcribe<DynamicRing>> &&
              NestingRuntime<Transcribe<Record<Serial>>> && !NestingRuntime<Check<Serial>> &&
              !NestingRuntime<Transcribe<Check<Serial>>>);

/// The same, but where the sum is 5.
constexpr Codelet wrong_add{"add", +[](KernelCall const& call) noexcept -> Status {
                              std::uint64_t const sum = word(call, 0) + word(call, 1);
                              word(call, 2) = sum == 5 ? 6 : sum;
                              return {};
                            }};

/// The Fibonacci numbers, by bodies some of which wait.
template <class H> struct Fibonacci {
  std::uint64_t n;
  H result;
  void operator()(auto& nested) const {
    if (n < 2) {
      call(nested, put_word, n, writing(result));
      return;
    }
    H const one = nested.allocate(8), other = nested.allocate(8);
    Event const first = nested.orchestrate(Fibonacci{n - 1, one}, writing(one));
    nested.orchestrate(Fibonacci{n - 2, other}, writing(other));
    if (n % 3 == 0) nested.wait(first);
    call(nested, add_words, 0, reading(one), reading(other), writing(result));
    nested.retire(one);
    if (n % 4 == 0) nested.wait_all();
  }
};

template <class H> struct Deep {
  int left;
  H result;
  void operator()(auto& nested) const {
    if (left == 0)
      call(nested, put_word, 42, writing(result));
    else
      nested.orchestrate(Deep{left - 1, result}, writing(result));
  }
};

/// Numbers, and what a body reads, writes, and leaves open, on buffers and a region.
template <class R> Transcript numbers_of(R& runtime) {
  using H = typename R::Handle;
  H const whole = runtime.allocate(32), other = runtime.allocate(8);
  auto const bytes = runtime.lock(whole, Access::write);
  std::ranges::fill(bytes, std::byte{1});
  runtime.unlock(whole);
  H part = other;
  if constexpr (requires { runtime.region(whole, Region{}); })
    part = runtime.region(whole, {8, 8, {}});
  runtime.orchestrate(Fibonacci<H>{9, other}, writing(other));
  call(runtime, step_word, 0, updating(other));  // 103
  Use<H> const uses[] = {updating(part), updating(other)};
  Event const outer = runtime.submit_nesting(
      [part, other](auto& nested) {
        H const mine = nested.allocate(8);
        auto const span = nested.lock(mine, Access::write);
        std::ranges::fill(span, std::byte{0});
        span[0] = std::byte{5};
        nested.unlock(mine);
        (void)nested.lock(other, Access::read);
        nested.unlock(other);
        call(nested, add_words, 0, reading(mine), reading(other), writing(mine));
        call(nested, step_word, 0, updating(part));
        auto const open = nested.lock(part, Access::update);
        open[1] = std::byte{9};  // it ends with the task
      },
      uses, {}, {"outer", 3});
  runtime.wait(outer);
  call(runtime, step_word, 0, updating(part));
  runtime.wait_all();
  return runtime.transcript();
}

Transcript again(Transcript const& run, std::span<io::NamedCodelet const> codelets = known) {
  return io::transcript_of(io::transcript_text(run, codelets), "text", codelets);
}
template <class R> std::vector<TaskResult> results_on(Transcript const& run, int workers) {
  R runtime(RuntimeOptions{.workers = workers});
  return testing::run(run, runtime);
}
std::vector<TaskResult> on_serial(Transcript const& run) { return results_on<Serial>(run, 1); }

/// Calls check(run) with what record(runtime) writes down on a ring of 1, 2 and 8 workers.
template <class Record, class Check> void on_rings(Record record, Check check) {
  for (int const workers : {1, 2, 8}) {
    Transcribe<Ring> ring(RuntimeOptions{.workers = workers});
    check(record(ring));
  }
}

std::uint64_t hash(std::uint64_t value) { return io::hash64(std::as_bytes(std::span(&value, 1))); }

std::size_t position_of(Transcript const& run, std::size_t task) {
  for (std::size_t c = 0, seen = 0;; ++c)
    if (run.calls[c].is_task() && seen++ == task) return c;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("tasks that submit are written down alike, and give the same results",
                        "[testing][transcript_nesting]", NestingRuntimes) {
  Transcribe<Serial> recorder;
  Transcript const run = numbers_of(recorder);
  auto const expected = on_serial(run);
  CHECK(expected[0].hashes == std::vector{hash(34)});
  CHECK(expected.back().hashes.size() == 1);
  CHECK(run.tasks() == expected.size());
  CHECK(io::transcript_text(run, known).starts_with("nntile transcript 2\n"));
  if constexpr (RegionRuntime<TestType>)
    on_rings([](auto& ring) { return numbers_of(ring); },
             [&](Transcript const& same) {
               CHECK(same == run);
               CHECK(again(same) == run);
             });
  for (int const workers : worker_counts<TestType>()) {
    Transcribe<TestType> here(RuntimeOptions{.workers = workers});
    Transcript const written = numbers_of(here);
    CHECK(results_on<TestType>(written, workers) == on_serial(written));
    if constexpr (RegionRuntime<TestType>) {
      CHECK(written == run);
      CHECK(results_on<TestType>(again(run), workers) == expected);
    }
  }
}

TEST_CASE("what bodies wrote themselves is repeated, also in a region and a lock left open",
          "[testing][transcript_nesting]") {
  Transcribe<Ring> ring(RuntimeOptions{.workers = 2});
  Transcript const run = numbers_of(ring);
  auto const results = on_serial(again(run));
  auto const last = std::ranges::find_if(
      run.calls, [](TranscribedCall const& call) { return call.tensor == "outer"; });
  REQUIRE(last != run.calls.end());
  REQUIRE(last->uses.size() == 2);
  auto const outer = static_cast<std::size_t>(
      std::count_if(run.calls.begin(), last, [](auto const& one) { return one.is_task(); }));
  CHECK(results[outer + 1].hashes == std::vector{hash(5 + 103)});
  std::uint64_t const stepped = 3 * 0x0101010101010101 + 1;
  CHECK(results[outer + 2].hashes == std::vector{hash(stepped)});
  std::uint64_t const patched = (stepped & ~std::uint64_t{0xff00}) | 0x0900;
  CHECK(results[outer].hashes[0] == hash(patched));
  CHECK(results[outer + 3].hashes == std::vector{hash(3 * patched + 1)});
  std::vector<CallKind> kinds;
  for (auto at = last + 1; at->kind != CallKind::end_body; ++at) kinds.push_back(at->kind);
  CHECK(kinds == std::vector{CallKind::allocate, CallKind::write, CallKind::read, CallKind::submit,
                             CallKind::submit, CallKind::write});
}

TEST_CASE("of a strided region a body's lock leaves its bytes alone",
          "[testing][transcript_nesting]") {
  Transcribe<Ring> ring(RuntimeOptions{.workers = 2});
  auto const whole = ring.allocate(16);
  std::ranges::fill(ring.lock(whole, Access::write), std::byte{0});
  ring.unlock(whole);
  auto const part = ring.region(whole, {0, 1, {{2, 8}}});
  ring.orchestrate(
      [part](auto& nested) {
        auto const bytes = nested.lock(part, Access::update);
        bytes[0] = std::byte{1};
        bytes[8] = std::byte{2};
        nested.unlock(part);
      },
      updating(part));
  ring.wait_all();
  Transcript const run = ring.transcript();
  CHECK(run.calls.at(run.calls.size() - 3).contents == std::vector{std::byte{1}, std::byte{2}});
  CHECK(results_on<Ring>(again(run), 2) == on_serial(run));
}

TEMPLATE_LIST_TEST_CASE("failures in bodies are repeated", "[testing][transcript_nesting]",
                        NestingRuntimes) {
  Transcribe<Serial> recorder;
  Transcript const run = failures_of(recorder);
  on_rings([](auto& ring) { return failures_of(ring); },
           [&](Transcript const& same) { CHECK(same == run); });
  auto const end_of = [&](std::size_t task) {
    std::size_t const c = position_of(run, task);
    return run.calls[nntile::detail::transcribed_bodies(run)[c]];
  };
  CHECK(end_of(3).outcome == Outcome::threw);
  CHECK(end_of(3).cause == "out of %\nideas");
  CHECK(end_of(5).outcome == Outcome::none);
  CHECK(end_of(6).outcome == Outcome::ran);
  Transcript const loaded = again(run);
  CHECK(loaded == run);
  for (int const workers : worker_counts<TestType>()) {
    auto const results = results_on<TestType>(loaded, workers);
    REQUIRE(results.size() == 15);
    auto const of = [&](std::size_t task) { return results[task].hashes.at(0); };
    CHECK(of(3) == 0);
    CHECK(of(4) == hash(4));
    CHECK(of(5) == 0);
    CHECK(of(6) == hash(16));
    CHECK(of(7) == 0);
    CHECK(of(8) == 0);
    CHECK(of(9) == hash(5));
    CHECK(of(10) == hash(16));
    CHECK(of(11) == 0);
    CHECK(of(13) == hash(49));
    CHECK(of(14) == 0);
  }
}

TEMPLATE_LIST_TEST_CASE("a body that did not run fails its task where it runs",
                        "[testing][transcript_nesting]", NestingRuntimes) {
  Transcribe<Serial> recorder;
  auto const a = recorder.allocate(8);
  call(recorder, fail_word, 0, writing(a));
  recorder.orchestrate([a](auto& nested) { call(nested, step_word, 0, updating(a)); }, updating(a));
  CHECK_THROWS_AS(recorder.wait_all(), TaskError);
  Transcript run = recorder.transcript();
  for (TranscribedCall& one : run.calls)
    if (one.codelet == &fail_word) one.codelet = &step_word;
  TestType runtime;
  auto const results = testing::run(run, runtime);
  CHECK(results[0].hashes[0] != 0);
  CHECK(results[1].hashes[0] == 0);
}

TEMPLATE_LIST_TEST_CASE("random programs whose tasks submit are repeated, failures included",
                        "[testing][transcript_nesting]", NestingRuntimes) {
  std::vector<io::NamedCodelet> const codelets{{"nested", &testing::detail::nested_codelet},
                                               {"late", &testing::detail::late_nested_codelet}};
  for (std::uint64_t seed = 0; seed < (test::sanitized ? 15 : 60); ++seed) {
    constexpr std::uint32_t buffers = 6;
    testing::NestedVariant const variant;  // bodies refer to it
    testing::NestedDrawer drawer(seed);
    auto const steps = drawer.body(std::vector(buffers, Access::update),
                                   std::vector(buffers, false), buffers, 0, 0);
    testing::NestedRuns ran;
    for (std::uint32_t i = 0; i < drawer.tasks(); ++i) ran.emplace_back(0);
    auto const taken = [&] {
      std::vector<int> counts;
      for (auto& count : ran) counts.push_back(count.exchange(0));
      return counts;
    };
    auto const record = [&](auto& runtime) {
      std::vector<handle_t<decltype(runtime)>> handles;
      for (std::uint32_t b = 0; b < buffers; ++b)
        handles.push_back(runtime.allocate(testing::nested_bytes));
      testing::submit_nested_steps(runtime, steps, handles, ran, variant);
      try {
        runtime.wait_all();
      } catch (TaskError const&) {
      }
      return runtime.transcript();
    };
    Transcribe<Serial> recorder;
    Transcript const run = record(recorder);
    std::vector<int> counts = taken();
    Transcribe<TestType> there(RuntimeOptions{.workers = worker_counts<TestType>().back()});
    INFO("seed " << seed);
    CHECK(record(there) == run);
    CHECK(taken() == counts);
    for (std::size_t c = 0; c < run.calls.size(); ++c)  // bodies are not run again, but their calls
      if (run.calls[c].kind == CallKind::submit) {
        testing::detail::NestedArguments arguments;
        std::memcpy(&arguments, run.calls[c].arguments.data(), sizeof arguments);
        counts[arguments.node->id] *= 2;
      }
    Transcript const loaded = again(run, codelets);
    CHECK(loaded == run);
    auto const expected = on_serial(loaded);
    auto const alone = taken();
    for (std::size_t i = 0; i < alone.size(); ++i)
      CHECK((alone[i] == 0 || 2 * alone[i] == counts[i]));
    CHECK(results_on<TestType>(loaded, worker_counts<TestType>().back()) == expected);
    CHECK(taken() == alone);
  }
}

TEMPLATE_LIST_TEST_CASE("bodies inside one another a thousand deep are repeated",
                        "[testing][transcript_nesting]", NestingRuntimes) {
  static constexpr int levels = 1000;
  Transcribe<TestType> recorder;
  handle_t<Transcribe<TestType>> result = recorder.allocate(8);
  recorder.orchestrate(Deep<decltype(result)>{levels, result}, writing(result));
  recorder.wait_all();
  Transcript const run = again(recorder.transcript());
  CHECK(run == recorder.transcript());
  TestType runtime;
  auto const results = testing::run(run, runtime);
  REQUIRE(results.size() == levels + 2);
  CHECK(results.back().hashes == std::vector{hash(42)});
  CHECK(results.front().hashes == std::vector{hash(42)});
  Transcript const part = slice(run, levels + 1);
  CHECK(std::ranges::equal(part.calls, std::span(run.calls).first(run.calls.size() - 1)));
}

TEST_CASE("the first task that differs is found inside others, and reduced to what it needs",
          "[testing][transcript_nesting]") {
  Transcribe<Ring> recorder(RuntimeOptions{.workers = 2});
  using H = Transcribe<Ring>::Handle;
  H const a = recorder.allocate(8), b = recorder.allocate(8), c = recorder.allocate(8);
  call(recorder, put_word, 1, writing(a));               // 0
  call(recorder, put_word, 7, writing(c));               // 1
  recorder.orchestrate(Fibonacci<H>{3, b}, writing(b));  // 2
  recorder.wait_all();
  std::size_t const inside = recorder.transcript().tasks() - 2;  // of 2
  Use<H> const uses[] = {updating(a), updating(b), updating(c)};
  recorder.submit_nesting(  // outer
      [=](auto& nested) {
        H const mine = nested.allocate(8), other = nested.allocate(8);
        call(nested, step_word, 0, updating(c));                             // + 1
        call(nested, put_word, 3, writing(mine));                            // + 2
        call(nested, put_word, 4, writing(other));                           // + 3
        nested.orchestrate(                                                  // + 4
            [mine](auto& own) { call(own, step_word, 0, updating(mine)); },  // + 5: 10
            updating(mine));
        Use<H> const both[] = {reading(b), reading(mine), writing(c)};
        nested.submit_nesting(  // + 6
            [=](auto& own) {
              H const three = own.allocate(8), last = own.allocate(8);
              call(own, put_word, 0, writing(last));                                // + 7
              call(own, put_word, 3, writing(three));                               // + 8
              call(own, add_words, 0, reading(b), reading(three), writing(three));  // + 9: 5
              call(own, add_words, 0, reading(mine), reading(three), writing(c));   // + 10
            },
            both);
        call(nested, step_word, 0, updating(a));
      },
      uses);
  call(recorder, add_words, 0, reading(a), reading(b), writing(c));
  recorder.wait_all();
  Transcript const run = again(recorder.transcript());
  std::size_t const outer = 2 + inside;
  auto const right = on_serial(run);
  Transcript wrong = run;
  for (TranscribedCall& one : wrong.calls)
    if (one.codelet == &add_words) one.codelet = &wrong_add;
  auto const first = first_difference(run, right, results_on<Ring>(wrong, 2));
  REQUIRE(first);
  CHECK(first->task == outer + 9);
  CHECK(first->outer == outer + 6);
  CHECK(first->operand == 2);
  CHECK(to_string(*first) ==
        concat("task ", outer + 9, " inside task ", outer + 6,
               ", add of tensor 'a tensor', tile 7, left other bytes in operand 2"));

  // The task for b with all inside it; the two around; two inside the inner one.
  Transcript const& part = first->reduced;
  CHECK(part.tasks() == inside + 1 + 2 - 1 + 2);
  CHECK(again(part) == part);
  for (int const workers : {1, 2, 8}) {
    auto const results = results_on<Ring>(part, workers);
    CHECK(results.back() == right[outer + 9]);
  }
  CHECK(results_on<Threads>(part, 2).back() == right[outer + 9]);
  auto const declared = [&](Transcript const& of, std::size_t task) {
    return of.calls[position_of(of, task)].uses;
  };
  CHECK(declared(part, inside) == std::vector<Use<std::uint32_t>>{{0, Access::update}});

  // What the outer one no longer reads it writes, and nothing before it is needed.
  CHECK(declared(slice(run, outer + 10), inside) ==
        std::vector<Use<std::uint32_t>>{{0, Access::update}, {1, Access::write}});

  // Each task may be asked for; of the last, what is inside the others stays together.
  for (std::size_t task = 0; task < run.tasks(); ++task) {
    Transcript const needed = slice(run, task);
    CHECK(again(needed) == needed);
    auto const results = results_on<Ring>(needed, 2);
    if (run.calls[position_of(run, task)].kind == CallKind::submit)
      CHECK(results.back() == right[task]);
  }
  CHECK(slice(run, run.tasks() - 1).tasks() == run.tasks());
  CHECK_FALSE(first_difference(run, right, results_on<Ring>(run, 8)));
}

TEST_CASE("a task that submits differs where what it leaves does",
          "[testing][transcript_nesting]") {
  Transcribe<Serial> recorder;
  Transcript const run = failures_of(recorder);
  auto const right = on_serial(run);
  auto other = right;
  other[3].hashes[0] = 1;
  auto const first = first_difference(run, right, other);
  REQUIRE(first);
  CHECK(first->task == 3);
  CHECK_FALSE(first->outer);
  CHECK(to_string(*first) == "task 3, which submits, left other bytes in operand 0");
  CHECK(first->reduced.tasks() == 3);
  CHECK(first->reduced.calls.back().outcome == Outcome::threw);
  other[4].hashes[0] = 1;
  CHECK(first_difference(run, right, other)->task == 4);
}
