#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A ring of bytes and a ring of records, given out in order and taken back in order.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "nntile/core/heap_array.hh"
#include "nntile/runtime/support/aligned.hh"
#include "nntile/runtime/support/buffer.hh"

namespace nntile::detail::ring {

/// Memory for buffers, and their records, which stay the chunk's: what does not change from one
/// buffer to the next is filled in beforehand. One thread's; no atomics.
///
/// Law: positions count buffers and never decrease; an allocation is contiguous, so that what is
/// left at the end may be skipped; a chunk without allocations begins anew with its first byte and
/// its first record. Between `open` and `close` both cursors, of bytes and of records, only advance
/// to limits that stay: what else there may be is found by the next `open`.
class HeapChunk {
 public:
  using Buffer = support::Buffer;

  /// Has no memory.
  HeapChunk() = default;
  /// `bytes` is a multiple of 64 and not 0, `records` at least 1; position `first` is that of the
  /// first buffer. lend() returns a record, give_back(buffer) is called for those that were lent if
  /// another throws; take_memory(bytes) is a block of allocate_aligned, given to give_memory(block,
  /// bytes) if something throws. Throws what these do, std::bad_alloc.
  template <class Records>
  HeapChunk(std::size_t bytes, std::uint32_t records, std::uint64_t first, Records& source)
      : base_(first), oldest_(first), capacity_(bytes), memory_(source.take_memory(bytes)) {
    try {
      enlarge(std::bit_ceil(records), source);
    } catch (...) {
      give_memory_back(source);
      throw;
    }
    begin_anew();
  }
  HeapChunk(HeapChunk&& other) noexcept { swap(other); }
  HeapChunk& operator=(HeapChunk&& other) noexcept {
    HeapChunk old(std::move(other));
    swap(old);
    return *this;
  }
  ~HeapChunk() { support::free_aligned(memory_); }

  /// Gives out memory and a record for an unwritten buffer; null if it is closed, for 0 bytes, or
  /// where a limit is reached.
  [[gnu::always_inline]] Buffer* take(std::size_t bytes) noexcept {
    std::size_t const last = (bytes - 1) | (support::line_bytes - 1);  // 0 bytes: SIZE_MAX
    std::byte* const start = cursor_;
    Buffer** const record = next_;
    if (last >= distance(start, end_) || record == last_) [[unlikely]]
      return nullptr;
    Buffer* const buffer = *record;
    next_ = record + 1;
    cursor_ = start + last + 1;
    buffer->pointer = start;
    buffer->bytes = bytes;
    return buffer;
  }
  /// From here on `take` gives nothing out.
  void close() noexcept { end_ = cursor_; }
  /// From here on it gives out what it has in one piece, and the records up to the last.
  void open() noexcept {
    set_position(position());
    bool const all_free = oldest_ >= base_;
    last_ = records_.get() + (all_free ? record_capacity() : oldest_ & mask_);
    end_ = cursor_ + in_one_piece();
  }
  /// The same from the first byte on, if `bytes` have room there and not where it is.
  bool begin_at_start(std::size_t bytes) noexcept {
    if (bytes == 0 || bytes <= in_one_piece() || bytes > available()) return false;
    cursor_ = memory_;
    open();
    return true;
  }

  /// Takes back the oldest allocations as long as ended(buffer) holds for them. An empty chunk is
  /// open then.
  template <class Ended> void advance(Ended ended) {
    std::uint64_t const newest = position();
    while (oldest_ != newest && ended(*records_[oldest_ & mask_])) take_back_oldest();
    oldest_ == newest ? begin_anew() : note_oldest();
  }

  /// The same after end(buffer) has been called for each that is not before a position and has not
  /// ended.
  template <class End, class Ended> void end_from(std::uint64_t from, End end, Ended ended) {
    advance(ended);
    bool oldest = true;
    std::uint64_t const newest = position();
    for (std::uint64_t i = from > oldest_ ? from : oldest_; i < newest; ++i) {
      Buffer& buffer = *records_[i & mask_];
      if (!buffer.is(Buffer::ended)) end(buffer);
      oldest = oldest && i == oldest_ && ended(buffer);
      if (oldest) take_back_oldest();
    }
    advance([](Buffer const&) { return false; });
  }

  /// Room for twice as many records. Throws what `source` does.
  template <class Records> void grow_records(Records& source) {
    enlarge(2 * (mask_ + 1), source);
    open();
  }
  /// Calls give_back(buffer) for each record, and give_memory(block, bytes): it has no allocations,
  /// and gives out no more.
  template <class Records> void give_back(Records& source) noexcept {
    for (std::uint64_t i = 0; i <= mask_; ++i) source.give_back(*records_[i]);
    give_memory_back(source);
  }
  /// The same for the memory alone, whatever the allocations. Only the destructor comes after.
  template <class Memory> void give_memory_back(Memory& source) noexcept {
    if (memory_ != nullptr) source.give_memory(std::exchange(memory_, nullptr), capacity_);
  }

  bool empty() const { return oldest_ == position(); }
  bool records_full() const { return records() == record_capacity(); }
  /// The owner of the oldest allocation, which holds up all others. Of an empty chunk: the next
  /// record; null without memory.
  Buffer* oldest() const { return oldest_buffer_; }
  bool oldest_has_ended() const { return !empty() && oldest_buffer_->is(Buffer::ended); }
  std::uint64_t oldest_position() const { return oldest_; }
  /// That of the next buffer.
  std::uint64_t position() const {
    return base_ + static_cast<std::uint64_t>(next_ - records_.get());
  }
  std::size_t capacity() const { return capacity_; }
  std::uint64_t records() const { return position() - oldest_; }
  std::uint64_t record_capacity() const { return records_.get() == nullptr ? 0 : mask_ + 1; }
  /// Bytes from the oldest allocation to the newest, skipped ones included.
  std::size_t used() const {
    if (empty()) return 0;
    return tail() < cursor_ ? distance(tail(), cursor_) : capacity_ - distance(cursor_, tail());
  }
  /// The largest allocation that there is room for.
  std::size_t available() const {
    if (records_full()) return 0;
    std::size_t const end = in_one_piece();
    if (empty() || tail() >= cursor_) return end;
    std::size_t const start = distance(memory_, tail());
    return end > start ? end : start;
  }

  /// Whether some of its memory is among these bytes.
  bool overlaps(std::byte const* begin, std::size_t bytes) const {
    auto const at = reinterpret_cast<std::uintptr_t>(begin);
    auto const own = reinterpret_cast<std::uintptr_t>(memory_);
    return bytes != 0 && at < own + capacity_ && own < at + bytes;
  }
  /// The owner of a byte; null if it has none. Cost: O(log n): from the oldest on, allocations
  /// follow each other round the chunk.
  Buffer* find(std::byte const* byte) const {
    if (empty() || !overlaps(byte, 1)) return nullptr;
    auto const turn = [&](void const* pointer) {
      auto const* const at = static_cast<std::byte const*>(pointer);
      return at >= tail() ? distance(tail(), at) : capacity_ - distance(at, tail());
    };
    std::uint64_t low = oldest_, high = position();  // low begins at or before the byte
    while (high - low > 1) {
      std::uint64_t const middle = low + (high - low) / 2;
      (turn(records_[middle & mask_]->pointer) <= turn(byte) ? low : high) = middle;
    }
    Buffer& buffer = *records_[low & mask_];
    auto const* const begin = static_cast<std::byte const*>(buffer.pointer);
    bool const holds = byte >= begin && distance(begin, byte) < buffer.bytes;
    return holds && !buffer.is(Buffer::ended) ? &buffer : nullptr;
  }

  /// Calls visit(buffer) for the owner of each allocation that is not before a position, from the
  /// oldest on.
  template <class Visit> void each(std::uint64_t from, Visit visit) const {
    for (std::uint64_t i = from > oldest_ ? from : oldest_; i < position(); ++i)
      visit(*records_[i & mask_]);
  }

 private:
  static std::size_t distance(std::byte const* from, std::byte const* to) {
    return static_cast<std::size_t>(to - from);
  }
  std::byte const* tail() const { return static_cast<std::byte const*>(oldest_buffer_->pointer); }
  /// From the cursor on: up to the end, or the tail.
  std::size_t in_one_piece() const {
    if (records_full()) return 0;
    if (empty()) return capacity_;
    return tail() < cursor_ ? distance(cursor_, memory_ + capacity_) : distance(cursor_, tail());
  }
  /// Moves the cursor of records, from behind the last to the first where it is there.
  void set_position(std::uint64_t position) {
    base_ = position & ~mask_;
    next_ = records_.get() + (position & mask_);
  }
  /// Its record is as that of an unwritten buffer from here on.
  void take_back_oldest() { records_[oldest_++ & mask_]->state = unwritten; }
  void begin_anew() {
    oldest_ = base_ = (position() + mask_) & ~mask_;
    next_ = records_.get();
    last_ = next_ + record_capacity();
    cursor_ = memory_;
    end_ = memory_ + capacity_;
    note_oldest();
  }
  void note_oldest() { oldest_buffer_ = memory_ != nullptr ? records_[oldest_ & mask_] : nullptr; }

  /// `count` is a power of two. Records keep their positions.
  template <class Records> void enlarge(std::uint64_t count, Records& source) {
    HeapArray<Buffer*> records(count);
    std::uint64_t const had = record_capacity(), newest = position();
    std::uint64_t lent = had;
    try {
      for (; lent < count; ++lent) {
        Buffer& buffer = source.lend();
        buffer.state = unwritten;
        records[(oldest_ + lent) & (count - 1)] = &buffer;
      }
    } catch (...) {
      while (lent-- > had) source.give_back(*records[(oldest_ + lent) & (count - 1)]);
      throw;
    }
    for (std::uint64_t i = 0; i < had; ++i)
      records[(oldest_ + i) & (count - 1)] = records_[(oldest_ + i) & mask_];
    records_ = std::move(records);
    mask_ = count - 1;
    set_position(newest);
    note_oldest();
  }

  void swap(HeapChunk& other) noexcept {
    std::swap(cursor_, other.cursor_);
    std::swap(end_, other.end_);
    std::swap(next_, other.next_);
    std::swap(last_, other.last_);
    std::swap(records_, other.records_);
    std::swap(mask_, other.mask_);
    std::swap(base_, other.base_);
    std::swap(oldest_buffer_, other.oldest_buffer_);
    std::swap(oldest_, other.oldest_);
    std::swap(capacity_, other.capacity_);
    std::swap(memory_, other.memory_);
  }

  static constexpr Buffer::State unwritten = Buffer::unwritten | Buffer::in_use;

  // State of `take`.
  std::byte* cursor_ = nullptr;  // end of the newest allocation
  std::byte* end_ = nullptr;     // of what is there in one piece; the cursor while closed
  Buffer** next_ = nullptr;      // record of the next buffer
  Buffer** last_ = nullptr;      // behind the last record that is known to be free

  HeapArray<Buffer*> records_;
  std::uint64_t mask_ = 0;
  std::uint64_t base_ = 0;  // position of the first record, where `next_` is
  Buffer* oldest_buffer_ = nullptr;
  std::uint64_t oldest_ = 0;
  std::size_t capacity_ = 0;
  std::byte* memory_ = nullptr;
};

}  // namespace nntile::detail::ring
