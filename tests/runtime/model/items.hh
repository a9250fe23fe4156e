// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The oracle of programs on one part: items, each of which is taken once.

#include <cstddef>
#include <cstdint>
#include <deque>

#include "tests/runtime/model/policy.hh"

namespace nntile::test::model {

/// Items that are handed over: each is taken once, and what was written before is then to be seen.
class Items {
 public:
  explicit Items(std::size_t count) : written_(count), taken_(count) {}
  std::uint64_t make(std::uint64_t item) {
    written_[item] = 1;
    return item;
  }
  void take(std::uint64_t item) {
    Exploration::current->check(item < taken_.size() && written_[item] == 1, "an item is none");
    Exploration::current->check(taken_[item].fetch_add(1, std::memory_order_relaxed) == 0,
                                "an item is taken twice");
  }
  bool taken(std::uint64_t item) const { return taken_[item].load(std::memory_order_relaxed) != 0; }
  void check_all() const {
    for (std::uint64_t i = 0; i < taken_.size(); ++i)
      Exploration::current->check(taken(i), "an item is lost");
  }

 private:
  std::deque<Plain<int>> written_;
  std::deque<Atomic<int>> taken_;
};

/// Runs bodies at the same time and waits for them.
template <class... Bodies> void together(Bodies... bodies) {
  Thread threads[sizeof...(Bodies)];
  std::size_t i = 0;
  ((void)threads[i++].start(bodies), ...);
  for (Thread& thread : threads) thread.join();
}

}  // namespace nntile::test::model
