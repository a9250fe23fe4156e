#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The ready tasks of one domain, for bodies that wait.

#include <bit>
#include <cstdint>
#include <memory>

#include "nntile/runtime/ring/policy.hh"
#include "nntile/runtime/ring/ready_task.hh"

namespace nntile::detail::ring {

/// Ready tasks of a domain beside the root, and slots that are in a queue.
///
/// A body that waits runs tasks of its own only, so that it takes them here; what it has taken
/// stays in the queue, and the thread that finds it there finds nothing to run, or what the slot
/// holds by then. That must be a task for the same queue, so that each group of queues (see
/// ready_task.hh) has words of its own. All operations are sequentially consistent, as pushes are:
/// see Parking.
template <class Policy> class Offers {
  using Word = typename Policy::template Atomic<std::uint64_t>;  // 32 slots: ready, then queued

 public:
  explicit Offers(std::uint32_t slots)
      : slots_(slots),
        group_words_((slots + 31) / 32),
        words_(slots == 0 ? nullptr : new Word[queue_groups * group_words_]{}) {}

  /// Makes the slot's task ready; true if the caller is to queue it in a queue of that group.
  bool offer(std::uint32_t slot, std::uint32_t group) {
    std::uint64_t const queued = ready(slot) << 32;
    return (word(slot, group).fetch_or(ready(slot) | queued, std::memory_order_seq_cst) & queued) ==
           0;
  }
  /// For the thread that has popped the slot from a queue of that group; true if its task is that
  /// thread's to run.
  bool take_popped(std::uint32_t slot, std::uint32_t group) {
    std::uint64_t const bits = ready(slot) | ready(slot) << 32;
    return (word(slot, group).fetch_and(~bits, std::memory_order_seq_cst) & ready(slot)) != 0;
  }
  /// Takes any ready task, one for a kind of workers first; `none` if there is none.
  static constexpr std::uint32_t none = ~0u;
  std::uint32_t take() {
    for (std::uint32_t group = queue_groups; group-- > 0;)
      for (std::uint32_t first = 0; first < slots_; first += 32)
        for (Word& place = word(first, group);;) {
          auto const some = static_cast<std::uint32_t>(place.load(std::memory_order_seq_cst));
          if (some == 0) break;
          auto const slot = first + static_cast<std::uint32_t>(std::countr_zero(some));
          if ((place.fetch_and(~ready(slot), std::memory_order_seq_cst) & ready(slot)) != 0)
            return slot;
        }
    return none;
  }
  bool any() const {
    for (std::uint32_t i = 0; i < queue_groups * group_words_; ++i)
      if (static_cast<std::uint32_t>(words_[i].load(std::memory_order_seq_cst)) != 0) return true;
    return false;
  }

 private:
  static std::uint64_t ready(std::uint32_t slot) { return std::uint64_t{1} << slot % 32; }
  Word& word(std::uint32_t slot, std::uint32_t group) {
    return words_[group * group_words_ + slot / 32];
  }

  std::uint32_t const slots_, group_words_;
  std::unique_ptr<Word[]> const words_;
};

}  // namespace nntile::detail::ring
