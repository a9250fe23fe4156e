// SPDX-License-Identifier: BSD-3-Clause
// Sleeping and waking in the ring, in every order of what the threads do: its worker and its driver
// as they are, in a domain whose tasks are a number.

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#include "nntile/runtime/ring/driver.hh"
#include "nntile/runtime/ring/parking.hh"
#include "nntile/runtime/ring/worker.hh"
#include "tests/runtime/interleavings.hh"
#include "tests/support/catch.hh"
#include "tests/support/sanitized.hh"

namespace {

using namespace nntile;
using nntile::detail::ring::ReadyTask;
using nntile::detail::ring::Reference;
using nntile::test::Interleavings;

struct StepPolicy : RingPolicy {
  template <class T> using Atomic = test::StepAtomic<T>;
  using Mutex = test::StepMutex;
  using Condition = test::StepCondition;
  struct Clock : RingClock {
    static void yield_core() {}  // one routine runs at a time
  };
  struct Sizes : RingSizes {
    static constexpr int yields = 0;  // an idle thread sleeps at once
  };
};
using Parking = detail::ring::Parking<StepPolicy>;
constexpr auto seq_cst = std::memory_order_seq_cst;

/// Machine and domain in one, as worker and driver see them.
struct Yard {
  static constexpr Reference target = detail::ring::pending_bit | 7;
  static inline support::DrivingThread thread{};

  /// The state of a thread that decides its next steps: the exploration merges histories that agree
  /// in it.
  enum class At : std::uint64_t { looking, about_to_sleep, holding, starting, waiting, over };
  static inline bool remembers = false;  // more than that decides
  static void know(At at, bool slept) {
    if (remembers) return;
    Interleavings::current->forget(2 * static_cast<std::uint64_t>(at) + (slept ? 1 : 0));
  }

  struct Queue {
    test::StepAtomic<std::uint64_t> tasks{0};  // shared by all
    test::StepAtomic<std::uint64_t> kept{0};   // in the deque of the first routine
    std::uint64_t batch = 1;                   // how many the first routine takes together
    At at[2] = {};
    bool driven = false;  // the first routine drives; its `slept` is not kept
    bool slept[2] = {};   // since its last task

    /// A thread looks a second time only when it has slept.
    ReadyTask next(std::uint32_t self) {
      slept[self] = (slept[self] || at[self] == At::about_to_sleep) && (self != 0 || !driven);
      at[self] = At::looking;
      know(at[self], slept[self]);
      if (batch > 1 && take(kept, 1) != 0) return at[self] = At::holding, 0;
      std::uint64_t const count = take(tasks, self == 0 ? batch : 1);
      at[self] = count == 0 ? At::about_to_sleep : At::holding;
      if (count > 1) (void)kept.fetch_add(count - 1, seq_cst);
      return count == 0 ? detail::ring::no_task : 0;
    }
    /// Takes at most `most` and returns how many.
    static std::uint64_t take(test::StepAtomic<std::uint64_t>& from, std::uint64_t most) {
      std::uint64_t left = from.load(seq_cst), count = 0;
      do count = left < most ? left : most;
      while (count != 0 && !from.compare_exchange_weak(left, left - count, seq_cst));
      return count;
    }
    bool keeps_some(std::uint32_t) { return batch > 1 && kept.load(seq_cst) != 0; }
    static bool any_of_kind(std::uint32_t) { return false; }
    std::uint32_t kinds = 1;  // of the workers, in turn
    std::uint32_t kind(std::uint32_t self) const { return self % kinds; }
    bool any(std::uint32_t = 0) {
      std::size_t const self = Interleavings::current->routine();
      know(at[self], slept[self]);
      return tasks.load(seq_cst) != 0 || keeps_some(0);
    }
    static std::uint32_t workers() { return 2; }
    static bool paused() { return false; }
  };
  /// Polls end all.
  struct Tokens {
    static std::uint64_t polls() { return 0; }
    bool poll(bool) {
      if (!opened) return false;
      std::uint64_t const ends = open.exchange(0, seq_cst);
      ended += ends;
      return ends != 0;
    }
    static bool due(bool) { return false; }
    std::uint64_t outstanding() const {
      if (opened) return open.load(seq_cst);
      return driver_naps && Interleavings::current->routine() == 0 ? 1 : 0;
    }
    bool driver_naps = false;  // the first routine may wake up by itself
    bool opened = false;       // some are
    std::uint64_t ended = 0;
    test::StepAtomic<std::uint64_t> open{0};
  };
  struct Options {
    bool own_driver = false, oversubscribed = true, pin = false;
    std::array<int, 1> cores{};
  };
  struct PendingTable {
    struct Pending {
      struct Consumers {
        test::StepAtomic<std::uint64_t> closed{0};
        bool is_closed() const { return closed.load(seq_cst) != 0; }
      } consumers;
    } one;
  };
  struct NoWindow {
    static std::uint32_t size() { return 4096; }
    static std::uint64_t watermark() { return 0; }
    static std::uint64_t head() { return 0; }
  };

  struct Beside {
    Yard& machine;
    std::uint32_t self;
    ReadyTask next() { return machine.scheduler.next(self); }
    ReadyTask run(ReadyTask ready) { return machine.run(self, ready); }
  };

  Yard& machine{*this};
  Options options;
  Queue scheduler;
  Tokens tokens;
  PendingTable pending;
  NoWindow window;
  static std::uint64_t name_of(Reference producer) { return std::uint64_t{1} << 32 | producer; }
  struct Gate {
    static void pass() {}
  } gate;
  struct Never {  // no stop is requested, and there is nothing to poll
    static bool load(std::memory_order = seq_cst) { return false; }
    static bool exchange(bool) { return false; }
    static void store(bool) {}
  } stop, polling;
  bool endless = false;             // a worker that has taken a task takes no other
  bool driver_ends_target = false;  // with a task that it runs; else the third routine does
  std::uint64_t taken = 0;
  std::uint64_t drives = 0;  // until it has come to its end
  Parking parking;           // last: StepMutex guards what comes behind it

  bool finishing(Reference) const { return pending.one.consumers.is_closed(); }

  ReadyTask run(std::uint32_t self, ReadyTask) {
    ++taken;
    if (endless && (self != 0 || drives == 0)) (void)Interleavings::current->wait_at(this, true);
    if (driver_ends_target && self == 0) pending.one.consumers.closed.store(1, seq_cst);
    scheduler.at[self] = At::looking;
    scheduler.slept[self] = false;
    return detail::ring::no_task;
  }
  void flush(std::uint32_t) {}
  static bool should_wait(std::uint32_t, ReadyTask) { return false; }
  static ReadyTask take_turns(std::uint32_t, ReadyTask kept) { return kept; }
  static void give(ReadyTask) {}

  void work(std::uint32_t self) { detail::ring::Worker<StepPolicy, Yard>(*this, self)(); }
  /// Waits for the end of the target.
  void drive() {
    struct NoReclaim {
      explicit NoReclaim(Yard&) {}
      static void collect() {}
    };
    drives = 1;
    scheduler.driven = true;
    detail::ring::Driver<StepPolicy, Yard, Yard, NoReclaim> driver(*this);
    auto const over = [this, now = At::starting]() mutable {
      know(std::exchange(now, At::waiting), false);
      bool const closed = pending.one.consumers.is_closed();
      if (closed) scheduler.at[0] = At::over;
      return closed;
    };
    driver.block_until(over, [] { return target; });
    drives = 0;
  }
  /// Runs the entry of an asynchronous task, and goes away.
  void open_token() {
    tokens.open.store(1, seq_cst);
    parking.wake(1);
  }
  bool somebody_sleeps() const {
    return scheduler.at[0] == At::about_to_sleep || scheduler.at[1] == At::about_to_sleep;
  }
  void give_together(std::uint32_t count) {
    Interleavings::current->forget(0);
    (void)scheduler.tasks.fetch_add(count, seq_cst);
    Interleavings::current->forget(1);
    parking.wake(count);
  }
  void give(int count) {
    for (int i = 0; i < count; ++i) {
      Interleavings::current->forget(2 * static_cast<std::uint64_t>(i));
      (void)scheduler.tasks.fetch_add(1, seq_cst);
      Interleavings::current->forget(2 * static_cast<std::uint64_t>(i) + 1);
      parking.wake(1);
    }
  }
  void end_target() {
    pending.one.consumers.closed.store(1, seq_cst);
    parking.completed(name_of(target));
  }
};

/// The machine of one worker, whose tokens end after a few calls of `outstanding`.
struct Closing {
  struct Scheduler {
    static std::uint32_t kind(std::uint32_t) { return 0; }
    static bool paused() { return false; }
    static bool any(std::uint32_t) { return false; }
    static bool any_of_kind(std::uint32_t) { return false; }
  };
  struct Tokens {
    mutable int looks;
    static std::uint64_t polls() { return 0; }
    std::uint64_t outstanding() const { return looks-- > 0 ? 1 : 0; }
    static bool poll(bool) { return false; }
    static bool due(bool) { return false; }
  };
  struct Bed {
    Closing& machine;
    bool keeps_polls = false;  // while it sleeps
    static void announce(std::uint32_t) {}
    static void cancel(std::uint32_t) {}
    static void nap(std::int64_t, std::uint32_t) {}
    void sleep(std::uint32_t) {
      keeps_polls = machine.polling;
      machine.stop = true;
    }
    static void wake(std::uint32_t) {}
    static void wake_kind(std::uint32_t, std::uint32_t) {}
  };
  struct Beside {
    Closing& machine;
    std::uint32_t self;
    static ReadyTask next() { return detail::ring::no_task; }
    static ReadyTask run(ReadyTask) { return detail::ring::no_task; }
  };

  Yard::Options options{};
  support::DrivingThread& thread{Yard::thread};
  Scheduler scheduler{};
  Tokens tokens;
  Bed parking{*this};
  Yard::Gate gate{};
  std::atomic<bool> stop{false}, polling{false};

  explicit Closing(int looks) : tokens{looks} {}
  static void flush(std::uint32_t) {}
  static bool should_wait(std::uint32_t, ReadyTask) { return false; }
  static ReadyTask take_turns(std::uint32_t, ReadyTask kept) { return kept; }
  static void give(ReadyTask) {}
};

/// Tries all orders of what start(exploration, yard) spawns: in each the driver returns, and no
/// routine sleeps beside a ready task, though the driver does not help again and a worker may stay
/// in its first task for ever.
template <class Start> void try_all(std::uint64_t tasks, Start start) {
  if (test::sanitized) return test::skip("sanitizers do not follow routines that change stacks");
  Interleavings exploration;
  alignas(Yard) static std::byte memory[sizeof(Yard)];
  Yard* yard = nullptr;
  int stuck = 0, left = 0;
  exploration.explore(
      [&](Interleavings& routines) {
        std::memset(memory, 0, sizeof memory);
        yard = new (memory) Yard;
        routines.share(memory);
        start(routines, *yard);
      },
      [&] {
        stuck += yard->drives != 0 ? 1 : 0;
        left += yard->taken + yard->tokens.ended != tasks && yard->somebody_sleeps() ? 1 : 0;
      });
  INFO(exploration.points() << " points, " << exploration.ends() << " ends");
  CHECK(exploration.ends() > 0);
  CHECK(exploration.complete());
  CHECK(stuck == 0);
  CHECK(left == 0);
}

/// As try_all, of a driver, a worker and a third that gives the tasks and ends the target.
template <class Prepare> void try_driver(std::uint32_t tasks, Prepare prepare) {
  try_all(tasks, [=](Interleavings& routines, Yard& yard) {
    prepare(yard);
    routines.spawn([&yard] { yard.drive(); });
    routines.spawn([&yard] { yard.work(1); });
    routines.spawn([&yard, tasks] {
      yard.give_together(tasks);
      if (!yard.driver_ends_target) yard.end_target();
    });
  });
}

}  // namespace

TEST_CASE("no order of two sleepers and a waker loses a task", "[runtime][ring]") {
  for (int const tasks : {1, 2})
    try_all(static_cast<std::uint64_t>(tasks), [=](Interleavings& routines, Yard& yard) {
      yard.endless = tasks > 1;
      routines.spawn([&] { yard.work(0); });
      routines.spawn([&] { yard.work(1); });
      routines.spawn([&yard, tasks] { yard.give(tasks); });
    });
}

TEST_CASE("no order of a driver, a sleeper and a waker loses a task or the end that it waits for",
          "[runtime][ring]") {
  try_driver(1, [](Yard&) {});
}

TEST_CASE("no order of a driver, a sleeper of another kind and a waker loses a task",
          "[runtime][ring]") {
  try_driver(1, [](Yard& yard) { yard.scheduler.kinds = 2; });
}

TEST_CASE("no order of a driver that naps, a sleeper and a waker loses a task", "[runtime][ring]") {
  try_driver(1, [](Yard& yard) { yard.tokens.driver_naps = yard.endless = true; });
}

TEST_CASE("no order of a driver that takes two tasks and a sleeper leaves one of them behind",
          "[runtime][ring]") {
  try_driver(2, [](Yard& yard) {
    yard.scheduler.batch = 2;
    yard.endless = true;
  });
}

TEST_CASE("no order leaves a driver asleep beside the task that it waits for", "[runtime][ring]") {
  try_driver(2, [](Yard& yard) { yard.driver_ends_target = yard.endless = true; });
}

TEST_CASE("no order leaves a worker asleep beside a token that nobody polls", "[runtime][ring]") {
  Yard::remembers = true;
  try_all(1, [](Interleavings& routines, Yard& yard) {
    yard.tokens.opened = true;
    routines.spawn([&yard] { yard.open_token(); });
    routines.spawn([&yard] { yard.work(1); });
  });
  Yard::remembers = false;
}

TEST_CASE("a worker that has polled lets others poll while it sleeps, whenever the last token ends",
          "[runtime][ring]") {
  for (int looks = 0; looks < 8; ++looks) {
    CAPTURE(looks);
    Closing machine(looks);
    detail::ring::Worker<StepPolicy, Closing>(machine, 0)();
    CHECK_FALSE(machine.parking.keeps_polls);
  }
}

TEST_CASE("as many sleepers wake as there are tasks", "[runtime][ring]") {
  detail::ring::Parking<RingPolicy> parking;
  for (int sleeper = 0; sleeper < 3; ++sleeper) parking.announce();
  parking.wake(2);
  CHECK(parking.anyone_sleeps());
  parking.wake(1);
  CHECK_FALSE(parking.anyone_sleeps());
  for (int sleeper = 0; sleeper < 3; ++sleeper) parking.nap(1000);  // which a permit ends
  CHECK_FALSE(parking.anyone_sleeps());
}
