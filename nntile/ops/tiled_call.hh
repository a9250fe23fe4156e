#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A call of an op with its axes, tilings and canonical groups, and the tile tasks that it becomes.

#include <algorithm>
#include <array>
#include <span>

#include "nntile/core/numerics.hh"
#include "nntile/ops/concept.hh"

namespace nntile {

/// A tile of an operand, which is counted among those that the call has; or, where `partial` is not
/// 0, of a hidden tensor that holds sums of canonical groups of this result, in the dtype of its
/// accumulator, tiled as the result is. Partials are numbered from 1.
struct OperandTile {
  std::uint8_t operand;
  std::uint8_t partial;
  Index tile;
};

/// One step of the walk. `args` of the op is computed from the range.
struct TileTask {
  TileRange const& range;
  inplace_vector<Use<OperandTile>, max_operands> uses;
  /// No task of the op: adds the first of its two tiles to the other (ops/combine.hh).
  bool combines = false;
  /// Canonical groups that it stands for, from its own on: more than one where others are left out.
  Index groups = 1;
  /// A step of a task that adds sums of canonical groups in turn: those from one to another, of
  /// which no task is visited. Their sum is the tile of this use.
  struct Step {
    std::array<Use<OperandTile>, 2> uses;
    Index first, last;
    std::size_t left_out;
  };
  /// The steps of such a task, the last of which has its uses; empty for all others.
  std::span<Step const> steps = {};
};

/// The tiles that a walk visits of an axis of which others are left out: the first ones, a run
/// behind them, and the last ones, if there are any.
struct TileSample {
  static constexpr std::size_t none = ~std::size_t{0};
  std::size_t axis = none;    // of the table; none: all tiles of all axes
  Index first = 0;            // tiles [0, first),
  Index begin = 0, end = 0;   // [begin, end)
  Index last = 0, count = 0;  // and [last, count)
  bool ends = false;          // groups of the first and the last ones are summed one by one

  bool has(Index tile) const {
    return tile < first || (tile >= begin && tile < end) || tile >= last;
  }
  /// The next tile; -1 behind the last.
  Index next(Index tile) const {
    if (has(++tile)) return tile < count ? tile : -1;
    return tile < begin ? begin : last < count ? last : -1;
  }
  /// Whether none from a tile to another is one of the run, or of the ends: groups of all others
  /// are summed in blocks.
  bool skips(Index from, Index to) const {
    if (ends && (from < first || to >= last)) return false;
    return to < begin || from >= end;
  }
};

/// Receives tile tasks in submission order.
class TileVisitor {
 public:
  virtual void visit(TileTask const& task) = 0;

 protected:
  ~TileVisitor() = default;
};

/// An op bound to attributes, axes and tilings.
struct TiledCall {
  OpInfo const* op = nullptr;
  void const* attrs = nullptr;
  DType element = DType::fp32;
  DType second = DType::fp32;  // of operands of Kind::second; `element` where there are none
  Operands operands;
  AxisTable table;
  /// One per axis of the table.
  inplace_vector<AxisTiling const*, max_axes> tilings;
  /// One per operand: the number of elements of which its leading dimensions are multiples. Empty:
  /// no padding.
  inplace_vector<Index, max_operands> column_units = {};
  /// One per axis of the table: its canonical groups, as ops/groups.hh lets them be. Empty: one
  /// each.
  inplace_vector<Index, max_axes> groups = {};
  TileSample sample = {};
  TileSample rows = {};     // of another axis, over which no phase sums
  Mode mode = Mode::exact;  // in fast mode tasks that accumulate may commute

  Index const* units() const { return column_units.size() == 0 ? nullptr : column_units.data(); }
};

/// The result whose sums a narrow carry holds: carries stand in the order of their results, which
/// are those of the op's own dtype. Elements of both have the same places, padding included.
inline std::size_t result_of_carry(Operands const& operands, std::size_t carry) {
  std::size_t before = 0;
  for (std::size_t o = 0; o < carry; ++o)
    if (operands[o].carry == Carry::narrow) ++before;
  for (std::size_t o = 0;; ++o)
    if (writes(operands[o].access) && operands[o].carry == Carry::none &&
        operands[o].kind == Kind::element && before-- == 0)
      return o;
}

namespace detail {

inline std::uint32_t axes_of(AxisTable const& table, std::size_t operand) {
  std::uint32_t bits = 0;
  for (auto const id : table.operands[operand]) bits |= 1u << id;
  return bits;
}
inline std::uint32_t axes_of(AxisTable const& table, OperandIndex operand) {
  return axes_of(table, table.present.rank(operand));
}

constexpr std::uint32_t bit(std::size_t i) { return 1u << i; }

/// Axes that the results of some phase lack: those along which partial results are carried.
inline std::uint32_t reduced_axes(TiledCall const& call, Phase const& phase) {
  std::uint32_t used = 0;
  std::uint32_t kept = 0;
  for (auto const& use : phase.uses) {
    used |= axes_of(call.table, use.handle);
    if (writes(use.access)) kept |= axes_of(call.table, use.handle);
  }
  return used & ~kept;
}

inline bool cut(TiledCall const& call, std::uint32_t axes) {
  for (std::size_t id = 0; id < call.tilings.size(); ++id)
    if ((axes & bit(id)) != 0 && call.tilings[id]->count() > 1) return true;
  return false;
}

/// The phase that touches every operand as it is declared.
inline Phase whole_phase(TiledCall const& call) {
  Phase all;
  for (std::size_t o = 0; o < call.operands.size(); ++o)
    all.uses.push_back({call.table.present.at(o), call.operands[o].access});
  return all;
}

/// The op's phases; an op without any has the whole one.
inline Phases phases_of(TiledCall const& call) {
  Phases phases = call.op->phases(call.attrs);
  if (phases.empty()) phases.push_back(whole_phase(call));
  return phases;
}

}  // namespace detail

/// Whether some axis that results are reduced over is cut, so that partial results are carried
/// between tasks.
inline bool chain_is_cut(TiledCall const& call) {
  for (Phase const& phase : detail::phases_of(call))
    if (detail::cut(call, detail::reduced_axes(call, phase))) return true;
  if (call.op->tiles == nullptr) return false;
  std::uint32_t all = 0;  // an op that enumerates its tiles may cut any axis that some result lacks
  for (std::size_t o = 0; o < call.operands.size(); ++o) all |= detail::axes_of(call.table, o);
  for (std::size_t o = 0; o < call.operands.size(); ++o)
    if (writes(call.operands[o].access) && detail::cut(call, all & ~detail::axes_of(call.table, o)))
      return true;
  return false;
}

}  // namespace nntile
