#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Tasks of the last coordinate of a mesh of two axes that a thin job leaves out.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "nntile/graph/passes/thinned_results.hh"
#include "nntile/ops/tiled_call.hh"

namespace nntile::passes {

/// The last coordinate of a thin job, whose tasks are left out of most ops, too.
///
/// Law: an op all of whose results are cut over the job's axis has tasks of the first coordinate
/// and of the rank's own, if that is another: its last ones touch tiles of their own, and what all
/// coordinates read, of which the first and the own say where it is wanted. Sums over coordinates
/// have a term of the last one: homes say where it is made, or it is where the first one's is, as
/// coordinates do alike.
class ThinLast {
 public:
  static constexpr int none = -1;

  ThinLast() = default;
  ThinLast(int coordinates, int own)
      : coordinate_(own == 0 || own + 1 == coordinates ? none : coordinates - 1) {}

  /// Whether a tile at a coordinate may be left out by this alone.
  bool is(Index coordinate) const { return coordinate == coordinate_ && coordinate_ != none; }
  /// Whether a value at a coordinate is.
  bool leaves_out(std::uint32_t tensor, int coordinate) const {
    return is(coordinate) && results_.has(tensor);
  }
  /// Whether the next op, which is sampled along an axis, has no tasks of the last coordinate.
  bool begin(PlanData const& plan, OpNode const& op, Operands const& declared, std::size_t axis) {
    if (coordinate_ == none) return false;
    bool thinned = axis != TileSample::none;
    for (std::size_t o = 0; o < declared.size() && thinned; ++o) {
      bool const visible = o < op.operands.size();
      if (visible && !writes(declared[o].access)) continue;
      auto const& axes = op.axes.operands[o];
      thinned = std::find(axes.begin(), axes.end(), axis) != axes.end() &&
                (!visible || results_.may(plan, op.operands[o]));
    }
    results_.add(plan, op, declared, thinned);
    return thinned;
  }

 private:
  int coordinate_ = none;
  ThinnedResults results_;
};

}  // namespace nntile::passes
