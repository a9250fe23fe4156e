// SPDX-License-Identifier: BSD-3-Clause
// The heaps of tasks that submit, on a ring: where their memory is from, and when it is given out
// again.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/nesting_heaps.hh"
#include "tests/support/message.hh"
#include "tests/support/sanitized.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

template <class N> std::byte* address(N& nested, Handle handle) {
  std::byte* const memory = nested.lock(handle, Access::write).data();
  nested.unlock(handle);
  return memory;
}

/// third = first + second
constexpr Codelet sum_codelet{"sum",
                              +[](KernelCall const& call) noexcept -> Status {
                                cell_of(call, 2) = cell_of(call, 0) + cell_of(call, 1);
                                return {};
                              },
                              nullptr, nullptr};

/// The Fibonacci numbers with a scratch of some bytes in each body, by tasks that wait nowhere.
struct Fibonacci {
  int n;
  std::size_t bytes;
  Handle result;
  void operator()(auto& nested) const {
    auto own = scope(nested, Lifetime::scratch);
    Handle const array = own.allocate(bytes);
    submit(nested, put_codelet, {writing(array)}, n);
    if (n < 2) {
      submit(nested, copy_cell_codelet, {writing(result), reading(array)}, 0);
      return;
    }
    Handle const one = own.allocate(sizeof(long)), other = own.allocate(sizeof(long));
    nested.orchestrate(Fibonacci{n - 1, bytes, one}, writing(one));
    nested.orchestrate(Fibonacci{n - 2, bytes, other}, writing(other));
    submit(nested, sum_codelet, {reading(one), reading(other), writing(result)});
  }
};

}  // namespace

TEST_CASE("a body that allocates nothing takes no memory", "[runtime][nesting_heaps]") {
  on_rings({}, [](Ring& ring) {
    Handle const result = cell(ring, 1);
    ring.orchestrate(
        [=](auto& nested) {
          for (int i = 0; i < 20; ++i) submit(nested, step_codelet, {updating(result)}, i);
          auto const step = scope(nested, Lifetime::step);
          Handle const own = nested.allocate(100);  // of no heap
          submit(nested, put_codelet, {writing(own)}, 1);
        },
        updating(result));
    ring.wait_all();
    CHECK(ring.stats().bodies.capacity == 0);
    CHECK(ring.stats().bodies.growths == 0);
  });
}

TEST_CASE("what bodies have allocated comes back, for others", "[runtime][nesting_heaps]") {
  int const n = sanitized ? 12 : 20;
  long const expected = sanitized ? 144 : 6765;
  for (int const workers : {1, 2, 8}) {
    Ring ring(RuntimeOptions{.workers = workers});
    Handle const result = cell(ring);
    ring.orchestrate(Fibonacci{n, 1000, result}, writing(result));
    CHECK(read(ring, result) == expected);
    auto const first = ring.stats().bodies;
    CHECK(first.used == 0);
    CHECK(first.peak <= first.capacity);
    CHECK(first.growths == first.capacity / 4096);  // a piece a body is enough
    // Bodies begin in depth first, so that few are open at a time.
    CHECK(first.peak <= static_cast<std::size_t>(workers * 4 * n) * 4096);
    if (std::getenv("NNTILE_HEAPS") != nullptr)
      std::printf("fib(%d), %d workers: pieces of %zu bytes at most\n", n, workers, first.peak);
    if (workers == 1) {
      ring.orchestrate(Fibonacci{n, 1000, result}, writing(result));
      ring.wait_all();
      CHECK(ring.stats().bodies.growths == first.growths);
    }
    ring.wait_all();
  }
}

TEST_CASE("memory of a body's heap is given out again once its tasks have ended",
          "[runtime][nesting_heaps]") {
  on_rings(bodies(1024, OnFull::wait), [](Ring& ring) {
    Handle const result = cell(ring, 3);
    ring.orchestrate(Rounds{1000, 0, 512, result}, updating(result));
    CHECK(read(ring, result) == Rounds::value(1000, 0, 3));
    CHECK(ring.stats().bodies.peak == 4096);
    // Others may end each round's tasks before the next allocates.
    if (ring.workers().cpu == 1) CHECK(ring.stats().bodies.waits > 0);
    ring.orchestrate(Rounds{3, 5, 512, result}, updating(result));
    long const after = Rounds::value(3, 5, Rounds::value(1000, 0, 3));
    CHECK(read(ring, result) == after);
    ring.wait_all();
  });
}

TEST_CASE("a heap of a body that grows holds what its tasks hold", "[runtime][nesting_heaps]") {
  on_rings(bodies(1024, OnFull::grow), [](Ring& ring) {
    Handle const result = cell(ring, 3);
    ring.orchestrate(Rounds{300, 1, 700, result}, updating(result));
    CHECK(read(ring, result) == Rounds::value(300, 1, 3));
    ring.wait_all();
  });
}

TEST_CASE("a task of a body holds the memory of its buffer", "[runtime][nesting_heaps]") {
  Ring ring(RuntimeOptions{.workers = 2});
  std::atomic<bool> open{false};
  std::vector<std::byte*> places;
  run(ring, [&](auto& nested) {
    std::byte* held = nullptr;
    {
      auto own = scope(nested, Lifetime::scratch);
      Handle const a = own.allocate(256), b = own.allocate(256);
      places = {address(nested, a), address(nested, b)};
      held = places[0];
      std::atomic<bool>* const gate = &open;
      submit(nested, gate_codelet, {updating(a)}, gate);
      submit(nested, put_codelet, {updating(b)}, 1);
    }
    auto own = scope(nested, Lifetime::scratch);
    for (int i = 0; i < 30; ++i) {
      Handle const next = own.allocate(256);
      if (address(nested, next) == held) places.clear();
      nested.retire(next);
    }
    open = true;
    nested.wait_all();
    own.close();
    auto again = scope(nested, Lifetime::scratch);
    std::set<std::byte*> seen;
    for (int i = 0; i < 20; ++i) seen.insert(address(nested, again.allocate(256)));
    if (seen.size() != 20) places.clear();
  });
  CHECK(places.size() == 2);
}

TEST_CASE("a buffer of a body has no users of the one that had its record before",
          "[runtime][nesting_heaps]") {
  on_rings(bodies(256, OnFull::wait), [](Ring& ring) {
    TokenKeeper keeper;
    TokenKeeper* const address_of = &keeper;
    Handle const result = cell(ring, 0);
    Event const outer = ring.orchestrate(
        [=](auto& nested) {
          Handle const other = nested.allocate(sizeof(long));
          for (int i = 0; i < 50; ++i) {
            auto own = scope(nested, Lifetime::scratch);
            Handle const a = own.allocate(64);
            submit(nested, put_codelet, {writing(a)}, i);
            submit(nested, copy_cell_codelet, {writing(result), reading(a)}, 1);
          }
          submit(nested, keep_codelet, {writing(other)}, address_of);
        },
        writing(result));
    while (keeper.count() == 0) (void)ring.done(outer);
    keeper.at(0).complete();
    CHECK(read(ring, result) == 50);
    ring.wait_all();
  });
}

TEST_CASE("a heap of a body takes nothing over from buffers that were no heap's",
          "[runtime][nesting_heaps]") {
  on_rings({}, [](Ring& ring) {
    TokenKeeper keeper;
    TokenKeeper* const its = &keeper;
    Handle const result = cell(ring, 0);
    Event const outer = ring.orchestrate(
        [=](auto& nested) {
          for (int i = 0; i < 8; ++i) {
            Handle const before = nested.allocate(64);
            submit(nested, put_codelet, {writing(before)}, i);
            nested.retire(before);
          }
          nested.wait_all();
          auto own = scope(nested, Lifetime::scratch);
          Handle const a = own.allocate(64);
          submit(nested, put_codelet, {writing(a)}, 7);
          Event const late = submit(nested, keep_codelet, {updating(a)}, its);
          while (!nested.done(late)) std::this_thread::yield();
          for (int i = 0; i < 8; ++i) {
            Handle const behind = nested.allocate(64);
            submit(nested, put_codelet, {writing(behind)}, 9);
          }
          submit(nested, copy_cell_codelet, {writing(result), reading(a)}, 1);
        },
        writing(result));
    std::thread completes([&] { keeper.at(0).complete(); });
    CHECK_NOTHROW(ring.wait(outer));
    completes.join();
    CHECK(read(ring, result) == 8);
    ring.wait_all();
  });
}

TEST_CASE("heaps of bodies have as many records as their buffers need",
          "[runtime][nesting_heaps]") {
  for (OnFull const on_full : {OnFull::grow, OnFull::wait, OnFull::fail})
    on_rings(bodies(128 * 64, on_full), [](Ring& ring) {
      std::size_t distinct = 0;
      run(ring, [&](auto& nested) {
        for (int round = 0; round < 2; ++round) {
          auto own = scope(nested, Lifetime::scratch);
          std::set<std::byte*> seen;
          for (int i = 0; i < 128; ++i) seen.insert(address(nested, own.allocate(64)));
          distinct = seen.size();
        }
      });
      CHECK(distinct == 128);
      CHECK(ring.stats().bodies.peak == 8192);
    });
}

TEST_CASE("large pieces go back to the system, small ones stay", "[runtime][nesting_heaps]") {
  Ring ring(RuntimeOptions{.workers = 1});
  for (int round = 0; round < 2; ++round)
    run(ring, [](auto& nested) {
      auto own = scope(nested, Lifetime::scratch);
      (void)own.allocate(64);
      (void)own.allocate(std::size_t{3} << 20);
      auto step = scope(nested, Lifetime::step);
      (void)step.allocate(5000);
    });
  CHECK(ring.stats().bodies.capacity == 4096 + 8192);
  CHECK(ring.stats().bodies.growths == 4);
  CHECK(ring.stats().bodies.peak == 4096 + 8192 + (std::size_t{3} << 20));
}

TEST_CASE("a locked buffer of a body's heap keeps its scope open", "[runtime][nesting_heaps]") {
  on_rings({}, [](Ring& ring) {
    std::string text;
    run(ring, [&](auto& nested) {
      auto own = scope(nested, Lifetime::scratch);
      Handle const a = own.allocate(64), b = own.allocate(64);
      (void)nested.lock(b, Access::write);
      text = message_of<LifetimeError>([&] { own.close(); });
      nested.unlock(b);
      submit(nested, put_codelet, {writing(a)}, 7);
      own.close();
    });
    CHECK(contains(text, "close_scope: buffer "));
    CHECK(contains(text, "is locked: unlock it first"));
  });
}

TEST_CASE("a body holds its memory while its tasks run", "[runtime][nesting_heaps]") {
  Ring ring(RuntimeOptions{.workers = 2, .own_driver = true});
  std::atomic<bool> open{false};
  std::atomic<bool>* const gate = &open;
  Handle const result = cell(ring, 1);
  Event const outer = ring.orchestrate(
      [=](auto& nested) {
        auto own = scope(nested, Lifetime::scratch);
        Handle const a = own.allocate(64);
        submit(nested, gate_codelet, {writing(a)}, gate);
      },
      updating(result));
  while (ring.stats().bodies.used == 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  CHECK(ring.stats().bodies.used == 4096);
  open = true;
  ring.wait(outer);
  CHECK(ring.stats().bodies.used == 0);
}

TEST_CASE("pieces of memory come back to those who ask for as much", "[runtime][nesting_heaps]") {
  detail::ring::Pieces<RingPolicy> pieces;
  std::byte* const small = pieces.take(1);
  std::byte* const medium = pieces.take(4097);
  CHECK(pieces.stats().used == 4096 + 8192);
  pieces.give_back(small, 1);
  CHECK(pieces.take(4096) == small);
  pieces.give_back(medium, 4097);
  std::byte* const other = pieces.take(4096);
  CHECK(other != medium);
  CHECK(pieces.take(8192) == medium);
  CHECK(pieces.stats().growths == 3);
  CHECK(pieces.stats().capacity == 2 * 4096 + 8192);
  for (std::byte* const each : {small, other}) pieces.give_back(each, 4096);
  pieces.give_back(medium, 8192);
  CHECK(pieces.stats().used == 0);
  CHECK(pieces.stats().peak == 2 * 4096 + 8192);
  std::byte* const large = pieces.take((std::size_t{2} << 20) + 64);
  pieces.give_back(large, (std::size_t{2} << 20) + 64);
  CHECK(pieces.stats().capacity == 2 * 4096 + 8192);
}
