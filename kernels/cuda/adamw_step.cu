// SPDX-License-Identifier: BSD-3-Clause
// Bound: 7 elements of memory per parameter, of which one is the gradient's. A step below 1, which
// the CPU's kernel refuses, gives NaN.
#include "kernels/cuda/kernel.hh"

#include "kernels/cpu/adamw_element.hh"

namespace nntile::kernels::cuda {
namespace {

/// Of parameters T, gradients G and states S.
template <class T, class G, class S = G> struct AdamwStep {
  using Op = ops::AdamwStepBy<!std::same_as<G, S>>;
  using V = Vec<compute_t<T>>;
  static constexpr int threads = loop_threads;
  DeviceCall<Op> call;

  static Status enqueue(KernelCall const& from, void* stream) noexcept {
    AdamwStep const kernel{DeviceCall<Op>(from)};
    auto const& args = kernel.call.arguments.args;
    return launch_loop(args.n * static_cast<Index>(args.columns.count), stream, kernel,
                       2 * sizeof(double));
  }
  NNTILE_DEVICE void operator()(Thread& thread) const {
    using Operand = typename Op::Operand;
    auto const& args = call.args();
    auto const buffers = call.buffers();
    T* const p = buffers.template at<T>(Operand::p);
    G const* const g = buffers.template at<G const>(Operand::g);
    S* const m = buffers.template at<S>(Operand::m);
    S* const v = buffers.template at<S>(Operand::v);
    float const* const factor = buffers.template at<float const>(Operand::scale);  // or null
    double const lr = static_cast<double>(*buffers.template at<float const>(Operand::lr));
    // Two threads compute the powers in fp64 for all of the block.
    Shared<double> const rates = thread.shared<double>(0, 2);
    if (thread.rank() < 2) {
      auto const step = *buffers.template at<std::int64_t const>(Operand::step);
      double const t = static_cast<double>(step);
      double const rate = thread.rank() == 0 ? adamw_c1(args, lr, t) : adamw_c2(args, t);
      rates[thread.rank()] = step < 1 ? __builtin_nan("") : rate;
    }
    thread.sync();
    AdamwElement<V> const element(args, lr, rates[0], rates[1]);
    V const scale(factor != nullptr ? static_cast<double>(*factor) : 1.0);
    auto const& leading = args.columns.leading;
    auto const at = [&](int o, Index i, Index c) { return i + c * static_cast<Index>(leading[o]); };
    struct Element {
      V parameter, gradient, first, second;
    };
    for_each_pair(
        thread, args.n, args.columns.count,
        [&](Index i, Index c) {
          return Element{get(static_cast<T const*>(p) + at(0, i, c)), get(g + at(1, i, c)),
                         get(static_cast<S const*>(m) + at(2, i, c)),
                         get(static_cast<S const*>(v) + at(3, i, c))};
        },
        [&](Index i, Index c, Element e) {
          if (factor != nullptr) e.gradient = scale * e.gradient;
          put(p + at(0, i, c), element.step(e.parameter, e.gradient, e.first, e.second));
          put(m + at(2, i, c), e.first);
          put(v + at(3, i, c), e.second);
        });
  }
};

template <class T, class G> using AdamwStepNarrow = AdamwStep<T, G, T>;

constinit auto const kernels = join(op_kernels<ops::AdamwStep, AdamwStep>(),
                                    op_kernels<ops::AdamwStepNarrow, AdamwStepNarrow>());

}  // namespace
NNTILE_KERNEL_LIST(adamw_step, kernels)
}  // namespace nntile::kernels::cuda
