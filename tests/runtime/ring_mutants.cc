// SPDX-License-Identifier: BSD-3-Clause
// Mistakes seeded into the ring, one at a time, each of which a program of the model checker finds.
//
// NNTILE_MODEL=1 test_runtime '[mutants]' prints the list, with what each program found, after how
// many executions, and the time.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/runtime/forked.hh"
#include "tests/runtime/model/late_ends.hh"
#include "tests/runtime/model/mutants.hh"
#include "tests/runtime/model/programs.hh"
#include "tests/support/catch.hh"
#include "tests/support/sanitized.hh"
#include "tests/support/skip.hh"

namespace {

using namespace nntile;
using namespace nntile::test::model;

/// Explores claims that two tasks take in opposite orders; 1 if the mistake was found.
int find_opposite_orders() {
  Exploration exploration({3});
  return exploration.explore([] { claim_two<true>(); }).failure.empty() ? 0 : 1;
}

/// Explores a program of two tasks in a ring with that mistake; 1 if it finds that the first has
/// ended too late.
template <class Run> int find_late_end(int preemptions, Run run) {
  Exploration exploration({preemptions});
  auto const outcome = exploration.explore([&] { run(RuntimeOptions{2, false, false}); });
  return outcome.failure == late_end ? 1 : 0;
}

/// Explores the program that is to find the mistake; 1 if it did.
int find(Seeded const& seeded) {
  for (Program const& program : programs()) {
    if (program.name != seeded.program) continue;
    Mutant::current = &seeded.mutant;
    Exploration exploration({seeded.preemptions});
    auto const outcome = exploration.explore([&] { program.run({2, seeded.own_driver, false}); });
    if (std::getenv("NNTILE_MODEL") != nullptr) {
      std::printf("%5llu executions, %5.2f s: %s\n",
                  static_cast<unsigned long long>(outcome.executions), outcome.seconds,
                  outcome.failure.c_str());
      (void)std::fflush(stdout);
    }
    return outcome.failure.empty() ? 0 : 1;
  }
  return 0;
}

}  // namespace

TEST_CASE("every seeded mistake is found", "[runtime][ring][model][mutants]") {
  if (test::sanitized) return test::skip("sanitizers do not follow routines that change stacks");
  int number = 0;
  for (Seeded const& seeded : mutants()) {
    std::string const mistake = describe(seeded.mutant);
    if (std::getenv("NNTILE_MODEL") != nullptr) {
      std::printf("%3d %-60s %-20s ", ++number, mistake.c_str(),
                  std::string(seeded.program).c_str());
      (void)std::fflush(stdout);
    }
    INFO(mistake << ", by " << seeded.program);
    CHECK(test::in_child([&] { return find(seeded); }) == 1);
  }
  CHECK(mutants().size() >= 60);
}

TEST_CASE("claims that are taken in different orders are found to wait for each other",
          "[runtime][ring][model][mutants]") {
  if (test::sanitized) return test::skip("sanitizers do not follow routines that change stacks");
  CHECK(test::in_child(&find_opposite_orders) == 1);
}

TEST_CASE("a task that has ended later than one that waits for it is found",
          "[runtime][ring][model][mutants]") {
  if (test::sanitized) return test::skip("sanitizers do not follow routines that change stacks");
  auto const found = [](int preemptions, auto run) {
    return test::in_child([=] { return find_late_end(preemptions, run); }) == 1;
  };
  using Options = RuntimeOptions const&;
  CHECK(found(2, [](Options its) { end_one_in_order<SlotEndsLast>(its, complete_codelet); }));
  CHECK(found(2, [](Options its) { end_one_in_order<SlotEndsLast>(its, at_once_codelet); }));
  CHECK(found(2, [](Options its) { end_blocks_in_order<SlotEndsLast>(its); }));
  CHECK(found(2, [](Options its) { end_nest_in_order<SlotEndsLast>(its, false); }));
  CHECK(found(1, [](Options its) { end_nest_in_order<SlotEndsLast>(its, true); }));
  CHECK(found(2, [](Options its) { end_one_in_order<ListClosesFirst>(its, run_codelet); }));
}
