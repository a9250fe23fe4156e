#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The memory that bodies are lent while they run.
//
// Use by a runtime: it holds one `Workspaces` of as many blocks as it runs bodies at a time,
// and says `workspace_bytes() const { return max_workspace_bytes; }`. Threads that are numbered
// lend the body their own block, `workspaces[number]`; others lend `Loan(workspaces,
// codelet).block()` while the loan lives. The block goes to `run_body` (run_body.hh), or into
// KernelCall::workspace.

#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "nntile/core/codelet.hh"
#include "nntile/core/error.hh"
#include "nntile/core/heap_array.hh"

namespace nntile::support {

/// Blocks of max_workspace_bytes. Mapped by the constructor and touched by kernels alone, so that
/// memory is taken where they run, and only what they need.
class Workspaces {
 public:
  /// Throws OutOfMemory.
  explicit Workspaces(std::size_t count)
      : count_(count), free_(words()), blocks_(map(count * max_workspace_bytes)) {
    if (blocks_ == nullptr)
      throw OutOfMemory(concat("workspaces: ", count, " of ", max_workspace_bytes,
                               " bytes cannot be mapped; ask for fewer workers, or raise the limit "
                               "of this process (ulimit -v)"));
    for (std::size_t i = 0; i < count; ++i)
      free_[i / 64].fetch_or(bit(i), std::memory_order_relaxed);
  }
  Workspaces(Workspaces const&) = delete;
  Workspaces& operator=(Workspaces const&) = delete;
  ~Workspaces() { unmap(blocks_, count_ * max_workspace_bytes); }

  /// The block of a thread that has a number of its own, below `count`.
  void* operator[](std::size_t number) const noexcept {
    return blocks_ + number * max_workspace_bytes;
  }

  /// A block for the time of one body, if its CPU entry needs one; from any thread, without
  /// waiting. Where more bodies run than there are blocks, one is mapped; null if there is no
  /// memory.
  class Loan {
   public:
    Loan(Workspaces& from, Codelet const& codelet) noexcept
        : from_(from),
          block_(codelet.workspace != 0 && codelet.cpu != nullptr ? from.take() : nullptr) {}
    Loan(Loan const&) = delete;
    Loan& operator=(Loan const&) = delete;
    ~Loan() {
      if (block_ != nullptr) from_.give(block_);
    }
    void* block() const noexcept { return block_; }

   private:
    Workspaces& from_;
    std::byte* const block_;
  };

 private:
  static std::uint64_t bit(std::size_t number) noexcept { return std::uint64_t{1} << number % 64; }
  static std::byte* map(std::size_t bytes) noexcept {
    void* const at =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
  }
  static void unmap(std::byte* at, std::size_t bytes) noexcept { (void)munmap(at, bytes); }
  std::size_t words() const noexcept { return (count_ + 63) / 64; }

  /// The free block at or after the thread's own place: the one that it had last time, as a rule,
  /// which is in its caches and on its memory node.
  std::byte* take() noexcept {
    std::size_t const place = place_of_thread();
    for (std::size_t w = 0; w < words(); ++w) {
      std::size_t const number = (place / 64 + w) % words();
      std::uint64_t free = free_[number].load(std::memory_order_relaxed);
      while (free != 0) {
        int const first = static_cast<int>(place % 64);
        std::size_t const at =
            static_cast<std::size_t>(first + std::countr_zero(std::rotr(free, first))) % 64;
        if (free_[number].compare_exchange_weak(free, free & ~bit(at), std::memory_order_acquire,
                                                std::memory_order_relaxed))
          return blocks_ + (number * 64 + at) * max_workspace_bytes;
      }
    }
    return map(max_workspace_bytes);
  }
  void give(std::byte* block) noexcept {
    // A block that was mapped for this loan alone may lie anywhere.
    auto const offset =
        std::bit_cast<std::uintptr_t>(block) - std::bit_cast<std::uintptr_t>(blocks_);
    std::size_t const number = offset / max_workspace_bytes;
    if (number >= count_) return unmap(block, max_workspace_bytes);
    free_[number / 64].fetch_or(bit(number), std::memory_order_release);
  }
  std::size_t place_of_thread() const noexcept {
    auto const thread = std::bit_cast<std::uintptr_t>(pthread_self());  // a number or a pointer
    return ((thread >> 6) * 0x9e3779b97f4a7c15u >> 32) % count_;
  }

  std::size_t const count_;
  HeapArray<std::atomic<std::uint64_t>> free_;  // a bit a block
  std::byte* const blocks_;
};

}  // namespace nntile::support
