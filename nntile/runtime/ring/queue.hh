#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Ready tasks that any worker may take, first in, first out.

#include <cstdint>
#include <memory>

#include "nntile/runtime/ring/policy.hh"

namespace nntile::detail::ring {

/// A bounded queue for many producers and consumers. Holds full ids, never slots: a slot could have
/// been reused. Consumers write no cell, so that a producer's line comes back to it unchanged.
///
/// Law: a task is in one queue at most, and in the window from its push to its end. Between the
/// push of one task and the end of its pop, at most 2 * window - 2 others are pushed, so no cell is
/// overwritten that is still to be read, and `push` always finds room.
template <class Policy> class ReadyQueue {
  template <class T> using Atomic = typename Policy::template Atomic<T>;
  static constexpr std::uint32_t capacity = 2 * Policy::Sizes::window;
  static constexpr std::uint32_t first = 0xffffff00u;  // so that every run sees positions wrap

 public:
  ReadyQueue() : cells_(std::make_unique<Atomic<std::uint64_t>[]>(capacity)) {
    for (std::uint32_t i = 0; i < capacity; ++i)
      cells_[(first + i) & (capacity - 1)].store(word(first + i - capacity, 0),
                                                 std::memory_order_relaxed);
  }

  void push(std::uint32_t id) {
    // The claim is sequentially consistent: see `empty`.
    std::uint32_t const position = tail_.fetch_add(1, std::memory_order_seq_cst);
    cells_[position & (capacity - 1)].store(word(position, id), std::memory_order_release);
  }

  bool pop(std::uint32_t& id) {
    std::uint32_t position = head_.load(std::memory_order_acquire);
    for (;;) {
      std::uint64_t const cell = cells_[position & (capacity - 1)].load(std::memory_order_acquire);
      auto const distance =
          static_cast<std::int32_t>(static_cast<std::uint32_t>(cell >> 32) - position);
      if (distance < 0) return false;  // empty, or its push is not finished
      if (distance > 0) {              // popped long ago
        position = head_.load(std::memory_order_acquire);
      } else if (head_.compare_exchange_weak(position, position + 1, std::memory_order_seq_cst,
                                             std::memory_order_acquire)) {
        id = static_cast<std::uint32_t>(cell);
        return true;
      }
    }
  }

  /// Whether nothing has been claimed by a push and not by a pop. An idle worker that announced
  /// itself before it asks is seen by every push that this does not see.
  bool empty() const {
    std::uint32_t const head = head_.load(std::memory_order_seq_cst);
    return static_cast<std::int32_t>(tail_.load(std::memory_order_seq_cst) - head) <= 0;
  }

 private:
  static constexpr std::uint64_t word(std::uint32_t position, std::uint32_t id) {
    return std::uint64_t{position} << 32 | id;
  }

  std::unique_ptr<Atomic<std::uint64_t>[]> cells_;
  alignas(apart) Atomic<std::uint32_t> head_{first};
  alignas(apart) Atomic<std::uint32_t> tail_{first};
};

}  // namespace nntile::detail::ring
