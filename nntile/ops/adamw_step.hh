#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// One step of AdamW on one tensor.

#include <cmath>
#include <type_traits>

#include "nntile/ops/call.hh"
#include "nntile/ops/columns.hh"

namespace nntile {

/// Parameters, then gradients and states: all of one float dtype, or narrow parameters alone.
inline constexpr ElementTypes optimizer_types[] = {{DType::fp64, DType::fp64},
                                                   {DType::fp32, DType::fp32},
                                                   {DType::bf16, DType::bf16},
                                                   {DType::fp16, DType::fp16},
                                                   {DType::fp32_fast_tf32, DType::fp32_fast_tf32},
                                                   {DType::fp32_fast_fp16, DType::fp32_fast_fp16},
                                                   {DType::fp32_fast_bf16, DType::fp32_fast_bf16},
                                                   {DType::bf16, DType::fp32},
                                                   {DType::fp16, DType::fp32}};
/// Parameters and states, then gradients: these alone narrow.
inline constexpr ElementTypes narrow_gradient_types[] = {{DType::fp32, DType::bf16},
                                                         {DType::fp32, DType::fp16}};

namespace ops {

struct AdamwStepAttrs {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  bool scaled = false;  // operand `scale`, a factor of the gradient, stands last
};

enum class AdamwStepOperand : std::uint8_t { p, g, m, v, lr, step, scale };

/// Throws ValueError, which begins with `call`, for a constant out of range.
inline void check(char const* call, AdamwStepAttrs const& attrs) {
  auto const require = [&](bool works, char const* name, double value, char const* range) {
    if (!works) throw ValueError(concat(call, ": ", name, " of ", value, "; ", range));
  };
  auto const is_mean = [](double beta) { return beta >= 0 && beta < 1; };  // false for NaN
  auto const is_size = [](double value) { return value >= 0 && std::isfinite(value); };
  require(is_mean(attrs.beta1), "beta1", attrs.beta1, "0 or more, below 1, such as 0.9");
  require(is_mean(attrs.beta2), "beta2", attrs.beta2, "0 or more, below 1, such as 0.99");
  require(is_size(attrs.eps), "eps", attrs.eps, "0 or more, such as 1e-8");
  require(is_size(attrs.weight_decay), "weight_decay", attrs.weight_decay,
          "0 (none) or more, such as 0.1");
}

/// Columns of n elements.
struct AdamwStepArgs {
  Index n;
  double beta1, beta2, eps, weight_decay;
  Columns<4> columns;  // of p, g, m and v
};

/// With g' = scale*g, t = step (counted from 1), c1 = lr/(1 - beta1^t), c2 = 1/sqrt(1 - beta2^t),
/// in this order:
///   p = p (1 - lr weight_decay);  m = m + (1 - beta1)(g' - m);  v = beta2 v + (1 - beta2) g'^2;
///   p = p - c1 m / (c2 sqrt(v) + eps)
/// Constants are computed in fp64, elements in fp32 (fp64 for fp64); states are what PyTorch keeps
/// (exp_avg, exp_avg_sq). lr, step and scale are data. dtypes {every float}; g, m and v the same,
/// or fp32 beside bf16 and fp16. Where `narrow` p, m and v are fp32, and g is bf16 or fp16: the
/// bits of the step by g's cast to fp32. Cost: 7|p| * size bytes (a narrow g half of its own).
/// Throws ValueError for an attribute out of range; fails where step < 1. Source: Loshchilov and
/// Hutter 2019; torch.optim.AdamW.
template <bool narrow> struct AdamwStepBy {
  static constexpr char const* name = narrow ? "adamw_step_narrow" : "adamw_step";
  static constexpr TypeTable types =
      narrow ? TypeTable{narrow_gradient_types} : TypeTable{optimizer_types};
  static constexpr Kind of_states = narrow ? Kind::element : Kind::second;

  using Attrs = AdamwStepAttrs;
  using Args = AdamwStepArgs;
  using Operand = AdamwStepOperand;
  static constexpr Operands operands{{"p", "i...", Access::update},
                                     {"g", "i...", Access::read, Kind::second},
                                     {"m", "i...", Access::update, of_states},
                                     {"v", "i...", Access::update, of_states},
                                     {"lr", "", Access::read, Kind::fp32},
                                     {"step", "", Access::read, Kind::int64},
                                     {"scale", "", Access::read, Kind::fp32}};
  static constexpr Fields fields{
      field<&Attrs::beta1>("beta1"), field<&Attrs::beta2>("beta2"), field<&Attrs::eps>("eps"),
      field<&Attrs::weight_decay>("weight_decay"), field<&Attrs::scaled>("scaled")};
  static constexpr Hooks<Attrs> hooks{
      .present = [](Attrs const& attrs,
                    OperandIndex operand) { return operand != Operand::scale || attrs.scaled; },
      .check = [](Attrs const& attrs, AxisTable const&) { ops::check(name, attrs); },
      .padding = Padding::any,
      .takes_gradients = true};
  static constexpr char const* no_gradient = "an optimizer's step is not differentiated";

  static Args args(Attrs const& attrs, TileRange const& range) {
    Args args{0, attrs.beta1, attrs.beta2, attrs.eps, attrs.weight_decay, {}};
    args.columns = columns_of<4>(range, 4, args.n, Operand::p);
    return args;
  }

  template <Element T, Element U = T>
  requires(is_float(dtype_of<T>))
  static Status reference(Args const& args, Buffers<AdamwStepBy> buffers) {
    using V = compute_t<T>;
    using S = std::conditional_t<narrow, T, U>;
    T* p = buffers.template at<T>(Operand::p);
    U const* g = buffers.template at<U>(Operand::g);
    S* m = buffers.template at<S>(Operand::m);
    S* v = buffers.template at<S>(Operand::v);
    double const lr = *buffers.template at<float>(Operand::lr);
    auto const step = *buffers.template at<std::int64_t>(Operand::step);
    float const* const factor = buffers.template at<float>(Operand::scale);  // or null
    V const scale = factor != nullptr ? V(*factor) : V(1);
    if (step < 1) return {"step is counted from 1"};
    V const decay = V(1 - lr * args.weight_decay);
    V const c1 = V(lr / (1 - std::pow(args.beta1, static_cast<double>(step))));
    V const c2 = V(1 / std::sqrt(1 - std::pow(args.beta2, static_cast<double>(step))));
    for (std::uint32_t c = 0; c < args.columns.count; ++c) {
      for (Index i = 0; i < args.n; ++i) {
        V const gradient = scale * V(g[i]);
        V const first = std::fma(V(1 - args.beta1), gradient - V(m[i]), V(m[i]));
        V const second = std::fma(V(1 - args.beta2), gradient * gradient, V(args.beta2) * V(v[i]));
        V const change = first / std::fma(c2, std::sqrt(second), V(args.eps));
        p[i] = T(std::fma(-c1, change, decay * V(p[i])));
        m[i] = S(first);
        v[i] = S(second);
      }
      auto const& leading = args.columns.leading;
      p += leading[0], g += leading[1], m += leading[2], v += leading[3];
    }
    return {};
  }
};

using AdamwStep = AdamwStepBy<false>;
using AdamwStepNarrow = AdamwStepBy<true>;

}  // namespace ops

inline constexpr Call<ops::AdamwStep> adamw_step{};
inline constexpr Call<ops::AdamwStepNarrow> adamw_step_narrow{};
using adamw_step_ops = OpList<ops::AdamwStep, ops::AdamwStepNarrow>;

}  // namespace nntile
