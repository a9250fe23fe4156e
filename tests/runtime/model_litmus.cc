// SPDX-License-Identifier: BSD-3-Clause
// The model checker of tests/runtime/model/ on programs whose outcomes are known: those of
// Alglave, Maranget and Tautschnig, Herding cats, TOPLAS 2014, and of the C++ standard.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tests/runtime/model/atomic.hh"
#include "tests/runtime/model/plain.hh"
#include "tests/runtime/model/threads.hh"
#include "tests/runtime/ring_program.hh"
#include "tests/support/catch.hh"
#include "tests/support/sanitized.hh"
#include "tests/support/skip.hh"

using namespace nntile::test::model;
using nntile::test::sanitized;
using nntile::test::skip;

namespace {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;
constexpr auto acq_rel = std::memory_order_acq_rel;
constexpr auto seq_cst = std::memory_order_seq_cst;
constexpr char const* no_fibers = "sanitizers do not follow routines that change stacks";

/// What up to three threads share, and what they have read.
struct Shared {
  Atomic<int> x{0}, y{0};
  Plain<int> plain{0};
  int read[4] = {-1, -1, -1, -1};
};
using Routine = std::function<void(Shared&)>;

struct Found {
  Outcome outcome;
  std::set<std::string> reads;  // the values that were read, in order
};

Found explore(std::vector<Routine> const& routines, Limits limits = {}) {
  Found found;
  Exploration exploration(limits);
  found.outcome = exploration.explore([&] {
    Shared shared;
    {
      std::vector<Thread> threads;
      for (Routine const& routine : routines)
        (void)threads.emplace_back().start([&shared, &routine] { routine(shared); });
      for (Thread& thread : threads) thread.join();
    }
    std::string text;
    for (int const value : shared.read)
      if (value >= 0) text += value < 10 ? std::to_string(value) : std::to_string(value) + ' ';
    found.reads.insert(text);
  });
  return found;
}
using Reads = std::set<std::string>;

/// Two threads each store to one place and then look at the other's.
Reads store_buffering(std::memory_order store, std::memory_order load) {
  return explore({[=](Shared& s) { s.x.store(1, store), s.read[0] = s.y.load(load); },
                  [=](Shared& s) { s.y.store(1, store), s.read[1] = s.x.load(load); }})
      .reads;
}
/// One thread stores data and then a flag, the other looks at the flag and then at the data.
Reads message_passing(std::memory_order store, std::memory_order load) {
  return explore({[=](Shared& s) { s.x.store(1, relaxed), s.y.store(1, store); },
                  [=](Shared& s) { s.read[0] = s.y.load(load), s.read[1] = s.x.load(relaxed); }})
      .reads;
}

/// Two or three threads that load, store, add to and compare two atomics with random orders.
std::vector<Routine> draw(std::uint64_t seed, std::size_t threads) {
  std::vector<Routine> routines;
  for (std::size_t t = 0; t < threads; ++t)
    routines.push_back([=](Shared& s) {
      std::uint64_t state = nntile::test::scramble(seed, t);
      constexpr std::memory_order loads[] = {relaxed, acquire, seq_cst},
                                  stores[] = {relaxed, release, seq_cst};
      int sum = 0;
      for (std::size_t i = 0; i < (threads == 2 ? 4 : 2); ++i) {
        state = nntile::test::scramble(state, i);
        auto& at = state % 2 == 0 ? s.x : s.y;
        std::size_t const order = state / 2 % 3;
        int const value = 1 + static_cast<int>(2 * t + i);
        int expected = 0;
        switch (state / 8 % 8) {
          case 0:
            sum = 3 * sum + at.fetch_add(value, stores[order]);
            break;
          case 1:
            sum = 3 * sum + (at.compare_exchange_strong(expected, value, stores[order]) ? 1 : 0);
            break;
          case 2:
          case 3:
          case 4:
            at.store(value, stores[order]);
            break;
          default:
            sum = 3 * sum + at.load(loads[order]);
        }
      }
      s.read[t] = sum;
    });
  return routines;
}

}  // namespace

TEST_CASE("each of two threads may miss the other's store unless all is seq_cst",
          "[runtime][model]") {
  if (sanitized) return skip(no_fibers);
  CHECK(store_buffering(seq_cst, seq_cst) == Reads{"01", "10", "11"});
  CHECK(store_buffering(release, acquire) == Reads{"00", "01", "10", "11"});
  CHECK(store_buffering(seq_cst, relaxed) == Reads{"00", "01", "10", "11"});
  CHECK(store_buffering(relaxed, seq_cst) == Reads{"00", "01", "10", "11"});
}

TEST_CASE("a flag shows the data behind it only if it is released and acquired",
          "[runtime][model]") {
  if (sanitized) return skip(no_fibers);
  CHECK(message_passing(release, acquire) == Reads{"00", "01", "11"});
  CHECK(message_passing(relaxed, acquire) == Reads{"00", "01", "10", "11"});
  CHECK(message_passing(release, relaxed) == Reads{"00", "01", "10", "11"});
}

TEST_CASE("two loads of one place never go back in its order of stores", "[runtime][model]") {
  if (sanitized) return skip(no_fibers);
  auto const found =
      explore({[](Shared& s) { s.x.store(1, relaxed), s.x.store(2, relaxed); },
               [](Shared& s) { s.read[0] = s.x.load(relaxed), s.read[1] = s.x.load(relaxed); }});
  CHECK(found.reads == Reads{"00", "01", "02", "11", "12", "22"});
}

TEST_CASE("an addition between release and acquire passes the release on", "[runtime][model]") {
  if (sanitized) return skip(no_fibers);
  auto const found = explore({[](Shared& s) { s.plain = 1, s.y.store(1, release); },
                              [](Shared& s) { (void)s.y.fetch_add(1, relaxed); },
                              [](Shared& s) {
                                if (s.y.load(acquire) == 2) s.read[0] = s.plain;
                              }});
  CHECK(found.outcome.failure == "");
  CHECK(found.reads == Reads{"", "1"});
}

TEST_CASE("data behind a relaxed flag is a race", "[runtime][model]") {
  if (sanitized) return skip(no_fibers);
  for (auto const order : {release, relaxed}) {
    auto const found = explore({[=](Shared& s) { s.plain = 1, s.y.store(1, order); },
                                [](Shared& s) {
                                  if (s.y.load(acquire) == 1) s.read[0] = s.plain;
                                }});
    CHECK(found.outcome.failure.empty() == (order == release));
  }
}

TEST_CASE("no addition is lost, whatever its order", "[runtime][model]") {
  if (sanitized) return skip(no_fibers);
  Routine const add = [](Shared& s) { (void)s.x.fetch_add(1, relaxed); };
  auto const found = explore({add, add, [](Shared& s) {
                                while (s.x.load(relaxed) < 2) Exploration::current->yield();
                                s.read[0] = s.x.load(relaxed);
                              }});
  CHECK(found.reads == Reads{"2"});
}

TEST_CASE("independent readers agree on the order of seq_cst stores", "[runtime][model]") {
  if (sanitized) return skip(no_fibers);
  for (auto const order : {seq_cst, acquire}) {
    auto const found =
        explore({[](Shared& s) { s.x.store(1, seq_cst); },
                 [=](Shared& s) { s.read[0] = s.x.load(order), s.read[1] = s.y.load(order); },
                 [=](Shared& s) {
                   s.y.store(1, seq_cst);
                   s.read[2] = s.y.load(order), s.read[3] = s.x.load(order);
                 }});
    CHECK(found.reads.contains("1010") == (order == acquire));
  }
}

TEST_CASE("each trace of independent operations is run once", "[runtime][model]") {
  if (sanitized) return skip(no_fibers);
  auto const found = explore({[](Shared& s) { s.x.store(1, seq_cst), s.x.store(2, seq_cst); },
                              [](Shared& s) { s.y.store(1, seq_cst), s.y.store(2, seq_cst); }});
  CHECK(found.outcome.executions == 1);
}

TEST_CASE("the reduction loses nothing that random programs can read", "[runtime][model]") {
  if (sanitized) return skip(no_fibers);
  std::uint64_t reduced = 0, all = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    INFO("seed " << seed);
    auto const routines = draw(seed, 2 + seed % 2);
    auto const every = explore(routines, {.reduced = false}), some = explore(routines);
    REQUIRE(every.outcome.complete);
    REQUIRE(some.reads == every.reads);
    REQUIRE(explore(routines, {12}).reads == every.reads);
    reduced += some.outcome.executions;
    all += every.outcome.executions;
  }
  CHECK(2 * reduced < all);
}

TEST_CASE("two threads that each wait for the other are found", "[runtime][model]") {
  if (sanitized) return skip(no_fibers);
  Exploration exploration({});
  auto const outcome = exploration.explore([] {
    Mutex first, second;
    Thread thread;
    (void)thread.start([&] { nntile::detail::Lock a(first), b(second); });
    {
      nntile::detail::Lock a(second), b(first);
    }
    thread.join();
  });
  CHECK(outcome.failure.starts_with("deadlock"));
}

TEST_CASE("a notification before the wait is lost", "[runtime][model]") {
  if (sanitized) return skip(no_fibers);
  for (bool const locked : {true, false}) {
    Exploration exploration({});
    auto const outcome = exploration.explore([=] {
      Mutex mutex;
      Condition changed;
      Atomic<bool> ready{false};
      Thread thread;
      (void)thread.start([&] {
        if (locked) mutex.lock();
        ready.store(true, seq_cst);
        if (locked) mutex.unlock();
        changed.notify_one();
      });
      {
        nntile::detail::Lock lock(mutex);
        changed.wait(lock, [&] { return ready.load(seq_cst); });
      }
      thread.join();
    });
    CHECK(outcome.failure.empty() == locked);
  }
}

TEST_CASE("three threads that count up meet in all orders", "[runtime][model]") {
  if (sanitized) return skip(no_fibers);
  Routine const add = [](Shared& s) { (void)s.x.fetch_add(1, acq_rel); };
  auto const all = explore({add, add, add}).outcome,
             without = explore({add, add, add}, {0}).outcome;
  CHECK(all.executions >= 6);
  CHECK(without.executions == 6);  // here no thread has to be interrupted
}
