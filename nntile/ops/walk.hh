#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The one walk over an op's tiles: which tile tasks there are, in which order, with which accesses.

#include <algorithm>
#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "nntile/core/cost.hh"
#include "nntile/ops/groups.hh"

namespace nntile {

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
    sums_ = GroupSums(call_, phase);
    folds_ = leaves_out_blocks(phase);
    return operands;
  }

  void task(TileRange const& range) override {
    if (left_out(range)) return;
    if (range.canonical_group != TileRange::no_group) return visit_group(range);
    TileTask task{range, {}};
    for (auto const& use : phase_->uses) {
      std::size_t const o = call_.table.present.rank(use.handle);
      if (exists(o))
        task.uses.push_back(
            {{static_cast<std::uint8_t>(o), 0, number(range, o)}, access(use, o, range)});
    }
    visitor_.visit(task);
  }

  Index next(TileRange const& range, std::size_t axis) const override {
    Index const tile = range.axis(axis).tile;
    if (axis == call_.sample.axis) return call_.sample.next(tile);
    if (axis == call_.rows.axis) return call_.rows.next(tile);
    return tile + 1 < range.tiles(axis) ? tile + 1 : -1;
  }

  /// Axes whose groups the phase sums one by one.
  std::uint32_t grouped() const { return sums_.grouped(); }

  /// The next tasks sum `summed` groups, or stand for a block of `groups` that are left out, from
  /// the first on: a power of two, up to the one that ends; 0: they are not left out. Whether
  /// there are tasks.
  bool begin_groups(Index summed, Index groups, Index first) {
    summed_ = summed, groups_ = std::max<Index>(1, groups);
    Index const left_out = groups == 0 || !folds_ ? 0 : std::max(groups, summed);
    waiting_[static_cast<std::size_t>(depth_)] = {first, first + left_out - 1};
    return left_out == 0;
  }

  void end_group(TileRange const& range) override {
    if (left_out(range)) return;
    ++depth_;
    int const inside = std::countr_zero(static_cast<std::uint64_t>(std::max(summed_, groups_)));
    for (int merges = sums_.merges_after(range) - inside; merges > 0; --merges) {
      --depth_;
      for (std::size_t o = 0; o < call_.operands.size(); ++o)
        if (sums_.has(o)) combine(range, o);
    }
    if (depth_ == 1 && sums_.done(range)) {
      take_steps(range);
      if (sums_.finishes()) finish(range);
      depth_ = 0;
    }
  }

 private:
  /// Canonical groups, from one to another, of which no task is visited.
  struct LeftOut {
    Index first = 0, last = -1;
    bool any() const { return last >= first; }
  };

  /// Whether an op that lists its tiles itself is at one that the walk does not visit.
  bool left_out(TileRange const& range) const {
    return call_.op->tiles != nullptr && call_.sample.axis != TileSample::none &&
           !call_.sample.has(range.axis(call_.sample.axis).tile);
  }
  bool exists(std::size_t operand) const {
    return call_.operands[operand].carry == Carry::none || (carries_ & bit(operand)) != 0;
  }
  Access access(Use<OperandIndex> const& use, std::size_t operand, TileRange const& range) const {
    if (use.access == Access::read) return Access::read;
    bool const fresh = use.access == Access::write ||
                       call_.op->overwrites(call_.attrs, static_cast<int>(operand)) ||
                       call_.operands[operand].carry != Carry::none;
    // A narrow result is written once, by the last task of its chain; its first value sits in the
    // carry. A chain over part of a tile finds what those of the other parts left.
    if (fresh && range.first(use.handle) && whole_before(range, operand)) return Access::write;
    return use.access == Access::accumulate && call_.mode == Mode::fast ? Access::accumulate
                                                                        : Access::update;
  }
  /// Whether no task before this one has written another part of the operand's tile.
  bool whole_before(TileRange const& range, std::size_t operand) const {
    for (auto const id : call_.table.operands[operand])
      if (range.axis(id).offset != 0) return false;
    return true;
  }
  Index number(TileRange const& range, std::size_t operand) const {
    Index result = 0;
    auto const& axes = call_.table.operands[operand];
    for (std::size_t d = axes.size(); d-- > 0;)
      result = result * call_.tilings[axes[d]]->count() + range.axis(axes[d]).tile;
    return result;
  }
  OperandTile tile_of(TileRange const& range, std::size_t operand, int partial) const {
    return {static_cast<std::uint8_t>(operand), static_cast<std::uint8_t>(partial),
            number(range, operand)};
  }

  /// The sums of a result that `depth` others wait for: partials, or the result itself.
  OperandTile sum_of(TileRange const& range, std::size_t result, int depth) const {
    return tile_of(range, result, depth == 0 && sums_.in_place(result) ? 0 : depth + 1);
  }

  /// Whether blocks of groups that are left out need no task: the phase has one result, and all of
  /// its terms are cut along the sampled axis.
  bool leaves_out_blocks(Phase const& phase) const {
    if (call_.sample.axis == TileSample::none || sums_.grouped() != bit(call_.sample.axis))
      return false;
    int results = 0;
    for (auto const& use : phase.uses) {
      std::size_t const o = call_.table.present.rank(use.handle);
      if (sums_.has(o))
        ++results;
      else if (exists(o) && sums_.summed_in(o) == GroupSums::none &&
               (writes(use.access) || (axes_of(call_.table, o) & sums_.grouped()) == 0))
        return false;
    }
    return results == 1;
  }

  void visit_group(TileRange const& range) {
    take_steps(range);
    TileRange own = range;
    own.operands = {};
    inplace_vector<Use<OperandTile>, max_operands> uses;
    for (std::size_t o = 0; o < call_.operands.size(); ++o) {
      OperandIndex const operand = call_.table.present.at(o);
      std::size_t const result = sums_.summed_in(o);
      if (result != GroupSums::none) {
        uses.push_back({sum_of(range, result, depth_), range.first(call_.table.present.at(result))
                                                           ? Access::write
                                                           : Access::update});
      } else {
        auto const* const use = use_of(operand);
        if (use == nullptr || sums_.has(o) || !exists(o)) continue;
        uses.push_back({tile_of(range, o, 0), access(*use, o, range)});
      }
      own.operands.add(operand);
    }
    visitor_.visit({own, uses, false, groups_});
  }

  /// Visits the task that adds two sums. Where one of them is left out it becomes a step of the
  /// task that adds such in turn; where both are, so is their sum, without a task.
  void combine(TileRange const& range, std::size_t result) {
    LeftOut &added = waiting_[static_cast<std::size_t>(depth_)],
            &sum = waiting_[static_cast<std::size_t>(depth_ - 1)];
    if (added.any() && sum.any()) {
      sum.last = added.last;
      return;
    }
    Use<OperandTile> const from{sum_of(range, result, depth_), Access::read},
        to{sum_of(range, result, depth_ - 1), Access::update};
    if (!added.any() && !sum.any()) {
      take_steps(range);
      visitor_.visit({range, {from, to}, true});
      return;
    }
    std::size_t const which = added.any() ? 0 : 1;
    LeftOut const left_out = std::exchange(which == 0 ? added : sum, {});
    steps_.push_back({{from, to}, left_out.first, left_out.last, which});
  }
  /// Visits the task of the steps so far.
  void take_steps(TileRange const& range) {
    if (steps_.empty()) return;
    auto const& [from, to] = steps_.back().uses;
    visitor_.visit({range, {from, to}, true, 1, {steps_.data(), steps_.size()}});
    steps_.clear();
  }

  /// The op's own kernel without terms: what it adds to the sum of all groups, and how it stores
  /// it.
  void finish(TileRange const& range) {
    TileRange own = range;
    own.canonical_group = TileRange::no_group;
    own.finishing = true;
    own.left_terms = 0;
    own.firsts = {}, own.lasts = OperandSet::all();
    own.operands = {};
    for (std::size_t id = 0; id < call_.tilings.size(); ++id)
      if ((sums_.reduced() & bit(id)) != 0)
        own.axis(id) = {0, call_.tilings[id]->begin(0), call_.tilings[id]->size(0), 0, 0};
    inplace_vector<Use<OperandTile>, max_operands> uses;
    for (std::size_t o = 0; o < call_.operands.size(); ++o) {
      OperandIndex const operand = call_.table.present.at(o);
      std::size_t const result = sums_.carried_in(o);
      auto const* const use = use_of(operand);
      if (result != GroupSums::none) {
        uses.push_back({tile_of(own, result, 1), Access::update});
      } else if (sums_.has(o)) {
        bool const fresh =
            !sums_.in_place(o) && call_.op->overwrites(call_.attrs, static_cast<int>(o));
        uses.push_back({tile_of(own, o, 0), fresh ? Access::write : Access::update});
      } else if (use != nullptr && exists(o) && !writes(use->access) &&
                 (axes_of(call_.table, o) & sums_.reduced()) == 0) {
        uses.push_back({tile_of(own, o, 0), Access::read});
      } else {
        continue;
      }
      own.operands.add(operand);
    }
    visitor_.visit({own, uses});
  }

  Use<OperandIndex> const* use_of(OperandIndex operand) const {
    for (auto const& use : phase_->uses)
      if (use.handle == operand) return &use;
    return nullptr;
  }

  TiledCall const& call_;
  std::uint32_t carries_;
  TileVisitor& visitor_;
  Phase const* phase_ = nullptr;
  GroupSums sums_;
  int depth_ = 0;                             // sums of groups that wait to be added
  Index summed_ = 1;                          // groups that the task sums
  Index groups_ = 1;                          // that it stands for
  bool folds_ = false;                        // blocks of groups have no task
  std::array<LeftOut, 64> waiting_ = {};      // sums, by depth
  inplace_vector<TileTask::Step, 64> steps_;  // of the next task
};

/// The part of an axis that a chain goes through: all of it, or one canonical group.
struct AxisWindow {
  Index begin = 0, end = 0;
  Index first_tile = 0, last_tile = 0;
};
using AxisWindows = inplace_vector<AxisWindow, max_axes>;

inline AxisWindow window_of(AxisTiling const& tiling, Index begin, Index end) {
  Index const first = tiling.tile_of(begin);
  return {begin, end, first, std::max(first, tiling.tile_of(end - 1))};
}

/// Moves to what a window has of a tile of an axis: to all of that, or, if the axis is walked by
/// index, to its first index.
inline void take_tile(TiledCall const& call, TileRange& range, std::size_t id, Index tile,
                      AxisWindow const& window, bool one) {
  AxisTiling const& tiling = *call.tilings[id];
  Index const begin = tiling.begin(tile), size = tiling.size(tile);
  Index const offset = std::max<Index>(0, window.begin - begin);
  Index const taken = std::min(size, window.end - begin) - offset;
  range.axis(id) = {tile, begin, size, offset, one && taken > 0 ? 1 : taken};
}

/// Contracted axes outside the innermost cut one are walked index by index, so that elements keep
/// their order.
inline std::uint32_t by_index_axes(TiledCall const& call, std::uint32_t reduced,
                                   std::uint32_t grouped) {
  std::uint32_t bits = 0;
  bool inner_cut = false;
  for (std::size_t id = 0; id < call.tilings.size(); ++id) {
    if ((reduced & bit(id)) == 0) continue;
    if (inner_cut) bits |= bit(id);
    inner_cut |= call.tilings[id]->count() > 1 || (grouped & bit(id)) != 0;
  }
  return bits;
}

/// Steps an odometer over the axes in `axes`, the first one fastest; false after the last position.
inline bool next(TiledCall const& call, TileRange& range, std::uint32_t axes,
                 AxisWindows const& windows, std::uint32_t by_index) {
  for (std::size_t id = 0; id < call.tilings.size(); ++id) {
    if ((axes & bit(id)) == 0) continue;
    AxisRange& axis = range.axis(id);
    AxisWindow const& window = windows[id];
    bool const one = (by_index & bit(id)) != 0;
    if (one && axis.offset + 1 < axis.tile_extent &&
        axis.tile_begin + axis.offset + 1 < window.end) {
      ++axis.offset;
      return true;
    }
    bool const all = id != call.sample.axis || (range.canonical_group != TileRange::no_group);
    Index const after = !all                           ? call.sample.next(axis.tile)
                        : id == call.rows.axis         ? call.rows.next(axis.tile)
                        : axis.tile < window.last_tile ? axis.tile + 1
                                                       : -1;
    take_tile(call, range, id, after >= 0 ? after : window.first_tile, window, one);
    if (after >= 0) return true;
  }
  return false;
}

/// The tasks of one chain, from where the range is.
inline void walk_chain(TiledCall const& call, TileRange& range, std::uint32_t reduced,
                       AxisWindows const& windows, std::uint32_t by_index, Emitter& emitter) {
  bool first = true;
  for (bool more = true; more;) {
    TileRange const here = range;
    more = next(call, range, reduced, windows, by_index);
    TileRange task = here;
    task.firsts = first ? OperandSet::all() : OperandSet{};
    task.lasts =
        more || here.canonical_group != TileRange::no_group ? OperandSet{} : OperandSet::all();
    emitter.task(task);
    first = false;
  }
}

/// The canonical groups of a sampled axis that a walk takes as blocks: as many as are left out and
/// make a subtree.
class GroupBlocks {
 public:
  /// None where the phase does not sum groups of a sampled axis.
  GroupBlocks(TiledCall const& call, std::uint32_t grouped, TileRange const& range) {
    std::size_t const id = call.sample.axis;
    if (id == TileSample::none || (grouped & bit(id)) == 0) return;
    GroupCut const cut = range.groups(id);
    for (Index group = 0; group < cut.count;) {
      Index size = left_out(call, cut, group, group + 1) ? 1 : 0;
      while (size > 0 && group % (2 * size) == 0 && left_out(call, cut, group, group + 2 * size))
        size *= 2;
      if (size > 0) blocks_.push_back({group, size});
      group += std::max<Index>(1, size);
    }
  }
  /// The number of groups in the block that begins with a group; 0 where there is none.
  Index from(Index group) const {
    auto const block =
        std::find_if(blocks_.begin(), blocks_.end(), [&](Block of) { return of.group >= group; });
    return block == blocks_.end() || block->group != group ? 0 : block->size;
  }

 private:
  struct Block {
    Index group, size;
  };
  static bool left_out(TiledCall const& call, GroupCut const& cut, Index group, Index end) {
    if (end > cut.count) return false;
    AxisTiling const& tiling = *call.tilings[call.sample.axis];
    return call.sample.skips(tiling.tile_of(cut.begin(group)), tiling.tile_of(cut.begin(end) - 1));
  }
  std::vector<Block> blocks_;
};

/// A chain for each canonical group, or a task for a pair, those of the innermost axis first.
inline void walk_groups(TiledCall const& call, TileRange range, std::uint32_t reduced,
                        std::uint32_t grouped, AxisWindows windows, std::uint32_t by_index,
                        GroupBlocks const& blocks, Emitter& emitter) {
  GroupPairs const pairs(call, reduced, grouped);
  if (pairs.all()) {
    range.left_terms = pairs.terms(0);
    return walk_chain(call, range, reduced, windows, by_index, emitter);
  }
  inplace_vector<Index, max_axes> group(call.tilings.size(), 0);
  range.canonical_group = 0;
  for (bool more = true; more; ++range.canonical_group) {
    Index const summed = pairs.from(range.canonical_group);
    range.left_terms = summed > 1 ? pairs.terms(range.canonical_group) : 0;
    Index const block = blocks.from(range.canonical_group);
    bool const visited = emitter.begin_groups(summed, block, range.canonical_group);
    for (std::size_t id = 0; visited && id < call.tilings.size(); ++id) {
      if ((grouped & bit(id)) != 0) {
        GroupCut const cut = range.groups(id);
        windows[id] =
            window_of(*call.tilings[id], cut.begin(group[id]), cut.begin(group[id] + summed));
      }
      if ((reduced & bit(id)) != 0)
        take_tile(call, range, id, windows[id].first_tile, windows[id], (by_index & bit(id)) != 0);
    }
    if (visited) walk_chain(call, range, reduced, windows, by_index, emitter);
    if (Index const further = std::max(block, summed) - 1; further > 0) {  // of the only such axis
      range.canonical_group += static_cast<int>(further);
      group[static_cast<std::size_t>(std::countr_zero(grouped))] += further;
    }
    emitter.end_group(range);
    more = false;
    for (std::size_t id = 0; id < call.tilings.size() && !more; ++id) {
      if ((grouped & bit(id)) == 0) continue;
      more = group[id] + 1 < call.groups[id];
      group[id] = more ? group[id] + 1 : 0;
    }
  }
}

inline void walk_phase(TiledCall const& call, Phase const& phase, int number, Emitter& emitter) {
  TileRange range(call.table, call.tilings.data(), call.units());
  if (!call.groups.empty()) range.set_groups(call.groups.data());
  range.phase = number;
  range.operands = emitter.begin(phase);
  std::uint32_t used = 0;
  for (auto const& use : phase.uses) used |= axes_of(call.table, use.handle);
  std::uint32_t const reduced = number < 0 ? 0 : reduced_axes(call, phase);
  std::uint32_t const grouped = number < 0 ? 0 : emitter.grouped();
  std::uint32_t const by_index = by_index_axes(call, reduced, grouped);
  AxisWindows windows;
  for (std::size_t id = 0; id < call.tilings.size(); ++id) {
    AxisTiling const& tiling = *call.tilings[id];
    windows.push_back({0, tiling.extent(), 0, tiling.count() - 1});
    take_tile(call, range, id, 0, windows[id], (by_index & bit(id)) != 0);
  }
  GroupBlocks const blocks(call, grouped, range);
  do {
    if (grouped != 0)
      walk_groups(call, range, reduced, grouped, windows, by_index, blocks, emitter);
    else
      walk_chain(call, range, reduced, windows, by_index, emitter);
  } while (next(call, range, used & ~reduced, windows, 0));
}

}  // namespace detail

/// The cost of a tile task: the op's flops, and the bytes of each operand's part, twice where it is
/// updated.
inline Cost cost_of(TiledCall const& call, TileTask const& task) {
  Cost cost{task.combines ? 0 : call.op->flops(call.attrs, task.range), 0};
  for (Use<OperandTile> const& use : task.uses) {
    OperandInfo const& operand = call.operands[use.handle.operand];
    DType dtype = dtype_of_kind(operand.kind, {call.element, call.second});
    if (use.handle.partial != 0) dtype = accumulator_of(dtype);
    auto const size = static_cast<Index>(size_of(dtype));
    cost += {0, saturated_product({writes(use.access) && reads(use.access) ? 2 : 1, size,
                                   call.op->elements(call.attrs, task.range,
                                                     call.table.present.at(use.handle.operand))})};
  }
  return cost;
}

/// Visits the op's tile tasks in canonical order: kept tiles outside (first axis fastest), the
/// tiles of a chain ascending inside, contracted axes as nested loops with the last outermost; a
/// chain for each canonical group, and the tasks that add these, as soon as both are there. An
/// axis of extent 0 has one empty tile, like any other: a result that is reduced over it gets its
/// task, which writes the sum of nothing. Cost: linear in the number of tasks.
inline void walk(TiledCall const& call, TileVisitor& visitor) {
  detail::Emitter emitter(call, carries_of(call), visitor);
  Phases const phases = detail::phases_of(call);
  if (call.op->tiles != nullptr) {
    TileRange range(call.table, call.tilings.data(), call.units());
    if (!call.groups.empty()) range.set_groups(call.groups.data());
    for (std::size_t id = 0; id < call.tilings.size(); ++id) range.take(id, 0);
    range.operands = emitter.begin(phases[0]);
    call.op->tiles(call.attrs, range, emitter);
    return;
  }
  bool const declared = !call.op->phases(call.attrs).empty();
  if (!declared) return detail::walk_phase(call, phases[0], 0, emitter);
  if (chain_is_cut(call) || detail::any_grouped(call)) {
    for (std::size_t p = 0; p < phases.size(); ++p)
      detail::walk_phase(call, phases[p], static_cast<int>(p), emitter);
    return;
  }
  detail::walk_phase(call, detail::whole_phase(call), -1, emitter);
}

}  // namespace nntile
