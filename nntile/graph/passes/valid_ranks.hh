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
  /// `alike`: the axis of such coordinates; mesh.axes() where there is none.
  ValidRanks(MeshShape const& mesh, std::size_t buffers, std::size_t alike)
      : mesh_(mesh),
        alike_(alike),
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
  /// Whether a value has been set.
  bool known(std::uint32_t b) const { return rows_[b] != 0; }
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

  /// Whether the ranks of a box have it, at all coordinates that do alike.
  bool all_have(std::uint32_t b, RankBox box) {
    box.at[alike_] = RankBox::all;
    if (mesh_.is_all(box)) return everywhere(b);
    if (mesh_.is_row(box, alike_)) {
      std::size_t const mask = mask_of(box);
      for (std::size_t w = 0; w < words_; ++w)
        if ((masks_[mask + w] & ~valid_[rows_[b] + w]) != 0) return false;
      return true;
    }
    bool all = true;
    mesh_.each(box, [&](int rank) { all = all && has(b, rank); });
    return all;
  }
  /// Whether it has been at a rank from the beginning, as at all coordinates that do alike.
  bool is_alike(std::uint32_t b, int rank) const {
    return known(b) && sources_[b].at[alike_] == RankBox::all && mesh_.contains(sources_[b], rank);
  }

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
  /// It comes to the ranks of a box, at coordinates that do alike from one to another.
  void add(std::uint32_t b, RankBox box, int begin, int end) {
    box.at[alike_] = RankBox::all;
    int const stride = mesh_.stride(alike_);
    bool const outermost = stride * mesh_.axis(alike_).size == mesh_.ranks();
    if (outermost && mesh_.is_all(box)) return add(b, begin * stride, end * stride);
    if (outermost && mesh_.is_row(box, alike_))
      return add_row(b, box, begin * stride, end * stride);
    for (int c = begin; c < end; ++c) {
      box.at[alike_] = static_cast<std::int16_t>(c);
      mesh_.each(box, [&](int rank) { add(b, rank); });
    }
  }
  /// It comes to all ranks along the axis of those coordinates, or to those of them that are from
  /// one to another.
  void add_row(std::uint32_t b, RankBox const& row) { add_row(b, row, 0, mesh_.ranks()); }
  void add_row(std::uint32_t b, RankBox const& row, int begin, int end) {
    std::size_t const mask = mask_of(row);
    auto const first = static_cast<std::size_t>(begin), last = static_cast<std::size_t>(end);
    for (std::size_t w = first / 64; w * 64 < last; ++w) {
      std::uint64_t of = masks_[mask + w];
      if (w * 64 < first) of &= ~std::uint64_t{0} << first % 64;
      if (last < (w + 1) * 64) of &= ~(~std::uint64_t{0} << last % 64);
      valid_[rows_[b] + w] |= of;
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
  /// Position in `masks_` of the set of a row of ranks.
  std::size_t mask_of(RankBox const& row) {
    masks_at_.resize(static_cast<std::size_t>(mesh_.ranks()), none);
    std::size_t& at = masks_at_[static_cast<std::size_t>(mesh_.first(row))];
    if (at != none) return at;
    at = masks_.size();
    masks_.resize(at + words_);
    mesh_.each(row, [&](int rank) {
      auto const r = static_cast<std::size_t>(rank);
      masks_[at + r / 64] |= std::uint64_t{1} << r % 64;
    });
    return at;
  }
  std::vector<std::uint64_t>::iterator row(std::uint32_t b) {
    return valid_.begin() + static_cast<std::ptrdiff_t>(rows_[b]);
  }
  std::vector<std::uint64_t>::const_iterator row(std::uint32_t b) const {
    return valid_.begin() + static_cast<std::ptrdiff_t>(rows_[b]);
  }

  static constexpr std::size_t none = ~std::size_t{0};

  MeshShape const& mesh_;
  std::size_t const alike_;  // axis of the mesh
  std::size_t const words_;
  std::vector<std::size_t> rows_;          // of a buffer in `valid_`; 0, which is none's: empty
  std::vector<std::uint64_t> valid_;       // ranks that have a tile's present value
  std::vector<RankBox> sources_;           // ... that made or store it
  std::vector<std::uint64_t> everywhere_;  // all ranks
  std::vector<std::size_t> masks_at_;      // of a row of ranks, by its first
  std::vector<std::uint64_t> masks_;
};

}  // namespace nntile::passes
