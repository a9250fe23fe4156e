#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The memory of one lifetime: a chunk, or several while it grows.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "nntile/core/error.hh"
#include "nntile/runtime/ring/heap_chunk.hh"
#include "nntile/runtime/ring/heap_options.hh"

namespace nntile::detail::ring {

/// Buffers of one lifetime. The submitter's alone.
///
/// Law: the newest chunk gives memory out; older ones are freed when their last allocation has
/// come back. A heap that may not grow has one chunk.
class Heap {
 public:
  /// Memory that is given is taken now; else `first_bytes` with the first allocation. Throws
  /// ValueError (no capacity where it may not grow), OutOfMemory.
  Heap(Lifetime lifetime, HeapCapacity const& capacity, std::size_t first_bytes,
       std::uint32_t records)
      : lifetime_(lifetime),
        on_full_(capacity.on_full),
        first_bytes_(first_bytes),
        first_records_(records) {
    if (capacity.bytes != 0)
      newest_ = make(capacity.bytes);
    else if (on_full_ != OnFull::grow)
      throw ValueError(concat("ring: the heap of lifetime ", name_of(lifetime),
                              " may not grow, and needs a capacity: HeapOptions"));
  }

  Lifetime lifetime() const { return lifetime_; }
  OnFull on_full() const { return on_full_; }
  HeapChunk const* newest() const { return newest_.get(); }

  /// `bytes` rounded up to what an allocation takes; 0 if it is more than any memory.
  static std::size_t room_for(std::size_t bytes) {
    if (bytes > static_cast<std::size_t>(PTRDIFF_MAX)) return 0;
    return (bytes + support::line_bytes - 1) & ~(support::line_bytes - 1);
  }

  /// Gives out `bytes`, a result of room_for; null without room.
  [[gnu::always_inline]] void* take(std::size_t bytes, support::Buffer& buffer) {
    if (newest_ == nullptr) [[unlikely]]
      return nullptr;
    return newest_->take(bytes, buffer);
  }

  /// Takes back the oldest allocations as long as ended(buffer) holds for them.
  template <class Ended> void advance(Ended ended) {
    if (newest_ == nullptr) return;
    bool const some = !newest_->empty() && newest_->oldest()->is(support::Buffer::ended);
    if (some || newest_->older != nullptr) advance_some(ended);
  }

  /// Takes memory from the system so that there is room. Throws OutOfMemory, std::bad_alloc.
  void grow(std::size_t bytes) {
    bool const small = newest_ != nullptr && bytes <= newest_->capacity();
    if (small && newest_->records_full()) {
      newest_->grow_records();
    } else {
      note_peak();
      auto chunk = make_some(bytes, newest_ != nullptr ? 2 * newest_->capacity() : first_bytes_);
      chunk->older = std::exchange(newest_, nullptr);
      newest_ = static_cast<std::unique_ptr<HeapChunk>&&>(chunk);
      count_older([](support::Buffer&) { return false; });
    }
    ++growths_;
  }
  void count_wait() { ++waits_; }

  HeapStats stats() const {
    HeapStats stats;
    for (HeapChunk const* chunk = newest_.get(); chunk != nullptr; chunk = chunk->older.get()) {
      stats.capacity += chunk->capacity();
      stats.used += chunk->used();
      stats.records += chunk->records();
    }
    stats.peak = std::max(peak_, stats.used);
    stats.peak_records = std::max(peak_records_, stats.records);
    stats.growths = growths_;
    stats.waits = waits_;
    return stats;
  }

 private:
  std::unique_ptr<HeapChunk> make(std::size_t bytes) const {
    std::size_t const room = room_for(bytes), all = support::physical_memory();
    if (room == 0 || (all != 0 && room > all)) [[unlikely]]
      throw OutOfMemory(concat("ring: a heap of ", bytes, " bytes for lifetime ",
                               name_of(lifetime_), ", and the machine has ", all,
                               " bytes of memory"));
    return std::make_unique<HeapChunk>(room, first_records_);
  }
  /// As many bytes as are better, or else as are needed.
  std::unique_ptr<HeapChunk> make_some(std::size_t needed, std::size_t better) const {
    if (better > needed) try {
        return make(better);
      } catch (OutOfMemory const&) {
      }
    return make(needed);
  }

  /// Between two calls of this, a heap only fills.
  void note_peak() {
    if (newest_ == nullptr) return;
    peak_ = std::max(peak_, newest_->used() + older_used_);
    peak_records_ = std::max(peak_records_, newest_->records() + older_records_);
  }

  template <class Ended> [[gnu::noinline]] void advance_some(Ended ended) {
    note_peak();
    newest_->advance(ended);
    if (newest_->older != nullptr) [[unlikely]]
      count_older(ended);
  }

  template <class Ended> [[gnu::noinline]] void count_older(Ended ended) {
    older_used_ = older_records_ = 0;
    for (std::unique_ptr<HeapChunk>* place = &newest_->older; *place != nullptr;) {
      HeapChunk& chunk = **place;
      chunk.advance(ended);
      if (chunk.empty()) {
        *place = static_cast<std::unique_ptr<HeapChunk>&&>(chunk.older);
        continue;
      }
      older_used_ += chunk.used();
      older_records_ += chunk.records();
      place = &chunk.older;
    }
  }

  Lifetime const lifetime_;
  OnFull const on_full_;
  std::size_t const first_bytes_;
  std::uint32_t const first_records_;
  std::unique_ptr<HeapChunk> newest_;
  std::size_t peak_ = 0;
  std::uint64_t peak_records_ = 0;
  std::size_t older_used_ = 0;  // of the chunks behind the newest
  std::uint64_t older_records_ = 0;
  std::uint64_t growths_ = 0;
  std::uint64_t waits_ = 0;
};

}  // namespace nntile::detail::ring
