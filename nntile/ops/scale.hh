#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A tensor times a constant.

#include "nntile/ops/elementwise.hh"

namespace nntile {
namespace ops {

struct ScaleAttrs {
  double alpha = 1;
  double beta = 0;
};

/// y = alpha*x + beta*y; beta = 0 does not look at y. dtypes {every float}. Cost: 2 to 3 |x| * size
/// bytes. y may be x.
struct Scale : Elementwise<Scale, ScaleAttrs> {
  static constexpr char const* name = "scale";
  enum class Operand : std::uint8_t { x, y };
  static constexpr Operands operands{{"x", "i..."}, {"y", "i...", Access::update}};

  static constexpr Fields fields{field<&Attrs::alpha>("alpha"), field<&Attrs::beta>("beta")};

  template <class V> static constexpr V apply(Attrs const& attrs, V x) {
    return V(attrs.alpha) * x;
  }

  template <class Builder> static void gradient(Builder& b) {
    Attrs const& attrs = b.template attrs<Scale>();
    if (b.wants(Operand::x) && attrs.alpha == 1) {
      b.pass(Operand::x, Operand::y);
    } else if (b.wants(Operand::x)) {
      auto const target = b.target(Operand::x);
      b.template op<Scale>({.alpha = attrs.alpha, .beta = target.beta}, b.grad(Operand::y),
                           target.node);
    }
    b.keep(Operand::y, attrs.beta);
  }
};

}  // namespace ops

inline constexpr Call<ops::Scale> scale{};
using scale_ops = OpList<ops::Scale>;

}  // namespace nntile
