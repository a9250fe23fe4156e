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
/// does not leak. Shapes are equal: add_fiber and add_slice repeat an operand of fewer dimensions.
/// dtypes {every float}. Cost: 3|x| * size bytes. z may be x or y.
struct Add : Elementwise<Add, AddAttrs> {
  static constexpr char const* name = "add";
  enum class Operand : std::uint8_t { x, y, z };
  static constexpr Operands operands{{"x", "i..."}, {"y", "i..."}, {"z", "i...", Access::write}};

  static constexpr Fields fields{field<&Attrs::alpha>("alpha"), field<&Attrs::beta>("beta")};

  template <class V> static constexpr V apply(Attrs const& attrs, V x, V y) {
    using math::fma;
    if (attrs.beta == 0) return V(attrs.alpha) * x;
    return fma(V(attrs.alpha), x, V(attrs.beta) * y);
  }

  template <class Builder> static void gradient(Builder& b) {
    Attrs const& attrs = b.template attrs<Add>();
    // The later operand of a residual sum is the branch's end; its gradient is taken up before the
    // trunk's grows.
    if (b.wants(Operand::y) && attrs.beta != 0) b.pass(Operand::y, Operand::z, attrs.beta);
    if (b.wants(Operand::x) && attrs.alpha != 0) b.pass(Operand::x, Operand::z, attrs.alpha);
  }
};

}  // namespace ops

inline constexpr Call<ops::Add> add{};
using add_ops = OpList<ops::Add>;

}  // namespace nntile
