#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Jobs without most of what other ranks do: what one rank has to go through to plan its part.

#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "nntile/graph/logical.hh"
#include "nntile/graph/passes/thin_last.hh"
#include "nntile/graph/passes/thin_rows.hh"
#include "nntile/graph/plan.hh"
#include "nntile/ops/walk.hh"

namespace nntile::passes {

/// Thrown where the parts of a job do not follow from a thin one: the whole job is planned then.
struct NotThin {
  char const* why;
};

/// A job thinned along the one axis of a mesh, or along one of several whose coordinates do alike,
/// for a rank, whose coordinate is its own.
///
/// Law: a thin job has all tasks of tiles that are not cut over the axis, and of those that are the
/// tasks of three coordinates: the rank's own, the first, by which the others are known, and the
/// last, whose readers say where a value is wanted.
/// If canonical groups are summed over the cut axis, it has the rank's path through the tree, on
/// which one task stands for each block of other coordinates' groups. Tasks at different
/// coordinates touch the same tiles only where these are not cut, so that what is left out changes
/// nothing but where those tiles have been sent: the walk over ranks makes up for that. A task of
/// cut tiles has 1 + its coordinate in place of a location's rank; one that stands for a block 1 +
/// the last coordinate of it in place of a priority; one that was ordered by tiles of a tensor
/// which is cut over the axis the number of its window, from 1, in place of hints. Tasks that
/// follow one another, and of which each adds the sum of a block for which none stands, are one
/// here, with the uses of all: -1 - the place of its first block in place of a priority. What the
/// rank adds of these the walk over ranks finds. Of several axes a job has all coordinates of the
/// others, and the groups of the first and the last coordinate as its own: they have targets.
/// Of two axes it may have fewer tasks by the laws of ThinRows and ThinLast.
struct ThinJob {
  static constexpr int uncut = -1, irregular = -2;

  std::size_t axis = 0;  // of the mesh
  int coordinates = 1;   // along it
  int own = 0;           // the rank's
  int rank = 0;
  bool line = true;  // whether all ranks are along the axis
  /// By tensor, hidden ones too: the dimension that is cut over the axis, or uncut.
  std::vector<int> cut = {};
  ThinRows rows = {};
  ThinLast last = {};
  std::uint16_t windows = 0;
  /// Coordinates, from one to another, whose sum a task adds to another or another to it: the tile
  /// of this of its two uses. No task stands for them.
  struct Block {
    int first = 0, last = 0;
    std::size_t use = 0;
  };
  std::vector<Block> blocks = {};
  /// The blocks whose sums a task adds in turn, each by two of its uses.
  std::span<Block const> blocks_of(PlannedTask const& task) const {
    if (task.priority >= 0) return {};
    return std::span(blocks).subspan(static_cast<std::size_t>(-1 - task.priority),
                                     task.use_count / std::size_t{2});
  }
  /// Tilings and numbers of groups of which none is of several coordinates, as found so far.
  std::vector<std::pair<AxisTiling, Index>> whole = {};

  bool has(Index coordinate) const {
    return coordinate == 0 || coordinate == own || coordinate + 1 == coordinates;
  }
  /// Of the coordinates from one to another the one nearest to the one where a sum is wanted.
  static int nearest(int first, int last, int wanted) {
    auto bit = static_cast<int>(std::bit_floor(static_cast<unsigned>(first ^ last)));
    int best = bit == 0 ? first : first & ~(2 * bit - 1);  // the bits that all of them have
    for (; bit > 0; bit /= 2) {                            // taken where one of them has it
      int const with = best | (wanted & bit);
      best = with <= last && (with | (bit - 1)) >= first ? with : with ^ bit;
    }
    return best;
  }
  Index coordinate(Index tile, Index tiles) const { return TileRuns{tiles, coordinates}.of(tile); }
  /// Whether the tasks of a tile of a tensor may be left out.
  bool leaves_out(PlannedTensor const& tensor, std::uint32_t id, Index tile) const {
    if (id >= cut.size()) return false;
    if (rows.has_other(tensor, id, tile)) return true;
    if (cut[id] < 0) return false;
    auto const d = static_cast<std::size_t>(cut[id]);
    Index const at = coordinate(tensor.tiling.position(tile)[d], tensor.tiling.axis(d).count());
    return !has(at) || last.is(at);
  }

  /// The axis of a call that is cut over the mesh's; none where there is none. Throws NotThin.
  std::size_t axis_of(OpNode const& op) const {
    std::size_t found = TileSample::none;
    auto const is_cut = [&](std::size_t o, std::size_t d) {
      return cut[op.operands[o]] == static_cast<int>(d);
    };
    for (std::size_t o = 0; o < op.operands.size(); ++o)
      for (std::size_t d = 0; d < op.axes.operands[o].size(); ++d) {
        if (!is_cut(o, d)) continue;
        if (found != TileSample::none && found != op.axes.operands[o][d])
          throw NotThin{"two axes of an op are cut"};
        found = op.axes.operands[o][d];
      }
    for (std::size_t o = 0; o < op.operands.size(); ++o)
      for (std::size_t d = 0; d < op.axes.operands[o].size(); ++d)
        if ((op.axes.operands[o][d] == found) != is_cut(o, d))
          throw NotThin{"an axis of an op is cut in some operands alone"};
    return found;
  }

  /// The tiles that are walked of an axis of a call: all, where a chain goes over it. Throws
  /// NotThin.
  TileSample sample(TiledCall const& call, std::size_t id) {
    AxisTiling const& tiling = *call.tilings[id];
    bool groups = false;
    for (Phase const& phase : detail::phases_of(call)) {
      std::uint32_t used = 0;
      for (auto const& use : phase.uses) used |= detail::axes_of(call.table, use.handle);
      if ((used & detail::bit(id)) == 0) continue;
      for (auto const& use : phase.uses) {
        std::size_t const o = call.table.present.rank(use.handle);
        if (!writes(use.access) || call.operands[o].carry == Carry::narrow ||
            (detail::axes_of(call.table, o) & detail::bit(id)) != 0)
          continue;
        if ((detail::grouped_axes(call, phase, o) & detail::bit(id)) == 0) return {};
        groups = true;
        if (detail::GroupSums(call, phase).grouped() != detail::bit(id) ||
            (detail::reduced_axes(call, phase) & detail::bit(id)) == 0)
          throw NotThin{"groups of several axes"};
      }
    }
    if (groups && call.op->tiles != nullptr) throw NotThin{"groups of an op that lists its tiles"};
    if (groups) check_groups(tiling, call.groups[id]);
    return sample(tiling, id);
  }
  /// The tiles of a tensor that is cut along a dimension.
  TileSample sample(Tiling const& tiling, int d) const {
    auto const cut_one = static_cast<std::size_t>(d);
    return sample(tiling.axis(cut_one), cut_one);
  }

 private:
  /// Throws NotThin where coordinates have other tiles than the first: sums over other axes of the
  /// mesh have roots by their bytes.
  void check_even(AxisTiling const& tiling) const {
    Index const each = tiling.count() / coordinates;
    if (each * coordinates != tiling.count()) throw NotThin{"coordinates with more tiles"};
    for (Index tile = each; tile < tiling.count(); ++tile)
      if (tiling.size(tile) != tiling.size(tile % each))
        throw NotThin{"coordinates of other tiles"};
  }
  TileSample sample(AxisTiling const& tiling, std::size_t id) const {
    TileRuns const runs{tiling.count(), coordinates};
    if (!line) check_even(tiling);
    return {id,
            runs.begin(1),
            runs.begin(own),
            runs.begin(own + 1),
            runs.begin(coordinates - 1),
            tiling.count(),
            !line};
  }
  /// Throws NotThin where a coordinate begins within a group.
  void check_groups(AxisTiling const& tiling, Index count) {
    for (auto const& [known, groups] : whole)
      if (groups == count && known == tiling) return;
    GroupCut const groups{tiling.extent(), count};
    TileRuns const runs{tiling.count(), coordinates};
    for (Index c = 1, group = 0; c < coordinates; ++c) {
      Index const begin = tiling.begin(runs.begin(c));
      while (group < count && groups.begin(group) < begin) ++group;
      if (groups.begin(group) != begin) throw NotThin{"a group of several coordinates"};
    }
    whole.emplace_back(tiling, count);
  }
};

}  // namespace nntile::passes
