// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The stores that an atomic has had, and which of them a load may read.
//
// Model: C++20's, but for two restrictions. Modification order is the order in which the stores
// are executed, and no load reads a store that is executed later. As in CDSChecker (Norris and
// Demsky, OOPSLA 2013) a load otherwise reads any store that coherence and the order of
// sequentially consistent operations allow.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/runtime/model/exploration.hh"

namespace nntile::test::model {

constexpr bool acquires(std::memory_order order) {
  return order == std::memory_order_acquire || order == std::memory_order_acq_rel ||
         order == std::memory_order_consume || order == std::memory_order_seq_cst;
}
constexpr bool releases(std::memory_order order) {
  return order == std::memory_order_release || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}

/// Stores of one atomic in modification order.
class History {
 public:
  struct Store {
    std::uint64_t value;
    Stamp by;
    std::size_t event;  // ~0 for the initial value
    Clock released;     // what a load that acquires it sees; nothing if it is not released
  };
  static constexpr std::size_t initial = ~std::size_t{0};

  History(std::uint64_t value, Stamp by) { stores_.push_back({value, by, initial, {}}); }

  std::size_t size() const { return stores_.size(); }
  Store const& operator[](std::size_t index) const { return stores_[index]; }
  std::size_t newest() const { return stores_.size() - 1; }

  /// Lists the stores that the running thread may read with this order, the newest first.
  ///
  /// An older one is left out where the load could have been executed before the next store: there
  /// is an execution in which it was.
  void list(std::memory_order order, std::vector<std::size_t>& found) const {
    Exploration& exploration = *Exploration::current;
    found.clear();
    std::size_t const oldest = floor(exploration, order);
    for (std::size_t i = newest();; --i) {
      if (i == newest() || exploration.follows(stores_[i + 1].event)) found.push_back(i);
      if (i == oldest) return;
    }
  }

  /// The running thread reads that store.
  void read(std::size_t index, std::memory_order order) {
    Exploration& exploration = *Exploration::current;
    if (!stores_[0].by.before(exploration.seen()))
      exploration.fail("an atomic is used before its construction is visible");
    if (acquires(order)) exploration.seen().join(stores_[index].released);
    reads_.push_back({exploration.now(), index});
  }

  /// The running thread stores; `replaces` if the operation has read the store before as well.
  void write(std::uint64_t value, std::memory_order order, bool replaces) {
    Exploration& exploration = *Exploration::current;
    Store store{value, exploration.now(), exploration.event(), {}};
    if (replaces) store.released = stores_.back().released;
    if (releases(order)) store.released.join(exploration.seen());
    stores_.push_back(store);
    if (order == std::memory_order_seq_cst) in_total_order_ = newest();
    exploration.tick();
  }

 private:
  struct Read {
    Stamp by;
    std::size_t index;
  };

  /// The oldest store that the running thread may read: none before one that it or what happened
  /// before it has written or read.
  std::size_t floor(Exploration& exploration, std::memory_order order) const {
    std::size_t oldest = order == std::memory_order_seq_cst ? in_total_order_ : 0;
    Clock const& seen = exploration.seen();
    for (std::size_t i = newest(); i > oldest; --i)
      if (stores_[i].by.before(seen) || stores_[i].event < exploration.fresh_from()) {
        oldest = i;
        break;
      }
    for (Read const& read : reads_)
      if (read.index > oldest && read.by.before(seen)) oldest = read.index;
    return oldest;
  }

  std::vector<Store> stores_;
  std::vector<Read> reads_;
  std::size_t in_total_order_ = 0;  // the newest that is sequentially consistent
};

}  // namespace nntile::test::model
