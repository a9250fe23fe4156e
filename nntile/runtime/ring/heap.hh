#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The memory of one lifetime: a chunk, or several while it grows.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/error.hh"
#include "nntile/runtime/ring/capacities.hh"
#include "nntile/runtime/ring/heap_chunk.hh"
#include "nntile/runtime/support/buffer_table.hh"

namespace nntile::detail::ring {

/// Ends a buffer's handle: the record is a BufferTable's.
struct EndInTable {
  void operator()(support::Buffer& buffer) const noexcept { support::BufferTable::end(buffer); }
};

/// Buffers of one lifetime. The submitter's alone.
///
/// Law: the newest chunk gives memory out; older ones are freed when their last allocation has
/// come back. A heap that may not grow has one chunk. `take` gives out what is known to be free:
/// where something may have come back since, no scope is open, or there is no room, it gives
/// nothing, and what to do about that is the caller's.
class Heap {
 public:
  using Buffer = support::Buffer;

  /// Memory that is given is taken now, and records from `source`; else `first_bytes` with the
  /// first allocation. Throws ValueError (no capacity where it may not grow), OutOfMemory.
  template <class Records>
  Heap(Lifetime lifetime, HeapCapacity const& capacity, std::size_t first_bytes,
       std::uint32_t records, Records& source)
      : lifetime_(lifetime),
        on_full_(capacity.on_full),
        first_bytes_(first_bytes),
        first_records_(records) {
    if (capacity.bytes != 0)
      newest_ = make(capacity.bytes, source);
    else if (on_full_ != OnFull::grow)
      throw ValueError(concat("ring: the heap of lifetime ", name_of(lifetime),
                              " may not grow, and needs a capacity: RingCapacities"));
    newest_.close();
  }

  Lifetime lifetime() const { return lifetime_; }
  OnFull on_full() const { return on_full_; }
  HeapChunk const& newest() const { return newest_; }

  /// `bytes` rounded up to what an allocation takes; 0 if it is more than any memory.
  static std::size_t room_for(std::size_t bytes) {
    if (bytes > static_cast<std::size_t>(PTRDIFF_MAX)) return 0;
    return (bytes + support::line_bytes - 1) & ~(support::line_bytes - 1);
  }

  /// Gives memory and a record out to an unwritten buffer, or null.
  [[gnu::always_inline]] Buffer* take(std::size_t bytes) noexcept { return newest_.take(bytes); }
  /// The same if there is room; afterwards `take` goes on, unless the oldest buffer has ended and
  /// is in use yet.
  [[gnu::always_inline]] Buffer* take_if_room(std::size_t bytes) noexcept {
    Buffer* buffer = newest_.take(bytes);
    if (buffer == nullptr) {
      newest_.open();
      buffer = newest_.take(bytes);
    }
    if (buffer == nullptr && newest_.begin_at_start(room_for(bytes))) buffer = newest_.take(bytes);
    if (newest_.oldest_has_ended()) newest_.close();
    return buffer;
  }

  /// For a buffer whose handle has become void.
  void end(Buffer& buffer) noexcept {
    buffer.set(Buffer::ended);
    if (&buffer == newest_.oldest() || !older_.empty()) newest_.close();
  }

  /// Notes that a scope opens: the position of its first buffer.
  std::uint64_t open_scope() noexcept {
    ++open_scopes_;
    return newest_.position();
  }
  /// Calls visit(buffer) for each that holds memory and is not before a position.
  template <class Visit> void each(std::uint64_t from, Visit visit) const {
    for (HeapChunk const& chunk : older_) chunk.each(from, visit);
    newest_.each(from, visit);
  }
  /// Ends the scope whose first buffer is at a position, and, by end(buffer), all buffers from
  /// there on; takes back the oldest allocations as long as ended(buffer) holds for them.
  template <class Ended, class End = EndInTable>
  void close_scope(std::uint64_t first, Ended ended, End end = {}) noexcept {
    if (newest_.position() != first) end_from(first, ended, end);
    if (--open_scopes_ == 0) newest_.close();
  }
  Buffer* find(std::byte const* byte) const {
    Buffer* buffer = newest_.find(byte);
    for (HeapChunk const& chunk : older_)
      if (buffer == nullptr) buffer = chunk.find(byte);
    return buffer;
  }
  bool overlaps(std::byte const* begin, std::size_t bytes) const {
    bool any = newest_.overlaps(begin, bytes);
    for (HeapChunk const& chunk : older_) any |= chunk.overlaps(begin, bytes);
    return any;
  }
  bool any_scope() const { return open_scopes_ != 0; }

  /// Takes back the oldest allocations as long as ended(buffer) holds for them; records of chunks
  /// that are freed go back to `source`.
  template <class Ended, class Records>
  [[gnu::always_inline]] void advance(Ended ended, Records& source) {
    note_peak();
    newest_.advance(ended);
    if (!older_.empty()) [[unlikely]]
      count_older(ended, source);
  }

  /// Takes memory from the system so that there is room. Throws OutOfMemory, std::bad_alloc.
  template <class Records> void grow(std::size_t bytes, Records& source) {
    if (newest_.records_full() && newest_.capacity() != 0 && bytes <= newest_.capacity()) {
      grow_records(source);
    } else {
      note_peak();
      older_.reserve(older_.size() + 1);
      HeapChunk chunk =
          make_some(bytes, newest_.capacity() != 0 ? 2 * newest_.capacity() : first_bytes_, source);
      if (newest_.capacity() != 0) older_.push_back(std::move(newest_));
      newest_ = std::move(chunk);
      count_older([](Buffer&) { return false; }, source);
    }
    ++growths_;
  }
  /// Room for twice as many records in the newest chunk. Throws what `source` does.
  template <class Records> void grow_records(Records& source) {
    Lender<Records> lender{*this, source};
    newest_.grow_records(lender);
  }
  void count_wait() { ++waits_; }
  std::uint64_t waits() const { return waits_; }

  /// Gives all memory back, whatever the allocations. Only the destructor comes after.
  template <class Memory> void give_memory_back(Memory& source) noexcept {
    for (HeapChunk& chunk : older_) chunk.give_memory_back(source);
    newest_.give_memory_back(source);
  }

  HeapStats stats() const {
    HeapStats stats;
    auto const add = [&](HeapChunk const& chunk) {
      stats.capacity += chunk.capacity();
      stats.used += chunk.used();
      stats.records += chunk.records();
    };
    add(newest_);
    for (HeapChunk const& chunk : older_) add(chunk);
    stats.peak = std::max(peak_, stats.used);
    stats.peak_records = std::max(peak_records_, stats.records);
    stats.growths = growths_;
    stats.waits = waits_;
    return stats;
  }

 private:
  /// Of the runtime's records those that the heap borrows, with the fields that stay.
  template <class Records> struct Lender {
    Heap& heap;
    Records& source;
    Buffer& lend() {
      Buffer& buffer = source.lend();
      buffer.native = &heap;
      buffer.lifetime = heap.lifetime_;
      buffer.place = {};
      buffer.release = {};
      buffer.scope = 0;
      buffer.last_use = {};
      return buffer;
    }
    void give_back(Buffer& buffer) noexcept { source.give_back(buffer); }
    std::byte* take_memory(std::size_t bytes) { return source.take_memory(bytes); }
    void give_memory(std::byte* memory, std::size_t bytes) noexcept {
      source.give_memory(memory, bytes);
    }
  };

  template <class Records> HeapChunk make(std::size_t bytes, Records& source) {
    std::size_t const room = room_for(bytes);
    bool const small = bytes <= support::huge_page_bytes;
    std::size_t const all = small ? 0 : support::physical_memory();
    if (room == 0 || (all != 0 && room > all)) [[unlikely]]
      throw OutOfMemory(concat("ring: a heap of ", bytes, " bytes for lifetime ",
                               name_of(lifetime_), ", and the machine has ", all,
                               " bytes of memory"));
    Lender<Records> lender{*this, source};
    return HeapChunk(room, first_records_, newest_.position(), lender);
  }
  /// As many bytes as are better, or else as are needed.
  template <class Records>
  HeapChunk make_some(std::size_t needed, std::size_t better, Records& source) {
    if (better > needed) try {
        return make(better, source);
      } catch (OutOfMemory const&) {
      }
    return make(needed, source);
  }
  template <class Ended, class End>
  [[gnu::noinline]] void end_from(std::uint64_t first, Ended ended, End end) noexcept {
    note_peak();
    newest_.end_from(first, end, ended);
    for (HeapChunk& chunk : older_) chunk.end_from(first, end, ended);
    if (newest_.oldest_has_ended() || !older_.empty())
      newest_.close();
    else
      newest_.open();
  }

  /// Between two calls of this, a heap only fills.
  void note_peak() {
    peak_ = std::max(peak_, newest_.used() + older_used_);
    peak_records_ = std::max(peak_records_, newest_.records() + older_records_);
  }

  template <class Ended, class Records>
  [[gnu::noinline]] void count_older(Ended ended, Records& source) {
    older_used_ = older_records_ = 0;
    for (std::size_t i = 0; i < older_.size();) {
      HeapChunk& chunk = older_[i];
      chunk.advance(ended);
      if (chunk.empty()) {
        chunk.give_back(source);
        older_.erase(older_.begin() + static_cast<std::ptrdiff_t>(i));
        continue;
      }
      older_used_ += chunk.used();
      older_records_ += chunk.records();
      ++i;
    }
  }

  HeapChunk newest_;
  DynamicArray<HeapChunk> older_;  // from the oldest on
  std::uint32_t open_scopes_ = 0;
  Lifetime const lifetime_;
  OnFull const on_full_;
  std::size_t const first_bytes_;
  std::uint32_t const first_records_;
  std::size_t peak_ = 0;
  std::uint64_t peak_records_ = 0;
  std::size_t older_used_ = 0;  // of the chunks behind the newest
  std::uint64_t older_records_ = 0;
  std::uint64_t growths_ = 0;
  std::uint64_t waits_ = 0;
};

}  // namespace nntile::detail::ring
