#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A copy of a tensor.

#include "nntile/ops/elementwise.hh"

namespace nntile {
namespace ops {

struct CopyAttrs {};

/// y = x. dtypes {every float}; cast copies integers, too. Cost: 2|x| * size bytes.
struct Copy : Elementwise<Copy, CopyAttrs> {
  static constexpr char const* name = "copy";
  enum class Operand : std::uint8_t { x, y };
  static constexpr Operands operands{{"x", "i..."}, {"y", "i...", Access::write}};

  static constexpr Fields fields{};

  template <class V> static constexpr V apply(Attrs const&, V x) { return x; }

  template <class Builder> static void gradient(Builder& b) {
    if (b.wants(Operand::x)) b.pass(Operand::x, Operand::y);
  }
};

/// Here and not in nntile, where std::copy would be as good a match after both using-directives.
inline constexpr Call<Copy> copy{};

}  // namespace ops

using copy_ops = OpList<ops::Copy>;

}  // namespace nntile
