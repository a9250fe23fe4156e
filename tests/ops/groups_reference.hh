// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Sums over groups as nntile/NUMERICS.md states them, one element after the other.

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "nntile/runtime/ring/ring.hh"
#include "tests/support/catch.hh"
#include "tests/support/planned_op.hh"

namespace nntile::test::grouped {

/// Where group `group` of `count` begins on an axis: units of 64 where it is 64 a group long, the
/// remainder to the first.
inline Index begin_of(Index extent, Index count, Index group) {
  Index const unit = extent >= 64 * count ? 64 : 1;
  std::vector<Index> sizes(static_cast<std::size_t>(count));
  Index const units = (extent + unit - 1) / unit;
  for (Index u = 0; u < units; ++u) ++sizes[static_cast<std::size_t>(u % count)];
  Index begin = 0;
  for (Index g = 0; g < group; ++g) begin += unit * sizes[static_cast<std::size_t>(g)];
  return std::min(begin, extent);
}

/// ((0+1)+(2+3))+..., level by level.
template <class V> V tree(std::vector<V> sums) {
  while (sums.size() > 1) {
    std::vector<V> next;
    for (std::size_t i = 0; i + 1 < sums.size(); i += 2) next.push_back(sums[i] + sums[i + 1]);
    if (sums.size() % 2 == 1) next.push_back(sums.back());
    sums = std::move(next);
  }
  return sums[0];
}

/// A contracted axis and its groups.
struct GroupedAxis {
  Index extent;
  Index groups;
};

/// The sum over axes, innermost first, of chain(first index of each axis, its end), a chain from
/// +0.
template <class V>
V by_groups(std::vector<GroupedAxis> const& axes,
            std::function<V(std::vector<Index> const&, std::vector<Index> const&)> const& chain) {
  std::vector<Index> begins(axes.size()), ends(axes.size());
  std::function<V(std::size_t)> const level = [&](std::size_t left) -> V {
    if (left == 0) return chain(begins, ends);
    auto const& [extent, groups] = axes[left - 1];
    std::vector<V> sums;
    for (Index g = 0; g < groups; ++g) {
      begins[left - 1] = begin_of(extent, groups, g);
      ends[left - 1] = begin_of(extent, groups, g + 1);
      sums.push_back(level(left - 1));
    }
    return tree(sums);
  };
  return level(axes.size());
}

/// Elements of an array as the accumulator sees them.
template <class V> std::function<V(Index)> values(Array const& x) {
  return [&x](Index i) { return static_cast<V>(x.get(i)); };
}

/// CHECKs a case against a reference of all bits: eager, cut, planned, on all runtimes.
inline void check_bits(OpCase const& c, DType element,
                       std::function<void(std::vector<Array>&)> reference,
                       std::vector<Cuts> const& tilings) {
  std::string groups;
  for (AxisGroups const& each : c.groups) groups += concat(" ", each.axis, "=", each.groups);
  INFO(c.op->name << " " << name_of(element) << groups);
  auto const operands = make_operands(c, element);
  auto exact = operands;
  reference(exact);
  CHECK(difference(c, run_kernel(c, element, operands), exact) == "");
  for (Cuts const& cuts : tilings) {
    CHECK(difference(c, run_kernel(c, element, operands, {.cuts = cuts}), exact) == "");
    CHECK(difference(
              c, run_kernel(c, element, operands, {.cuts = cuts, .runtime = "ring", .workers = 2}),
              exact) == "");
    PlanOptions const cut{.tile = 0, .cuts = plan_cuts(cuts)};
    CHECK(difference(c, run_planned<Serial>(c, element, operands, cut), exact) == "");
    CHECK(difference(c, run_planned<Ring>(c, element, operands, cut), exact) == "");
  }
}

/// term(begin) + ... over [begin, end) from +0, in blocks of 64: element i to lane i mod 16, lanes
/// by the tree 16-8-4-2-1, blocks upwards; counted from `begin`.
template <class V, class Term> V blocked(Index begin, Index end, Term term) {
  V sum = 0;
  for (Index block = begin; block < end; block += 64) {
    V lanes[16] = {};
    for (Index i = block; i < std::min(block + 64, end); ++i) lanes[(i - block) % 16] += term(i);
    for (int half = 8; half > 0; half /= 2)
      for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    sum += lanes[0];
  }
  return sum;
}

/// The same of a whole axis with groups.
template <class V, class Term> V grouped_blocks(Index extent, Index groups, Term term) {
  std::vector<V> sums;
  for (Index g = 0; g < groups; ++g)
    sums.push_back(blocked<V>(begin_of(extent, groups, g), begin_of(extent, groups, g + 1), term));
  return tree(sums);
}

template <class V> void set_updated(Array& y, Index i, double beta, V value) {
  if (beta != 0) value = std::fma(V(beta), V(y.get(i)), value);
  y.set(i, static_cast<double>(value));
}

/// Calls run(V()) with the accumulator of a dtype.
template <class Run> void with_accumulator(DType element, Run run) {
  if (element == DType::fp64)
    run(double());
  else
    run(float());
}

inline constexpr DType floats[] = {DType::fp32, DType::fp64, DType::bf16, DType::fp16};

}  // namespace nntile::test::grouped
