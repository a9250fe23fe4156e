#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The Gaussian error linear unit in its tanh form, and its derivative.

#include "nntile/ops/elementwise.hh"

namespace nntile {
namespace ops {

/// u(x) = sqrt(2/pi) (x + 0.044715 x^3), and gelutanh(x) = x/2 (1 + tanh u) = x / (1 + exp(-2u)).
template <class V> constexpr V gelutanh_minus_2u(V x) {
  V const cubic = V(-2 * 0.7978845608028654 * 0.044715);
  V const linear = V(-2 * 0.7978845608028654);
  using math::fma;
  return x * fma(cubic * x, x, linear);
}

struct GelutanhAttrs {};
struct GelutanhBackwardAttrs {
  double beta = 0;
};

/// dx = beta*dx + dy f'(x), with s = 1 / (1 + exp(-2u)): f' = s + x s (1 - s) 2u'. Far from 0, s is
/// 0 or 1, and so is f', infinities included.
struct GelutanhBackward : Elementwise<GelutanhBackward, GelutanhBackwardAttrs> {
  static constexpr char const* name = "gelutanh_backward";
  enum class Operand : std::uint8_t { x, dy, dx };
  static constexpr Operands operands{{"x", "i..."}, {"dy", "i..."}, {"dx", "i...", Access::update}};
  static constexpr Fields fields{field<&Attrs::beta>("beta")};
  static constexpr char const* no_gradient = no_second_derivative;

  template <class V> static constexpr V apply(Attrs const&, V x, V dy) {
    using math::by_precision;
    using math::exp_in_range;
    using math::fma;
    using math::max;
    using math::min;
    // Beyond, s is 0 or 1 already, and 2u' would overflow beside a factor of 0. Here |2u| is where
    // exp has its limits, 89.6 or 710.3, and need not be bounded again.
    V const least = by_precision(x, -10.1, -21.165);
    x = min(-least, max(least, x));
    V const s = V(1) / (V(1) + exp_in_range(gelutanh_minus_2u(x)));
    V const slope = fma(V(2 * 3 * 0.7978845608028654 * 0.044715) * x, x, V(2 * 0.7978845608028654));
    return dy * fma(x * slope, fma(-s, s, s), s);
  }
};

/// y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). Source: Hendrycks and Gimpel 2016, the form
/// GPT-2 uses.
struct Gelutanh : Elementwise<Gelutanh, GelutanhAttrs> {
  static constexpr char const* name = "gelutanh";
  enum class Operand : std::uint8_t { x, y };
  static constexpr Operands operands{{"x", "i..."}, {"y", "i...", Access::write}};
  static constexpr Fields fields{};

  template <class V> static constexpr V apply(Attrs const&, V x) {
    using math::exp;
    return x / (V(1) + exp(gelutanh_minus_2u(x)));
  }

  template <class Builder> static void gradient(Builder& b) {
    if (!b.wants(Operand::x)) return;
    auto const dx = b.target(Operand::x);
    b.template op<GelutanhBackward>({.beta = dx.beta}, b.operand(Operand::x), b.grad(Operand::y),
                                    dx.node);
  }
};

}  // namespace ops

inline constexpr Call<ops::Gelutanh> gelutanh{};
inline constexpr Call<ops::GelutanhBackward> gelutanh_backward{};
using gelutanh_ops = OpList<ops::Gelutanh, ops::GelutanhBackward>;

}  // namespace nntile
