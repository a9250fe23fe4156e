// SPDX-License-Identifier: BSD-3-Clause
// The battery passes lawful runtimes and fails broken ones.
#include "nntile/testing/conformance.hh"

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "nntile/runtime/adaptors/forward.hh"
#include "nntile/runtime/archetype.hh"
#include "nntile/runtime/serial/nest.hh"
#include "tests/support/catch.hh"
#include "tests/testing/broken_replay.hh"

namespace {

using namespace nntile;
using test::BrokenReplay;
using test::Defect;

/// `first`: until the first check fails. A hang ends when the watchdog has seen it, and counts as a
/// failure.
testing::Report run(Defect defect, std::string const& only = {}, bool first = false) {
  bool const frees = defect != Defect::frees_nothing && defect != Defect::frees_nothing_at_the_end;
  testing::ConformanceOptions options;
  options.rounds = 1;
  options.only = only;
  options.heavy = !first || !frees;
  options.stop_at_failure = first;
  options.watchdog = testing::Watchdog::off();
  if (defect == Defect::loses_a_wakeup)
    options.watchdog = {1, [](testing::Report const&) { BrokenReplay::wake_driver(); }};
  return testing::conformance(
      [=](RuntimeOptions const& runtime_options) { return BrokenReplay(defect, runtime_options); },
      options);
}

/// A runtime that may forget that adopted memory is const, or that it has a handle already.
class Adopting : public Forward<Serial> {
 public:
  enum class Forgets { nothing, constness, overlap };
  Adopting(Forgets forgets, RuntimeOptions const& options)
      : Forward<Serial>(options), forgets_(forgets) {}

  Handle adopt(std::span<std::byte> bytes, Place place = host, Release release = {}) {
    try {
      return inner().adopt(bytes, place, release);
    } catch (ValueError const&) {
      if (forgets_ != Forgets::overlap) throw;
      return inner().allocate(bytes.size(), place);
    }
  }
  Handle adopt(std::span<std::byte const> bytes, Place place = host, Release release = {}) {
    if (forgets_ != Forgets::constness) return inner().adopt(bytes, place, release);
    return inner().adopt({const_cast<std::byte*>(bytes.data()), bytes.size()}, place, release);
  }

 private:
  Forgets const forgets_;
};
static_assert(ReadOnlyRuntime<Adopting>);

/// Releases what is retired at the thousandth call of `done` after that, and lets releases drive.
class ReleasesLate : public Forward<Serial> {
 public:
  using Forward<Serial>::Forward;

  Handle adopt(std::span<std::byte> bytes, Place place = host, Release release = {}) {
    release_ = release;
    auto const begin = [](void* self) noexcept { static_cast<ReleasesLate*>(self)->calls_ = 1000; };
    return inner().adopt(bytes, place, {begin, this});
  }
  bool done(Event event) {
    if (calls_ > 0 && --calls_ == 0) release_();
    return inner().done(event);
  }

 private:
  Release release_;
  int calls_ = 0;  // until the release
};

/// A defect, and the beginning of the name of a check that must find it. `first`: likewise of the
/// first check that does, if that is another.
struct Expectation {
  Defect defect;
  char const* check;
  char const* first = check;
};

constexpr Expectation expectations[] = {
    {Defect::allocates_nothing, "what allocate gives, retire takes"},
    {Defect::drops_tasks, "a task may have no operand, and runs once"},
    {Defect::drops_write_after_read, "a writer leaves the readers before it their data"},
    {Defect::forgets_second_reader, "a writer leaves the readers before it their data"},
    {Defect::reorders_two_writers, "of two writers the later one is the last"},
    {Defect::skips_read_after_write, "a reader sees the writer before it"},
    {Defect::takes_updates_for_reads, "a long chain of updates runs in order"},
    {Defect::runs_accumulates_at_once, "accumulating tasks exclude each other"},
    {Defect::runs_accumulates_at_once, "random programs that mostly accumulate",
     "accumulating tasks exclude each other"},
    {Defect::runs_disjoint_writers_early, "tasks that write disjoint bytes keep"},
    {Defect::forgets_disjoint_writers, "tasks that write disjoint bytes keep"},
    {Defect::forgets_disjoint_writers, "random programs that mostly write disjoint bytes",
     "tasks that write disjoint bytes keep"},
    {Defect::sees_one_operand, "a task waits for all of its 39 inputs", "a reader sees the writer"},
    {Defect::forgets_repeated_operands, "a task may name a buffer more than once"},
    {Defect::remembers_eight_readers, "a writer waits for all of hundreds of readers"},
    {Defect::frees_under_reader, "retiring a buffer keeps the data for the tasks before"},
    {Defect::frees_under_reader, "adopted memory is released once",
     "retiring a buffer keeps the data for the tasks before"},
    {Defect::frees_under_token, "retiring a buffer that an asynchronous task holds"},
    {Defect::frees_under_unordered, "a task holds what it accesses in no order"},
    {Defect::releases_twice, "retired memory that was adopted is released once"},
    {Defect::releases_twice, "adopted memory is released once", "retired memory that was adopted"},
    {Defect::never_releases, "retired memory that was adopted is released once"},
    {Defect::never_releases, "hundreds of adopted buffers", "retired memory that was adopted"},
    {Defect::misaligns, "allocations are aligned to 64 bytes"},
    {Defect::copies_adopted_memory, "adopted memory is used in place"},
    {Defect::refuses_empty_buffers, "a buffer may be empty"},
    {Defect::reads_unwritten, "an unwritten buffer cannot be read"},
    {Defect::half_refuses, "an unwritten buffer cannot be read"},
    {Defect::counts_own_write, "a task that also reads the unwritten buffer it writes is refused"},
    {Defect::lock_does_not_wait, "a lock sees the tasks before it"},
    {Defect::ignores_locks_unordered, "a locked handle is out of bounds until unlock"},
    {Defect::ignores_locks, "a locked handle is out of bounds until unlock"},
    {Defect::refuses_parts_of_unwritten, "what is written disjointly or in no order counts"},
    {Defect::locks_for_anything, "what is written disjointly or in no order counts"},
    {Defect::closes_outer_scope, "scopes retire exactly what was allocated in them"},
    {Defect::takes_foreign_handles, "the handle of another runtime is refused"},
    {Defect::takes_retired_handles, "a retired handle is refused"},
    {Defect::locks_retired_handles, "a retired handle is refused"},
    {Defect::unlocks_retired_handles, "a retired handle is refused"},
    {Defect::replays_retired_handles, "a retired handle is refused"},
    {Defect::retires_twice, "a retired handle is refused"},
    {Defect::closes_any_scope, "a handle is refused once its scope has closed"},
    {Defect::closes_around_scopes, "a handle is refused once its scope has closed"},
    {Defect::keeps_handles_of_scopes, "a handle is refused once its scope has closed"},
    {Defect::unlocks_anything, "an unlock without a lock is refused"},
    {Defect::locks_twice, "a second lock of a handle is refused"},
    {Defect::takes_foreign_events, "the event of another runtime is refused"},
    {Defect::tells_of_foreign_events, "the event of another runtime is refused"},
    {Defect::waits_for_invented_events, "an event that the runtime never gave is refused"},
    {Defect::tells_of_invented_events, "an event that the runtime never gave is refused"},
    {Defect::adopts_at_any_place, "a place that the runtime has not is refused"},
    {Defect::takes_any_place, "a place that the runtime has not is refused"},
    {Defect::takes_empty_codelets, "a task without an entry that can run is refused"},
    {Defect::frees_nothing, "storage is freed"},
    {Defect::frees_nothing_at_the_end, "storage is freed"},
    {Defect::loses_a_wakeup, "a sleeping driver wakes when what it waits for ends"},
    {Defect::loses_mark, "marks travel along the data"},
    {Defect::keeps_mark_after_write, "a complete write clears a mark"},
    {Defect::accumulate_clears_mark, "accumulating leaves a mark standing"},
    {Defect::disjoint_write_clears_mark, "writing disjoint bytes leaves a mark standing"},
    {Defect::unordered_meets_marks, "an access in no order neither meets a mark"},
    {Defect::unordered_leaves_marks, "an access in no order neither meets a mark"},
    {Defect::reporting_clears_marks, "a mark outlives its report"},
    {Defect::reporting_clears_marks, "tasks submitted after a failure see its marks",
     "a mark outlives its report"},
    {Defect::runs_cancelled_tasks, "marks travel along the data"},
    {Defect::polls_past_exceptions, "an exception from a poll fails its task"},
    {Defect::runs_nothing_on_marks, "an asynchronous task that asks for it runs on marks"},
    {Defect::succeeds_on_marks, "an asynchronous task that asks for it runs on marks"},
    {Defect::keeps_cancelled_mark, "an asynchronous task may say that it was cancelled elsewhere"},
    {Defect::reports_youngest_failure, "wait_all throws the oldest failure"},
    {Defect::counts_no_failures, "wait_all counts the others"},
    {Defect::throws_once, "waiting for a failed task throws every time"},
    {Defect::names_no_task, "an error names codelet, tensor, tile and cause"},
    {Defect::forgets_completion_status, "a task may fail in every way in which it may end"},
    {Defect::wait_returns_early, "wait returns when its task has ended"},
    {Defect::wait_returns_early, "tokens may be completed in any order", "wait returns when"},
    {Defect::done_says_yes, "events say what is done"},
    {Defect::ends_at_return, "an asynchronous task keeps its place in the order"},
    {Defect::polls_after_the_end, "wait, wait_all and lock poll", "an asynchronous task keeps"},
    {Defect::abandons_tasks, "destruction waits for tasks and tokens"},
    {Defect::drives_in_polls, "a poll may ask done alone"},
    {Defect::drives_in_releases, "the release of adopted memory may ask done alone"},
    {Defect::replays_at_once, "a replay waits for the tasks before it"},
    {Defect::replays_at_once, "a replay and the tasks around it keep their order",
     "a replay waits"},
    {Defect::replay_leaves_no_readers, "a replay leaves each handle's last writer and readers"},
    {Defect::keeps_first_parameters, "a replay takes its own bindings and parameters"},
    {Defect::replays_first_task_only, "a replay runs every task of its program once"},
    {Defect::replay_succeeds_always, "a failure within a replay marks"},
    {Defect::counts_replays_once, "a failure within a replay marks"},
    {Defect::replay_ends_with_its_last_task, "a replay is done when all of its tasks are"},
    {Defect::accepts_aliases, "bindings that alias"},
    {Defect::replays_at_once, "random programs with replays and failures", "a replay waits"},
    {Defect::truncates_arguments, "arguments are copied whole, up to 4 KiB"},
    {Defect::accepts_any_workers, "0, -1 and 1,025 workers are an error"},
    {Defect::drops_nested_tasks, "a task that submits is refused, or nested"},
    {Defect::leaks_rounding_mode, "tasks run under the default floating-point mode"},
    {Defect::lends_no_workspace, "each body has a workspace of its own"},
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

TEST_CASE("the first line of a report names the most specific check", "[testing][conformance]") {
  for (Expectation const& expected : expectations) {
    if (expected.first != expected.check) continue;           // another line has this defect
    if (expected.defect == Defect::loses_a_wakeup) continue;  // which hangs, see watchdog.cc
    auto const report = run(expected.defect, "", true);
    INFO("defect " << static_cast<int>(expected.defect) << "\n" << to_string(report));
    CHECK(to_string(report).starts_with(concat("FAILED: ", expected.check)));
  }
}

TEST_CASE("the battery finds what is broken of const memory", "[testing][conformance]") {
  using Forgets = Adopting::Forgets;
  auto const report_of = [](Forgets forgets) {
    testing::ConformanceOptions options;
    options.max_workers = 1;
    options.only = "const memory";
    return testing::conformance([=](RuntimeOptions const& one) { return Adopting(forgets, one); },
                                options);
  };
  CHECK(report_of(Forgets::nothing).passed());
  CHECK(report_of(Forgets::overlap).failed() == 1);
  auto const report = to_string(report_of(Forgets::constness));
  CHECK(report.starts_with("FAILED: const memory is read in place, and what would write it"));
}

TEST_CASE("the battery waits for a late release", "[testing][conformance]") {
  testing::ConformanceOptions options;
  options.max_workers = 1;
  options.only = "the release of adopted memory may ask done alone";
  auto const report =
      testing::conformance([](RuntimeOptions const& one) { return ReleasesLate(one); }, options);
  INFO(to_string(report, true));
  CHECK(report.failed() == 1);
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

TEST_CASE("a report begins with the first of several failures and counts the others",
          "[testing][conformance]") {
  auto const report = run(Defect::releases_twice, "adopted");
  std::string const text = to_string(report);
  INFO(text);
  CHECK(report.failed() > 2);
  CHECK(
      text.starts_with("FAILED: retired memory that was adopted is released once, after its task: "
                       "retired memory was released 2 times (1 worker, seed 1); "));
  CHECK(text.find(concat("; ", report.failed() - 1, " other checks failed\n")) != text.npos);
  CHECK(text.find("[FAILED]   hundreds of adopted buffers") != text.npos);
}

TEST_CASE("a runtime that cannot be built at all says why", "[testing][conformance]") {
  testing::ConformanceOptions options;
  options.max_workers = 1;
  auto const report = testing::conformance(
      [](RuntimeOptions const& one) {
        if (one.workers) throw ValueError("mine: no licence");
        return BrokenReplay(Defect::none, one);
      },
      options);
  CHECK(to_string(report).starts_with(
      "FAILED: no configuration can be built; 1 worker: 'mine: no licence'\n"));
  CHECK_FALSE(report.passed());
}

TEST_CASE("a lawful runtime passes whatever the number of rounds", "[testing][conformance]") {
  testing::ConformanceOptions options;
  options.max_workers = 1;
  options.rounds = 12;
  options.only = "thousands of buffers come and go";
  auto const report =
      testing::conformance([](RuntimeOptions const& one) { return ReleasesLate(one); }, options);
  INFO(to_string(report));
  CHECK(report.passed());
}

TEST_CASE("numbers of workers are doubled up to the most", "[testing][conformance]") {
  auto const tried = [](int most) {
    std::vector<int> counts;
    auto const refuse = [&](RuntimeOptions const& one) -> BrokenReplay {
      counts.push_back(*one.workers);
      throw ValueError("mine: no licence");
    };
    (void)testing::conformance(refuse, {.max_workers = most, .own_driver = false});
    return counts;
  };
  CHECK(tried(0).empty());
  CHECK(tried(1) == std::vector{1});
  CHECK(tried(6) == std::vector{1, 2, 4, 6});
  CHECK(tried(8) == std::vector{1, 2, 4, 8});
  CHECK(tried(std::numeric_limits<int>::max()).size() == 32);
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
