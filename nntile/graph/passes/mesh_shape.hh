#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Ranks by their coordinates on a mesh.

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/graph/mesh.hh"

namespace nntile::passes {

/// Numbers of ranks by their coordinates.
class MeshShape {
 public:
  static constexpr int most_ranks = 1 << 16;
  static constexpr int most_along_axis = 1 << 15;  // RankBox holds coordinates in 16 bits
  static constexpr int few_ranks = 8;              // values go to them directly, not along trees

  /// Throws PlanError: no axis name, one given twice, a size below 1, too many axes or ranks.
  explicit MeshShape(std::vector<MeshAxis> axes) : axes_(std::move(axes)) {
    if (axes_.size() > max_mesh_axes)
      throw PlanError(
          concat("mesh: ", axes_.size(), " axes where ", max_mesh_axes, " are possible"));
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      if (axes_[a].name.empty()) throw PlanError(concat("mesh: axis ", a, " has no name"));
      if (axes_[a].size < 1)
        throw PlanError(concat("mesh: axis '", axes_[a].name, "' of ", axes_[a].size, " ranks"));
      if (axes_[a].size > most_along_axis)
        throw PlanError(concat("mesh: axis '", axes_[a].name, "' of ", axes_[a].size, " ranks; an ",
                               "axis has up to ", most_along_axis,
                               ", share the rest out over another"));
      for (std::size_t b = 0; b < a; ++b)
        if (axes_[a].name == axes_[b].name)
          throw PlanError(concat("mesh: two axes are named '", axes_[a].name, "'"));
      if (axes_[a].size > most_ranks / ranks_)
        throw PlanError(concat("mesh: more than ", most_ranks, " ranks"));
      strides_[a] = ranks_;
      ranks_ *= axes_[a].size;
    }
  }

  int ranks() const { return ranks_; }
  std::size_t axes() const { return axes_.size(); }
  MeshAxis const& axis(std::size_t a) const { return axes_[a]; }
  /// Whether all ranks are along one axis.
  bool is_line() const {
    return std::any_of(axes_.begin(), axes_.end(),
                       [&](MeshAxis const& axis) { return axis.size == ranks_; });
  }
  /// The axis of a mesh of several whose coordinates do alike, so that a part follows from those of
  /// few: the longest over which rules cut nothing that outlives runs, by `cut`, bits of axes.
  /// axes() where there is none, on a mesh of few ranks or of one axis, and where numbers of ranks
  /// do not have the bits of each coordinate apart.
  std::size_t alike_axis(std::uint32_t cut) const {
    if (is_line() || ranks_ <= few_ranks) return axes();
    std::size_t longest = axes();
    int inside = 1;  // ranks of the axes before
    for (std::size_t a = 0; a < axes(); ++a) {
      if (axes_[a].size > 1 && (inside & (inside - 1)) != 0) return axes();
      inside *= axes_[a].size;
      if ((cut >> a & 1u) == 0 && axes_[a].size > 2 &&
          (longest == axes() || axes_[a].size > axes_[longest].size))
        longest = a;
    }
    return longest;
  }
  /// Position of an axis by name; axes() where there is none.
  std::size_t find(std::string const& name) const {
    std::size_t a = 0;
    while (a < axes_.size() && axes_[a].name != name) ++a;
    return a;
  }
  int coordinate(int rank, std::size_t axis) const {
    return rank / strides_[axis] % axes_[axis].size;
  }
  /// The distance of ranks that are neighbours along an axis.
  int stride(std::size_t axis) const { return strides_[axis]; }
  /// Whether a box is all ranks along one axis, and at one coordinate of every other.
  bool is_row(RankBox const& box, std::size_t axis) const {
    if (box.at[axis] != RankBox::all) return false;
    for (std::size_t a = 0; a < axes_.size(); ++a)
      if (a != axis && box.at[a] == RankBox::all && axes_[a].size > 1) return false;
    return true;
  }
  bool contains(RankBox const& box, int rank) const {
    for (std::size_t a = 0; a < axes_.size(); ++a)
      if (box.at[a] != RankBox::all && box.at[a] != coordinate(rank, a)) return false;
    return true;
  }
  /// The rank of a box that differs from another in the fewest coordinates.
  int nearest(RankBox const& box, int to) const {
    int rank = 0;
    for (std::size_t a = 0; a < axes_.size(); ++a)
      rank += (box.at[a] != RankBox::all ? box.at[a] : coordinate(to, a)) * strides_[a];
    return rank;
  }
  /// Whether a box is one rank.
  bool is_one(RankBox const& box) const {
    for (std::size_t a = 0; a < axes_.size(); ++a)
      if (box.at[a] == RankBox::all && axes_[a].size > 1) return false;
    return true;
  }
  /// Whether a box is all ranks.
  bool is_all(RankBox const& box) const {
    for (std::size_t a = 0; a < axes_.size(); ++a)
      if (box.at[a] != RankBox::all && axes_[a].size > 1) return false;
    return true;
  }
  /// Whether a box has all ranks of another.
  bool covers(RankBox const& box, RankBox const& other) const {
    for (std::size_t a = 0; a < axes_.size(); ++a)
      if (box.at[a] != RankBox::all && box.at[a] != other.at[a]) return false;
    return true;
  }
  /// The lowest rank of a box.
  int first(RankBox const& box) const { return nearest(box, 0); }
  /// Calls visit(rank) for each of a box, in ascending order.
  template <class Visit> void each(RankBox const& box, Visit visit) const {
    each(box, visit, axes_.size(), 0);
  }

 private:
  template <class Visit>
  void each(RankBox const& box, Visit& visit, std::size_t axes, int first) const {
    if (axes == 0) return visit(first);
    std::int16_t const at = box.at[axes - 1];
    int const begin = at == RankBox::all ? 0 : at;
    int const end = at == RankBox::all ? axes_[axes - 1].size : at + 1;
    for (int c = begin; c < end; ++c) each(box, visit, axes - 1, first + c * strides_[axes - 1]);
  }

  std::vector<MeshAxis> axes_;
  std::array<int, max_mesh_axes> strides_{};
  int ranks_ = 1;
};

}  // namespace nntile::passes
