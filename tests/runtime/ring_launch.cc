// SPDX-License-Identifier: BSD-3-Clause
// The launch of a replay, with another worker in the middle of it: without threads, so that each
// interruption happens.

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "nntile/runtime/ring/ring.hh"
#include "tests/runtime/codelets.hh"
#include "tests/runtime/interrupted_atomic.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::test;
using namespace nntile::detail::ring;

namespace {

/// Calls a function between any two operations, but not within itself.
struct Interrupt {
  static inline std::function<void()> function;
  static void before(Operation, std::size_t, std::memory_order) {}
  static void after(Operation, std::size_t, std::memory_order) {
    auto const called = std::exchange(function, {});
    if (called == nullptr) return;
    called();
    function = called;
  }
};
struct InterruptedPolicy : RingPolicy {
  template <class T> using Atomic = InterruptedAtomic<T, Interrupt>;
};

/// A ring of two workers whose threads the test plays.
struct Stage {
  Machine<InterruptedPolicy> machine{RuntimeOptions{2, true, false}};
  Driver<InterruptedPolicy> driver{machine.root};
  Submitter<InterruptedPolicy> submitter{machine.root, driver};
  Replayer<InterruptedPolicy> replayer{machine.root, driver, submitter};
  std::shared_ptr<Image const> image;
  std::vector<DataHandle> handles;

  /// A root of the lowest level, and two tasks behind it of higher ones.
  Stage() {
    static constexpr Use<Binding> uses[] = {
        {0, Access::write}, {1, Access::write}, {0, Access::read}, {2, Access::write}};
    static constexpr long value = 1;
    auto const bytes = std::as_bytes(std::span(&value, 1));
    Use<Binding> const third[] = {uses[3], uses[2]};
    ProgramTask const tasks[] = {{&put_codelet, {uses, 1}, bytes, {-1, -2}, {}},
                                 {&copy_cell_codelet, {uses + 1, 2}, bytes, {-1, 0}, {}},
                                 {&copy_cell_codelet, third, bytes, {-1, 3}, {}}};
    image = std::make_shared<Image const>(Recorder(tasks, 3, {}).image());
    for (int i = 0; i < 3; ++i)
      handles.push_back(driver.reclaim().begin(
          [&] { return machine.table.add(sizeof(long), host, Lifetime::persistent); }));
  }
  ~Stage() { Interrupt::function = nullptr; }

  Flight<InterruptedPolicy>& flight() { return machine.scheduler.flights[0]; }
  /// Submits a replay; what its launch is.
  ReadyTask replay() {
    driver.reclaim().collect();
    (void)replayer.replay(image, handles, {});
    return machine.scheduler.next(0);
  }
  /// Runs a task and what it keeps, then looks for others as a worker does.
  void work(std::uint32_t self, ReadyTask ready) {
    for (;; ready = machine.run(self, ready)) {
      if (ready == no_task) ready = machine.scheduler.next(self);
      if (ready == no_task) break;
    }
    machine.flush(self);
  }
  /// As a worker that has read long ago which flights are active: takes a task and runs it and what
  /// it keeps; false if it finds none.
  bool work_late(std::uint32_t self) {
    std::uint32_t task;
    for (std::uint32_t level = 0; level < level_count; ++level) {
      if (flight().lane(level).pop(&task, 1, 1) == 0) continue;
      for (ReadyTask ready = flight_task(0, task); ready != no_task;)
        ready = machine.run(self, ready);
      machine.flush(self);
      return true;
    }
    return false;
  }
};

/// A replay, launched or about to be, of twelve tasks that are ready, in a ring whose driver is the
/// only worker of its kind; two others are of another kind.
struct Wide {
  static constexpr std::uint32_t tasks = 12, other = 2;
  Machine<InterruptedPolicy> machine{RuntimeOptions{3, false, false}, nullptr,
                                     WorkerKinds{.cube = 2}};
  Driver<InterruptedPolicy> driver{machine.root};
  Submitter<InterruptedPolicy> submitter{machine.root, driver};
  Replayer<InterruptedPolicy> replayer{machine.root, driver, submitter};
  ReadyTask launch = no_task;  // until it has been run
  bool sleeps = false;         // the other worker

  explicit Wide(bool launches = true) {
    static constexpr long value = 1;
    std::vector<Use<Binding>> uses;
    std::vector<DataHandle> handles;
    for (Binding i = 0; i < tasks; ++i) {
      uses.push_back({i, Access::write});
      handles.push_back(driver.reclaim().begin(
          [&] { return machine.table.add(sizeof(long), host, Lifetime::persistent); }));
    }
    std::vector<ProgramTask> list;
    for (Use<Binding> const& use : uses)
      list.push_back({&put_codelet, {&use, 1}, std::as_bytes(std::span(&value, 1)), {-1, 0}, {}});
    auto const image = std::make_shared<Image const>(Recorder(list, tasks, {}).image());
    (void)replayer.replay(image, handles, {});
    launch = machine.scheduler.next(other);
    if (launches) run_launch();
  }
  ~Wide() {
    Interrupt::function = nullptr;
    run_launch();
    if (sleeps) machine.parking.cancel(machine.scheduler.kind(other));
    run_all();
  }
  void run_launch() {
    if (ReadyTask const ready = std::exchange(launch, no_task); ready != no_task)
      (void)machine.run(other, ready);
  }
  void run_all() {
    for (ReadyTask ready; (ready = machine.scheduler.next(other)) != no_task;)
      (void)machine.run(other, ready);
    machine.flush(other);
  }
  /// Whether the other worker stays asleep beside tasks that worker `self` keeps.
  bool sleeps_beside(std::uint32_t self) {
    return sleeps && machine.scheduler.keeps_some(self) && machine.parking.anyone_sleeps();
  }
  /// A look of another worker for a task, and the run of what it finds.
  void work_once(std::uint32_t self) {
    Beside<InterruptedPolicy> one(machine, self);
    ReadyTask const ready = one.next();
    if (ready != no_task) (void)machine.run(self, ready);
    machine.flush(self);
  }
  /// The other worker runs what it finds, and goes to sleep where it then sees nothing.
  void work_and_sleep() {
    run_all();
    machine.parking.announce(machine.scheduler.kind(other));
    sleeps = !machine.scheduler.any(other);
    if (!sleeps) machine.parking.cancel(machine.scheduler.kind(other));
  }
};

/// In each place of take(stage), which takes tasks together as worker `self`, the other one goes to
/// sleep: it is woken if some of them are left.
template <class Take> void try_all_places(std::uint32_t self, Take take) {
  int places = 0, beside = 0;
  for (int left = -1; left < 0; ++places) {
    Wide stage;
    left = places;
    Interrupt::function = [&] {
      if (left-- == 0) stage.work_and_sleep();
    };
    take(stage);
    Interrupt::function = nullptr;
    beside += stage.sleeps_beside(self) ? 1 : 0;
  }
  REQUIRE(places > 10);
  CHECK(beside == 0);
}

}  // namespace

TEST_CASE("no worker stays asleep beside tasks of a replay that another one takes together",
          "[runtime][ring]") {
  try_all_places(0, [](Wide& stage) { (void)stage.driver.help_once(); });
  try_all_places(1, [](Wide& stage) { stage.work_once(1); });
}

TEST_CASE("no worker stays asleep beside tasks of a replay that is launched amid another's look",
          "[runtime][ring]") {
  int places = 0, beside = 0;
  for (int launch = -1; launch < 0; ++places)
    for (int place = 0, left = -1; left < 0; ++place) {
      Wide stage(false);
      launch = places;
      left = place;
      Interrupt::function = [&] {
        if (launch >= 0) {
          if (launch-- == 0) stage.run_launch();
        } else if (left-- == 0) {
          stage.work_and_sleep();
        }
      };
      stage.work_once(1);
      Interrupt::function = nullptr;
      beside += stage.sleeps_beside(1) ? 1 : 0;
    }
  REQUIRE(places > 3);
  CHECK(beside == 0);
}

TEST_CASE("a late worker amid a launch loses no task of the replay", "[runtime][ring]") {
  Stage stage;
  stage.work(0, stage.replay());
  int operations = 0;
  for (int left = -1; left < 0; ++operations) {
    ReadyTask const launch = stage.replay();
    left = operations;
    Interrupt::function = [&] {
      if (left-- == 0) (void)stage.work_late(1);
    };
    ReadyTask const kept = stage.machine.run(0, launch);
    Interrupt::function = nullptr;
    stage.work(0, kept);
    REQUIRE(stage.machine.root.pending.open_count() == 0);
    REQUIRE(stage.machine.scheduler.flights.active() == 0);
  }
  REQUIRE(operations > 10);
}

TEST_CASE("a flight whose tasks a late worker has all ended is not over before its launch is",
          "[runtime][ring]") {
  Stage stage;
  stage.work(0, stage.replay());
  ReadyTask const launch = stage.replay();
  std::uint32_t fewest_open = 1;
  Interrupt::function = [&] {
    while (stage.work_late(1)) continue;
    fewest_open = std::min(fewest_open, stage.machine.root.pending.open_count());
  };
  ReadyTask const kept = stage.machine.run(0, launch);
  Interrupt::function = nullptr;
  REQUIRE(fewest_open == 1);
  stage.work(0, kept);
  REQUIRE(stage.machine.root.pending.open_count() == 0);
}
