// SPDX-License-Identifier: BSD-3-Clause
// Sums along an axis, and slices repeated along one.
#include "nntile/ops/sum_slice.hh"

#include "kernels/cuda/columns.hh"
#include "kernels/cuda/rows.hh"
#include "nntile/ops/chain.hh"

namespace nntile::kernels::cuda {
namespace {

/// The result of a chain, [m, n].
template <class T>
NNTILE_DEVICE ChainResult<T> result_of(ops::SumSlice::Args const& args,
                                       Buffers<ops::SumSlice> const& buffers) {
  using Operand = ops::SumSlice::Operand;
  return {buffers.at<T>(Operand::y), buffers.at<compute_t<T>>(Operand::carry), args.beta,
          args.chain, args.finishing};
}

/// x of the task, [m, k, n], and its factor.
template <class T> struct Source {
  T const* x;
  Vec<compute_t<T>> alpha;
  NNTILE_DEVICE Source(ops::SumSlice::Args const& args, Buffers<ops::SumSlice> const& buffers)
      : x(buffers.at<T const>(ops::SumSlice::Operand::x) + args.skipped * args.whole.k),
        alpha(ops::slice_factor(args.alpha,
                                buffers.at<double const>(ops::SumSlice::Operand::divisor))) {}
};

template <class T> struct SumSlice {
  using V = compute_t<T>;

  /// Along dimension 0, in canonical order.
  template <int size> struct Inner {
    static constexpr int threads = row_threads;
    DeviceCall<ops::SumSlice> call;
    explicit Inner(KernelCall const& from) : call(from) {}

    NNTILE_DEVICE void operator()(Thread& thread) const {
      auto const& args = call.args();
      auto const buffers = call.buffers();
      auto const y = result_of<T>(args, buffers);
      Source<T> const from(args, buffers);
      Team<size> const team(thread);
      team.for_each_row(args.n, [&](Index j) {
        T const* const slab = from.x + j * args.whole.j;
        Index const to = j * args.part;
        V const sum = canonical_sum<V>(team, args.k, y.start(to),
                                       [&](Index k) { return from.alpha * get(slab + k); });
        if (team.rank() == 0) y.put(to, sum);
      });
    }
  };

  /// Along another axis, upwards: a thread a sum, of few rows or in narrow slabs.
  struct Columns {
    static constexpr int threads = column_threads;
    DeviceCall<ops::SumSlice> call;

    NNTILE_DEVICE void operator()(Thread& thread) const {
      auto const& args = call.args();
      auto const buffers = call.buffers();
      auto const y = result_of<T>(args, buffers);
      Source<T> const from(args, buffers);
      for_each_pair<threads>(thread, args.m, args.n, [&](Index i, Index j) {
        Index const slab = j * args.whole.j + i;
        Index const to = j * args.part + i;
        Vec<V> sum = Vec<V>::raw(y.start(to));
        for (Index k = 0; k < args.k; ++k)
          sum = fma(from.alpha, get(from.x + slab + k * args.whole.k), sum);
        y.put(to, sum.v);
      });
    }
  };

  /// The same, by strips.
  struct Strips {
    using Part = Strip<T, 1>;
    static constexpr int threads = Part::threads, least_blocks = Part::least_blocks;
    DeviceCall<ops::SumSlice> call;

    NNTILE_DEVICE void operator()(Thread& thread) const {
      auto const& args = call.args();
      auto const buffers = call.buffers();
      auto const y = result_of<T>(args, buffers);
      Source<T> const from(args, buffers);
      for_each_strip<Part>(thread, args.m, args.n, [&](Index begin, Index j) {
        Index const to = j * args.part + begin;
        fold_columns(
            thread, Part{{from.x + j * args.whole.j + begin}, {args.whole.k}, {}}, args.k,
            args.m - begin, [&](Index i) { return Vec<V>::raw(y.start(to + i)); },
            [](auto&, auto const&) {},
            [&](Vec<V>& sum, auto const& x) { sum = fma(from.alpha, x[0], sum); },
            [&](Index i, Vec<V> sum) { y.put(to + i, sum.v); });
      });
    }
  };

  static Status enqueue(KernelCall const& call, void* stream) noexcept {
    using Part = typename Strips::Part;
    auto const args = arguments<ops::SumSlice>(call);
    if (args.inner) return launch_over_rows<Inner>(args.n, args.k, stream, call);
    if (args.k >= long_column && 4 * args.m >= Part::columns)
      return launch_over_strips<Part>(args.m, args.n, stream,
                                      Strips{DeviceCall<ops::SumSlice>(call)});
    return launch_over(args.m * args.n, Columns::threads, stream,
                       Columns{DeviceCall<ops::SumSlice>(call)});
  }
};

template <class T> struct BroadcastSlice {
  using V = compute_t<T>;
  static constexpr int threads = loop_threads;
  DeviceCall<ops::BroadcastSlice> call;

  static Status enqueue(KernelCall const& from, void* stream) noexcept {
    BroadcastSlice const kernel{DeviceCall<ops::BroadcastSlice>(from)};
    auto const& args = kernel.call.arguments.args;
    return launch_loop(args.m * args.k * args.n, stream, kernel);
  }
  NNTILE_DEVICE void operator()(Thread& thread) const {
    using Operand = ops::BroadcastSlice::Operand;
    auto const& args = call.args();
    auto const buffers = call.buffers();
    T const* const s = buffers.template at<T const>(Operand::s);  // [m, n]
    T* const z = buffers.template at<T>(Operand::z);              // [m, k, n]
    Vec<V> const alpha(
        ops::slice_factor(args.alpha, buffers.template at<double const>(Operand::divisor)));
    auto const at = [&](Index i, Index k, Index j) {
      return z + i + k * args.whole.k + j * args.whole.j;
    };
    for_each_triple(
        thread, args.m, args.k, args.n,
        [&](Index i, Index k, Index j) {
          return updated_at(static_cast<T const*>(at(i, k, j)), args.beta,
                            alpha * get(s + i + j * args.part));
        },
        [&](Index i, Index k, Index j, auto value) { put(at(i, k, j), value); });
  }
};

constinit auto const kernels =
    join(op_kernels<ops::SumSlice, SumSlice>(), op_kernels<ops::BroadcastSlice, BroadcastSlice>());

}  // namespace
NNTILE_KERNEL_LIST(sum_slice, kernels)
}  // namespace nntile::kernels::cuda
