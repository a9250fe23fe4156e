// SPDX-License-Identifier: BSD-3-Clause
// The ring's heaps: chunks alone, and what `allocate` does with them.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
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
using detail::ring::Heap;
using detail::ring::HeapChunk;
using support::Buffer;

namespace {

constexpr auto freed = [](Buffer& buffer) { return buffer.is(Buffer::ended); };

/// Records of a runtime's buffers, and how many are lent.
struct Records {
  std::deque<Buffer> buffers;
  std::ptrdiff_t lent = 0;
  std::ptrdiff_t most = PTRDIFF_MAX;
  Buffer& lend() {
    if (lent == most) throw OutOfMemory("no record");
    ++lent;
    buffers.emplace_back().index = static_cast<std::uint32_t>(buffers.size() - 1);
    return buffers.back();
  }
  void give_back(Buffer&) noexcept { --lent; }
};

/// Ends a buffer of a chunk.
void end(HeapChunk& chunk, Buffer& buffer) {
  buffer.set(Buffer::ended);
  chunk.advance(freed);
  chunk.open();
}
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

TEST_CASE("what a chunk gives out overlaps nothing and stays inside", "[runtime][heap]") {
  std::mt19937 random(11);
  for (std::size_t const lines : {1u, 2u, 3u, 8u, 21u}) {
    Records records;
    HeapChunk chunk(64 * lines, 1000, 0, records);
    std::vector<bool> taken(lines);
    Buffer& one = *chunk.take(64);
    std::byte* const first = static_cast<std::byte*>(one.pointer);
    end(chunk, one);
    std::deque<Buffer*> live;
    auto const mark = [&](Buffer const& buffer, bool value) {
      auto const at = static_cast<std::byte*>(buffer.pointer) - first;
      REQUIRE((at >= 0 && at % 64 == 0));
      for (std::size_t i = 0; i < Heap::room_for(buffer.bytes) / 64; ++i) {
        REQUIRE(static_cast<std::size_t>(at) / 64 + i < lines);
        REQUIRE(taken[static_cast<std::size_t>(at) / 64 + i] != value);
        taken[static_cast<std::size_t>(at) / 64 + i] = value;
      }
    };
    for (int given = 0; given < 2000;) {
      std::size_t const bytes = 1 + random() % (64 * lines), room = Heap::room_for(bytes);
      std::size_t const available = chunk.available();
      Buffer* buffer = chunk.take(bytes);
      if (buffer == nullptr) chunk.open();  // a lap of the records may have ended
      if (buffer == nullptr) buffer = chunk.take(bytes);
      if (buffer == nullptr && chunk.begin_at_start(room)) buffer = chunk.take(bytes);
      REQUIRE((buffer != nullptr) == (room <= available));
      if (buffer != nullptr) {
        REQUIRE(buffer->bytes == bytes);
        mark(*buffer, true);
        live.push_back(buffer);
        ++given;
      }
      if (live.empty() || random() % 2 == 0) continue;
      live[random() % live.size()]->set(Buffer::ended);
      while (!live.empty() && live.front()->is(Buffer::ended)) {
        mark(*live.front(), false);
        live.pop_front();
      }
      chunk.advance(freed);
      chunk.open();
      REQUIRE(chunk.records() == live.size());
    }
  }
}

TEST_CASE("a chunk without allocations has room for one as large as itself", "[runtime][heap]") {
  Records records;
  HeapChunk chunk(256, 4, 0, records);
  Buffer* const a = chunk.take(192);
  REQUIRE(a != nullptr);
  CHECK(chunk.take(128) == nullptr);
  end(chunk, *a);
  CHECK(chunk.used() == 0);
  CHECK(chunk.take(256) == a);  // and begins anew with its first record
  CHECK(chunk.available() == 0);
}

TEST_CASE("what is skipped at the end of a chunk comes back with the allocation before it",
          "[runtime][heap]") {
  Records records;
  HeapChunk chunk(256, 4, 0, records);
  Buffer &a = *chunk.take(64), &b = *chunk.take(128);  // 64 bytes are left
  end(chunk, a);
  CHECK_FALSE(chunk.begin_at_start(128));
  end(chunk, b);
  Buffer* const c = chunk.take(128);
  REQUIRE(c != nullptr);
  CHECK(c->pointer == a.pointer);
  CHECK(chunk.take(128) != nullptr);
}

TEST_CASE("a chunk gives nothing out while it is closed", "[runtime][heap]") {
  Records records;
  HeapChunk chunk(256, 4, 0, records);
  for (std::size_t const bytes : {std::size_t{0}, std::size_t{257}, SIZE_MAX})
    CHECK(chunk.take(bytes) == nullptr);
  chunk.close();
  CHECK(chunk.take(1) == nullptr);
  chunk.open();
  CHECK(chunk.take(1) != nullptr);
}

TEST_CASE("records of a chunk run out, and grow", "[runtime][heap]") {
  Records records;
  HeapChunk chunk(1024, 2, 0, records);
  Buffer *const a = chunk.take(64), *const b = chunk.take(64);
  CHECK(chunk.take(64) == nullptr);
  end(chunk, *a);
  Buffer* const c = chunk.take(64);  // the second lap of the records
  CHECK(c == a);
  CHECK(chunk.take(64) == nullptr);
  CHECK(chunk.available() == 0);
  records.most = 3;
  CHECK_THROWS_AS(chunk.grow_records(records), OutOfMemory);
  CHECK(records.lent == 2);
  records.most = 4;
  chunk.grow_records(records);
  chunk.open();
  CHECK(chunk.oldest() == b);
  Buffer* const d = chunk.take(64);
  std::vector<Buffer*> seen;
  chunk.each(0, [&](Buffer& buffer) { seen.push_back(&buffer); });
  CHECK(seen == std::vector<Buffer*>{b, c, d});
  CHECK((d != a && d != b));
}

TEST_CASE("a chunk ends a range of buffers, and takes back what is oldest", "[runtime][heap]") {
  Records records;
  HeapChunk chunk(1024, 8, 0, records);
  Buffer* all[6];
  for (Buffer*& buffer : all) buffer = chunk.take(64);
  std::vector<Buffer*> ended;
  auto const note = [&](Buffer& buffer) {
    buffer.set(Buffer::ended);
    ended.push_back(&buffer);
  };
  all[4]->set(Buffer::ended);  // retired before
  chunk.end_from(3, note, freed);
  CHECK(ended == std::vector<Buffer*>{all[3], all[5]});
  CHECK(chunk.records() == 6);
  chunk.end_from(0, note, [&](Buffer& buffer) { return freed(buffer) && &buffer != all[2]; });
  CHECK(ended == std::vector<Buffer*>{all[3], all[5], all[0], all[1], all[2]});
  CHECK(chunk.oldest() == all[2]);
  CHECK(chunk.used() == 4 * 64);
}

TEST_CASE("a heap grows by chunks and keeps the newest", "[runtime][heap]") {
  Records records;
  Heap heap(Lifetime::step, {}, 128, 8, records);
  heap.open_scope();
  CHECK(heap.take_if_room(64) == nullptr);
  heap.grow(64, records);
  Buffer* const a = heap.take_if_room(128);
  REQUIRE(a != nullptr);
  CHECK(heap.take_if_room(64) == nullptr);
  heap.grow(64, records);
  Buffer* const b = heap.take_if_room(64);
  REQUIRE(b != nullptr);
  heap.grow(4096, records);
  Buffer* const c = heap.take_if_room(4096);
  REQUIRE(c != nullptr);
  CHECK(records.lent == 24);
  CHECK(heap.stats().capacity == 128 + 256 + 4096);
  CHECK(heap.stats().peak == 128 + 64 + 4096);
  CHECK(heap.stats().records == 3);
  heap.end(*b);
  heap.advance(freed, records);
  CHECK(records.lent == 16);
  CHECK(heap.stats().capacity == 128 + 4096);
  heap.close_scope(0, freed);
  CHECK(heap.stats().records == 0);
  CHECK(heap.take(1) == nullptr);
  heap.advance(freed, records);
  CHECK(heap.stats().capacity == 4096);
  CHECK(heap.stats().used == 0);
  CHECK(heap.stats().growths == 3);
}

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
    for (std::size_t const bytes : {SIZE_MAX, SIZE_MAX / 2 + 1, std::size_t{1} << 50})
      CHECK(contains(message_of<OutOfMemory>([&] { ring.allocate(bytes, host, Lifetime::step); }),
                     concat(bytes)));
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
