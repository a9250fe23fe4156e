#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Names of axes: dimensions that ops make one may have several.

#include <algorithm>
#include <string>
#include <vector>

#include "nntile/core/error.hh"

namespace nntile::passes {

/// The names of a class of dimensions that must agree, each once, in the order of the graph.
using ClassNames = std::vector<std::string>;
/// The same by tensor and dimension.
using AxesOfTensors = std::vector<std::vector<ClassNames>>;

/// Whether a name is one of them.
inline bool is_called(ClassNames const& names, std::string const& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}
/// Whether a dimension of a tensor has that name.
inline bool has_axis(std::vector<ClassNames> const& axes, std::string const& name) {
  return std::any_of(axes.begin(), axes.end(),
                     [&](ClassNames const& names) { return is_called(names, name); });
}
/// Whether both are names of one class.
inline bool are_one(AxesOfTensors const& tensors, std::string const& name,
                    std::string const& other) {
  for (std::vector<ClassNames> const& axes : tensors)
    for (ClassNames const& names : axes)
      if (is_called(names, name) && is_called(names, other)) return true;
  return false;
}
/// " ('batch')", by the first name; "" without one.
inline std::string in_brackets(ClassNames const& names) {
  return names.empty() ? "" : concat(" ('", names.front(), "')");
}

}  // namespace nntile::passes
