// SPDX-License-Identifier: BSD-3-Clause
// The battery tells broken runtimes from lawful ones.
#include "nntile/testing/conformance.hh"

#include <string>

#include "nntile/runtime/archetype.hh"
#include "tests/support/catch.hh"
#include "tests/testing/broken_replay.hh"

namespace {

using namespace nntile;
using test::BrokenReplay;
using test::Defect;

testing::Report run(Defect defect, std::string const& only = {}) {
  testing::ConformanceOptions options;
  options.rounds = 1;
  options.only = only;
  return testing::conformance(
      [=](RuntimeOptions const& runtime_options) { return BrokenReplay(defect, runtime_options); },
      options);
}

/// A defect, and part of the name of the check that must find it.
struct Expectation {
  Defect defect;
  char const* check;
};

constexpr Expectation expectations[] = {
    {Defect::drops_write_after_read, "a writer leaves the readers before it their data"},
    {Defect::reorders_two_writers, "of two writers the later one is the last"},
    {Defect::skips_read_after_write, "a reader sees the writer before it"},
    {Defect::takes_updates_for_reads, "a long chain of updates runs in order"},
    {Defect::runs_accumulates_at_once, "accumulating tasks exclude each other"},
    {Defect::sees_one_operand, "a task waits for all of its 39 inputs"},
    {Defect::forgets_repeated_operands, "a task may name a buffer more than once"},
    {Defect::remembers_eight_readers, "a writer waits for all of hundreds of readers"},
    {Defect::frees_under_reader, "retiring a buffer keeps the data for the tasks before"},
    {Defect::frees_under_reader, "adopted memory is released once"},
    {Defect::releases_twice, "adopted memory is released once"},
    {Defect::never_releases, "hundreds of adopted buffers are released"},
    {Defect::misaligns, "allocations are aligned to 64 bytes"},
    {Defect::copies_adopted_memory, "adopted memory is used in place"},
    {Defect::refuses_empty_buffers, "a buffer may be empty"},
    {Defect::reads_unwritten, "nobody reads what nobody wrote"},
    {Defect::half_refuses, "nobody reads what nobody wrote"},
    {Defect::counts_own_write, "a task that also reads the unwritten buffer it writes is refused"},
    {Defect::lock_does_not_wait, "a lock sees the tasks before it"},
    {Defect::ignores_locks, "a locked handle is out of bounds until unlock"},
    {Defect::closes_outer_scope, "scopes retire exactly what was allocated in them"},
    {Defect::loses_mark, "marks travel along the data"},
    {Defect::keeps_mark_after_write, "a complete write clears a mark"},
    {Defect::accumulate_clears_mark, "accumulating leaves a mark standing"},
    {Defect::reporting_clears_marks, "tasks submitted after a failure see its marks"},
    {Defect::runs_cancelled_tasks, "marks travel along the data"},
    {Defect::reports_youngest_failure, "wait_all throws the oldest failure"},
    {Defect::counts_no_failures, "wait_all throws the oldest failure"},
    {Defect::throws_once, "waiting for a failed task throws every time"},
    {Defect::names_no_task, "an error names codelet, tensor, tile and cause"},
    {Defect::forgets_completion_status, "a task may fail in every way in which it may end"},
    {Defect::wait_returns_early, "tokens may be completed in any order"},
    {Defect::done_says_yes, "events say what is done"},
    {Defect::ends_at_return, "an asynchronous task keeps its place in the order"},
    {Defect::abandons_tasks, "destruction waits for tasks and tokens"},
    {Defect::replays_at_once, "a replay and the tasks around it keep their order"},
    {Defect::replay_leaves_no_readers, "a replay leaves each handle's last writer and readers"},
    {Defect::keeps_first_parameters, "one program may be in flight several times"},
    {Defect::replays_first_task_only, "hundreds of replays queue"},
    {Defect::replay_succeeds_always, "a failure within a replay marks"},
    {Defect::accepts_aliases, "bindings that alias"},
    {Defect::replays_at_once, "random programs with replays and failures"},
    {Defect::truncates_attributes, "attributes are copied whole"},
    {Defect::accepts_any_workers, "0, -1 and 1,025 workers are an error"},
    {Defect::drops_nested_tasks, "a task that submits is refused, or nested"},
    {Defect::leaks_rounding_mode, "tasks run under the default floating-point mode"},
};

}  // namespace

TEST_CASE("the battery passes a runtime that takes the worst lawful order",
          "[testing][conformance]") {
  auto const report = run(Defect::none);
  INFO(to_string(report));
  CHECK(report.passed());
}

TEST_CASE("the battery finds every broken law", "[testing][conformance]") {
  for (Expectation const& expected : expectations) {
    auto const report = run(expected.defect, expected.check);
    INFO("defect " << static_cast<int>(expected.defect) << "\n" << to_string(report, true));
    CHECK(report.failed() == 1);
  }
}

TEST_CASE("random programs alone find what breaks order, storage or marks",
          "[testing][conformance]") {
  for (Defect const defect : {Defect::drops_write_after_read, Defect::reorders_two_writers,
                              Defect::skips_read_after_write, Defect::frees_under_reader,
                              Defect::loses_mark, Defect::releases_twice}) {
    auto const report = run(defect, "random programs");
    INFO("defect " << static_cast<int>(defect) << "\n" << to_string(report, true));
    CHECK(report.failed() >= 2);
  }
}

TEST_CASE("a report names the check, the configuration, the seed and the program",
          "[testing][conformance]") {
  std::string const text = to_string(run(Defect::drops_write_after_read, "a writer leaves"));
  for (char const* piece : {"[FAILED]", "a writer leaves the readers before it their data",
                            "(1 worker, seed 1)", "program 1, step", "0 checks passed, 1 failed"}) {
    INFO(text);
    CHECK(text.find(piece) != std::string::npos);
  }
}

TEST_CASE("a battery that ran nothing has not passed", "[testing][conformance]") {
  CHECK_FALSE(run(Defect::none, "no check has this name").passed());
}

TEST_CASE("the battery announces each check before it runs", "[testing][conformance]") {
  testing::ConformanceOptions options;
  options.only = "a reader sees";
  std::string announced;
  options.progress = [&](std::string const& text) { announced += text; };
  (void)testing::conformance([](RuntimeOptions const& o) { return BrokenReplay(Defect::none, o); },
                             options);
  CHECK(announced == "1 worker: a reader sees the writer before it");
}

TEST_CASE("the battery asks no more of a type than the concept", "[testing][conformance]") {
  // Compiled, not run: the archetype keeps no promise.
  auto const battery = [] {
    return testing::conformance([](RuntimeOptions const&) { return RuntimeArchetype(); });
  };
  CHECK(sizeof battery > 0);
}
