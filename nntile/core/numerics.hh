#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Numerics: the record that fixes the bits of a graph before planning.

#include <cstdint>

namespace nntile {

/// `exact`: canonical orders, equal bits over runtimes, workers, tilings and instruction sets.
/// `fast`: vendor GEMM and reduced formats; equal bits from run to run of one plan on one machine.
enum class Mode : std::uint8_t { exact, fast };

/// The record that a graph carries. Law: nntile/NUMERICS.md.
struct Numerics {
  Mode mode = Mode::exact;
  /// Canonical groups of the batch axis; only 1 can be planned so far.
  int batch_groups = 1;

  bool operator==(Numerics const&) const = default;
};

constexpr char const* name_of(Mode mode) { return mode == Mode::exact ? "exact" : "fast"; }

}  // namespace nntile
