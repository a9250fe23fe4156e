// SPDX-License-Identifier: BSD-3-Clause
// Softmax along dimension 0, a team of threads a column.
#include "nntile/ops/softmax.hh"

#include "kernels/cuda/rows.hh"

namespace nntile::kernels::cuda {
namespace {

template <class T> struct Softmax {
  using V = compute_t<T>;

  template <int size> struct Kernel {
    static constexpr int threads = row_threads;
    DeviceCall<ops::Softmax> call;
    explicit Kernel(KernelCall const& from) : call(from) {}

    NNTILE_DEVICE void operator()(Thread& thread) const {
      using Operand = ops::Softmax::Operand;
      auto const& args = call.args();
      auto const buffers = call.buffers();
      T* const results = buffers.template at<T>(Operand::y);   // [n, v], but in phases 0 and 1
      V* const maxima = buffers.template at<V>(Operand::max);  // [n], where v is cut
      V* const sums = buffers.template at<V>(Operand::sum);    // [n], likewise
      Chain const of_max = Chain{args.first}.in_phase(args.phase, 0);
      Chain const of_sum = Chain{args.first}.in_phase(args.phase, 1);
      Team<size> const team(thread);
      team.for_each_row(args.n, [&](Index i) {
        T const* const x = buffers.template at<T>(Operand::x) + i * args.ldx + args.skipped;
        V top = of_max.start(maxima, i, -static_cast<V>(__builtin_inf()));
        if (args.phase <= 0)
          top = canonical_max<V>(team, args.v, top, [&](Index p) { return get(x + p); });
        if (args.phase == 0) {
          if (team.rank() == 0) maxima[i] = top;
          return;
        }
        auto const power = [&](Index p) { return exp_of_shifted(get(x + p) - Vec<V>::raw(top)); };
        V sum = of_sum.start(sums, i);
        if (args.phase != 2) sum = canonical_sum<V>(team, args.v, sum, power);
        if (args.phase == 1) {
          if (team.rank() == 0) sums[i] = sum;
          return;
        }
        Vec<V> const factor = Vec<V>(1) / Vec<V>::raw(sum);
        T* const y = results + i * args.ldy;
        team.for_each(
            args.v, [&](Index p) { return power(p) * factor; },
            [&](Index p, auto value) { put(y + p, value); });
      });
    }
  };

  static Status enqueue(KernelCall const& call, void* stream) noexcept {
    auto const args = arguments<ops::Softmax>(call);
    return launch_over_rows<Kernel>(args.n, args.v, stream, call);
  }
};

template <class T> struct SoftmaxBackward {
  using V = compute_t<T>;

  template <int size> struct Kernel {
    static constexpr int threads = row_threads;
    DeviceCall<ops::SoftmaxBackward> call;
    explicit Kernel(KernelCall const& from) : call(from) {}

    NNTILE_DEVICE void operator()(Thread& thread) const {
      using Operand = ops::SoftmaxBackward::Operand;
      auto const& args = call.args();
      auto const buffers = call.buffers();
      V* const dots = buffers.template at<V>(Operand::dot);  // [n], where v is cut
      Chain const chain = Chain{args.first}.in_phase(args.phase, 0);
      Team<size> const team(thread);
      team.for_each_row(args.n, [&](Index i) {
        T const* const y = buffers.template at<T>(Operand::y) + i * args.ldy + args.skipped;
        T const* const dy = buffers.template at<T>(Operand::dy) + i * args.lddy + args.skipped;
        V dot = chain.start(dots, i);
        if (args.phase != 1)
          dot = canonical_sum<V>(team, args.v, dot,
                                 [&](Index p) { return get(y + p) * get(dy + p); });
        if (args.phase == 0) {
          if (team.rank() == 0) dots[i] = dot;
          return;
        }
        T* const dx = buffers.template at<T>(Operand::dx) + i * args.lddx;
        team.for_each(
            args.v,
            [&](Index p) {
              return updated_at(static_cast<T const*>(dx) + p, args.beta,
                                get(y + p) * (get(dy + p) - Vec<V>::raw(dot)));
            },
            [&](Index p, auto value) { put(dx + p, value); });
      });
    }
  };

  static Status enqueue(KernelCall const& call, void* stream) noexcept {
    auto const args = arguments<ops::SoftmaxBackward>(call);
    return launch_over_rows<Kernel>(args.n, args.v, stream, call);
  }
};

constinit auto const kernels =
    join(op_kernels<ops::Softmax, Softmax>(), op_kernels<ops::SoftmaxBackward, SoftmaxBackward>());

}  // namespace
NNTILE_KERNEL_LIST(softmax, kernels)
}  // namespace nntile::kernels::cuda
