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

/// y = alpha*x + beta*y; beta = 0 does not look at y. dtypes {every float}. Cost: 2 to 3 |x| * size bytes. y may be x.
struct Scale : Elementwise<Scale, ScaleAttrs> {
  static constexpr char const* name = "scale";
  static constexpr Operands operands{{"x", "i..."}, {"y", "i...", Access::update}};

  template <class V>
  static V apply(Attrs const& attrs, V x) {
    return V(attrs.alpha) * x;
  }

  template <class Builder>
  static void gradient(Builder& b) {
    Attrs const& attrs = b.template attrs<Scale>();
    if (b.wants(0) && attrs.alpha == 1) {
      b.pass(0, 1);
    } else if (b.wants(0)) {
      auto const target = b.target(0);
      b.template op<Scale>({.alpha = attrs.alpha, .beta = target.beta}, b.grad(1), target.node);
    }
    b.keep(1, attrs.beta);
  }
};

}  // namespace ops

inline constexpr Call<ops::Scale> scale{};
using scale_ops = OpList<ops::Scale>;

}  // namespace nntile
