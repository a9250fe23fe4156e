// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/adamw_step.hh"

#include "kernels/cpu/angle.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

/// base^exponent, base > 0.
NNTILE_ALWAYS_INLINE double scalar_pow(double base, double exponent) {
  double lane[Vec<double>::lanes];
  store(lane, pow(Vec<double>(base), Vec<double>(exponent)));
  return lane[0];
}

/// 1 - beta^t; beta = 0 counts as it should.
NNTILE_ALWAYS_INLINE double bias_correction(double beta, double step) {
  return beta > 0 ? 1 - scalar_pow(beta, step) : 1;
}

template <class T, class U> struct AdamwStep {
  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::AdamwStep>(call);
    using Operand = ops::AdamwStep::Operand;
    Buffers<ops::AdamwStep> const buffers(call);
    using V = Vec<compute_t<T>>;
    T* p = buffers.at<T>(Operand::p);
    U const* g = buffers.at<U>(Operand::g);
    U* m = buffers.at<U>(Operand::m);
    U* v = buffers.at<U>(Operand::v);
    double const lr = static_cast<double>(*buffers.at<float>(Operand::lr));
    auto const step = *buffers.at<std::int64_t>(Operand::step);
    if (step < 1) return {"step is counted from 1"};
    float const* const factor = buffers.at<float>(Operand::scale);  // or null
    V const scale(factor != nullptr ? static_cast<double>(*factor) : 1.0);
    double const t = static_cast<double>(step);
    V const decay(1 - lr * args.weight_decay);
    V const c1(-lr / bias_correction(args.beta1, t));
    V const c2(1 / __builtin_sqrt(bias_correction(args.beta2, t)));
    V const one_less_beta1(1 - args.beta1), one_less_beta2(1 - args.beta2), beta2(args.beta2),
        eps(args.eps);
    bool const scaled = factor != nullptr;
    auto const& leading = args.columns.leading;
    for (std::uint32_t c = 0; c < args.columns.count; ++c) {
      for_each_vec<compute_t<T>>(args.n, [&](Index i, auto part) __attribute__((always_inline)) {
        V gradient = load(g + i, part);
        if (scaled) gradient = scale * gradient;
        V const before = load(static_cast<U const*>(m) + i, part);
        V const first = fma(one_less_beta1, gradient - before, before);
        V const second = fma(one_less_beta2, gradient * gradient,
                             beta2 * load(static_cast<U const*>(v) + i, part));
        V const change = first / fma(c2, sqrt(second), eps);
        V const parameter = fma(c1, change, decay * load(static_cast<T const*>(p) + i, part));
        store(m + i, first, part);
        store(v + i, second, part);
        store(p + i, parameter, part);
      });
      p += leading[0], g += leading[1], m += leading[2], v += leading[3];
    }
    return {};
  }
};

constinit auto const kernels = op_kernels<ops::AdamwStep, AdamwStep>();

}  // namespace
NNTILE_KERNEL_LIST(adamw_step, kernels)
}  // namespace nntile::kernels::NNTILE_ISA
