#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Ready tasks that any worker may take, first in, first out.

#include <bit>
#include <cstdint>
#include <memory>

#include "nntile/runtime/ring/policy.hh"

namespace nntile::detail::ring {

/// A bounded queue for many producers and consumers. Holds full ids, never slots: a slot could have
/// been reused.
///
/// Law: it has room for every slot of the window, and a task is in one queue at most, so `push`
/// always finds room. Source: D. Vyukov's array queue; a cell's turn says whose it is.
template <class Policy> class ReadyQueue {
  template <class T> using Atomic = typename Policy::template Atomic<T>;
  struct Cell {
    Atomic<std::uint32_t> turn{0};
    std::uint32_t id = 0;
  };
  // Twice the window: a pop that has claimed its cell but not yet emptied it must not hold back a
  // push.
  static constexpr std::uint32_t capacity = 2 * Policy::Sizes::window;

 public:
  ReadyQueue() : cells_(std::make_unique<Cell[]>(capacity)) {
    for (std::uint32_t i = 0; i < capacity; ++i) cells_[i].turn.store(i, std::memory_order_relaxed);
  }

  void push(std::uint32_t id) {
    // The claim is sequentially consistent: see `empty`.
    std::uint32_t const position = tail_.fetch_add(1, std::memory_order_seq_cst);
    Cell& cell = cells_[position & (capacity - 1)];
    while (cell.turn.load(std::memory_order_acquire) != position)
      relax();  // its last pop is about to end
    cell.id = id;
    cell.turn.store(position + 1, std::memory_order_release);
  }

  bool pop(std::uint32_t& id) {
    std::uint32_t position = head_.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = cells_[position & (capacity - 1)];
      std::uint32_t const turn = cell.turn.load(std::memory_order_acquire);
      auto const distance = static_cast<std::int32_t>(turn - (position + 1));
      if (distance < 0) return false;  // empty, or its push is not finished
      if (distance > 0) {
        position = head_.load(std::memory_order_relaxed);
      } else if (head_.compare_exchange_weak(position, position + 1, std::memory_order_seq_cst,
                                             std::memory_order_relaxed)) {
        id = cell.id;
        cell.turn.store(position + capacity, std::memory_order_release);
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
  std::unique_ptr<Cell[]> cells_;
  alignas(apart) Atomic<std::uint32_t> head_{0};
  alignas(apart) Atomic<std::uint32_t> tail_{0};
};

}  // namespace nntile::detail::ring
