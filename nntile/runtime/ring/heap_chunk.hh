#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A ring of bytes, given out in order and taken back in order.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "nntile/core/heap_array.hh"
#include "nntile/runtime/support/aligned.hh"
#include "nntile/runtime/support/buffer.hh"

namespace nntile::detail::ring {

/// Memory for buffers, and a record of each in a ring of their own, apart from task slots. One
/// thread's; no atomics.
///
/// Law: cursors count bytes and never decrease; an allocation is contiguous, so that what is left
/// at the end may be skipped; a chunk without allocations begins anew at offset 0.
class HeapChunk {
 public:
  /// `bytes` is a multiple of 64 and not 0, `records` at least 1. Throws OutOfMemory,
  /// std::bad_alloc.
  HeapChunk(std::size_t bytes, std::uint32_t records)
      : capacity_(bytes),
        record_mask_(std::bit_ceil(records) - 1),
        records_(std::size_t{record_mask_} + 1),
        memory_(static_cast<std::byte*>(support::allocate_aligned(bytes))) {}
  HeapChunk(HeapChunk const&) = delete;
  HeapChunk& operator=(HeapChunk const&) = delete;
  ~HeapChunk() { support::free_aligned(memory_); }

  /// Gives `bytes` out, a multiple of 64 and not 0, to a buffer; null without room.
  void* take(std::size_t bytes, support::Buffer& buffer) {
    if (bytes > in_one_piece_ || records_full()) [[unlikely]]
      if (!skip_the_end(bytes)) return nullptr;
    if (empty()) oldest_buffer_ = &buffer;
    records_[newest_++ & record_mask_] = {head_, &buffer};
    void* const pointer = memory_ + (head_ - origin_);
    head_ += bytes;
    in_one_piece_ -= bytes;
    return pointer;
  }

  /// Takes back the oldest allocations as long as ended(buffer) holds for them.
  template <class Ended> void advance(Ended ended) {
    if (empty() || !ended(*oldest())) return;
    do ++oldest_;
    while (!empty() && ended(*records_[oldest_ & record_mask_].buffer));
    if (empty()) {
      tail_ = origin_ = head_;
    } else {
      tail_ = records_[oldest_ & record_mask_].start;
      oldest_buffer_ = records_[oldest_ & record_mask_].buffer;
    }
    std::size_t const free = capacity_ - used(), end = capacity_ - (head_ - origin_);
    in_one_piece_ = free < end ? free : end;
  }

  /// Room for twice as many records. Throws std::bad_alloc.
  void grow_records() {
    std::uint64_t const mask = 2 * record_mask_ + 1;
    HeapArray<Record> records(mask + 1);
    for (std::uint64_t i = oldest_; i != newest_; ++i)
      records[i & mask] = records_[i & record_mask_];
    records_ = static_cast<HeapArray<Record>&&>(records);
    record_mask_ = mask;
  }

  bool empty() const { return oldest_ == newest_; }
  bool records_full() const { return newest_ - oldest_ > record_mask_; }
  /// The owner of the oldest allocation, which holds up all others.
  support::Buffer* oldest() const { return oldest_buffer_; }
  std::size_t capacity() const { return capacity_; }
  std::uint64_t records() const { return newest_ - oldest_; }
  std::uint64_t record_capacity() const { return record_mask_ + 1; }
  /// Bytes from the oldest allocation to the newest, skipped ones included.
  std::size_t used() const { return head_ - tail_; }
  /// The largest allocation that there is room for.
  std::size_t available() const {
    std::size_t const free = capacity_ - used(), end = capacity_ - (head_ - origin_);
    if (records_full()) return 0;
    if (free <= end) return free;
    return end > free - end ? end : free - end;
  }
  /// One that gives nothing out any more.
  std::unique_ptr<HeapChunk> older;

  /// Calls visit(buffer) for the owner of each allocation, from the oldest on.
  template <class Visit> void each(Visit visit) const {
    for (std::uint64_t i = oldest_; i != newest_; ++i) visit(*records_[i & record_mask_].buffer);
  }

 private:
  struct Record {
    std::uint64_t start;
    support::Buffer* buffer;
  };

  /// Goes on at offset 0, if `bytes` have room there.
  [[gnu::noinline]] bool skip_the_end(std::size_t bytes) {
    std::size_t const end = capacity_ - (head_ - origin_), free = capacity_ - used();
    if (records_full() || bytes <= end || free <= end || bytes > free - end) return false;
    head_ = origin_ = origin_ + capacity_;
    in_one_piece_ = free - end;
    return true;
  }

  std::uint64_t head_ = 0;    // end of the newest allocation
  std::uint64_t origin_ = 0;  // what lies at offset 0, for the newest allocation
  std::uint64_t tail_ = 0;    // start of the oldest allocation
  std::size_t const capacity_;
  std::size_t in_one_piece_ = capacity_;  // from the head on: up to the end, or the tail
  support::Buffer* oldest_buffer_ = nullptr;
  std::uint64_t oldest_ = 0;  // positions of records
  std::uint64_t newest_ = 0;
  std::uint64_t record_mask_;
  HeapArray<Record> records_;
  std::byte* const memory_;
};

}  // namespace nntile::detail::ring
