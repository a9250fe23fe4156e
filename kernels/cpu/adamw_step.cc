// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/cpu/adamw_element.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

/// Of parameters T, gradients G and states S.
template <class T, class G, class S = G> struct AdamwStep {
  using Op = ops::AdamwStepBy<!std::same_as<G, S>>;

  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<Op>(call);
    using Operand = typename Op::Operand;
    Buffers<Op> const buffers(call);
    using V = Vec<compute_t<T>>;
    T* p = buffers.template at<T>(Operand::p);
    G const* g = buffers.template at<G>(Operand::g);
    S* m = buffers.template at<S>(Operand::m);
    S* v = buffers.template at<S>(Operand::v);
    double const lr = static_cast<double>(*buffers.template at<float>(Operand::lr));
    auto const step = *buffers.template at<std::int64_t>(Operand::step);
    if (step < 1) return {"step is counted from 1"};
    float const* const factor = buffers.template at<float>(Operand::scale);  // or null
    V const scale(factor != nullptr ? static_cast<double>(*factor) : 1.0);
    double const t = static_cast<double>(step);
    AdamwElement<V> const element(args, lr, adamw_c1(args, lr, t), adamw_c2(args, t));
    bool const scaled = factor != nullptr;
    auto const& leading = args.columns.leading;
    for (std::uint32_t c = 0; c < args.columns.count; ++c) {
      for_each_vec<compute_t<T>>(args.n, [&](Index i, auto part) __attribute__((always_inline)) {
        V gradient = load(g + i, part);
        if (scaled) gradient = scale * gradient;
        V first = load(static_cast<S const*>(m) + i, part);
        V second = load(static_cast<S const*>(v) + i, part);
        V const parameter =
            element.step(load(static_cast<T const*>(p) + i, part), gradient, first, second);
        store(m + i, first, part);
        store(v + i, second, part);
        store(p + i, parameter, part);
      });
      p += leading[0], g += leading[1], m += leading[2], v += leading[3];
    }
    return {};
  }
};

template <class T, class G> using AdamwStepNarrow = AdamwStep<T, G, T>;

constinit auto const kernels = join(op_kernels<ops::AdamwStep, AdamwStep>(),
                                    op_kernels<ops::AdamwStepNarrow, AdamwStepNarrow>());

}  // namespace
NNTILE_KERNEL_LIST(adamw_step, kernels)
}  // namespace nntile::kernels::NNTILE_ISA
