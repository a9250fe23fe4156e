#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The one walk over an op's tiles: which tile tasks there are, in which order, with which accesses.

#include <span>

#include "nntile/core/cost.hh"
#include "nntile/ops/concept.hh"

namespace nntile {

/// A tile of an operand, which is counted among those that the call has.
struct OperandTile {
  std::uint8_t operand;
  Index tile;
};

/// What the walk visits. `args` of the op is computed from the range.
struct TileTask {
  TileRange const& range;
  inplace_vector<Use<OperandTile>, max_operands> uses;
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

/// Bits of the hidden operands that exist under these tilings.
inline std::uint32_t carries_of(TiledCall const& call) {
  std::uint32_t bits = 0;
  bool const split = chain_is_cut(call);
  bool const narrow = accumulator_of(call.element) != call.element;
  for (std::size_t o = 0; o < call.operands.size(); ++o) {
    Carry const carry = call.operands[o].carry;
    if (split && (carry == Carry::phases || (carry == Carry::narrow && narrow)))
      bits |= detail::bit(o);
  }
  return bits;
}

namespace detail {

/// Turns a range into a tile task: tile numbers from positions, task accesses from chain positions.
class Emitter final : public TileSink {
 public:
  Emitter(TiledCall const& call, std::uint32_t carries, TileVisitor& visitor)
      : call_(call), carries_(carries), visitor_(visitor) {}

  /// Begins a phase, and returns the operands that its tasks have.
  OperandSet begin(Phase const& phase) {
    phase_ = &phase;
    OperandSet operands;
    for (auto const& use : phase.uses)
      if (exists(call_.table.present.rank(use.handle))) operands.add(use.handle);
    return operands;
  }

  void task(TileRange const& range) override {
    TileTask task{range, {}};
    for (auto const& use : phase_->uses) {
      std::size_t const o = call_.table.present.rank(use.handle);
      if (exists(o))
        task.uses.push_back(
            {{static_cast<std::uint8_t>(o), number(range, o)}, access(use, o, range)});
    }
    visitor_.visit(task);
  }

 private:
  bool exists(std::size_t operand) const {
    return call_.operands[operand].carry == Carry::none || (carries_ & bit(operand)) != 0;
  }
  Access access(Use<OperandIndex> const& use, std::size_t operand, TileRange const& range) const {
    if (use.access == Access::read) return Access::read;
    bool const fresh = use.access == Access::write ||
                       call_.op->overwrites(call_.attrs, static_cast<int>(operand)) ||
                       call_.operands[operand].carry != Carry::none;
    // A narrow result is written once, by the last task of its chain; its first value sits in the
    // carry.
    return fresh && range.first(use.handle) ? Access::write : Access::update;
  }
  Index number(TileRange const& range, std::size_t operand) const {
    Index result = 0;
    auto const& axes = call_.table.operands[operand];
    for (std::size_t d = axes.size(); d-- > 0;)
      result = result * call_.tilings[axes[d]]->count() + range.axis(axes[d]).tile;
    return result;
  }

  TiledCall const& call_;
  std::uint32_t carries_;
  TileVisitor& visitor_;
  Phase const* phase_ = nullptr;
};

/// Moves to a tile of an axis: to all of it, or, if the axis is walked by index, to its first
/// index.
inline void take_tile(TiledCall const& call, TileRange& range, std::size_t id, Index tile,
                      bool one) {
  AxisTiling const& tiling = *call.tilings[id];
  Index const size = tiling.size(tile);
  range.axis(id) = {tile, tiling.begin(tile), size, 0, one && size > 0 ? 1 : size};
}

/// Contracted axes outside the innermost cut one are walked index by index, so that elements keep
/// their order.
inline std::uint32_t by_index_axes(TiledCall const& call, std::uint32_t reduced) {
  std::uint32_t bits = 0;
  bool inner_cut = false;
  for (std::size_t id = 0; id < call.tilings.size(); ++id) {
    if ((reduced & bit(id)) == 0) continue;
    if (inner_cut) bits |= bit(id);
    inner_cut |= call.tilings[id]->count() > 1;
  }
  return bits;
}

/// Steps an odometer over the axes in `axes`, the first one fastest; false after the last position.
inline bool next(TiledCall const& call, TileRange& range, std::uint32_t axes,
                 std::uint32_t by_index) {
  for (std::size_t id = 0; id < call.tilings.size(); ++id) {
    if ((axes & bit(id)) == 0) continue;
    AxisRange& axis = range.axis(id);
    bool const one = (by_index & bit(id)) != 0;
    if (one && axis.offset + 1 < axis.tile_extent) {
      ++axis.offset;
      return true;
    }
    bool const more = axis.tile + 1 < call.tilings[id]->count();
    take_tile(call, range, id, more ? axis.tile + 1 : 0, one);
    if (more) return true;
  }
  return false;
}

inline void walk_phase(TiledCall const& call, Phase const& phase, int number, Emitter& emitter) {
  TileRange range(call.table, call.tilings.data(), call.units());
  range.phase = number;
  range.operands = emitter.begin(phase);
  std::uint32_t used = 0;
  for (auto const& use : phase.uses) used |= axes_of(call.table, use.handle);
  std::uint32_t const reduced = number < 0 ? 0 : reduced_axes(call, phase);
  std::uint32_t const by_index = by_index_axes(call, reduced);
  for (std::size_t id = 0; id < call.tilings.size(); ++id)
    take_tile(call, range, id, 0, (by_index & bit(id)) != 0);
  do {
    bool first = true;
    for (bool more = true; more;) {
      TileRange const here = range;
      more = next(call, range, reduced, by_index);
      TileRange task = here;
      task.firsts = first ? OperandSet::all() : OperandSet{};
      task.lasts = more ? OperandSet{} : OperandSet::all();
      emitter.task(task);
      first = false;
    }
  } while (next(call, range, used & ~reduced, 0));
}

}  // namespace detail

/// What a tile task costs: the op's flops, and the bytes of each operand's part, twice where it is
/// updated.
inline Cost cost_of(TiledCall const& call, TileTask const& task) {
  Cost cost{call.op->flops(call.attrs, task.range), 0};
  for (Use<OperandTile> const& use : task.uses) {
    OperandInfo const& operand = call.operands[use.handle.operand];
    auto const size =
        static_cast<Index>(size_of(dtype_of_kind(operand.kind, {call.element, call.second})));
    cost.bytes +=
        (use.access == Access::update ? 2 : 1) * size *
        call.op->elements(call.attrs, task.range, call.table.present.at(use.handle.operand));
  }
  return cost;
}

/// Visits the op's tile tasks in canonical order: kept tiles outside (first axis fastest), the
/// tiles of a chain ascending inside, contracted axes as nested loops with the last outermost. An
/// axis of extent 0 has one empty tile, like any other: a result that is reduced over it gets its
/// task, which writes the sum of nothing. Cost: linear in the number of tasks.
inline void walk(TiledCall const& call, TileVisitor& visitor) {
  detail::Emitter emitter(call, carries_of(call), visitor);
  Phases const phases = detail::phases_of(call);
  if (call.op->tiles != nullptr) {
    TileRange range(call.table, call.tilings.data(), call.units());
    for (std::size_t id = 0; id < call.tilings.size(); ++id) range.take(id, 0);
    range.operands = emitter.begin(phases[0]);
    call.op->tiles(call.attrs, range, emitter);
    return;
  }
  bool const declared = !call.op->phases(call.attrs).empty();
  if (!declared) return detail::walk_phase(call, phases[0], 0, emitter);
  if (chain_is_cut(call)) {
    for (std::size_t p = 0; p < phases.size(); ++p)
      detail::walk_phase(call, phases[p], static_cast<int>(p), emitter);
    return;
  }
  detail::walk_phase(call, detail::whole_phase(call), -1, emitter);
}

}  // namespace nntile
