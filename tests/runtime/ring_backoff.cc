// SPDX-License-Identifier: BSD-3-Clause
// How workers of the ring leave tiny tasks to the submitter, and take several tasks at a time.

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "nntile/runtime/ring/ring.hh"
#include "tests/runtime/codelets.hh"
#include "tests/runtime/left_tasks.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::test;
using namespace nntile::detail::ring;

namespace {

/// Workers take every body for tiny.
struct EagerPolicy : RingPolicy {
  struct Sizes : RingSizes {
    static constexpr std::uint32_t timed_every = 1;
    static constexpr std::int64_t tiny_ns = std::int64_t{1} << 40;
    static constexpr std::uint32_t most_rounds = 64;
  };
};
using EagerRing = BasicRing<EagerPolicy>;
using Queue = ReadyQueue<RingPolicy>;

constexpr std::int64_t big = RingSizes::tiny_ns, tiny = big - 1;

}  // namespace

TEST_CASE("one body of many is timed, and each behind a tiny one", "[runtime][ring][backoff]") {
  Backoff<RingPolicy> backoff;
  for (std::uint32_t i = 1; i <= 3 * RingSizes::timed_every; ++i)
    REQUIRE(backoff.is_due() == (i % RingSizes::timed_every == 0));
  REQUIRE(backoff.judge(tiny, 100));
  for (int i = 0; i < 3; ++i) REQUIRE(backoff.is_due());
}

TEST_CASE("behind tiny bodies a worker waits twice as long each time, up to a limit",
          "[runtime][ring][backoff]") {
  Backoff<RingPolicy> backoff;
  std::uint64_t activity = 0;
  for (std::uint32_t expected : {16u, 32u, 64u, 128u, 256u, 512u, 512u, 512u}) {
    REQUIRE(backoff.judge(tiny, activity += 1000));
    REQUIRE(backoff.rounds() == expected);
  }
  REQUIRE(!backoff.judge(big, activity += 1000));
  REQUIRE(!backoff.waits());
  REQUIRE(backoff.judge(tiny, activity += 1000));
  REQUIRE(backoff.rounds() == 16);
}

TEST_CASE("a worker does not wait for a submitter that does nothing, or little",
          "[runtime][ring][backoff]") {
  Backoff<RingPolicy> backoff;
  std::uint64_t activity = 7;
  REQUIRE(backoff.judge(tiny, activity));
  REQUIRE(!backoff.judge(tiny, activity));  // nothing
  REQUIRE(!backoff.judge(tiny, activity));
  for (int i = 0; i < 6; ++i) REQUIRE(backoff.judge(tiny, activity += 1000));
  REQUIRE(!backoff.judge(tiny, activity += 512 / 16));  // one task in 16 rounds
  REQUIRE(!backoff.waits());
}

TEST_CASE("several tasks are taken together where enough are there, in their order",
          "[runtime][ring][backoff]") {
  Queue queue(512);
  ReadyTask tasks[4], last = 0, next = 0;
  for (; last < 1000; ++last) {  // names of positions wrap amid these
    queue.push(last);
    bool const enough = last + 1 - next >= 8;
    REQUIRE(queue.pop_several(tasks, 4, 8) == enough);
    for (int i = 0; enough && i < 4; ++i) REQUIRE(tasks[i] == next++);
  }
  while (next < last) {
    REQUIRE(queue.pop(tasks[0]));
    REQUIRE(tasks[0] == next++);
  }
  REQUIRE(!queue.pop_several(tasks, 1, 1));
  REQUIRE(queue.empty());
}

TEST_CASE("a queue of fewer tasks than are asked for gives none together",
          "[runtime][ring][backoff]") {
  Queue queue(4);
  ReadyTask tasks[4];
  for (ReadyTask task = 0; task < 4; ++task) {
    REQUIRE(!queue.pop_several(tasks, 2, 16));  // beyond the queue's cells
    queue.push(task);
  }
  REQUIRE(queue.pop_several(tasks, 4, 4));
  REQUIRE(tasks[3] == 3);
}

TEST_CASE("a submitter to whom all leave tiny tasks runs them before its window is full",
          "[runtime][ring][backoff]") {
  if (support::allowed_cores().size() < 2) return;  // threads that share a core leave no tasks
  bool ran = false;
  for (int attempt = 0; attempt < 1000 && !ran; ++attempt) {
    Runners runners;
    EagerRing ring({2, false, false});
    submit_count(ring, runners);
    while (runners.others == 0) std::this_thread::yield();
    for (std::uint32_t i = 1; i < RingSizes::window; ++i) submit_count(ring, runners);
    ran = runners.own > 0;
  }
  CHECK(ran);
}

TEST_CASE("what workers leave is run, in order, whatever its hints", "[runtime][ring][backoff]") {
  check_order<EagerRing>(3000, 0);
}

TEST_CASE("workers leave tasks of bodies that submit, too", "[runtime][ring][backoff]") {
  EagerRing ring({3, false, false});
  check_nesting(ring, 10, 0, 1, [] {});
}

TEST_CASE("a worker that leaves tasks keeps those of a program, which enter a lane once",
          "[runtime][ring][backoff]") {
  if (support::allowed_cores().size() < 2) return;
  Machine<EagerPolicy> machine(RuntimeOptions{2, false, false});  // no threads: worker 1 is here
  Submission<EagerPolicy> root(machine.root);
  Replayer<EagerPolicy> replayer(machine.root, root.driver, root.submitter);
  Beside<EagerPolicy> beside(machine, 1);
  static constexpr Codelet noop{"noop", +[](KernelCall const&) noexcept -> Status { return {}; }};
  std::vector<ProgramTask> const tasks(64, ProgramTask{&noop, {}, {}, {}, {}});
  auto const image = std::make_shared<Image const>(Recorder(tasks, 0, {}, false).image());
  (void)replayer.replay(image, {}, {});
  (void)machine.run(0, machine.scheduler.next(0));
  machine.flush(0);
  ReadyTask const first = beside.next();  // with others of the lane
  REQUIRE(is_program(first));
  REQUIRE(beside.run(first) == no_task);
  DataHandle const cell = root.driver.reclaim().begin(
      [&] { return machine.table.add(sizeof(long), host, Lifetime::persistent); });
  Use<DataHandle> const use[] = {{cell, Access::write}};
  (void)root.submitter.submit({&noop, use, {}, {-1, highest_priority}, {}});
  (void)root.submitter.submit({&noop, use, {}, {}, {}});
  ReadyTask const usual = beside.run(beside.next());
  REQUIRE(usual != no_task);
  auto const kept = [&] {
    auto& deque = machine.scheduler.worker(1).deque;
    std::vector<ReadyTask> all;
    for (ReadyTask task; deque.pop(task);) all.push_back(task);
    for (std::size_t i = all.size(); i-- > 0;) (void)deque.push(all[i]);
    return all.size();
  };
  std::size_t const before = kept();
  REQUIRE(before > 0);
  CHECK(beside.run(usual) == no_task);  // tiny
  CHECK(kept() == before);
  for (ReadyTask ready = beside.next(); ready != no_task; ready = beside.next())
    (void)beside.run(ready);
  machine.flush(1);
  CHECK(machine.root.pending.open_count() == 0);
}
