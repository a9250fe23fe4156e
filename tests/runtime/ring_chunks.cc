// SPDX-License-Identifier: BSD-3-Clause
// The chunks of a ring's heap, without a ring.

#include "nntile/runtime/ring/heap.hh"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include "tests/support/catch.hh"

using namespace nntile;
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
  std::size_t taken = 0;  // bytes of memory
  std::byte* take_memory(std::size_t bytes) {
    auto* const memory = static_cast<std::byte*>(support::allocate_aligned(bytes));
    taken += bytes;
    return memory;
  }
  void give_memory(std::byte* memory, std::size_t bytes) noexcept {
    support::free_aligned(memory);
    taken -= bytes;
  }
};

/// Ends a buffer of a chunk.
void end(HeapChunk& chunk, Buffer& buffer) {
  buffer.set(Buffer::ended);
  chunk.advance(freed);
  chunk.open();
}

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
  CHECK(records.taken == 4096);
  CHECK(heap.stats().used == 0);
  CHECK(heap.stats().growths == 3);
  heap.give_memory_back(records);
  CHECK(records.taken == 0);
}
