#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The tiles that rules give one rank, by which lowering knows most tasks of others.

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "nntile/core/inplace_vector.hh"
#include "nntile/graph/logical.hh"
#include "nntile/graph/mesh.hh"
#include "nntile/graph/passes/mesh_shape.hh"
#include "nntile/graph/passes/thin.hh"
#include "nntile/ops/walk.hh"

namespace nntile::passes {

/// A rank's coordinates, and the dimensions that rules cut over the axes of the mesh.
struct OwnTiles {
  struct Cut {
    std::size_t axis = 0;  // of the mesh
    int coordinates = 1, own = 0;
    std::vector<int> of = {};  // by the graph's tensors: the dimension; negative: none
  };
  std::vector<Cut> cuts = {};  // of axes of the mesh with several coordinates

  /// `dimensions`: by the graph's tensors that are no views, and axis of the mesh.
  OwnTiles(PlanData const& plan, MeshShape const& mesh, int rank,
           std::vector<std::array<int, max_mesh_axes>> const& dimensions) {
    for (std::size_t a = 0; a < mesh.axes(); ++a) {
      if (mesh.axis(a).size == 1) continue;
      Cut cut{a, mesh.axis(a).size, mesh.coordinate(rank, a)};
      for (std::size_t t = 0; t < dimensions.size(); ++t) {
        PlannedTensor const& tensor = plan.tensors[t];
        bool const view = tensor.storage == Storage::view;
        int const of = dimensions[view ? tensor.base : t][a];
        int const picked = static_cast<int>(tensor.view_axis);
        cut.of.push_back(!tensor.used || (view && of == picked) ? ThinJob::irregular
                         : view && of > picked                  ? of - 1
                                                                : of);
      }
      cuts.push_back(std::move(cut));
    }
  }
  /// The rows of a mesh of two axes, of which a thin job is along one.
  ThinRows rows(std::size_t along) const {
    if (cuts.size() != 2) return {};
    Cut const& cut = cuts[cuts[0].axis == along ? 1 : 0];
    return {cut.axis, cut.coordinates, cut.own, cut.of};
  }
};

/// The tasks of a call that are other ranks': they write tiles of another coordinate, or sum a
/// canonical group of such. What it says is right where a tile is nowhere but where rules put it;
/// who relies on it finds out (SplitPass).
class OthersTasks {
 public:
  OthersTasks() = default;
  OthersTasks(OwnTiles const& own, OpNode const& op, TiledCall const& call) {
    for (OwnTiles::Cut const& cut : own.cuts) {
      Range range;
      for (std::size_t o = 0; o < op.operands.size(); ++o) {
        int const d = cut.of[op.operands[o]];
        if (d < 0) continue;
        std::uint8_t const id = op.axes.operands[o][static_cast<std::size_t>(d)];
        if (range.operands != 0 && range.axis != id) continue;
        range.axis = id;
        range.operands |= nntile::detail::bit(o);
      }
      if (range.operands == 0) continue;
      TileRuns const runs{call.tilings[range.axis]->count(), cut.coordinates};
      range.begin = runs.begin(cut.own), range.end = runs.begin(cut.own + 1);
      ranges_.push_back(range);
    }
  }

  bool has(TileTask const& task) const {
    if (task.combines) return false;
    bool const group = task.range.canonical_group != TileRange::no_group;
    for (Range const& range : ranges_) {
      Index const tile = task.range.axis(range.axis).tile;
      if (tile >= range.begin && tile < range.end) continue;
      for (Use<OperandTile> const& use : task.uses)
        if (writes(use.access) != group && use.handle.partial == 0 &&
            (range.operands >> use.handle.operand & 1u) != 0)
          return true;
    }
    return false;
  }

 private:
  struct Range {
    std::uint8_t axis = 0;       // of the call
    std::uint32_t operands = 0;  // bits of those that are cut along it
    Index begin = 0, end = 0;    // the rank's tiles
  };
  inplace_vector<Range, max_mesh_axes> ranges_;
};

}  // namespace nntile::passes
