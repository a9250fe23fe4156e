// SPDX-License-Identifier: BSD-3-Clause
// Sums along an axis, and slices repeated along one.
#include "nntile/ops/sum_slice.hh"

#include "kernels/cpu/column_sums.hh"
#include "kernels/cpu/reduce.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

template <class T> struct SumSlice {
  using V = compute_t<T>;

  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::SumSlice>(call);
    using Operand = ops::SumSlice::Operand;
    Buffers<ops::SumSlice> const buffers(call);
    T const* const x = buffers.at<T const>(Operand::x) + args.skipped * args.whole.k;  // [m, k, n]
    ColumnResult<T> const y{{buffers.at<T>(Operand::y), buffers.at<V>(Operand::carry), args.beta,
                             args.chain, args.finishing}};  // [m, n]
    Vec<V> const alpha(ops::slice_factor(args.alpha, buffers.at<double const>(Operand::divisor)));
    if (args.inner) {  // a loop of its own: row to row without a look at the other layouts
      T const* row = x;
      for (Index j = 0; j < args.n; ++j, row += args.whole.j)
        y.put(j * args.part,
              canonical_sum<V>(args.k, y.start(j * args.part),
                               [&](Index i, auto part) __attribute__((always_inline)) {
                                 fetch_ahead(row + i, part);
                                 return alpha * load(row + i, part);
                               }));
      return {};
    }
    for (Index j = 0; j < args.n; ++j) {
      T const* const slab = x + j * args.whole.j;
      Index const to = j * args.part;
      if (args.m == 1 && args.whole.k == 1) {  // one chain, the same in every lane
        Vec<V> sum(static_cast<double>(y.start(to)));
        for (Index k = 0; k < args.k; ++k)
          sum = fma(alpha, Vec<V>(static_cast<double>(static_cast<V>(slab[k]))), sum);
        V lanes[Vec<V>::lanes];
        store(lanes, sum);
        y.put(to, lanes[0]);
      } else {
        Index const ahead = rows_ahead<T>(args.m) * args.whole.k;
        sum_columns<T, 1>(
            args.m, args.k, {y.at(to)},
            [&](Index i, Index k, auto part, Vec<V>(&sums)[1]) __attribute__((always_inline)) {
              if (fetches<Fetching::everywhere>())
                __builtin_prefetch(slab + k * args.whole.k + i + ahead);
              sums[0] = fma(alpha, load(slab + k * args.whole.k + i, part), sums[0]);
            });
      }
    }
    return {};
  }
};

template <class T> struct BroadcastSlice {
  using V = compute_t<T>;

  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::BroadcastSlice>(call);
    using Operand = ops::BroadcastSlice::Operand;
    Buffers<ops::BroadcastSlice> const buffers(call);
    T const* const s = buffers.at<T const>(Operand::s);  // [m, n]
    T* const z = buffers.at<T>(Operand::z);              // [m, k, n]
    Vec<V> const alpha(ops::slice_factor(args.alpha, buffers.at<double const>(Operand::divisor)));
    auto const put = [&](T* out, Vec<V> value, auto part) __attribute__((always_inline)) {
      update(out, args.beta, alpha * value, part);
    };
    for (Index j = 0; j < args.n; ++j) {
      T const* const slice = s + j * args.part;  // [m]
      T* to = z + j * args.whole.j;              // [m, k]
      if (args.m == 1 && args.whole.k == 1) {
        Vec<V> const value(static_cast<double>(static_cast<V>(slice[0])));
        for_each_vec<V>(args.k, [&](Index k, auto part) { put(to + k, value, part); });
        continue;
      }
      for (Index k = 0; k < args.k; ++k, to += args.whole.k)
        for_each_vec<V>(args.m,
                        [&](Index i, auto part) { put(to + i, load(slice + i, part), part); });
    }
    return {};
  }
};

constinit auto const kernels =
    join(op_kernels<ops::SumSlice, SumSlice>(), op_kernels<ops::BroadcastSlice, BroadcastSlice>());

}  // namespace
NNTILE_KERNEL_LIST(sum_slice, kernels)
}  // namespace nntile::kernels::NNTILE_ISA
