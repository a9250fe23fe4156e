#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The cut of an axis into given sizes.

#include <algorithm>
#include <string>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/core/tiling.hh"
#include "nntile/graph/options.hh"

namespace nntile::passes {

/// The sizes, repeated until the extent is covered. Throws PlanError where there is none, one below
/// 1, or too many tiles come of them.
inline AxisTiling repeat_sizes(std::vector<Index> const& sizes, Index extent,
                               std::string const& axis) {
  std::vector<Index> all;
  if (extent == 0) return AxisTiling::whole(0);
  if (sizes.empty()) throw PlanError(concat("tile: no sizes given for axis '", axis, "'"));
  Index sum = 0;  // at most the extent
  for (Index const size : sizes) {
    if (size <= 0)
      throw PlanError(concat("tile: size ", size, " for axis '", axis, "'; at least 1 is needed"));
    sum += std::min(size, extent - sum);
  }
  if (extent / sum > AxisTiling::most / static_cast<Index>(sizes.size()))
    throw PlanError(concat("tile: the sizes for axis '", axis, "' cut its ", extent,
                           " elements into more than ", AxisTiling::most,
                           " tiles; use larger ones"));
  for (Index left = extent; left > 0; left -= all.back())
    all.push_back(std::min(left, sizes[all.size() % sizes.size()]));
  return AxisTiling::sizes(all);
}

/// Tiles of one index each, as a slice along the axis needs them. Throws PlanError where others are
/// asked for.
inline AxisTiling single_indices(Index extent, AxisCut const* asked) {
  AxisTiling const result = AxisTiling::uniform(extent, 1);
  if (asked != nullptr && !(repeat_sizes(asked->sizes, extent, asked->axis) == result))
    throw PlanError(concat("tile: axis '", asked->axis, "' is cut into single indices, as a slice ",
                           "needs it; leave its cut out, or give it the size 1"));
  return result;
}

}  // namespace nntile::passes
