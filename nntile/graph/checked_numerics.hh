#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The check of the numerics that a graph is made with.

#include <algorithm>
#include <cstddef>
#include <string>

#include "nntile/core/error.hh"
#include "nntile/core/numerics.hh"

namespace nntile::detail {

/// The numerics of a graph of that name, groups in the order in which files list them. Throws
/// GraphError where the mode is none, or an axis has none, or is listed twice.
inline Numerics checked_numerics(std::string const& graph, Numerics numerics) {
  if (!is_mode(numerics.mode))
    throw GraphError(concat("graph '", graph, "': Numerics::mode is ",
                            static_cast<int>(numerics.mode), "; exact (0) or fast (1)"));
  for (std::size_t g = 0; g < numerics.groups.size(); ++g) {
    AxisGroups const& each = numerics.groups[g];
    if (each.groups < 1)
      throw GraphError(concat("graph '", graph, "': axis '", each.axis, "' has ", each.groups,
                              " canonical groups; at least 1 is needed"));
    for (std::size_t other = 0; other < g; ++other)
      if (numerics.groups[other].axis == each.axis)
        throw GraphError(concat("graph '", graph, "': axis '", each.axis,
                                "' is listed twice in Numerics::groups, with ",
                                numerics.groups[other].groups, " and ", each.groups));
  }
  std::sort(numerics.groups.begin(), numerics.groups.end(),
            [](AxisGroups const& a, AxisGroups const& b) { return a.axis < b.axis; });
  return numerics;
}

}  // namespace nntile::detail
