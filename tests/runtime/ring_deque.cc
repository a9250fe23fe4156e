// SPDX-License-Identifier: BSD-3-Clause
// The deque of a worker in every order of what its owner and thieves do, and with every delay of
// their stores that its memory orders allow.

#include <cstdint>
#include <cstring>
#include <new>

#include "nntile/runtime/ring/deque.hh"
#include "nntile/runtime/ring/parking.hh"
#include "tests/runtime/interleavings.hh"
#include "tests/support/catch.hh"
#include "tests/support/sanitized.hh"

namespace {

using namespace nntile;
using nntile::test::Interleavings;

struct StepPolicy : RingPolicy {
  template <class T> using Atomic = test::StepAtomic<T>;
  using Mutex = test::StepMutex;
  using Condition = test::StepCondition;
  struct Sizes : RingSizes {
    static constexpr std::uint32_t deque = 2;
  };
};
using Deque = detail::ring::Deque<StepPolicy, std::uint64_t>;
using Parking = detail::ring::Parking<StepPolicy>;

/// A deque, and how often each of its items was taken.
struct Bench {
  Deque deque;
  std::uint64_t pushed = 0;
  std::uint64_t times[4] = {};

  void push() {
    if (deque.push(pushed)) ++pushed;
  }
  void pop() {
    std::uint64_t item;
    if (deque.pop(item)) ++times[item];
  }
  void steal() {
    std::uint64_t item;
    if (deque.steal(item)) ++times[item];
  }
  /// Whether each item was taken once, those included that are left.
  bool all_once() {
    while (!deque.empty()) pop();
    for (std::uint64_t i = 0; i < pushed; ++i)
      if (times[i] != 1) return false;
    return pushed != 0;
  }
};

/// Tries all orders of what start(exploration, shared) spawns; how many of them end badly.
template <class Shared, class Start, class Good> int count_bad(Start start, Good good) {
  Interleavings exploration(true);
  alignas(Shared) static std::byte memory[sizeof(Shared)];
  Shared* shared = nullptr;
  int bad = 0;
  exploration.explore(
      [&](Interleavings& routines) {
        std::memset(memory, 0, sizeof memory);
        shared = new (memory) Shared;
        routines.share(memory);
        start(routines, *shared);
      },
      [&] { bad += good(*shared) ? 0 : 1; });
  INFO(exploration.points() << " points, " << exploration.ends() << " ends");
  CHECK(exploration.ends() > 0);
  CHECK(exploration.complete());
  return bad;
}

/// An owner that never sleeps, and a thief that sleeps when it has found nothing.
struct Den {
  Deque deque;
  std::uint64_t taken = 0;
  Parking parking;  // last: StepMutex guards what comes behind it

  void steal() {
    std::uint64_t item;
    for (;;) {
      Interleavings::current->forget(1);
      if (deque.steal(item)) ++taken;
      if (taken != 0) return;
      parking.announce();
      if (!deque.empty()) {
        parking.cancel();
      } else {
        Interleavings::current->forget(2);
        parking.sleep();
      }
    }
  }
};

}  // namespace

TEST_CASE("no order of an owner and two thieves takes an item of a deque twice or never",
          "[runtime][ring]") {
  if (test::sanitized) return test::skip("sanitizers do not follow routines that change stacks");
  int const bad = count_bad<Bench>(
      [](Interleavings& routines, Bench& bench) {
        routines.spawn([&bench] {
          bench.push(), bench.push();
          bench.pop(), bench.pop();
          bench.push();
        });
        routines.spawn([&bench] { bench.steal(); });
        routines.spawn([&bench] { bench.steal(); });
      },
      [](Bench& bench) { return bench.all_once(); });
  CHECK(bad == 0);
}

TEST_CASE("no order of a push and a thief that falls asleep loses the item", "[runtime][ring]") {
  if (test::sanitized) return test::skip("sanitizers do not follow routines that change stacks");
  int const bad = count_bad<Den>(
      [](Interleavings& routines, Den& den) {
        routines.spawn([&den] {
          (void)den.deque.push(7);
          den.parking.wake(1);
        });
        routines.spawn([&den] { den.steal(); });
      },
      [](Den& den) { return den.taken == 1; });
  CHECK(bad == 0);
}
