#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Numerics: the record that fixes the bits of a graph before planning.

#include <cstdint>
#include <string>
#include <vector>

namespace nntile {

/// `exact`: canonical orders, equal bits over runtimes, workers, tilings and instruction sets.
/// `fast`: vendor GEMM and reduced formats; equal bits from run to run of one plan on one machine.
enum class Mode : std::uint8_t { exact, fast };

/// The number of canonical groups of a named axis.
struct AxisGroups {
  std::string axis;
  int groups = 1;

  bool operator==(AxisGroups const&) const = default;
};

/// The record that a graph carries. Law: nntile/NUMERICS.md.
struct Numerics {
  Mode mode = Mode::exact;
  /// Sums over these axes are a chain for each group, which a fixed tree adds up: {{"batch", 8}}.
  /// Other axes have one group.
  std::vector<AxisGroups> groups = {};

  bool operator==(Numerics const&) const = default;
};

constexpr bool is_mode(Mode mode) { return mode <= Mode::fast; }

constexpr char const* name_of(Mode mode) { return mode == Mode::exact ? "exact" : "fast"; }

}  // namespace nntile
