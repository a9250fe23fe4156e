#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The weighted sum of two tensors.

#include "nntile/ops/elementwise.hh"

namespace nntile {
namespace ops {

struct AddAttrs {
  double alpha = 1;
  double beta = 1;
};

/// z = alpha*x + beta*y, evaluated as fma(alpha, x, beta*y); beta = 0 leaves y out, and a NaN there
/// does not leak. dtypes {every float}. Cost: 3|x| * size bytes. z may be x or y.
struct Add : Elementwise<Add, AddAttrs> {
  static constexpr char const* name = "add";
  static constexpr Operands operands{{"x", "i..."}, {"y", "i..."}, {"z", "i...", Access::write}};

  static bool overwrites(Attrs const&, int) { return true; }

  template <class V> static V apply(Attrs const& attrs, V x, V y) {
    using math::fma;
    if (attrs.beta == 0) return V(attrs.alpha) * x;
    return fma(V(attrs.alpha), x, V(attrs.beta) * y);
  }

  template <class Builder> static void gradient(Builder& b) {
    Attrs const& attrs = b.template attrs<Add>();
    // The later operand of a residual sum is the branch's end; its gradient is taken up before the
    // trunk's grows.
    double const factors[] = {attrs.alpha, attrs.beta};
    for (int i = 1; i >= 0; --i)
      if (b.wants(i) && factors[i] != 0) b.pass(i, 2, factors[i]);
  }
};

}  // namespace ops

inline constexpr Call<ops::Add> add{};
using add_ops = OpList<ops::Add>;

}  // namespace nntile
