#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The sequences of replays, for who waits for one: its event names the last task alone.

#include <cstddef>
#include <cstdint>

#include "nntile/core/dynamic_array.hh"

namespace nntile::detail::serial {

/// Some replays, in ascending order of their sequences.
class Replays {
 public:
  bool empty() const { return all_.empty(); }
  /// Room for one more, so that `add` does not throw. Throws std::bad_alloc.
  void make_room() {
    if (all_.size() == all_.capacity()) all_.reserve(2 * all_.size() + 16);
  }
  /// One whose first and last tasks have these sequences.
  void add(std::uint64_t first, std::uint64_t last) { all_.push_back({first, last}); }

  /// The first sequence of the replay that ends with this one, or itself. Cost: logarithmic.
  std::uint64_t first_of(std::uint64_t sequence) const {
    std::size_t low = 0, high = all_.size();
    while (low < high) {
      std::size_t const middle = (low + high) / 2;
      if (all_[middle].last < sequence)
        low = middle + 1;
      else
        high = middle;
    }
    return low < all_.size() && all_[low].last == sequence ? all_[low].first : sequence;
  }

  /// Drops those from the oldest on whose last task has ended: has_ended(sequence).
  template <class HasEnded> void forget(HasEnded has_ended) {
    std::size_t ended = 0;
    while (ended < all_.size() && has_ended(all_[ended].last)) ++ended;
    if (ended != 0) all_.erase(all_.begin(), all_.begin() + static_cast<std::ptrdiff_t>(ended));
  }

 private:
  struct Replayed {
    std::uint64_t first;
    std::uint64_t last;
  };
  DynamicArray<Replayed> all_;
};

}  // namespace nntile::detail::serial
