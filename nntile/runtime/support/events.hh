#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The set of ended tasks of a runtime whose tasks end out of order.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/threads.hh"

namespace nntile::support {

/// The sequences that have ended, one bit each, in blocks that are freed when full: one open task
/// pins one block, however many tasks follow it.
///
/// Use by a runtime: the driver calls begin(sequence) for 1, 2, 3, ... and keeps the block
/// with the task; the thread that ends the task calls end(block, sequence), seq_cst; any thread may
/// call has_ended(sequence).
class Events {
 public:
  static constexpr std::uint64_t block_size = 4096;

  class Block {
    friend class Events;
    std::uint64_t number = 0;
    std::atomic<std::uint32_t> open_words{0};
    alignas(64) std::atomic<std::uint64_t> words[block_size / 64]{};
  };

  /// The block of a new sequence, one more than the last. Throws std::bad_alloc, having changed
  /// nothing.
  Block& begin(std::uint64_t sequence) {
    if (newest_ == nullptr || newest_->number != number_of(sequence))
      add_block(number_of(sequence));
    return *newest_;
  }

  /// Notes the end of a task; any thread. Cost: one atomic operation, on one of 8 lines in turn.
  void end(Block& block, std::uint64_t sequence) noexcept {
    std::uint64_t const bit = bit_of(sequence);
    std::uint64_t const others =
        block.words[word_of(sequence)].fetch_or(bit, std::memory_order_seq_cst);
    if ((others | bit) == UINT64_MAX &&
        block.open_words.fetch_sub(1, std::memory_order_acq_rel) == 1)
      remove(block);
  }

  /// Whether the task has ended; its effects are visible then. 0 has; what has not begun has not.
  /// Any thread.
  bool has_ended(std::uint64_t sequence) const {
    if (sequence == 0) return true;
    detail::Lock guard(mutex_);
    std::uint64_t const number = number_of(sequence);
    std::size_t const at = position_of(number);
    if (at == open_.size() || open_[at]->number != number) return number < next_number_;
    return (open_[at]->words[word_of(sequence)].load(std::memory_order_seq_cst) &
            bit_of(sequence)) != 0;
  }

 private:
  static std::uint64_t number_of(std::uint64_t sequence) noexcept {
    return (sequence - 1) / block_size;
  }
  /// Neighbouring sequences are in different lines: tasks that run side by side end without sharing
  /// one.
  static std::uint64_t word_of(std::uint64_t sequence) noexcept {
    std::uint64_t const position = (sequence - 1) % block_size;
    return ((position & 7) << 3) | ((position >> 3) & 7);
  }
  static std::uint64_t bit_of(std::uint64_t sequence) noexcept {
    return std::uint64_t{1} << ((sequence - 1) % block_size >> 6);
  }
  /// The position in `open_` of the block of that number, or of its insertion.
  std::size_t position_of(std::uint64_t number) const noexcept {
    std::size_t low = 0, high = open_.size();
    while (low < high) {
      std::size_t const middle = (low + high) / 2;
      if (open_[middle]->number < number)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }

  void add_block(std::uint64_t number) {
    detail::Lock guard(mutex_);
    spare_.reserve(open_.size() + spare_.size() + 1);  // so that removing never allocates
    if (spare_.empty()) spare_.push_back(std::make_unique<Block>());
    open_.reserve(open_.size() + 1);
    Block& block = *spare_.back();
    block.number = number;
    block.open_words.store(block_size / 64, std::memory_order_relaxed);
    for (auto& word : block.words) word.store(0, std::memory_order_relaxed);
    open_.push_back(static_cast<std::unique_ptr<Block>&&>(spare_.back()));
    spare_.pop_back();
    newest_ = &block;
    next_number_ = number + 1;
  }

  void remove(Block const& block) noexcept {
    detail::Lock guard(mutex_);
    std::size_t const at = position_of(block.number);
    spare_.push_back(static_cast<std::unique_ptr<Block>&&>(open_[at]));
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  Block* newest_ = nullptr;  // the driver's
  mutable detail::Mutex mutex_;
  std::uint64_t next_number_ = 0;
  DynamicArray<std::unique_ptr<Block>> open_;  // ascending numbers
  DynamicArray<std::unique_ptr<Block>> spare_;
};

}  // namespace nntile::support
