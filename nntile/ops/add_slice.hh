#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Adds a slice to every index of one axis: a position embedding to a batch.

#include "nntile/ops/sum_slice.hh"

namespace nntile {
namespace ops {

struct AddSliceAttrs {
  int axis = 0;
  double alpha = 1;
};

/// z[i,k,j] = x[i,k,j] + alpha s[i,j], k being dimension `axis` of x. One fma an element. dtypes
/// {every float}. Cost: (2|x| + |s|) * size bytes.
struct AddSlice {
  static constexpr char const* name = "add_slice";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  static constexpr Operands operands{
      {"x", "i... k j..."}, {"s", "i... j..."}, {"z", "i... k j...", Access::write}};

  using Attrs = AddSliceAttrs;
  struct Args {
    Index m, k, n;
    double alpha;
  };

  static GroupRanks ranks(Attrs const& attrs) { return {{'i', attrs.axis, "axis"}}; }
  static std::uint32_t replaces(Attrs const&) { return 1u << 0; }
  static Args args(Attrs const& attrs, TileRange const& range) {
    return {range.extent('i'), range.extent('k'), range.extent('j'), attrs.alpha};
  }
  static Cost cost(Attrs const&, TileRange const& range) {
    return {0, static_cast<Index>(sizeof(float)) * (2 * range.elements(0) + range.elements(1))};
  }

  template <Element T>
  requires(is_float(dtype_of<T>)) static void reference(Args const& args, Buffers buffers) {
    using V = compute_t<T>;
    T const* const x = buffers.at<T>(0);  // [i, k, j]
    T const* const s = buffers.at<T>(1);  // [i, j]
    T* const z = buffers.at<T>(2);        // [i, k, j]
    for (Index j = 0; j < args.n; ++j)
      for (Index k = 0; k < args.k; ++k)
        for (Index i = 0; i < args.m; ++i) {
          Index const at = i + args.m * (k + args.k * j);
          z[at] = T(std::fma(V(args.alpha), V(s[i + args.m * j]), V(x[at])));
        }
  }

  template <class Builder> static void gradient(Builder& b) {
    Attrs const& attrs = b.template attrs<AddSlice>();
    if (b.wants(1)) {
      auto const ds = b.target(1);
      b.template op<SumSlice>({.axis = attrs.axis, .alpha = attrs.alpha, .beta = ds.beta},
                              b.grad(2), ds.node);
    }
    if (b.wants(0)) b.pass(0, 2);
  }
};

}  // namespace ops

inline constexpr Call<ops::AddSlice> add_slice{};
using add_slice_ops = OpList<ops::AddSlice>;

}  // namespace nntile
