// SPDX-License-Identifier: BSD-3-Clause
// Softmax along dimension 0, one column after another.
#include "nntile/ops/softmax.hh"

#include "kernels/cpu/chain.hh"
#include "kernels/cpu/functions.hh"
#include "kernels/cpu/reduce.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

template <class T> struct Softmax {
  using V = compute_t<T>;

  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::Softmax>(call);
    using Operand = ops::Softmax::Operand;
    Buffers<ops::Softmax> const buffers(call);
    T* const results = buffers.at<T>(Operand::y);   // [n, v], but in phases 0 and 1
    V* const maxima = buffers.at<V>(Operand::max);  // [n], where v is cut
    V* const sums = buffers.at<V>(Operand::sum);    // [n], likewise
    Chain const of_max = Chain{args.first}.in_phase(args.phase, 0);
    Chain const of_sum = Chain{args.first}.in_phase(args.phase, 1);
    for (Index i = 0; i < args.n; ++i) {
      T const* const x = buffers.at<T>(Operand::x) + i * args.ldx + args.skipped;
      T* const y = results == nullptr ? nullptr : results + i * args.ldy;
      V top = of_max.start(maxima, i, -static_cast<V>(__builtin_inf()));
      if (args.phase <= 0)
        top = canonical_max<V>(args.v, top, [&](Index p, auto part) __attribute__((always_inline)) {
          fetch_ahead(x + p, part);
          return load(x + p, part);
        });
      if (args.phase == 0) {
        maxima[i] = top;
        continue;
      }
      Vec<V> const shift(static_cast<double>(top));
      V sum = of_sum.start(sums, i);
      if (args.phase != 2)
        sum = canonical_sum<V>(args.v, sum, [&](Index p, auto part) __attribute__((always_inline)) {
          auto const power = exp_of_shifted(load(x + p, part) - shift);
          // A result wide enough holds the powers until they are scaled.
          if constexpr (sizeof(T) == sizeof(V))
            if (args.phase < 0) store(y + p, power, part);
          return power;
        });
      if (args.phase == 1) {
        sums[i] = sum;
        continue;
      }
      Vec<V> const factor = Vec<V>(1) / Vec<V>(static_cast<double>(sum));
      bool const held = sizeof(T) == sizeof(V) && args.phase < 0;
      for_each_group<V>(args.v, [&](Index p, auto part) __attribute__((always_inline)) {
        auto const power = held ? load(static_cast<T const*>(y) + p, part)
                                : exp_of_shifted(load(x + p, part) - shift);
        store(y + p, power * factor, part);
      });
    }
    return {};
  }
};

template <class T> struct SoftmaxBackward {
  using V = compute_t<T>;

  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::SoftmaxBackward>(call);
    using Operand = ops::SoftmaxBackward::Operand;
    Buffers<ops::SoftmaxBackward> const buffers(call);
    V* const dots = buffers.at<V>(Operand::dot);  // [n], where v is cut
    Chain const chain = Chain{args.first}.in_phase(args.phase, 0);
    for (Index i = 0; i < args.n; ++i) {
      T const* const y = buffers.at<T>(Operand::y) + i * args.ldy + args.skipped;
      T const* const dy = buffers.at<T>(Operand::dy) + i * args.lddy + args.skipped;
      V sum = chain.start(dots, i);
      if (args.phase != 1)
        sum = canonical_sum<V>(args.v, sum, [&](Index p, auto part) __attribute__((always_inline)) {
          fetch_ahead(y + p, part);
          fetch_ahead(dy + p, part);
          return load_halves(y + p, part) * load_halves(dy + p, part);
        });
      if (args.phase == 0) {
        dots[i] = sum;
        continue;
      }
      T* const dx = buffers.at<T>(Operand::dx) + i * args.lddx;
      Vec<V> const dot(static_cast<double>(sum));
      for_each_vec<V>(args.v, [&](Index p, auto part) __attribute__((always_inline)) {
        update(dx + p, args.beta, load_halves(y + p, part) * (load_halves(dy + p, part) - dot),
               part);
      });
    }
    return {};
  }
};

constinit auto const kernels =
    join(op_kernels<ops::Softmax, Softmax>(), op_kernels<ops::SoftmaxBackward, SoftmaxBackward>());

}  // namespace
NNTILE_KERNEL_LIST(softmax, kernels)
}  // namespace nntile::kernels::NNTILE_ISA
