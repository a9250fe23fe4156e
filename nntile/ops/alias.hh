#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Operands of a call that may share memory: any that are read, and a result with what it replaces.

#include <span>
#include <string>

#include "nntile/core/error.hh"
#include "nntile/ops/concept.hh"

namespace nntile {

/// The memory of an operand: all that `owner` names, or one index of its dimension `axis` (a view).
struct Footprint {
  void const* owner = nullptr;
  std::size_t axis = all;
  Index index = 0;

  static constexpr std::size_t all = ~std::size_t{0};
  bool operator==(Footprint const&) const = default;

  /// Views along two different dimensions meet in some elements, a view and its base in all of
  /// its own; two indices of one dimension never meet.
  bool overlaps(Footprint const& other) const {
    return owner != nullptr && owner == other.owner && (axis != other.axis || index == other.index);
  }
};

/// An operand of a call, for check_aliases.
struct PlacedOperand {
  Footprint footprint;
  char const* name;
};
using PlacedOperands = inplace_vector<PlacedOperand, max_operands>;

/// Refuses a call in which a result shares memory with another operand, unless the op's `replaces`
/// lets the last result stand in that very operand. Operands that are only read may be one tensor.
/// Throws ValueError.
inline void check_aliases(OpInfo const& op, void const* attrs, Operands const& operands,
                          PlacedOperands const& given) {
  std::uint32_t const replaced = op.replaces(attrs);
  std::size_t visible = 0;
  while (visible < operands.size() && operands[visible].carry == Carry::none) ++visible;
  for (std::size_t r = 0; r < given.size(); ++r) {
    if (!writes(operands[r].access)) continue;
    bool const last = r + 1 == visible;
    for (std::size_t o = 0; o < given.size(); ++o) {
      if (o == r || !given[o].footprint.overlaps(given[r].footprint)) continue;
      bool const replaces = last && (replaced >> o & 1u) != 0;
      if (replaces && given[o].footprint == given[r].footprint) continue;
      std::string may;
      if (last)
        for (std::size_t i = 0; i < r; ++i)
          if ((replaced >> i & 1u) != 0 && !given[i].footprint.overlaps(given[o].footprint))
            may += concat(may.empty() ? "" : " or ", operands[i].name);
      throw ValueError(
          concat(op.name, ": its result ", operands[r].name, " ('", given[r].name, "') ",
                 given[o].footprint == given[r].footprint ? "is also" : "overlaps",
                 writes(operands[o].access) ? " its result " : " its operand ", operands[o].name,
                 " ('", given[o].name, "'), which it may not overwrite; give ", operands[r].name,
                 " a tensor of its own",
                 may.empty() || replaces ? std::string() : concat(" or the one of ", may)));
    }
  }
}

}  // namespace nntile
