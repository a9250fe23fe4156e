#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Canonical groups of an axis: where sums over it begin anew, on any number of ranks.

#include "nntile/core/shape.hh"

namespace nntile {

/// An axis in canonical groups: whole units of 64 elements where it has 64 or more for each group,
/// else elements; dealt out evenly, one more to each of the first groups where some are left.
/// `count` is at most the number of elements.
struct GroupCut {
  Index extent = 0;
  Index count = 1;

  /// First term of group number `group`; that of group `count` is the end.
  constexpr Index begin(Index group) const {
    Index const unit = extent / 64 >= count ? 64 : 1;
    Index const units = (extent + unit - 1) / unit;
    Index const further = group < units % count ? group : units % count;
    Index const begin = unit * (group * (units / count) + further);
    return begin < extent ? begin : extent;
  }
};

}  // namespace nntile
