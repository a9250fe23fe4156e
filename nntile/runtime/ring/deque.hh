#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A worker's own ready tasks: a bounded Chase-Lev deque.

#include <cstddef>
#include <cstdint>

#include "nntile/runtime/ring/policy.hh"

namespace nntile::detail::ring {

/// Last in, first out for its owner; first in, first out for thieves.
///
/// Source: Chase and Lev 2005, with sequentially consistent operations on both ends instead of
/// fences, which the thread sanitizer of g++ 12 does not model. The same operations let an idle
/// worker that announced itself before it looked here rely on being seen by any later push
/// (parking.hh).
template <class Policy, class Value> class Deque {
  template <class T> using Atomic = typename Policy::template Atomic<T>;
  static constexpr std::int64_t capacity = Policy::Sizes::deque;

 public:
  /// Owner only. False if there is no room.
  bool push(Value item) {
    std::int64_t const bottom = bottom_.load(std::memory_order_relaxed);
    if (bottom - top_.load(std::memory_order_acquire) >= capacity) return false;
    at(bottom).store(item, std::memory_order_relaxed);
    bottom_.store(bottom + 1, std::memory_order_seq_cst);
    return true;
  }

  /// Owner only. False if it is empty.
  bool pop(Value& item) {
    std::int64_t const bottom = bottom_.load(std::memory_order_relaxed) - 1;
    if (bottom < top_.load(std::memory_order_relaxed))
      return false;  // thieves only ever make it emptier
    bottom_.store(bottom, std::memory_order_seq_cst);
    std::int64_t top = top_.load(std::memory_order_seq_cst);
    if (top > bottom) {
      bottom_.store(bottom + 1, std::memory_order_release);
      return false;
    }
    item = at(bottom).load(std::memory_order_relaxed);
    if (top < bottom) return true;
    bool const won = top_.compare_exchange_strong(top, top + 1, std::memory_order_seq_cst);
    bottom_.store(bottom + 1, std::memory_order_release);
    return won;
  }

  /// Any thread. False if it is empty, or if another thread took the item first.
  bool steal(Value& item) {
    std::int64_t top = top_.load(std::memory_order_seq_cst);
    if (top >= bottom_.load(std::memory_order_seq_cst)) return false;
    item = at(top).load(std::memory_order_relaxed);
    return top_.compare_exchange_strong(top, top + 1, std::memory_order_seq_cst);
  }

  /// Any thread.
  bool empty() const {
    std::int64_t const top = top_.load(std::memory_order_seq_cst);
    return top >= bottom_.load(std::memory_order_seq_cst);
  }

 private:
  Atomic<Value>& at(std::int64_t position) {
    return items_[static_cast<std::size_t>(position & (capacity - 1))];
  }

  alignas(apart) Atomic<std::int64_t> top_{0};
  alignas(apart) Atomic<std::int64_t> bottom_{0};
  alignas(apart) Atomic<Value> items_[static_cast<std::size_t>(capacity)] = {};
};

}  // namespace nntile::detail::ring
