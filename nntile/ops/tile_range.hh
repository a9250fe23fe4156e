#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The part of an op that one tile task computes.

#include <cstdint>

#include "nntile/core/groups.hh"
#include "nntile/core/tiling.hh"
#include "nntile/ops/axes.hh"
#include "nntile/ops/chain.hh"

namespace nntile {

/// One axis of a tile task: tile number `tile` begins at `tile_begin` and has `tile_extent`
/// elements, of which the task takes `extent` from `offset` on (all of them, unless a contracted
/// axis is walked index by index, or a canonical group ends within the tile).
struct AxisRange {
  Index tile = 0;
  Index tile_begin = 0;
  Index tile_extent = 1;
  Index offset = 0;
  Index extent = 1;
};

/// The range of elements of which an op's `args` is computed. Groups are letters of the axes
/// strings; operands are names of the op's enum, and must be present in the call where a place in
/// memory is asked for.
class TileRange {
 public:
  /// `tilings`, one per axis of the table, are what take() cuts by; without them the range has no
  /// tiles. `units`, one per operand of the call: columns of its tiles begin at multiples of so
  /// many elements; without them tiles have no padding.
  explicit TileRange(AxisTable const& table, AxisTiling const* const* tilings = nullptr,
                     Index const* units = nullptr)
      : table_(&table), tilings_(tilings), units_(units), axes_(table.axes.size(), AxisRange{}) {}

  /// -1: all phases in one task.
  int phase = -1;
  /// Operands that the task has.
  OperandSet operands = OperandSet::all();
  /// Results that end in a chain of which the task is the first, the last.
  OperandSet firsts = OperandSet::all();
  OperandSet lasts = OperandSet::all();
  /// The task adds to the sum of one canonical group, which begins from +0 and is not finished yet:
  /// the group's number in the order of the tree.
  int canonical_group = no_group;
  /// If the task sums a pair of canonical groups, which the tree adds first: terms of the left one;
  /// the right one has no more. Else 0. Without a canonical_group the two are all, and the task
  /// adds what was there, scaled, to their sum in one fma, and finishes it.
  Index left_terms = 0;
  /// The task has no terms, but what all groups gave together: in the result, or, where the call
  /// has them, in the hidden operands that hold sums.
  bool finishing = false;
  static constexpr int no_group = -1;

  /// The scale of a result's former value, for the attribute that gives it.
  double beta(double given) const { return canonical_group == no_group ? given : 0; }

  bool has(OperandIndex operand) const { return operands.has(operand); }
  bool first(OperandIndex result) const { return firsts.has(result); }
  bool last(OperandIndex result) const { return lasts.has(result); }
  Chain chain(OperandIndex result) const { return {first(result), last(result)}; }

  AxisTable const& table() const { return *table_; }
  AxisRange& axis(std::size_t id) { return axes_[id]; }
  AxisRange const& axis(std::size_t id) const { return axes_[id]; }

  /// The canonical groups of an axis; the walk sets where they are.
  void set_groups(Index const* groups) { groups_ = groups; }
  GroupCut groups(std::size_t id) const {
    return {tilings_[id]->extent(), groups_ == nullptr ? 1 : groups_[id]};
  }
  /// Number of tiles along an axis.
  Index tiles(std::size_t id) const { return tilings_[id]->count(); }
  /// Moves to tile number `tile` of an axis, all of it.
  void take(std::size_t id, Index tile) {
    AxisTiling const& tiling = *tilings_[id];
    axes_[id] = {tile, tiling.begin(tile), tiling.size(tile), 0, tiling.size(tile)};
  }
  /// The axis of a letter of one dimension. Throws ShapeError where no operand has that.
  std::size_t axis_of(char letter) const {
    for (std::size_t id = 0; id < axes_.size(); ++id)
      if (table_->axes[id].group == letter) return id;
    throw ShapeError(concat("an op's args ask for axis '", letter, "', which no operand has"));
  }

  /// Elements along a group that the task takes.
  Index extent(char group) const {
    Index product = 1;
    for (std::size_t id = 0; id < axes_.size(); ++id)
      if (table_->axes[id].group == group) product *= axes_[id].extent;
    return product;
  }
  /// Elements of the tile along a letter of one dimension that the task leaves out, before and
  /// behind its own.
  Index rest(char letter) const {
    AxisRange const& axis = axes_[axis_of(letter)];
    return axis.tile_extent - axis.extent;
  }
  /// The first element of the task in the tile, along a letter of one dimension.
  Index skipped(char letter) const { return axes_[axis_of(letter)].offset; }
  /// The same for kernels that count in 32 bits. Throw ShapeError where that is too few.
  std::uint32_t extent32(char group) const { return in_32_bits(extent(group), group); }
  std::uint32_t rest32(char letter) const { return in_32_bits(rest(letter), letter); }
  std::uint32_t skipped32(char letter) const { return in_32_bits(skipped(letter), letter); }
  /// Elements along a group in the whole tensor.
  Index whole(char group) const { return table_->whole(group); }
  /// Logical position of the task's first element along a letter of one dimension.
  Index begin(char letter) const {
    for (std::size_t id = 0; id < axes_.size(); ++id)
      if (table_->axes[id].group == letter) return axes_[id].tile_begin + axes_[id].offset;
    return 0;
  }
  /// Elements of the operand's tile that the task takes; 0 of an operand that the call lacks.
  Index elements(OperandIndex operand) const {
    if (!table_->present.has(operand)) return 0;
    Index product = 1;
    for (auto const id : axes_of(operand)) product *= axes_[id].extent;
    return product;
  }
  /// Elements in a column of the operand's tile: its extent in dimension 0.
  Index rows(OperandIndex operand) const {
    auto const& axes = axes_of(operand);
    return axes.size() == 0 ? 1 : axes_[axes[0]].tile_extent;
  }
  /// Distance of the columns of the operand's tile, in elements: `rows`, or more where they are
  /// padded. An op whose `args` asks for it says so in its hook `padding`.
  Index leading(OperandIndex operand) const {
    return leading_dimension({rows(operand)}, unit(operand));
  }
  bool padded(OperandIndex operand) const { return leading(operand) != rows(operand); }
  /// The offset of the task's part in the operand's tile, in elements.
  Index offset(OperandIndex operand) const {
    Index sum = 0;
    Index stride = 1;
    bool column = true;
    for (auto const id : axes_of(operand)) {
      sum += stride * axes_[id].offset;
      stride *= column ? leading(operand) : axes_[id].tile_extent;
      column = false;
    }
    return sum;
  }
  /// Distance in the operand's tile between neighbours along a group's first dimension; 0 where it
  /// lacks the group.
  Index stride(OperandIndex operand, char group) const {
    Index product = 1;
    bool column = true;
    for (auto const id : axes_of(operand)) {
      if (table_->axes[id].group == group) return product;
      product *= column ? leading(operand) : axes_[id].tile_extent;
      column = false;
    }
    return 0;
  }
  /// Position and extents of the operand's tile.
  TileBox box(OperandIndex operand) const {
    TileBox result;
    for (auto const id : axes_of(operand)) {
      result.begin.push_back(axes_[id].tile_begin);
      result.extent.push_back(axes_[id].tile_extent);
    }
    return result;
  }

 private:
  static std::uint32_t in_32_bits(Index count, char letter) {
    if (count > UINT32_MAX)
      throw ShapeError(concat("its kernel counts up to ", UINT32_MAX, " elements of a tile along '",
                              letter, "', and there are ", count, "; use smaller tiles"));
    return static_cast<std::uint32_t>(count);
  }
  Index unit(OperandIndex operand) const {
    return units_ == nullptr ? 1 : units_[table_->present.rank(operand)];
  }
  inplace_vector<std::uint8_t, max_rank> const& axes_of(OperandIndex operand) const {
    return table_->operands[table_->present.rank(operand)];
  }

  AxisTable const* table_;
  AxisTiling const* const* tilings_;
  Index const* units_;
  Index const* groups_ = nullptr;
  inplace_vector<AxisRange, max_axes> axes_;
};

}  // namespace nntile
