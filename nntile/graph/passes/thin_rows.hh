#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Tasks of other rows of a mesh of two axes that a thin job leaves out.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "nntile/graph/logical.hh"
#include "nntile/graph/mesh.hh"
#include "nntile/graph/passes/thinned_results.hh"
#include "nntile/graph/passes/tile_runs.hh"
#include "nntile/graph/plan.hh"
#include "nntile/ops/tiled_call.hh"

namespace nntile::passes {

/// The rows of a mesh of two axes, each at one coordinate of the axis that a thin job is not along.
///
/// Law: an op is thinned if it first writes all of its results, none of which is stored, if these
/// are cut over the rows, and if what it reads is cut over them, or over the job's axis alone. Each
/// row's tasks of it touch the tiles of the row, and tiles that all rows read. The job has those of
/// the rank's own row, and, where that is not the first, the first row's that read what the ranks
/// of its coordinate read: with these tiles begin to be sent, to all rows at once. A task of
/// another op may read what is left out at its row alone, and if homes say where it runs.
struct ThinRows {
  static constexpr int uncut = -1;

  std::size_t axis = max_mesh_axes;  // of the mesh; none: all rows have all tasks
  int coordinates = 1, own = 0;
  std::vector<int> cut = {};       // by tensor, hidden ones of thinned ops too; negative: none
  std::vector<bool> thinned = {};  // by op
  ThinnedResults results = {};
  std::vector<bool> moves = {};  // by tensor: read by ops that homes may leave open

  int cut_of(std::uint32_t tensor) const { return tensor < cut.size() ? cut[tensor] : uncut; }
  /// Notes the dimension of a hidden tensor.
  void add(int dimension) {
    if (axis != max_mesh_axes) cut.push_back(dimension);
  }
  /// Whether the op has the tasks of few rows.
  bool thins(std::uint32_t op) const { return op < thinned.size() && thinned[op]; }
  /// Whether all rows read a tile of a tensor that a task of the op reads.
  bool all_read(std::uint32_t op, std::uint32_t tensor) const {
    return thins(op) && cut[tensor] < 0;
  }
  /// Whether a tile's value, with this home, comes from tasks that are left out.
  bool leaves_out(std::uint32_t tensor, RankBox const& home) const {
    return results.has(tensor) && home.at[axis] != own;
  }
  /// Whether a task at ranks of a box is there for what it reads.
  bool only_reads(std::uint32_t op, RankBox const& box) const {
    return thins(op) && box.at[axis] != own;
  }
  /// Whether a tile is another row's.
  bool has_other(PlannedTensor const& tensor, std::uint32_t id, Index tile) const {
    if (cut_of(id) < 0) return false;
    auto const d = static_cast<std::size_t>(cut[id]);
    return !is_own(tensor.tiling.axis(d).count(), tensor.tiling.position(tile)[d]);
  }
  bool is_own(Index tiles, Index tile) const {
    return TileRuns{tiles, coordinates}.of(tile) == own;
  }
  /// The tiles that are walked of an axis which is cut over the rows.
  TileSample sample(AxisTiling const& tiling, std::size_t id) const {
    TileRuns const runs{tiling.count(), coordinates};
    return {id, runs.begin(1), runs.begin(own), runs.begin(own + 1), runs.tiles, runs.tiles};
  }

  /// Notes what is read by ops whose results are not stored.
  void note_readers(PlanData const& plan, LogicalGraph const& graph) {
    moves.resize(plan.tensors.size());
    for (std::size_t const position : plan.nodes) {
      OpNode const& op = graph.op_at(position);
      Operands const declared = op.info->operands(op.attrs.data());
      bool stored = true;
      for (std::size_t o = 0; o < op.operands.size(); ++o)
        stored =
            stored && (!writes(declared[o].access) || ThinnedResults::lasts(plan, op.operands[o]));
      for (std::size_t o = 0; o < op.operands.size() && !stored; ++o)
        if (declared[o].access == Access::read || (reads(declared[o].access) && !over(op, o)))
          moves[ThinnedResults::root(plan, op.operands[o])] = true;
    }
  }
  /// The axis of a call that is cut over the rows, none where the op is not thinned; notes what it
  /// writes. `along`: by tensor, the dimension that is cut over the job's axis.
  std::size_t begin(OpNode const& op, std::uint32_t position, Operands const& declared,
                    PlanData const& plan, std::vector<int> const& along, bool sampled) {
    if (axis == max_mesh_axes) return TileSample::none;
    std::size_t const id = sampled ? axis_of(op, declared, plan, along) : TileSample::none;
    results.add(plan, op, declared, id != TileSample::none);
    if (id == TileSample::none) return id;
    thinned.resize(std::max(thinned.size(), position + std::size_t{1}));
    thinned[position] = true;
    return id;
  }

 private:
  static bool over(OpNode const& op, std::size_t operand) {
    return op.info->overwrites(op.attrs.data(), static_cast<int>(operand));
  }
  /// The axis of a call that is cut over the rows; none where there is none, or several.
  std::size_t axis_of(OpNode const& op) const {
    std::size_t found = TileSample::none;
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      int const d = cut[op.operands[o]];
      if (d < 0) continue;
      std::size_t const id = op.axes.operands[o][static_cast<std::size_t>(d)];
      if (found != TileSample::none && found != id) return TileSample::none;
      found = id;
    }
    return found;
  }
  std::size_t axis_of(OpNode const& op, Operands const& declared, PlanData const& plan,
                      std::vector<int> const& along) const {
    std::size_t const found = axis_of(op);
    for (std::size_t o = 0; o < declared.size() && found != TileSample::none; ++o) {
      auto const& axes = op.axes.operands[o];
      bool const has = std::find(axes.begin(), axes.end(), found) != axes.end();
      bool const visible = o < op.operands.size();
      if (!has && (!visible || writes(declared[o].access))) return TileSample::none;
      if (!visible) continue;
      std::uint32_t const t = op.operands[o];
      bool const moved = along[t] < 0 && moves[ThinnedResults::root(plan, t)];
      if (writes(declared[o].access) && (moved || !results.may(plan, t))) return TileSample::none;
      if (has ? cut[t] < 0 : cut[t] != uncut || along[t] < 0) return TileSample::none;
    }
    return found;
  }
};

}  // namespace nntile::passes
