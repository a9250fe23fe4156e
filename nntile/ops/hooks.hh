#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Optional facts of an op, beside its operands, attributes and kernels.

#include <cstddef>
#include <cstdint>

#include "nntile/core/codelet.hh"
#include "nntile/core/computation.hh"
#include "nntile/ops/operand.hh"
#include "nntile/ops/tile_range.hh"

namespace nntile {

/// Receives the tile tasks of an op that enumerates them itself.
class TileSink {
 public:
  virtual void task(TileRange const& range) = 0;
  /// After the tasks of range.canonical_group: its sums are complete.
  virtual void end_group(TileRange const& range) = 0;
  /// The tile of an axis behind the range's, or -1 behind the last. An op skips the
  /// tiles between.
  virtual Index next(TileRange const& range, std::size_t axis) const = 0;

 protected:
  ~TileSink() = default;
};

/// Operands of an op that may be tiles whose columns are padded: none, those of which dimension 0
/// is a group by itself, as in "v i...", or any. What is not padded is one run of elements, of
/// which an op may count several dimensions as one.
enum class Padding : std::uint8_t { none, columns, any };

/// A function of an op that may be left out. Whether it is there is known apart from its address,
/// which g++ does not compare with null while compiling where null may be an address
/// (-fsanitize=undefined, -fno-delete-null-pointer-checks).
template <class Function> class Hook;
template <class Result, class... Arguments> class Hook<Result(Arguments...)> {
 public:
  constexpr Hook(std::nullptr_t) {}
  /// Without a constraint, so that a wrong signature is one error.
  template <class Function> constexpr Hook(Function function) : function_(function), given_(true) {}

  Result operator()(Arguments... arguments) const {
    return function_(static_cast<Arguments>(arguments)...);
  }
  constexpr bool operator==(std::nullptr_t) const { return !given_; }

 private:
  Result (*function_)(Arguments...) = nullptr;
  bool given_ = false;
};

/// The optional facts of an op, in one designated initialiser, so that a misspelt name or a wrong
/// signature does not compile: `static constexpr Hooks<Attrs> hooks{.blocked = ...}`.
template <class Attrs> struct Hooks {
  /// Whether a call has an operand; default: all of them.
  Hook<bool(Attrs const&, OperandIndex)> present = nullptr;
  /// Axes of an operand that depend on attributes; null: those of the table.
  Hook<char const*(Attrs const&, OperandIndex)> axes = nullptr;
  /// Ranks of groups that attributes fix.
  Hook<GroupRanks(Attrs const&)> ranks = nullptr;
  /// Throws ValueError or ShapeError where attributes or extents mean nothing; called with numbers,
  /// of an open graph when it is planned.
  Hook<void(Attrs const&, AxisTable const&)> check = nullptr;
  /// Passes over a reduced axis.
  Hook<Phases(Attrs const&)> phases = nullptr;
  /// Whether an `update` result is overwritten; default: where the attribute `beta` is 0.
  Hook<bool(Attrs const&, OperandIndex)> overwrites = nullptr;
  /// An irregular set of tile tasks: moves the range by take(), passes each to the sink.
  Hook<void(Attrs const&, TileRange const&, TileSink&)> tiles = nullptr;
  /// Letters of axes that are summed in blocks of 64: cuts elsewhere have bits of their own.
  Hook<char const*(Attrs const&)> blocked = nullptr;
  /// Letters of reduced axes that may have canonical groups: `args` takes part of a tile along them
  /// (TileRange::offset, rest), scales what was there by TileRange::beta, and tells kernels of
  /// finishing tasks. Groups of other axes that are reduced by addition are refused.
  char const* grouped = "";
  /// If not 0, one task sums a pair of canonical groups (TileRange::left_terms) of at most this
  /// many terms each.
  Index paired_terms = 0;
  /// Letters of reduced axes that stay one chain whatever their groups, by nntile/NUMERICS.md.
  char const* ungrouped = "";
  /// Whether the last task of a chain does more than store the sum.
  Hook<bool(Attrs const&)> finishes = nullptr;
  /// Operands in whose memory a plan or a caller may put the last one: of the same axes and dtype;
  /// kernels read an element of them before they write it, and never again (but what they wrote).
  /// No other result may share memory with an operand.
  Hook<OperandSet(Attrs const&)> replaces = nullptr;
  /// Floating-point operations of a product; default: 0.
  Hook<Index(Attrs const&, TileRange const&)> flops = nullptr;
  /// Elements of an operand that a task touches, where those are not its part of the tile.
  Hook<Index(Attrs const&, TileRange const&, OperandIndex)> elements = nullptr;
  /// Entries of the op's own for these types, or null: before the library's and the reference.
  /// If they are for devices alone, the reference is the CPU's.
  Hook<Codelet const*(ElementTypes types)> kernel = nullptr;
  /// Operands that may be padded: `args` asks the range for their leading dimensions. Those of one
  /// dimension may be whatever the op.
  Padding padding = Padding::none;
  /// Letters of axes that are sides of a matrix product: several dimensions of one are cut as one
  /// side, the innermost first.
  char const* sides = "";
  /// The op takes up what a backward pass leaves, as an optimizer's step does: a plan moves it, and
  /// what reads its results alone, up to where its operands are ready, so that gradients die young.
  bool takes_gradients = false;
};

}  // namespace nntile
