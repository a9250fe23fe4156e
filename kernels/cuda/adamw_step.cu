// SPDX-License-Identifier: BSD-3-Clause
// Bound: 7 elements of memory per parameter. A step below 1, which the CPU's kernel refuses, gives
// NaN.
#include "kernels/cuda/kernel.hh"

#include "kernels/cpu/adamw_element.hh"

namespace nntile::kernels::cuda {
namespace {

template <class T, class U> struct AdamwStep {
  using V = Vec<compute_t<T>>;
  static constexpr int threads = loop_threads;
  DeviceCall<ops::AdamwStep> call;

  static Status enqueue(KernelCall const& from, void* stream) noexcept {
    AdamwStep const kernel{DeviceCall<ops::AdamwStep>(from)};
    auto const& args = kernel.call.arguments.args;
    return launch_loop(args.n * static_cast<Index>(args.columns.count), stream, kernel,
                       2 * sizeof(double));
  }
  NNTILE_DEVICE void operator()(Thread& thread) const {
    using Operand = ops::AdamwStep::Operand;
    auto const& args = call.args();
    auto const buffers = call.buffers();
    T* const p = buffers.template at<T>(Operand::p);
    U const* const g = buffers.template at<U const>(Operand::g);
    U* const m = buffers.template at<U>(Operand::m);
    U* const v = buffers.template at<U>(Operand::v);
    float const* const factor = buffers.template at<float const>(Operand::scale);  // or null
    double const lr = static_cast<double>(*buffers.template at<float const>(Operand::lr));
    // Two threads compute the powers in fp64 for all of the block.
    Shared<double> const rates = thread.shared<double>(0, 2);
    if (thread.rank() < 2) {
      auto const step = *buffers.template at<std::int64_t const>(Operand::step);
      double const t = step < 1 ? __builtin_nan("") : static_cast<double>(step);
      rates[thread.rank()] = thread.rank() == 0 ? adamw_c1(args, lr, t) : adamw_c2(args, t);
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
                         get(static_cast<U const*>(m) + at(2, i, c)),
                         get(static_cast<U const*>(v) + at(3, i, c))};
        },
        [&](Index i, Index c, Element e) {
          if (factor != nullptr) e.gradient = scale * e.gradient;
          put(p + at(0, i, c), element.step(e.parameter, e.gradient, e.first, e.second));
          put(m + at(2, i, c), e.first);
          put(v + at(3, i, c), e.second);
        });
  }
};

constinit auto const kernels = op_kernels<ops::AdamwStep, AdamwStep>();

}  // namespace
NNTILE_KERNEL_LIST(adamw_step, kernels)
}  // namespace nntile::kernels::cuda
