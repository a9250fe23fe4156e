#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Bytes that have been dealt out to the ranks of a mesh.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "nntile/core/cost.hh"
#include "nntile/graph/passes/mesh_shape.hh"

namespace nntile::passes {

/// Counts what is dealt out to each rank, and finds who has least. Of coordinates that have as
/// much, turns are taken in steps of the golden ratio: tiles that come one after another, which are
/// wanted at one time, lie far apart then, on other nodes, however many ranks a node has.
class RankLoads {
 public:
  explicit RankLoads(MeshShape const& mesh)
      : mesh_(mesh), loads_(static_cast<std::size_t>(mesh.ranks())) {}

  void add(int rank, Index bytes) {
    Index& load = loads_[static_cast<std::size_t>(rank)];
    add_saturated(load, bytes);
  }
  /// Adds bytes to the ranks of a box with a coordinate of an axis.
  void add(RankBox box, std::size_t a, std::int16_t at, Index bytes) {
    box.at[a] = at;
    mesh_.each(box, [&](int rank) { add(rank, bytes); });
  }
  /// Has the following bytes dealt along an axis, to the ranks that have least.
  void begin(std::size_t a) {
    size_ = mesh_.axis(a).size;
    step_ = std::max(1, static_cast<int>(std::lround(0.618034 * size_)));
    while (std::gcd(step_, size_) != 1) ++step_;
    heap_.clear();
    for (int turn = 0; mesh_.is_line() && turn < size_; ++turn)
      heap_.push_back({most({}, a, coordinate(turn)), turn});
    std::make_heap(heap_.begin(), heap_.end());
  }
  /// Adds bytes to the ranks of a box at the coordinate whose fullest rank has least, the first by
  /// turn of several such; the coordinate.
  std::int16_t deal(RankBox const& box, std::size_t a, Index bytes) {
    std::int16_t least = 0;
    if (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end());
      least = coordinate(heap_.back().turn);
      add_saturated(heap_.back().bytes, bytes);
      std::push_heap(heap_.begin(), heap_.end());
    }
    if (heap_.empty()) least = least_at(box, a);
    add(box, a, least, bytes);
    return least;
  }

 private:
  /// A coordinate by its turn, in a heap of which the first one has the fewest bytes.
  struct Loaded {
    Index bytes;
    int turn;
    bool operator<(Loaded const& other) const {
      return bytes != other.bytes ? bytes > other.bytes : turn > other.turn;
    }
  };

  std::int16_t coordinate(int turn) const {
    return static_cast<std::int16_t>(turn * step_ % size_);
  }

  std::int16_t least_at(RankBox box, std::size_t a) {
    box.at[a] = 0;
    ranks_.clear();
    mesh_.each(box, [&](int rank) { ranks_.push_back(static_cast<std::size_t>(rank)); });
    std::int16_t least = 0;
    Index fewest = INT64_MAX;
    for (int turn = 0; turn < size_; ++turn) {
      Index most = 0;
      auto const ahead = static_cast<std::size_t>(coordinate(turn) * mesh_.stride(a));
      for (std::size_t const rank : ranks_) most = std::max(most, loads_[rank + ahead]);
      if (most < fewest) fewest = most, least = coordinate(turn);
    }
    return least;
  }
  Index most(RankBox box, std::size_t a, std::int16_t at) const {
    box.at[a] = at;
    Index most = 0;
    mesh_.each(box,
               [&](int rank) { most = std::max(most, loads_[static_cast<std::size_t>(rank)]); });
    return most;
  }

  MeshShape const& mesh_;
  std::vector<Index> loads_;        // of each rank
  std::vector<std::size_t> ranks_;  // of a box
  int size_ = 1, step_ = 1;         // of the axis along which bytes are dealt
  std::vector<Loaded> heap_;        // of a mesh of one axis, where a coordinate is a rank
};

}  // namespace nntile::passes
