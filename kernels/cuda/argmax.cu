// SPDX-License-Identifier: BSD-3-Clause
// The first largest element, a team of threads a row, or where the axis is not the innermost a
// thread a column. Bound: the bytes of x.
#include "nntile/ops/argmax.hh"

#include "kernels/cuda/best.hh"

namespace nntile::kernels::cuda {
namespace {

template <class T> struct Argmax {
  using V = compute_t<T>;
  using Operand = ops::Argmax::Operand;

  /// Result number `at` of the carry and `to` of y.
  struct Result {
    V* carry;  // or null
    Index* y;
    Chain chain;

    NNTILE_DEVICE Result(ops::Argmax::Args const& args, Buffers<ops::Argmax> const& buffers,
                         Index at, Index to)
        : carry(buffers.template at<V>(Operand::best)),
          y(buffers.template at<Index>(Operand::y) + to),
          chain(args.chain(carry)) {
      if (carry != nullptr) carry += at;
    }
    NNTILE_DEVICE Best<V> start() const { return chain.first ? no_best<V>() : Best<V>{*carry, *y}; }
    NNTILE_DEVICE void put(Best<V> best) const {
      *y = best.where;
      if (carry != nullptr) *carry = best.value;
    }
  };

  template <int size> struct Rows {
    static constexpr int threads = row_threads;
    DeviceCall<ops::Argmax> call;
    explicit Rows(KernelCall const& from) : call(from) {}

    NNTILE_DEVICE void operator()(Thread& thread) const {
      auto const& args = call.args();
      T const* const all = call.buffers().template at<T const>(Operand::x);  // [v, n]
      Team<size> const team(thread);
      team.for_each_row(args.n, [&](Index j) {
        T const* const x = all + j * args.ldx;
        Result const result(args, call.buffers(), j, j * args.ldy);
        Best<V> const best =
            first_largest(team, args.v, args.v_begin, result.start(),
                          [&](Index v) { return static_cast<V>(x[v * args.stride]); });
        if (team.rank() == 0) result.put(best);
      });
    }
  };

  struct Columns {
    static constexpr int threads = loop_threads;
    DeviceCall<ops::Argmax> call;

    NNTILE_DEVICE void operator()(Thread& thread) const {
      auto const& args = call.args();
      T const* const x = call.buffers().template at<T const>(Operand::x);  // [m, v, n]
      for_each_pair(thread, args.m, args.n, [&](Index i, Index j) {
        Result const result(args, call.buffers(), i + j * args.m, i + j * args.ldy);
        T const* const line = x + i + j * args.ldx;
        Best<V> best = result.start();
        for (Index v = 0; v < args.v; ++v)
          offer(best, static_cast<V>(line[v * args.stride]), args.v_begin + v);
        result.put(best);
      });
    }
  };

  static Status enqueue(KernelCall const& call, void* stream) noexcept {
    auto const args = arguments<ops::Argmax>(call);
    if (args.m == 1) return launch_over_rows<Rows>(args.n, args.v, stream, call);
    return launch_over(args.m * args.n, Columns::threads, stream,
                       Columns{DeviceCall<ops::Argmax>(call)});
  }
};

constinit auto const kernels = op_kernels<ops::Argmax, Argmax>();

}  // namespace
NNTILE_KERNEL_LIST(argmax, kernels)
}  // namespace nntile::kernels::cuda
