// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous tasks and replays take no mutex, from their submission to their end.

#include <atomic>
#include <thread>
#include <vector>

#include "nntile/runtime/ring/ring.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// Counts how often it is taken.
struct CountedMutex : nntile::detail::Mutex {
  static inline std::atomic<int> taken{0};
  void lock() noexcept {
    ++taken;
    nntile::detail::Mutex::lock();
  }
};
/// Only looks again and again: nothing sleeps for long here.
struct PatientCondition {
  using Lock = nntile::detail::Lock<CountedMutex>;
  void notify_one() noexcept {}
  void notify_all() noexcept {}
  void wait(Lock& lock) noexcept {
    lock.unlock();
    nntile::detail::yield_core();
    lock.lock();
  }
  template <class Ready> void wait(Lock& lock, Ready ready) {
    while (!ready()) wait(lock);
  }
  template <class Ready> bool wait_for(Lock& lock, std::int64_t, Ready ready) {
    if (!ready()) wait(lock);
    return ready();
  }
};
struct CountedPolicy : RingPolicy {
  using Mutex = CountedMutex;
  using Condition = PatientCondition;
};
using CountedRing = BasicRing<CountedPolicy>;

}  // namespace

TEST_CASE("asynchronous tasks take no mutex", "[runtime][ring][mutexes]") {
  CountedRing ring(RuntimeOptions{.workers = 1});
  auto const handle = ring.allocate(sizeof(long)), other = ring.allocate(sizeof(long));
  submit(ring, put_codelet, {{handle, Access::write}}, 0L);
  submit(ring, put_codelet, {{other, Access::write}}, 0L);
  ring.wait_all();
  CountedMutex::taken = 0;
  for (int round = 0; round < 100; ++round) {
    TokenKeeper keeper;
    Event const pending = submit(ring, keep_codelet, {{handle, Access::update}}, &keeper);
    submit(ring, keep_codelet, {{other, Access::update}}, &keeper);
    Event const behind = submit(ring, step_codelet, {{handle, Access::update}}, 1L);
    while (keeper.count() < 2) (void)ring.done(pending);
    std::thread completer([&] {
      keeper.at(1).complete();
      keeper.at(0).complete();
    });
    completer.join();
    ring.wait(behind);
    CHECK(ring.done(pending));
  }
  CHECK(CountedMutex::taken == 0);
}

TEST_CASE("replays take no mutex", "[runtime][ring][mutexes]") {
  CountedRing ring(RuntimeOptions{.workers = 1});
  DataHandle const handle = ring.allocate(sizeof(long));
  submit(ring, put_codelet, {{handle, Access::write}}, 0L);
  Use<Binding> const uses[] = {{0, Access::update}};
  long const value = 1;
  ProgramTask const tasks[] = {{&step_codelet, uses, std::as_bytes(std::span(&value, 1)), {}, {}},
                               {&step_codelet, uses, std::as_bytes(std::span(&value, 1)), {}, {}}};
  auto const program = ring.record(tasks, 1, {});
  ring.wait_all();
  CountedMutex::taken = 0;
  for (int round = 0; round < 100; ++round) {
    Event const replayed = ring.replay(program, std::span(&handle, 1), {});
    ring.wait(replayed);
    CHECK(ring.done(replayed));
  }
  CHECK(CountedMutex::taken == 0);
}
