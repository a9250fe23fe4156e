#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The sum along one axis, and its adjoint, which repeats a slice along an axis.

#include <cmath>

#include "nntile/ops/concept.hh"

namespace nntile {
namespace ops {

struct SumSliceAttrs {
  int axis = 0;
  double alpha = 1;
  double beta = 0;
  /// Along dimension 0, elements follow one another too: for the later stages of a sum over several
  /// axes, where what is dimension 0 now was not before.
  bool ascending = false;
};

/// Extents of the axis view: m inside the axis, k along it, n outside.
struct SliceArgs {
  Index m, k, n;
  double alpha, beta;
  bool inner;  // the axis is dimension 0, and sums run in blocks of 64
  bool first, last, carried;
};

inline SliceArgs slice_args(SumSliceAttrs const& attrs, TileRange const& range) {
  SliceArgs args{};
  args.m = range.extent('i');
  args.k = range.extent('k');
  args.n = range.extent('j');
  args.alpha = attrs.alpha;
  args.beta = attrs.beta;
  args.inner = attrs.axis == 0 && !attrs.ascending;
  return args;
}

/// z[i,k,j] = alpha s[i,j] + beta z[i,k,j]: s repeated along `axis` of z. dtypes {every float}.
/// Cost: (|s| + 2|z|) * size bytes, |z| less where beta = 0.
struct BroadcastSlice {
  static constexpr char const* name = "broadcast_slice";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  static constexpr Operands operands{{"s", "i... j..."}, {"z", "i... k j...", Access::update}};

  using Attrs = SumSliceAttrs;
  using Args = SliceArgs;

  static GroupRanks ranks(Attrs const& attrs) { return {{'i', attrs.axis, "axis"}}; }
  static bool overwrites(Attrs const& attrs, int) { return attrs.beta == 0; }
  static Args args(Attrs const& attrs, TileRange const& range) { return slice_args(attrs, range); }
  static Cost cost(Attrs const& attrs, TileRange const& range) {
    return {0, static_cast<Index>(sizeof(float)) *
                   (range.elements(0) + range.elements(1) * (attrs.beta == 0 ? 1 : 2))};
  }

  template <Element T>
  requires(is_float(dtype_of<T>)) static void reference(Args const& args, Buffers buffers) {
    using V = compute_t<T>;
    T const* const s = buffers.at<T>(0);  // [i, j]
    T* const z = buffers.at<T>(1);        // [i, k, j]
    for (Index j = 0; j < args.n; ++j)
      for (Index k = 0; k < args.k; ++k)
        for (Index i = 0; i < args.m; ++i) {
          T& out = z[i + args.m * (k + args.k * j)];
          V const value = V(args.alpha) * V(s[i + args.m * j]);
          out = T(args.beta == 0 ? value : std::fma(V(args.beta), V(out), value));
        }
  }

  template <class Builder> static void gradient(Builder& b);
};

/// y[i,j] = alpha sum_k x[i,k,j] + beta y[i,j], k being dimension `axis` of x; beta y[i,j] where
/// that is empty. dtypes {every float}. Order: the chain starts from beta*y. Along dimension 0 terms alpha*x in blocks of 64 by
/// logical index (element e to lane e mod 16, lanes by the tree 16-8-4-2-1, blocks added upwards);
/// along any other dimension element by element, fma(alpha, x, sum). Accumulates in fp32 (fp64 for
/// fp64). Cost: (|x| + 2|y|) * size bytes.
struct SumSlice {
  static constexpr char const* name = "sum_slice";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  static constexpr Operands operands{
      {"x", "i... k j..."},
      {"y", "i... j...", Access::update},
      {"carry", "i... j...", Access::update, Kind::accumulator, Carry::narrow}};

  using Attrs = SumSliceAttrs;
  using Args = SliceArgs;

  static GroupRanks ranks(Attrs const& attrs) { return {{'i', attrs.axis, "axis"}}; }
  static bool overwrites(Attrs const& attrs, int) { return attrs.beta == 0; }
  static char const* blocked(Attrs const& attrs) {
    return attrs.axis == 0 && !attrs.ascending ? "k" : "";
  }
  static Args args(Attrs const& attrs, TileRange const& range) {
    Args args = slice_args(attrs, range);
    args.first = range.first(1);
    args.last = range.last(1);
    args.carried = range.carried(2);
    return args;
  }
  static Cost cost(Attrs const&, TileRange const& range) {
    return {0, static_cast<Index>(sizeof(float)) * (range.elements(0) + 2 * range.elements(1))};
  }

  template <Element T>
  requires(is_float(dtype_of<T>)) static void reference(Args const& args, Buffers buffers) {
    using V = compute_t<T>;
    T const* const x = buffers.at<T>(0);                         // [i, k, j]
    T* const y = buffers.at<T>(1);                               // [i, j]
    V* const carry = args.carried ? buffers.at<V>(2) : nullptr;  // [i, j]
    for (Index j = 0; j < args.n; ++j)
      for (Index i = 0; i < args.m; ++i) {
        Index const at = i + args.m * j;
        V sum = !args.first      ? (args.carried ? carry[at] : V(y[at]))
                : args.beta == 0 ? V(0)
                                 : V(args.beta) * V(y[at]);
        for (Index k = 0; k < args.k; ++k)
          sum = std::fma(V(args.alpha), V(x[i + args.m * (k + args.k * j)]), sum);
        if (args.carried && !args.last)
          carry[at] = sum;
        else
          y[at] = T(sum);
      }
  }

  template <class Builder> static void gradient(Builder& b) {
    Attrs const& attrs = b.template attrs<SumSlice>();
    if (b.wants(0)) {
      auto const dx = b.target(0);
      b.template op<BroadcastSlice>({.axis = attrs.axis, .alpha = attrs.alpha, .beta = dx.beta},
                                    b.grad(1), dx.node);
    }
    b.keep(1, attrs.beta);
  }
};

template <class Builder> void BroadcastSlice::gradient(Builder& b) {
  Attrs const& attrs = b.template attrs<BroadcastSlice>();
  if (b.wants(0)) {
    auto const ds = b.target(0);
    b.template op<SumSlice>({.axis = attrs.axis, .alpha = attrs.alpha, .beta = ds.beta}, b.grad(1),
                            ds.node);
  }
  b.keep(1, attrs.beta);
}

}  // namespace ops

inline constexpr Call<ops::SumSlice> sum_slice{};
inline constexpr Call<ops::BroadcastSlice> broadcast_slice{};
using sum_slice_ops = OpList<ops::SumSlice, ops::BroadcastSlice>;

}  // namespace nntile
