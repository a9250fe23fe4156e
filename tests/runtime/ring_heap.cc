// SPDX-License-Identifier: BSD-3-Clause
// The ring's heaps: what `allocate` does with their chunks.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/scope.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

constexpr std::size_t long_room = 64;  // what a buffer of one long takes

/// A ring whose heap of lifetime step has room for `cells` longs.
RingCapacities step_heap(std::size_t cells, OnFull on_full = OnFull::wait,
                         std::uint32_t records = 0) {
  RingCapacities options;
  options.step = {cells * long_room, on_full};
  options.records = records;
  return options;
}
RuntimeOptions workers(int count, bool own_driver = false) { return {count, own_driver, false}; }

/// Where a buffer's memory is.
template <class R> void const* address(R& ring, DataHandle handle) {
  void const* const pointer = ring.lock(handle, Access::write).data();
  ring.unlock(handle);
  return pointer;
}

/// Ends when the flag whose address is the argument is set.
Codelet const gate_codelet{"gate",
                           +[](KernelCall const& call) noexcept -> Status {
                             auto& open = **static_cast<std::atomic<bool>* const*>(call.arguments);
                             while (!open) std::this_thread::yield();
                             return {};
                           },
                           nullptr, nullptr};

}  // namespace

TEST_CASE("buffers of one lifetime lie one behind the other", "[runtime][heap]") {
  Ring ring(workers(1), step_heap(8));
  auto const step = scope(ring, Lifetime::step);
  auto const a = ring.allocate(8, host, Lifetime::step),
             b = ring.allocate(65, host, Lifetime::step),
             c = ring.allocate(64, host, Lifetime::step);
  auto const* const first = static_cast<std::byte const*>(address(ring, a));
  CHECK(address(ring, b) == first + 64);
  CHECK(address(ring, c) == first + 192);
  CHECK(ring.stats().step.used == 256);
  CHECK(ring.stats().scratch.capacity == 0);
}

TEST_CASE("memory of a heap is given out again once its tasks have ended", "[runtime][heap]") {
  Ring ring(workers(GENERATE(1, 2)), step_heap(4));
  auto const sum = cell(ring, 0);
  long expected = 0;
  for (long i = 0; i < 1000; ++i) {
    auto const step = scope(ring, Lifetime::step);
    auto const a = ring.allocate(sizeof(long), host, Lifetime::step),
               b = ring.allocate(sizeof(long), host, Lifetime::step);
    submit(ring, put_codelet, {{a, Access::write}}, i);
    submit(ring, copy_cell_codelet, {{b, Access::write}, {a, Access::read}}, 1L);
    submit(ring, copy_cell_codelet, {{sum, Access::write}, {b, Access::read}}, 0L);
    submit(ring, step_codelet, {{sum, Access::update}}, 0L);
    expected = 3 * (i + 1);
  }
  CHECK(read(ring, sum) == expected);
  CHECK(ring.stats().step.growths == 0);
  CHECK(ring.stats().step.capacity == 4 * long_room);
  CHECK(ring.stats().step.peak <= 4 * long_room);
}

TEST_CASE("one step scope has ten times more tasks than the window has slots", "[runtime][heap]") {
  constexpr std::size_t window = 32, count = 10 * window;
  RingCapacities capacities = step_heap(count + 1);
  capacities.window = window;
  Ring ring(workers(GENERATE(1, 2, 8)), capacities);
  auto const step = scope(ring, Lifetime::step);
  std::vector<DataHandle> kept;  // all alive until the scope closes
  for (std::size_t i = 0; i < count; ++i) {
    kept.push_back(ring.allocate(sizeof(long), host, Lifetime::step));
    if (i == 0)
      submit(ring, put_codelet, {{kept[0], Access::write}}, 1L);
    else
      submit(ring, copy_cell_codelet, {{kept[i], Access::write}, {kept[i - 1], Access::read}}, 1L);
  }
  CHECK(read(ring, kept.back()) == static_cast<long>(count));
  CHECK(read(ring, kept.front()) == 1);
  CHECK(ring.stats().step.records == count);
}

TEST_CASE("a running task holds the memory of a retired buffer", "[runtime][heap]") {
  Ring ring(workers(1, true), step_heap(1, OnFull::fail));
  std::atomic<bool> open{false};
  auto const step = scope(ring, Lifetime::step);
  auto const a = ring.allocate(sizeof(long), host, Lifetime::step);
  auto const running = submit(ring, gate_codelet, {{a, Access::write}}, &open);
  ring.retire(a);
  CHECK_THROWS_AS(ring.allocate(8, host, Lifetime::step), OutOfMemory);
  open = true;
  ring.wait(running);
  CHECK_NOTHROW(ring.allocate(8, host, Lifetime::step));
}

TEST_CASE("an open token holds the memory of a retired buffer", "[runtime][heap]") {
  Ring ring(workers(GENERATE(1, 2)), step_heap(1, OnFull::fail));
  TokenKeeper keeper;
  auto const step = scope(ring, Lifetime::step);
  auto const a = ring.allocate(sizeof(long), host, Lifetime::step);
  submit(ring, put_codelet, {{a, Access::write}}, 1L);
  auto const kept = submit(ring, keep_codelet, {{a, Access::update}}, &keeper);
  ring.retire(a);
  while (ring.stats().executed < 2) (void)ring.done(kept);
  CHECK_THROWS_AS(ring.allocate(8, host, Lifetime::step), OutOfMemory);
  keeper.at(0).complete();
  ring.wait(kept);
  CHECK_NOTHROW(ring.allocate(8, host, Lifetime::step));
}

TEST_CASE("a buffer has no users of the one that had its record before", "[runtime][heap]") {
  Ring ring(workers(2), step_heap(1));
  TokenKeeper keeper;
  auto const elsewhere = cell(ring, 0);
  auto const step = scope(ring, Lifetime::step);
  auto const a = ring.allocate(sizeof(long), host, Lifetime::step);
  submit(ring, put_codelet, {{a, Access::write}}, 1L);
  auto const first = submit(ring, keep_codelet, {{a, Access::update}}, &keeper);
  keeper.at(0).complete();
  ring.wait(first);
  ring.retire(a);
  auto const b = ring.allocate(sizeof(long), host, Lifetime::step);
  REQUIRE(b.index == a.index);
  submit(ring, keep_codelet, {{elsewhere, Access::update}}, &keeper);
  Completion open = keeper.at(1);
  auto const task = submit(ring, put_codelet, {{b, Access::write}}, 2L);
  for (int i = 0; i < 1'000'000 && !ring.done(task); ++i) std::this_thread::yield();
  CHECK(ring.done(task));  // although the task is open that has the number of the one before
  open.complete();
}

TEST_CASE("a replay in flight holds the memory of a retired buffer", "[runtime][heap]") {
  Ring ring(workers(1), step_heap(1, OnFull::fail));
  TokenKeeper keeper;
  auto const step = scope(ring, Lifetime::step);
  auto const a = ring.allocate(sizeof(long), host, Lifetime::step);
  Use<Binding> const uses[] = {{0, Access::write}};
  TokenKeeper* const argument = &keeper;
  ProgramTask const task{&keep_codelet, uses, std::as_bytes(std::span(&argument, 1)), {}, {}};
  auto const kept = ring.replay(ring.record({&task, 1}, 1), {&a, 1});
  ring.retire(a);
  while (ring.stats().executed < 2) (void)ring.done(kept);
  CHECK_THROWS_AS(ring.allocate(8, host, Lifetime::step), OutOfMemory);
  keeper.at(0).complete();
  ring.wait(kept);
  CHECK_NOTHROW(ring.allocate(8, host, Lifetime::step));
}

TEST_CASE("a heap gives nothing out once its last scope has closed", "[runtime][heap]") {
  Ring ring(workers(1), step_heap(4));
  {
    auto const step = scope(ring, Lifetime::step);
    (void)ring.allocate(8, host, Lifetime::step);
  }
  CHECK_THROWS_AS(ring.allocate(8, host, Lifetime::step), LifetimeError);
}

TEST_CASE("an empty buffer takes no room and holds up no other", "[runtime][heap]") {
  Ring ring(workers(1), step_heap(1));
  auto const step = scope(ring, Lifetime::step);
  auto const empty = ring.allocate(0, host, Lifetime::step);
  for (int i = 0; i < 3; ++i) {
    auto const full = ring.allocate(64, host, Lifetime::step);
    auto const another = ring.allocate(0, host, Lifetime::step);
    CHECK(address(ring, another) != nullptr);
    ring.retire(full);
  }
  CHECK(ring.lock(empty, Access::write).size() == 0);
  ring.unlock(empty);
}

TEST_CASE("a heap without capacity grows, and says how often", "[runtime][heap]") {
  Ring ring(workers(1));
  {
    auto const step = scope(ring, Lifetime::step);
    (void)ring.allocate(64, host, Lifetime::step);
    CHECK(ring.stats().step.growths == 1);
    (void)ring.allocate(std::size_t{3} << 20, host, Lifetime::step);
    CHECK(ring.stats().step.growths == 2);
    for (int i = 0; i < 5000; ++i) (void)ring.allocate(64, host, Lifetime::step);
  }
  auto const before = ring.stats().step;
  CHECK(before.peak_records == 5002);
  for (int i = 0; i < 100; ++i) {
    auto const step = scope(ring, Lifetime::step);
    (void)ring.allocate(std::size_t{3} << 20, host, Lifetime::step);
    for (int k = 0; k < 100; ++k) (void)ring.allocate(64, host, Lifetime::step);
  }
  CHECK(ring.stats().step.growths == before.growths);
}

TEST_CASE("a heap whose bytes and records run out at a time grows both", "[runtime][heap]") {
  Ring ring(workers(1));
  auto const step = scope(ring, Lifetime::step);
  for (int i = 0; i < 1023; ++i) (void)ring.allocate(1024, host, Lifetime::step);  // of 1 MiB
  (void)ring.allocate(512, host, Lifetime::step);
  auto const a = ring.allocate(4096, host, Lifetime::step);
  auto const b = ring.allocate(64, host, Lifetime::step);
  CHECK(ring.lock(a, Access::write).size() == 4096);
  CHECK(address(ring, b) == ring.address(a) + 4096);
}

TEST_CASE("the peak of a heap is a capacity that would do", "[runtime][heap]") {
  auto const program = [](Ring& ring) {
    for (int i = 0; i < 10; ++i) {
      auto const step = scope(ring, Lifetime::step);
      auto const a = ring.allocate(1000, host, Lifetime::step);
      for (int k = 0; k < 5; ++k) (void)ring.allocate(500, host, Lifetime::step);
      ring.retire(a);
      (void)ring.allocate(1000, host, Lifetime::step);
    }
  };
  Ring ring(workers(1));
  program(ring);
  RingCapacities options;
  options.step = {ring.stats().step.peak, OnFull::fail};
  Ring tight(workers(1), options);
  program(tight);
  CHECK(tight.stats().step.peak == tight.stats().step.capacity);
  CHECK(tight.stats().step.growths == 0);
  options.step.bytes -= 64;
  Ring too_tight(workers(1), options);
  CHECK_THROWS_AS(program(too_tight), OutOfMemory);
}

TEST_CASE("a heap larger than memory is one clear error", "[runtime][heap]") {
  RingCapacities options;
  options.scratch.bytes = std::size_t{1} << 50;
  std::string const text = message_of<OutOfMemory>([&] { Ring ring(workers(1), options); });
  for (auto const* const piece : {"1125899906842624 bytes", "scratch", "memory"})
    CHECK(contains(text, piece));
  options.scratch.bytes = SIZE_MAX;
  CHECK_THROWS_AS(Ring(workers(1), options), OutOfMemory);
}

TEST_CASE("a heap that may not grow needs a capacity", "[runtime][heap]") {
  RingCapacities options;
  options.scope.on_full = OnFull::wait;
  CHECK(contains(message_of<ValueError>([&] { Ring ring(workers(1), options); }), "scope"));
}

TEST_CASE("more bytes than any machine has throw, whatever the heap does", "[runtime][heap]") {
  for (OnFull const on_full : {OnFull::grow, OnFull::wait, OnFull::fail}) {
    Ring ring(workers(1), step_heap(2, on_full));
    auto const step = scope(ring, Lifetime::step);
    for (std::size_t const bytes : {SIZE_MAX, SIZE_MAX / 2 + 1, std::size_t{1} << 50}) {
      auto const text =
          message_of<OutOfMemory>([&] { ring.allocate(bytes, host, Lifetime::step); });
      CHECK(contains(text, concat(bytes)));
      CHECK_FALSE(contains(text, "make it"));  // no capacity would do
    }
    CHECK_NOTHROW(ring.allocate(128, host, Lifetime::step));
  }
}

TEST_CASE("what other threads have dropped makes room", "[runtime][heap]") {
  Ring ring(workers(2), step_heap(1));
  auto const step = scope(ring, Lifetime::step);
  auto const a = ring.allocate(8, host, Lifetime::step);
  std::thread([&] { ring.link()->drop(a, false); }).join();
  CHECK_NOTHROW(ring.allocate(8, host, Lifetime::step));
}

TEST_CASE("what other threads drop while allocate waits makes room", "[runtime][heap]") {
  Ring ring(workers(2), step_heap(1));
  TokenKeeper keeper;
  auto const step = scope(ring, Lifetime::step);
  auto const a = ring.allocate(8, host, Lifetime::step), elsewhere = cell(ring, 0);
  submit(ring, keep_codelet, {{elsewhere, Access::update}}, &keeper);
  std::thread other([&] {
    Completion token = keeper.at(0);
    ring.link()->drop(a, false);
    token.complete();
  });
  CHECK_NOTHROW(ring.allocate(8, host, Lifetime::step));
  other.join();
}

TEST_CASE("with capacities given nothing is allocated from the system", "[runtime][heap]") {
  RingCapacities options;
  options.step = options.scratch = {1 << 16, OnFull::wait};
  options.records = 300;
  Ring ring(workers(1), options);
  AllocationCount const allocations;
  for (int i = 0; i < 10; ++i) {
    ring.open_scope(Lifetime::step);
    for (int k = 0; k < 300; ++k) {
      (void)ring.allocate(100, host, Lifetime::step);
      ring.open_scope(Lifetime::scratch);
      (void)ring.allocate(1000, host, Lifetime::scratch);
      (void)ring.allocate(0, host, Lifetime::scratch);
      ring.close_scope(Lifetime::scratch);
    }
    ring.close_scope(Lifetime::step);
  }
  CHECK(allocations.calls() == 0);
  CHECK(ring.stats().step.growths == 0);
}

TEST_CASE("a ring takes the room that it is given at construction", "[runtime][ring][heap]") {
  Ring ring(RuntimeOptions{1, false, false}, {.buffers = 600});
  auto const rest = [](Ring& of, int count) {
    AllocationCount const taken;
    for (int i = 0; i < count; ++i) (void)of.allocate(8);
    return taken.calls() - static_cast<std::size_t>(count);  // beside the buffers' memory
  };
  if (allocations_are_counted()) {
    CHECK(rest(ring, 600) == 0);
    Ring without(RuntimeOptions{1, false, false});
    CHECK(rest(without, 600) > 0);
  }
  CHECK(message_of<ValueError>([] {
          Ring(RuntimeOptions{1, false, false}, {.window = (1u << 20) + 1});
        }) == "ring: a window of 1048577 tasks where 2^20 are possible");
  // Paused, a ring holds as many tasks as it has slots: the next power of two, and 2 at least.
  for (auto const& [asked, slots] : {std::pair(1u, 2), std::pair(5u, 8), std::pair(64u, 64)}) {
    Ring small(RuntimeOptions{1, false, false}, {.window = asked});
    auto const target = cell(small, 0);
    small.wait_all();
    small.pause();
    for (int i = 0; i < slots; ++i) submit(small, step_codelet, {{target, Access::update}}, 1L);
    CHECK_THROWS_AS(submit(small, step_codelet, {{target, Access::update}}, 1L), LifetimeError);
    small.resume();
  }
}

TEST_CASE("a mark ends with its buffer of a heap", "[runtime][heap]") {
  Ring ring(workers(1), step_heap(4));
  for (bool const fails : {true, false}) {
    auto const step = scope(ring, Lifetime::step);
    auto const a = ring.allocate(sizeof(long), host, Lifetime::step);
    // Disjoint writes would leave a mark standing.
    submit(ring, fails ? fail_codelet : put_codelet, {{a, Access::write_disjoint}}, 7L);
    if (fails)
      CHECK_THROWS_AS(ring.wait_all(), TaskError);
    else
      CHECK(read(ring, a) == 7);
  }
}

TEST_CASE("a ring has no heap of a number that is no lifetime", "[runtime][ring][heap]") {
  Ring ring(workers(1));
  ring.open_scope(Lifetime::staging);
  for (int number = 5; number < 256; ++number)
    CHECK_THROWS_AS(ring.allocate(8, host, static_cast<Lifetime>(number)), LifetimeError);
  CHECK(ring.stats().staging.records == 0);
}
