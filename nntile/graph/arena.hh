#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The memory block behind the slots of a compiled graph.

#include <atomic>
#include <cstddef>
#include <memory>

#include "nntile/runtime/common/aligned.hh"

namespace nntile::detail {

/// The memory of an arena, freed with the release of the last slot that was adopted from it.
class ArenaBlock {
 public:
  /// Throws OutOfMemory.
  static std::byte* allocate(std::size_t bytes, std::size_t slots, ArenaBlock*& block) {
    std::unique_ptr<ArenaBlock> made(new ArenaBlock(slots));
    made->memory_ = common::allocate_aligned(bytes);
    block = made.release();
    return static_cast<std::byte*>(block->memory_);
  }
  /// Drops one slot's share; the `Release` of an adopted slot.
  static void release(void* state) noexcept { release(state, 1); }
  static void release(void* state, std::size_t slots) noexcept {
    auto* const block = static_cast<ArenaBlock*>(state);
    if (block->left_.fetch_sub(slots, std::memory_order_acq_rel) == slots) delete block;
  }
  ~ArenaBlock() { common::free_aligned(memory_); }

 private:
  explicit ArenaBlock(std::size_t slots) : left_(slots) {}
  void* memory_ = nullptr;
  std::atomic<std::size_t> left_;
};

}  // namespace nntile::detail
