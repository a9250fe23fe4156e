#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The ranks that have the present value of each tile, as the walk over ranks goes on.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nntile/core/access.hh"
#include "nntile/graph/passes/mesh_shape.hh"
#include "nntile/graph/plan.hh"

namespace nntile::passes {

/// Sets of ranks by buffer, and the ranks that made or store the value. A buffer whose value has
/// been set nowhere yet is at no rank.
class ValidRanks {
 public:
  ValidRanks(MeshShape const& mesh, std::size_t buffers)
      : mesh_(mesh),
        words_((static_cast<std::size_t>(mesh.ranks()) + 63) / 64),
        rows_(buffers),
        valid_(words_),
        sources_(buffers),
        everywhere_(words_, ~std::uint64_t{0}) {
    valid_.reserve((buffers + 1) * words_);
    if (mesh.ranks() % 64 != 0) everywhere_.back() >>= 64 - mesh.ranks() % 64;
  }

  bool has(std::uint32_t b, int rank) const {
    auto const at = static_cast<std::size_t>(rank);
    return (valid_[rows_[b] + at / 64] >> at % 64 & 1u) != 0;
  }
  bool everywhere(std::uint32_t b) const {
    return std::equal(everywhere_.begin(), everywhere_.end(), row(b));
  }
  bool at_one(std::uint32_t b) const {
    bool found = false;
    for (std::size_t w = 0; w < words_; ++w) {
      std::uint64_t const word = valid_[rows_[b] + w];
      if (word == 0) continue;
      if (found || (word & (word - 1)) != 0) return false;
      found = true;
    }
    return found;
  }
  /// The ranks that made or store the value.
  RankBox const& source(std::uint32_t b) const { return sources_[b]; }

  /// A new value, at ranks of a box alone.
  void set(std::uint32_t b, RankBox const& box) {
    sources_[b] = box;
    if (rows_[b] == 0) {
      rows_[b] = valid_.size();
      valid_.resize(valid_.size() + words_);
    }
    if (mesh_.is_all(box)) return add_all(b);
    std::fill_n(row(b), words_, 0);
    mesh_.each(box, [&](int rank) { add(b, rank); });
  }
  /// The value comes to a rank, to ranks from one to another, or to all.
  void add(std::uint32_t b, int rank) {
    auto const at = static_cast<std::size_t>(rank);
    valid_[rows_[b] + at / 64] |= std::uint64_t{1} << at % 64;
  }
  void add(std::uint32_t b, int begin, int end) {
    for (int rank = begin; rank < end;) {
      if (rank % 64 == 0 && rank + 64 <= end) {
        valid_[rows_[b] + static_cast<std::size_t>(rank) / 64] = ~std::uint64_t{0};
        rank += 64;
      } else {
        add(b, rank++);
      }
    }
  }
  void add_all(std::uint32_t b) { std::copy(everywhere_.begin(), everywhere_.end(), row(b)); }

  /// Calls visit(rank) for each that has something of what a task reads, in ascending order.
  template <class Visit> void each_holder(std::span<Use<BufferId> const> uses, Visit visit) const {
    for (std::size_t w = 0; w < words_; ++w) {
      std::uint64_t word = 0;
      for (Use<BufferId> const& use : uses)
        if (reads(use.access)) word |= valid_[rows_[use.handle] + w];
      for (; word != 0; word &= word - 1) visit(static_cast<int>(w * 64) + std::countr_zero(word));
    }
  }

 private:
  std::vector<std::uint64_t>::iterator row(std::uint32_t b) {
    return valid_.begin() + static_cast<std::ptrdiff_t>(rows_[b]);
  }
  std::vector<std::uint64_t>::const_iterator row(std::uint32_t b) const {
    return valid_.begin() + static_cast<std::ptrdiff_t>(rows_[b]);
  }

  MeshShape const& mesh_;
  std::size_t const words_;
  std::vector<std::size_t> rows_;          // of a buffer in `valid_`; 0, which is none's: empty
  std::vector<std::uint64_t> valid_;       // ranks that have a tile's present value
  std::vector<RankBox> sources_;           // ... that made or store it
  std::vector<std::uint64_t> everywhere_;  // all ranks
};

}  // namespace nntile::passes
