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
  auto& groups = numerics.groups;
  for (AxisGroups const& each : groups)
    if (each.groups < 1)
      throw GraphError(concat("graph '", graph, "': axis '", each.axis, "' has ", each.groups,
                              " canonical groups; at least 1 is needed"));
  std::sort(groups.begin(), groups.end(), [](AxisGroups const& a, AxisGroups const& b) {
    return a.axis != b.axis ? a.axis < b.axis : a.groups < b.groups;
  });
  for (std::size_t g = 1; g < groups.size(); ++g)
    if (groups[g - 1].axis == groups[g].axis)
      throw GraphError(concat("graph '", graph, "': axis '", groups[g].axis,
                              "' is listed twice in Numerics::groups, with ", groups[g - 1].groups,
                              " and ", groups[g].groups));
  return numerics;
}

}  // namespace nntile::detail
