#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Checks: parts of buffers as operands, where the runtime models RegionRuntime.

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "nntile/testing/conformance/draw_regions.hh"
#include "nntile/testing/conformance/scene.hh"

namespace nntile::testing::checks {

/// A runtime with a scope of a step, and calls on it.
struct RegionStage {
  explicit RegionStage(Trial const& trial) : runtime(trial.make()), calls(*runtime) {
    if (!runtime->has_regions()) throw LeftOut{"the runtime has no regions"};
  }
  /// A task of one operand.
  std::pair<Event, Outcome> task(Named const& named, Access access, std::uint8_t pauses = 0,
                                 bool fails = false, bool late = false) {
    RegionTask task;
    task.salt = ++salt;
    task.pauses = pauses;
    task.fails = fails;
    task.part = static_cast<std::uint8_t>(salt % disjoint_parts);
    task.operands[0].access = access;
    return calls.submit(task, std::span(&named, 1), late);
  }

  std::unique_ptr<Subject> runtime;
  RegionCalls calls;
  std::uint64_t salt = 0;
};

/// Column and row of a matrix of 16 rows of bytes.
inline Named column(std::size_t buffer, std::size_t number) {
  return {buffer, {16 * number, 16, {}}};
}
inline Named row(std::size_t buffer, std::size_t number, std::size_t columns) {
  return {buffer, {number, 1, {{columns, 16}}}};
}

/// Rows, columns, the whole, a region of a region, and parts that begin inside of each other.
inline void regions_in_order(Trial const& trial) {
  RegionStage stage(trial);
  RegionCalls& calls = stage.calls;
  std::size_t const buffer = calls.add_buffer(16 * 8);
  stage.task(calls.whole(buffer), Access::write);
  Access const accesses[] = {Access::update, Access::read, Access::write, Access::accumulate};
  for (std::size_t i = 0; i < 8u * static_cast<std::size_t>(trial.rounds); ++i) {
    Access const access = accesses[i % 4];
    stage.task(column(buffer, i % 8), Access::update, nap / 16);
    stage.task(row(buffer, i % 16, 8), access);
    stage.task({buffer, {i % 100, 20, {}}}, Access::update, 2);
    stage.task({buffer, {i % 5, 2, {{3, 5}, {4, 30}}}}, access, 1);
    if (i % 4 == 3) stage.task(calls.whole(buffer), Access::update);
    Named const named = column(buffer, i % 8);
    auto const part = calls.runtime().region(calls.region(named), {4, 4, {}});
    Named const inside{buffer, {named.region.offset + 4, 4, {}}};
    RegionTask task;
    task.salt = i;
    task.operands[0].access = Access::update;
    (void)calls.submit(task, std::span(&inside, 1), std::span(&part, 1));
  }
  calls.compare(buffer);
}

/// Tasks on what a pending task does not name end, and those on what it names do not.
inline void regions_apart(Trial const& trial) {
  HeldTask held_task;
  detail::StartNote const note = held_task.note();
  RegionStage stage(trial);
  HeldTask::End const end{held_task};
  Subject& runtime = stage.calls.runtime();
  std::size_t const buffer = stage.calls.add_buffer(16 * 8);
  runtime.wait(stage.task(stage.calls.whole(buffer), Access::write).first);
  Use<Subject::Handle> const held{stage.calls.region(row(buffer, 5, 8)), Access::update};
  Event const pending =
      runtime.submit({&start_codelet, std::span(&held, 1), detail::bytes_of(note), {}, {}});
  for (std::size_t other = 0; other < 16; ++other)
    if (other != 5) stage.calls.wait(stage.task(row(buffer, other, 8), Access::update));
  // Every other byte of the row above and below, and the bytes between the held ones.
  stage.calls.wait(stage.task({buffer, {4, 1, {{2, 2}, {8, 16}}}}, Access::update));
  stage.calls.wait(stage.task({buffer, {6, 15, {{7, 16}}}}, Access::write));
  Event const across = stage.task(column(buffer, 7), Access::update).first;
  require(!runtime.done(across) && !runtime.done(pending),
          "a task on a region has ended before a pending one that shares a byte with it");
  runtime.wait(stage.task({buffer, {0, 5, {}}}, Access::read).first);
  held_task.release();
  runtime.wait(across);
  stage.calls.compare(buffer);
}

inline void written_region_by_region(Trial const& trial) {
  RegionStage stage(trial);
  RegionCalls& calls = stage.calls;
  std::size_t const buffer = calls.add_buffer(16 * 4);
  for (std::size_t c = 0; c < 4; ++c) {
    calls.compare(buffer);  // refused
    stage.task(calls.whole(buffer), Access::update);
    stage.task(row(buffer, 3, 4), Access::read);
    stage.task(column(buffer, c), Access::accumulate);
    stage.task(column(buffer, c), Access::write);
    stage.task(column(buffer, c), Access::update);
    calls.compare(column(buffer, c), calls.region(column(buffer, c)));
  }
  stage.task(row(buffer, 3, 4), Access::update);
  calls.compare(buffer);
  calls.wait_all();
}

inline void marks_on_bytes(Trial const& trial) {
  RegionStage stage(trial);
  RegionCalls& calls = stage.calls;
  std::size_t const buffer = calls.add_buffer(16 * 4);
  auto const look = [&] {
    for (std::size_t c = 0; c < 4; ++c)
      calls.compare(column(buffer, c), calls.region(column(buffer, c)));
    for (std::size_t r = 0; r < 16; ++r)
      calls.compare(row(buffer, r, 4), calls.region(row(buffer, r, 4)));
    calls.compare(buffer);
  };
  for (bool const late : {false, true}) {
    stage.task(calls.whole(buffer), Access::write);
    stage.task(row(buffer, 2, 4), Access::update, 1, true, late);
    stage.task(column(buffer, 1), Access::update);  // cancelled
    stage.task(row(buffer, 5, 4), Access::update);  // so is this
    stage.task(row(buffer, 7, 4), Access::write);   // and this mends its bytes
    look();
    calls.wait_all();
    stage.task(column(buffer, 1), Access::write);
    look();
    stage.task(calls.whole(buffer), Access::update, 0, false, late);  // cancelled
    stage.task({buffer, {8, 8, {}}}, Access::write);
    look();
    calls.wait_all();
  }
}

inline void locked_regions(Trial const& trial) {
  RegionStage stage(trial);
  Subject& runtime = stage.calls.runtime();
  std::size_t const buffer = stage.calls.add_buffer(16 * 4);
  stage.task(stage.calls.whole(buffer), Access::write, nap);
  for (int i = 0; i < 4 * trial.rounds; ++i) {
    auto const number = static_cast<std::size_t>(i) % 4;
    stage.task(row(buffer, 1, 4), Access::update, nap);
    stage.calls.lock(column(buffer, number), stage.calls.region(column(buffer, number)));
    stage.task(row(buffer, 2, 4), Access::update, 1);
  }
  auto const first = stage.calls.region(column(buffer, 0)),
             second = stage.calls.region(column(buffer, 1)),
             across = stage.calls.region(row(buffer, 3, 4)), all = stage.calls.handle(buffer);
  (void)runtime.lock(first, Access::update);
  for (auto const handle : {first, across, all}) {
    auto const refused = [&](char const* what, auto call) {
      require_throws<LifetimeError>(call, concat(what, " of bytes that are locked"));
    };
    refused("a lock", [&] { (void)runtime.lock(handle, Access::read); });
    if (!runtime.same(handle, across)) refused("retire", [&] { runtime.retire(handle); });
    Use<Subject::Handle> const use{handle, Access::update};
    RegionTask const task;
    refused("a task", [&] {
      (void)runtime.submit({&region_codelet, std::span(&use, 1), detail::bytes_of(task), {}, {}});
    });
  }
  (void)runtime.lock(second, Access::read);
  stage.calls.wait(stage.task(column(buffer, 2), Access::update));
  runtime.unlock(second);
  runtime.unlock(first);
  stage.calls.compare(buffer);
}

inline void ends_of_regions(Trial const& trial) {
  RegionStage stage(trial);
  Subject& runtime = stage.calls.runtime();
  std::size_t const buffer = stage.calls.add_buffer(64);
  stage.task(stage.calls.whole(buffer), Access::write);
  auto const whole = stage.calls.region(stage.calls.whole(buffer));
  require(runtime.same(whole, stage.calls.handle(buffer)), "all of a buffer is not the buffer");
  Named const named{buffer, {8, 4, {{3, 16}}}};
  auto const first = stage.calls.region(named), again = stage.calls.region(named);
  require(runtime.same(first, again), "a region has two handles");
  stage.task(named, Access::update, nap);
  runtime.retire(first);
  auto const refused = [&](auto handle, char const* what) {
    require_throws<LifetimeError>([&] { (void)runtime.lock(handle, Access::read); }, what);
    require_throws<LifetimeError>([&] { runtime.retire(handle); }, what);
    require_throws<LifetimeError>([&] { (void)runtime.region(handle, {0, 1, {}}); }, what);
  };
  refused(again, "a call on a region that was retired");
  auto const fresh = stage.calls.region(named);
  stage.calls.compare(named, fresh);
  stage.task(named, Access::update, nap);  // holds the memory
  auto const old = stage.calls.handle(buffer);
  stage.calls.renew(buffer);
  refused(fresh, "a call on a region whose buffer was retired");
  refused(old, "a call on a buffer that was retired");
  stage.task(stage.calls.whole(buffer), Access::write);
  stage.calls.compare(buffer);
}

inline void regions_behind_the_end(Trial const& trial) {
  RegionStage stage(trial);
  Subject& runtime = stage.calls.runtime();
  auto const buffer = stage.calls.handle(stage.calls.add_buffer(100));
  auto const inner = runtime.region(buffer, {50, 10, {}});
  auto const refused = [&](auto handle, Region const& region, char const* what) {
    require_throws<ValueError>([&] { (void)runtime.region(handle, region); }, what);
  };
  refused(buffer, {90, 11, {}}, "a region that ends behind its buffer");
  refused(buffer, {101, 0, {}}, "a region that begins behind its buffer");
  refused(buffer, {0, 1, {{2, std::size_t{1} << 63}}}, "a region larger than memory");
  refused(buffer, {20, 1, {{9, 10}}}, "a strided region that ends behind its buffer");
  refused(inner, {0, 51, {}}, "a region of a region that ends behind its buffer");
  (void)runtime.region(buffer, {100, 0, {}});
  (void)runtime.region(buffer, {20, 1, {{8, 10}}});
}

inline void addresses(Trial const& trial) {
  alignas(64) std::array<std::byte, 64> memory{};
  RegionStage stage(trial);
  Subject& runtime = stage.calls.runtime();
  auto const adopted = runtime.adopt(memory, host, {});
  std::size_t const number = stage.calls.add_buffer(64);
  auto const allocated = stage.calls.handle(number);
  stage.task(stage.calls.whole(number), Access::write);
  require(runtime.same(runtime.find(&memory[0]), adopted) &&
              runtime.same(runtime.find(&memory[63]), adopted),
          "find gives another handle than adopt gave");
  std::byte* const given = runtime.lock(allocated, Access::read).data();
  runtime.unlock(allocated);
  require(runtime.same(runtime.find(given + 63), allocated),
          "find gives another handle than allocate gave");
  require(
      runtime.same(runtime.region_at(&memory[8], {8, 8, {}}), runtime.region(adopted, {16, 8, {}})),
      "region_at gives another handle than region");
  require_throws<ValueError>([&] { (void)runtime.region_at(&memory[8], {0, 57, {}}); },
                             "region_at of bytes behind a buffer's end");
  std::byte const elsewhere{};
  require(runtime.same(runtime.find(&elsewhere), {}) ||
              !runtime.same(runtime.find(&elsewhere), adopted),
          "find gives a buffer for an address that is in none");
  require_throws<LifetimeError>([&] { (void)runtime.region_at(&elsewhere, {0, 1, {}}); },
                                "region_at of an address that is in no buffer");
  runtime.retire(adopted);
  runtime.wait_all();
  require_throws<LifetimeError>([&] { (void)runtime.region_at(&memory[0], {0, 1, {}}); },
                                "region_at of memory that was retired");
}

inline void region_programs(Trial const& trial) {
  RegionShape const shapes[] = {{},
                                {.buffers = 1, .regions = 5, .tasks = 120},
                                {.buffers = 3, .failing = 8, .late = 15, .unwritten = 5},
                                {.buffers = 1, .failing = 6, .late = 10, .accumulating = 60},
                                {.buffers = 2, .failing = 6, .late = 10, .reordered = 60}};
  for (int round = 0; round < trial.rounds; ++round)
    for (std::size_t i = 0; i < std::size(shapes); ++i) {
      RegionStage stage(trial);
      stage.runtime->open_scope(Lifetime::step);
      RegionRun(*stage.runtime, trial.seed * 1000 + static_cast<std::uint64_t>(round) * 10 + i,
                shapes[i])
          .run();
    }
}

inline std::vector<NamedCheck> regions() {
  return {{"tasks on regions keep their order where they share a byte", regions_in_order},
          {"tasks on regions that share no byte do not wait for each other", regions_apart},
          {"a buffer may be written region by region", written_region_by_region},
          {"a mark lies on the bytes that a failed task was to write", marks_on_bytes},
          {"a lock of a region is one of its bytes", locked_regions},
          {"a region ends with its buffer, or by itself", ends_of_regions},
          {"a region that ends behind its buffer is refused", regions_behind_the_end},
          {"an address names the buffer that holds it", addresses},
          {"random programs over regions leave what one task at a time leaves", region_programs}};
}

}  // namespace nntile::testing::checks
