#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// What elementwise ops y = f(x) of a test's own have in common.

#include "nntile/ops/concept.hh"

namespace nntile::test {

/// An op derives from it and adds `name` and `reference`.
struct OneToOne {
  enum class Operand : std::uint8_t { x, y };
  static constexpr Operands operands{{"x", "i..."}, {"y", "i...", Access::write}};
  static constexpr std::span<DType const> dtypes{float_dtypes};
  struct Attrs {};
  static constexpr Fields fields{};
  static constexpr Hooks<Attrs> hooks{};
  static constexpr char const* no_gradient = "no test asks for it";
  struct Args {
    Index n;
  };
  static Args args(Attrs const&, TileRange const& range) { return {range.extent('i')}; }
};

}  // namespace nntile::test
