// SPDX-License-Identifier: BSD-3-Clause
// Sleeping and waking in the ring, in every order of what the threads do.

#include <cstdint>
#include <cstring>
#include <new>

#include "nntile/runtime/ring/parking.hh"
#include "tests/runtime/interleavings.hh"
#include "tests/support/catch.hh"
#include "tests/support/sanitized.hh"

namespace {

using namespace nntile;
using nntile::test::Interleavings;

struct StepPolicy : RingPolicy {
  template <class T> using Atomic = test::StepAtomic<T>;
};
using Parking = detail::ring::Parking<StepPolicy, test::StepMutex, test::StepCondition>;
constexpr auto seq_cst = std::memory_order_seq_cst;

/// What workers do with the parking, as worker.hh and driver.hh have it; tasks are a number.
struct Yard {
  enum class At : std::uint64_t { work, cancel, sleep, finished };

  test::StepAtomic<std::uint64_t> tasks{0};
  test::StepAtomic<std::uint64_t> closed{0};
  std::uint64_t taken = 0;
  At at[2] = {};
  std::uint64_t drives = 0;
  Parking parking;  // last, as its mutex wants it

  bool take() {
    std::uint64_t left = tasks.load(seq_cst);
    while (left != 0)
      if (tasks.compare_exchange_weak(left, left - 1, seq_cst)) return ++taken, true;
    return false;
  }
  /// What a thread knows is where it is, and whether it has slept.
  void go_to(int self, At place, std::uint64_t slept = 0) {
    at[self] = place;
    Interleavings::current->forget(2 * static_cast<std::uint64_t>(place) + slept);
  }
  bool any() { return tasks.load(seq_cst) != 0; }

  /// Takes tasks forever.
  void work(int self) {
    for (bool slept = false;; slept = true) {
      go_to(self, At::work, slept ? 1 : 0);
      bool first = slept;
      for (; take(); first = false)
        if (first && any()) parking.wake(1);
      parking.announce();
      if (any()) {
        go_to(self, At::cancel);
        parking.cancel();
      } else {
        go_to(self, At::sleep);
        parking.sleep();
      }
    }
  }
  void give(int count) {
    for (int i = 0; i < count; ++i) {
      Interleavings::current->forget(2 * static_cast<std::uint64_t>(i));
      (void)tasks.fetch_add(1, seq_cst);
      Interleavings::current->forget(2 * static_cast<std::uint64_t>(i) + 1);
      parking.wake(1);
    }
  }

  static constexpr detail::ring::Reference target = 7;

  /// Takes tasks until the target has ended.
  void drive(int self, std::int64_t nap) {
    bool slept = false;
    drives = 1;
    for (go_to(self, At::work); closed.load(seq_cst) == 0; go_to(self, At::work, slept ? 1 : 0)) {
      if (take()) continue;
      parking.expect(target);
      parking.announce();
      if (closed.load(seq_cst) != 0 || any()) {
        go_to(self, At::cancel);
        parking.cancel();
      } else {
        go_to(self, At::sleep);
        parking.sleep_driver(true, nap);
      }
      parking.stop_expecting();
      slept = true;
    }
    if (slept && any()) parking.wake(1);
    go_to(self, At::finished);
  }
  /// Whether somebody waits for what nobody owes.
  bool stuck() const {
    if (drives != 0 && at[0] != At::finished) return true;
    return at[0] == At::cancel || at[1] == At::cancel;
  }
  void end_target() {
    closed.store(1, seq_cst);
    parking.completed(target);
  }
};

/// Tries all orders of what start(exploration, yard) spawns: in each all tasks are taken, nobody
/// who takes an announcement back waits, and the driver comes to its end.
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
        stuck += yard->stuck() ? 1 : 0;
        left += yard->taken == tasks ? 0 : 1;
      });
  INFO(exploration.points() << " points, " << exploration.ends() << " ends");
  CHECK(exploration.ends() > 0);
  CHECK(stuck == 0);
  CHECK(left == 0);
}

}  // namespace

TEST_CASE("no order of two sleepers and a waker loses a task or blocks a cancellation",
          "[runtime][ring]") {
  for (int const tasks : {1, 2})
    try_all(static_cast<std::uint64_t>(tasks), [=](Interleavings& routines, Yard& yard) {
      routines.spawn([&] { yard.work(0); });
      routines.spawn([&] { yard.work(1); });
      routines.spawn([&yard, tasks] { yard.give(tasks); });
    });
}

TEST_CASE("no order of a driver, a sleeper and a waker loses a task or the end that it waits for",
          "[runtime][ring]") {
  for (std::int64_t const nap : {-1, 1})
    try_all(1, [=](Interleavings& routines, Yard& yard) {
      routines.spawn([&yard, nap] { yard.drive(0, nap); });
      routines.spawn([&yard] { yard.work(1); });
      routines.spawn([&yard] {
        yard.give(1);
        yard.end_target();
      });
    });
}
