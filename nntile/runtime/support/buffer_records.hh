#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Records of buffers in chunks, and the handles that name them.

#include <time.h>

#include <cstdint>
#include <string>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/error.hh"
#include "nntile/core/heap_array.hh"
#include "nntile/runtime/support/buffer.hh"
#include "nntile/runtime/support/free_stack.hh"

namespace nntile::support {

/// Records with stable addresses, found by index without a lock. Cost of a look-up: two loads and a
/// comparison. The driving thread's, but `push`.
class BufferRecords {
 public:
  BufferRecords() : first_generation_(seed()) {}
  BufferRecords(BufferRecords const&) = delete;
  BufferRecords& operator=(BufferRecords const&) = delete;

  /// Records made so far; indices are below it.
  std::uint32_t count() const noexcept { return count_; }
  Buffer& operator[](std::uint32_t index) const noexcept { return all()[index]; }
  /// The same for many look-ups in a row, while no record is made.
  class All {
   public:
    explicit All(HeapArray<Buffer> const* chunks) : chunks_(chunks) {}
    Buffer& operator[](std::uint32_t index) const noexcept {
      return chunks_[index >> chunk_bits][index & chunk_mask];
    }

   private:
    HeapArray<Buffer> const* chunks_;
  };
  All all() const noexcept { return All(chunks_.data()); }

  /// The record of a handle; null for one that is default, foreign or retired.
  Buffer* find(DataHandle handle) const noexcept {
    if (handle.index >= count_) return nullptr;
    Buffer& buffer = (*this)[handle.index];
    return buffer.generation == handle.generation ? &buffer : nullptr;
  }
  /// Says why `find` finds no record.
  [[noreturn]] void fail_find(DataHandle handle, std::string const& call) const {
    if (handle == DataHandle{})
      throw LifetimeError(concat(call, ": the handle is empty: it was never allocated"));
    std::uint32_t const generation =
        handle.index < count_ ? (*this)[handle.index].generation : handle.generation;
    bool const retired =
        generation != handle.generation && generation - handle.generation < remembered;
    if (retired)
      throw LifetimeError(concat(call, ": buffer ", handle.index,
                                 " was retired, or its scope closed, before this call"));
    throw LifetimeError(
        concat(call, ": the handle belongs to another runtime, or was retired long ago"));
  }

  /// A record for a buffer. Throws OutOfMemory, std::bad_alloc.
  Buffer& take() {
    if (Buffer* const buffer = free_.pop()) [[likely]] {
      buffer->native = nullptr;
      return *buffer;
    }
    return make();
  }
  /// Makes records before buffers need them. Throws as `take` does.
  void reserve(std::uint32_t records) {
    for (std::uint32_t i = 0; i < records; ++i) free_.put_back(make());
  }
  /// Times that memory was taken.
  std::uint64_t growths() const noexcept { return chunks_.size(); }
  /// Gives one back: on any thread; on the driving thread.
  void push(Buffer& buffer) noexcept { free_.push(buffer); }
  void put_back(Buffer& buffer) noexcept { free_.put_back(buffer); }

 private:
  static constexpr std::uint32_t chunk_bits = 8;  // 256 records, 32 KiB
  static constexpr std::uint32_t chunk_mask = (1u << chunk_bits) - 1;
  /// Handles up to 1,024 generations old are reported as retired; a foreign handle is misreported
  /// with probability 2^-22.
  static constexpr std::uint32_t remembered = 1u << 10;

  /// The first generation, random for each table, so that handles of another runtime are detected
  /// with high probability.
  std::uint32_t seed() const noexcept {
    timespec now{};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    auto mixed = reinterpret_cast<std::uintptr_t>(this) ^
                 (static_cast<std::uint64_t>(now.tv_nsec) << 32) ^
                 static_cast<std::uint64_t>(now.tv_sec);
    mixed =
        (mixed ^ (mixed >> 31)) * 0x9e3779b97f4a7c15u;  // Fibonacci hashing: 2^64 / golden ratio
    return static_cast<std::uint32_t>(mixed >> 32);
  }
  [[gnu::noinline]] Buffer& make() {
    if ((count_ & chunk_mask) == 0) {
      if (count_ == UINT32_MAX - chunk_mask) throw OutOfMemory("allocate: 2^32 buffers are in use");
      chunks_.push_back(HeapArray<Buffer>(chunk_mask + 1));
    }
    Buffer& buffer = (*this)[count_];
    buffer.index = count_++;
    buffer.generation = first_generation_;
    return buffer;
  }

  std::uint32_t first_generation_;
  std::uint32_t count_ = 0;
  DynamicArray<HeapArray<Buffer>> chunks_;
  FreeStack<Buffer> free_;
};

}  // namespace nntile::support
