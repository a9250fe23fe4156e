#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Checks: new work wakes an idle thread. Each is repeated some hundred times, because the window in
// which a wake-up can be lost is some nanoseconds wide; a lost one hangs, and the watchdog reports
// it.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "nntile/testing/conformance/scene.hh"

namespace nntile::testing::checks {

/// Spins for 0 to 100 us: idle threads fall asleep before, at and after its end.
inline void linger(Random& random) {
  auto const end =
      std::chrono::steady_clock::now() + std::chrono::nanoseconds(random.below(100'000));
  while (std::chrono::steady_clock::now() < end) {
  }
}

/// Polls without a yield for 200 us, because on a busy machine a yield lasts until all other
/// threads are asleep.
template <class Condition> void spin_until(Condition condition) {
  auto const end = std::chrono::steady_clock::now() + std::chrono::microseconds(200);
  while (!condition())
    if (std::chrono::steady_clock::now() > end) std::this_thread::yield();
}

inline void require_idle_threads(Trial const& trial) {
  if (trial.workers() < 2 && !trial.options.own_driver)
    throw LeftOut{"the one worker is the driver itself"};
}

/// The driver only waits, without a call into the runtime, so the workers must wake up alone.
inline void workers_wake(Trial const& trial) {
  require_idle_threads(trial);
  Random random(trial.seed);
  std::atomic<int> ran{0};
  auto body = [&](KernelCall const&) {
    ran.fetch_add(1);
    return Status{};
  };
  Scene scene(trial);
  for (int i = 0; i < 200 * trial.rounds; ++i) {
    linger(random);
    scene.call({}, body);
    spin_until([&] { return ran.load() == i + 1; });
  }
  scene.runtime().wait_all();
}

/// A task for each worker that waits for all others; every second time the end of one task makes
/// them ready.
inline void all_workers_wake(Trial const& trial) {
  int const all = trial.workers();
  if (all < 2) throw LeftOut{"one worker runs one task at a time"};
  Random random(trial.seed + 1);
  std::atomic<int> arrived{0};
  auto body = [&](KernelCall const&) {
    int const group = (arrived.fetch_add(1) / all + 1) * all;
    while (arrived.load() < group) std::this_thread::yield();
    return Status{};
  };
  Scene scene(trial);
  std::uint32_t const source = scene.allocate();
  scene.task({{source, write}});
  std::vector<std::uint32_t> targets;
  for (int worker = 0; worker < all; ++worker) targets.push_back(scene.allocate());
  for (int i = 0; i < 50 * trial.rounds; ++i) {
    linger(random);
    if (i % 2 == 0) scene.task({{source, update}}, {.pauses = 3});
    for (std::uint32_t const target : targets) scene.call({{source, read}, {target, write}}, body);
    scene.runtime().wait_all();
  }
}

/// The driver is inside `wait`, `lock` or `wait_all` when its task ends, by a body or by a token.
inline void driver_wakes(Trial const& trial) {
  Random random(trial.seed + 2);
  std::size_t const count = static_cast<std::size_t>(250 * trial.rounds);
  Scene scene(trial, count);
  std::uint32_t const buffer = scene.allocate();
  for (std::size_t i = 0; i < count; ++i) {
    Finish const finish = i % 3 == 0 ? Finish::returns : Finish::outside;
    auto const pauses = static_cast<std::uint8_t>(i % 16 == 0 ? nap : random.below(12));
    Event const event =
        scene.task({{buffer, i == 0 ? write : update}}, {.finish = finish, .pauses = pauses});
    if (i % 5 == 4) linger(random);
    if (i % 4 == 3)
      scene.runtime().wait_all();
    else if (i % 4 == 1)
      require(scene.words(buffer).size() == 4, "a lock gave another size");
    else
      scene.runtime().wait(event);
    require(scene.journal().times_run(i) == 1, "a wait returned before its task had run");
  }
}

inline std::vector<NamedCheck> wakeups() {
  return {{"a sleeping worker wakes for every task, though the driver makes no call", workers_wake},
          {"as many sleeping workers wake as there are tasks", all_workers_wake},
          {"a sleeping driver wakes when what it waits for ends", driver_wakes}};
}

}  // namespace nntile::testing::checks
