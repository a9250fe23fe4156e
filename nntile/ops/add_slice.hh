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
  enum class Operand : std::uint8_t { x, s, z };
  static constexpr Operands operands{
      {"x", "i... k j..."}, {"s", "i... j..."}, {"z", "i... k j...", Access::write}};

  using Attrs = AddSliceAttrs;
  struct Args {
    Index m, k, n;
    double alpha;
    SliceStrides x, z;
    Index s;  // stride along j
  };

  static constexpr Fields fields{field<&Attrs::axis>("axis"), field<&Attrs::alpha>("alpha")};
  static constexpr Hooks<Attrs> hooks{
      .ranks = &axis_ranks<Attrs>,
      .replaces = [](Attrs const&) -> OperandSet { return {Operand::x}; },
      .padding = Padding::columns};

  static Args args(Attrs const& attrs, TileRange const& range) {
    return {range.extent('i'),
            range.extent('k'),
            range.extent('j'),
            attrs.alpha,
            slice_strides(range, Operand::x),
            slice_strides(range, Operand::z),
            range.stride(Operand::s, 'j')};
  }

  template <Element T>
  requires(is_float(dtype_of<T>))
  static void reference(Args const& args, Buffers<AddSlice> buffers) {
    using V = compute_t<T>;
    T const* const x = buffers.at<T>(Operand::x);  // [i, k, j]
    T const* const s = buffers.at<T>(Operand::s);  // [i, j]
    T* const z = buffers.at<T>(Operand::z);        // [i, k, j]
    for (Index j = 0; j < args.n; ++j)
      for (Index k = 0; k < args.k; ++k)
        for (Index i = 0; i < args.m; ++i) {
          V const before = V(x[i + args.x.k * k + args.x.j * j]);
          z[i + args.z.k * k + args.z.j * j] =
              T(std::fma(V(args.alpha), V(s[i + args.s * j]), before));
        }
  }

  template <class Builder> static void gradient(Builder& b) {
    Attrs const& attrs = b.template attrs<AddSlice>();
    if (b.wants(Operand::s)) {
      auto const ds = b.target(Operand::s);
      b.template op<SumSlice>({.axis = attrs.axis, .alpha = attrs.alpha, .beta = ds.beta},
                              b.grad(Operand::z), ds.node);
    }
    if (b.wants(Operand::x)) b.pass(Operand::x, Operand::z);
  }
};

}  // namespace ops

inline constexpr Call<ops::AddSlice> add_slice{};
using add_slice_ops = OpList<ops::AddSlice>;

}  // namespace nntile
