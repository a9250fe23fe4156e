#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The ready tasks of one domain, for bodies that wait.

#include <bit>
#include <cstdint>
#include <memory>

#include "nntile/runtime/ring/policy.hh"

namespace nntile::detail::ring {

/// Which tasks of a domain beside the root are ready, and which slots are in a queue.
///
/// A body that waits runs tasks of its own only, so that it takes them here; what it has taken
/// stays in the queue, and the thread that finds it there finds nothing to run. All operations are
/// sequentially consistent, as pushes are: see Parking.
template <class Policy> class Offers {
  using Word = typename Policy::template Atomic<std::uint64_t>;  // 32 slots: ready, then queued

 public:
  explicit Offers(std::uint32_t slots) : words_(new Word[(slots + 31) / 32]{}), slots_(slots) {}

  /// Makes the slot's task ready; true if the caller is to queue it.
  bool offer(std::uint32_t slot) {
    std::uint64_t const queued = ready(slot) << 32;
    return (word(slot).fetch_or(ready(slot) | queued, std::memory_order_seq_cst) & queued) == 0;
  }
  /// For the thread that has popped the slot; true if its task is that thread's to run.
  bool take_popped(std::uint32_t slot) {
    std::uint64_t const bits = ready(slot) | ready(slot) << 32;
    return (word(slot).fetch_and(~bits, std::memory_order_seq_cst) & ready(slot)) != 0;
  }
  /// Takes any ready task; `none` if there is none.
  static constexpr std::uint32_t none = ~0u;
  std::uint32_t take() {
    for (std::uint32_t first = 0; first < slots_; first += 32)
      for (;;) {
        auto const some = static_cast<std::uint32_t>(word(first).load(std::memory_order_seq_cst));
        if (some == 0) break;
        auto const slot = first + static_cast<std::uint32_t>(std::countr_zero(some));
        if ((word(slot).fetch_and(~ready(slot), std::memory_order_seq_cst) & ready(slot)) != 0)
          return slot;
      }
    return none;
  }
  bool any() const {
    for (std::uint32_t first = 0; first < slots_; first += 32)
      if (static_cast<std::uint32_t>(words_[first / 32].load(std::memory_order_seq_cst)) != 0)
        return true;
    return false;
  }

 private:
  static std::uint64_t ready(std::uint32_t slot) { return std::uint64_t{1} << slot % 32; }
  Word& word(std::uint32_t slot) { return words_[slot / 32]; }

  std::unique_ptr<Word[]> words_;
  std::uint32_t const slots_;
};

}  // namespace nntile::detail::ring
