#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Canonical groups of a call's reduced axes: which results are summed by groups, where the sums
// are, and when they are added.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

#include "nntile/ops/tiled_call.hh"

namespace nntile {

namespace detail {

/// Of some axes, those that have several canonical groups.
inline std::uint32_t grouped(TiledCall const& call, std::uint32_t axes) {
  std::uint32_t bits = 0;
  for (std::size_t id = 0; id < call.groups.size(); ++id)
    if ((axes & bit(id)) != 0 && call.groups[id] > 1) bits |= bit(id);
  return bits;
}

/// Axes whose groups are summed one by one where results of a phase are: those that the result
/// lacks, unless it combines otherwise than by adding.
inline std::uint32_t grouped_axes(TiledCall const& call, Phase const& phase, std::size_t result) {
  if (call.groups.empty() || call.operands[result].combine != Combine::add) return 0;
  std::uint32_t used = 0;
  for (auto const& use : phase.uses) used |= axes_of(call.table, use.handle);
  return grouped(call, used & ~axes_of(call.table, result));
}

/// Whether a result is summed by groups in some phase.
inline bool is_grouped(TiledCall const& call, Phases const& phases, std::size_t operand) {
  for (Phase const& phase : phases)
    for (auto const& use : phase.uses)
      if (call.table.present.rank(use.handle) == operand && writes(use.access) &&
          call.operands[operand].carry != Carry::narrow && grouped_axes(call, phase, operand) != 0)
        return true;
  return false;
}

/// Whether any is.
inline bool any_grouped(TiledCall const& call) {
  if (call.groups.empty()) return false;
  Phases const phases = phases_of(call);
  for (std::size_t o = 0; o < call.operands.size(); ++o)
    if (is_grouped(call, phases, o)) return true;
  return false;
}

/// The places of the sums of the canonical groups of a phase's results, and the order in which they
/// are added. Sums that wait form a stack, whose lowest is the result itself where it is as wide as
/// its accumulator and its former value is not asked for.
class GroupSums {
 public:
  static constexpr std::size_t none = ~std::size_t{0};

  GroupSums() = default;
  GroupSums(TiledCall const& call, Phase const& phase) {
    if (call.groups.empty()) return;
    std::size_t results = 0;
    bool apart = false;
    for (auto const& use : phase.uses) {
      std::size_t const o = call.table.present.rank(use.handle);
      OperandInfo const& operand = call.operands[o];
      if (!writes(use.access) || operand.carry == Carry::narrow) continue;
      std::uint32_t const axes = grouped_axes(call, phase, o);
      if (axes == 0) continue;
      grouped_ |= axes;
      reduced_ |= ~axes_of(call.table, o);
      results_ |= bit(o);
      ++results;
      DType const dtype = dtype_of_kind(operand.kind, {call.element, call.second});
      bool const wide = accumulator_of(dtype) == dtype;
      bool const fresh = use.access == Access::write || operand.carry != Carry::none ||
                         call.op->overwrites(call.attrs, static_cast<int>(o));
      if (wide) wide_ |= bit(o);
      if (wide && fresh)
        in_place_ |= bit(o);
      else
        apart = true;
    }
    for (std::size_t o = 0; o < call.operands.size(); ++o) {
      carried_.push_back(static_cast<std::uint8_t>(0xff));
      if (results_ == 0 || call.operands[o].carry != Carry::narrow) continue;
      std::size_t const result = result_of_carry(call.operands, o);
      if (has(result)) carried_.back() = static_cast<std::uint8_t>(result);
    }
    for (std::size_t id = 0; id < call.groups.size(); ++id)
      if ((grouped_ & bit(id)) != 0) axes_.push_back({id, call.groups[id]});
    bool const ends = phase.uses.size() > 0 && call.op->phases(call.attrs).empty();
    finishes_ = apart || call.op->finishes(call.attrs) || (ends && results > 1);
  }

  /// Whether one of the results needs a narrow carry, which the op does not declare.
  static bool lacks_carry(TiledCall const& call, std::uint32_t results) {
    std::uint32_t carried = 0;
    for (std::size_t o = 0; o < call.operands.size(); ++o)
      if (call.operands[o].carry == Carry::narrow)
        carried |= bit(result_of_carry(call.operands, o));
    for (std::size_t o = 0; o < call.operands.size(); ++o) {
      OperandInfo const& operand = call.operands[o];
      DType const dtype = dtype_of_kind(operand.kind, {call.element, call.second});
      bool const fresh = operand.access == Access::write || operand.carry != Carry::none ||
                         call.op->overwrites(call.attrs, static_cast<int>(o));
      if ((results & ~carried & bit(o)) != 0 && (!fresh || accumulator_of(dtype) != dtype))
        return true;
    }
    return false;
  }

  std::uint32_t grouped() const { return grouped_; }
  std::uint32_t reduced() const { return reduced_; }
  bool has(std::size_t result) const { return (results_ >> result & 1u) != 0; }
  bool in_place(std::size_t result) const { return (in_place_ >> result & 1u) != 0; }
  /// Whether a task beyond the last group stores the results. Where there are several, and no later
  /// phase, one is there in any case, so that a call ends with one task.
  bool finishes() const { return finishes_; }
  /// The result whose groups are summed where kernels see operand `o`, or none.
  std::size_t summed_in(std::size_t o) const {
    if (has(o) && (wide_ >> o & 1u) != 0) return o;
    std::size_t const result = carry_of(o);
    return result != none && (wide_ >> result & 1u) == 0 ? result : none;
  }
  /// The result whose sum over all groups a finishing task sees as operand `o`, or none.
  std::size_t carried_in(std::size_t o) const {
    std::size_t const result = carry_of(o);
    return result != none && !in_place(result) ? result : none;
  }
  /// The number of times that two sums become one behind a group: as often as it fills a pair of
  /// the tree, and with the last group of an axis until one sum is left of it, which is one of the
  /// next axis.
  int merges_after(TileRange const& range) const {
    int merges = 0;
    Index group = range.canonical_group;
    for (GroupedAxis const& axis : axes_) {
      Index const here = group % axis.count;
      group /= axis.count;
      merges += std::countr_zero(static_cast<std::uint64_t>(here + 1));
      if (here + 1 < axis.count) break;
      merges += std::popcount(static_cast<std::uint64_t>(axis.count)) - 1;
    }
    return merges;
  }
  /// Whether the group is the last.
  bool done(TileRange const& range) const {
    Index all = 1;
    for (GroupedAxis const& axis : axes_) all *= axis.count;
    return range.canonical_group + 1 == all;
  }

 private:
  struct GroupedAxis {
    std::size_t id;
    Index count;
  };
  std::size_t carry_of(std::size_t o) const {
    return o < carried_.size() && carried_[o] != 0xff ? carried_[o] : none;
  }

  std::uint32_t grouped_ = 0, reduced_ = 0, results_ = 0, wide_ = 0, in_place_ = 0;
  inplace_vector<std::uint8_t, max_operands> carried_;  // by operand: the result whose carry it is
  inplace_vector<GroupedAxis, max_axes> axes_;
  bool finishes_ = false;
};

/// The pairs of canonical groups of a phase that one task sums: those that the tree adds first,
/// whose terms are one stretch of a tile, and not too many.
class GroupPairs {
 public:
  GroupPairs(TiledCall const& call, std::uint32_t reduced, std::uint32_t grouped) {
    if (call.op->paired_terms == 0 || !std::has_single_bit(grouped)) return;
    auto const axis = static_cast<std::size_t>(std::countr_zero(grouped));
    for (std::size_t id = 0; id < call.tilings.size(); ++id) {
      if (id == axis || (reduced & bit(id)) == 0) continue;
      Index const extent = call.tilings[id]->extent();
      if (call.tilings[id]->count() > 1 || (id > axis && extent > 1) || extent == 0) return;
      within_ *= extent;
    }
    tiling_ = call.tilings[axis];
    cut_ = {tiling_->extent(), call.groups[axis]};
    most_ = call.op->paired_terms;
  }

  /// The number of groups in the task that begins with this one: 1 or 2.
  Index from(Index group) const {
    if (tiling_ == nullptr || group % 2 != 0 || group + 2 > cut_.count) return 1;
    bool const in_one_tile =
        tiling_->tile_of(cut_.begin(group)) == tiling_->tile_of(cut_.begin(group + 2) - 1);
    return in_one_tile && terms(group) <= most_ ? 2 : 1;
  }
  /// The most sums that wait for others while a number of groups is added, which are the ones in
  /// the number of the first group of a task.
  std::size_t deepest(Index groups) const {
    auto const last = static_cast<std::uint64_t>(groups - 1);
    auto const top = static_cast<int>(std::bit_width(last)) - 1;
    bool const paired = tiling_ != nullptr && may_pair();
    int most = paired ? 0 : std::max(std::popcount(last), top);
    for (Index group = 0; paired && group < groups; group += from(group))
      most = std::max(most, std::popcount(static_cast<std::uint64_t>(group)));
    return static_cast<std::size_t>(most);
  }
  /// Whether a pair is all that there is.
  bool all() const { return cut_.count == 2 && from(0) == 2; }
  /// Terms of a group; none that follows has more.
  Index terms(Index group) const { return within_ * (cut_.begin(group + 1) - cut_.begin(group)); }

 private:
  /// Whether some tile has room for two groups.
  bool may_pair() const {
    Index largest = 0;
    for (Index tile = 0; tile < tiling_->count(); ++tile)
      largest = std::max(largest, tiling_->size(tile));
    return largest >= 2 * (tiling_->extent() / cut_.count);
  }

  AxisTiling const* tiling_ = nullptr;  // of the axis with groups; null: a task for each
  GroupCut cut_;
  Index within_ = 1;  // terms of one index of the axis
  Index most_ = 0;
};

}  // namespace detail

/// Bits of the hidden operands that exist under these tilings.
inline std::uint32_t carries_of(TiledCall const& call) {
  std::uint32_t bits = 0;
  bool const split = chain_is_cut(call), groups = detail::any_grouped(call);
  // By their bytes: fp32_fast is stored as its sums are, and no kernel may leave them elsewhere.
  bool const narrow = size_of(accumulator_of(call.element)) != size_of(call.element);
  Phases const phases = groups ? detail::phases_of(call) : Phases{};
  for (std::size_t o = 0; o < call.operands.size(); ++o) {
    Carry const carry = call.operands[o].carry;
    if (carry == Carry::phases ? split || groups : carry == Carry::narrow && narrow && split)
      bits |= detail::bit(o);
    if (groups && carry == Carry::narrow &&  // partials stand in its place
        detail::is_grouped(call, phases, result_of_carry(call.operands, o)))
      bits &= ~detail::bit(o);
  }
  return bits;
}

/// Lets the call's axes have groups, `counts` of them, one number per axis of the table: those that
/// it sums over; others, and those whose sums are exact, have one. Returns why it cannot, or
/// nothing; `name(axis)` is what the reason calls an axis.
template <class Counts, class Name>
std::string set_groups(TiledCall& call, Counts const& counts, Name const& name) {
  call.groups = {};
  std::string_view const can(call.op->grouped), stays(call.op->ungrouped);
  bool any = false;
  for (std::size_t id = 0; id < call.table.axes.size(); ++id)
    call.groups.push_back(counts[id]), any = any || counts[id] > 1;
  Phases const phases = any ? detail::phases_of(call) : Phases{};
  any = false;
  for (std::size_t id = 0; id < call.groups.size(); ++id) {
    if (call.groups[id] == 1) continue;
    Axis const& axis = call.table.axes[id];
    std::uint32_t results = 0;
    for (Phase const& phase : phases)
      for (auto const& use : phase.uses) {
        std::size_t const o = call.table.present.rank(use.handle);
        if (writes(use.access) && call.operands[o].carry != Carry::narrow &&
            (detail::grouped_axes(call, phase, o) & detail::bit(id)) != 0)
          results |= detail::bit(o);
      }
    if (stays.find(axis.group) != stays.npos || (results == 0 && !axis.whole)) {
      call.groups[id] = 1;
      continue;
    }
    Index const count = call.groups[id], extent = call.tilings[id]->extent();
    if (can.find(axis.group) == can.npos)
      return concat("axis '", name(id), "' has ", count, " canonical groups, over which ",
                    call.op->name, " cannot sum; give that axis one group");
    if (extent < count)
      return concat("axis '", name(id), "' of ", extent, " elements has ", count,
                    " canonical groups; at most ", std::max<Index>(1, extent), " would do");
    if (detail::GroupSums::lacks_carry(call, results))
      return concat("axis '", name(id), "' has ", count, " canonical groups, but ", call.op->name,
                    " has no hidden operand for the sums of a result that is updated, or narrower "
                    "than its accumulator; give that axis one group");
    any = true;
  }
  if (!any) call.groups = {};
  return {};
}

}  // namespace nntile
