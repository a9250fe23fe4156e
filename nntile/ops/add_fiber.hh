#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Adds a fiber along one axis: a bias.

#include "nntile/ops/sum_slice.hh"

namespace nntile {
namespace ops {

struct AddFiberAttrs {
  int axis = 0;
  double alpha = 1;
};

/// z[i,k,j] = x[i,k,j] + alpha f[k], k being dimension `axis` of x. One fma an element. dtypes
/// {every float}. Cost: 2|x| * size bytes.
struct AddFiber {
  static constexpr char const* name = "add_fiber";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  enum class Operand : std::uint8_t { x, f, z };
  static constexpr Operands operands{
      {"x", "i... k j..."}, {"f", "k"}, {"z", "i... k j...", Access::write}};

  using Attrs = AddFiberAttrs;
  struct Args {
    Index m, k, n;
    double alpha;
    SliceStrides x, z;
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
            slice_strides(range, Operand::z)};
  }

  template <Element T>
  requires(is_float(dtype_of<T>))
  static void reference(Args const& args, Buffers<AddFiber> buffers) {
    using V = compute_t<T>;
    T const* const x = buffers.at<T>(Operand::x);  // [i, k, j]
    T const* const f = buffers.at<T>(Operand::f);  // [k]
    T* const z = buffers.at<T>(Operand::z);        // [i, k, j]
    for (Index j = 0; j < args.n; ++j)
      for (Index k = 0; k < args.k; ++k)
        for (Index i = 0; i < args.m; ++i) {
          V const before = V(x[i + args.x.k * k + args.x.j * j]);
          z[i + args.z.k * k + args.z.j * j] = T(std::fma(V(args.alpha), V(f[k]), before));
        }
  }

  /// df sums dz over every other dimension, one after another, the innermost first; each stage is a
  /// tensor.
  template <class Builder> static void gradient(Builder& b) {
    Attrs const& attrs = b.template attrs<AddFiber>();
    if (b.wants(Operand::f)) {
      auto node = b.grad(Operand::z);
      Dims shape = b.shape(Operand::z);
      bool later = false;
      if (shape.size() == 1) b.pass(Operand::f, Operand::z, attrs.alpha);
      for (int inside = attrs.axis; shape.size() > 1; --inside) {
        int const axis = inside > 0 ? 0 : 1;
        bool const last = shape.size() == 2;
        Dims rest;
        for (std::size_t d = 0; d < shape.size(); ++d)
          if (d != static_cast<std::size_t>(axis)) rest.push_back(shape[d]);
        shape = rest;
        if (last) {
          auto const df = b.target(Operand::f);
          b.template op<SumSlice>({.axis = axis,
                                   .alpha = attrs.alpha,
                                   .beta = df.beta,
                                   .ascending = later && axis == 0},
                                  node, df.node);
        } else {
          auto const stage =
              b.temporary(shape, node.dtype(), concat(b.name(Operand::f), ".grad.stage"));
          b.template op<SumSlice>({.axis = axis, .ascending = later && axis == 0}, node, stage);
          node = stage;
          later = true;  // dimension 0 of the stage was another before
        }
      }
    }
    if (b.wants(Operand::x)) b.pass(Operand::x, Operand::z);
  }
};

}  // namespace ops

inline constexpr Call<ops::AddFiber> add_fiber{};
using add_fiber_ops = OpList<ops::AddFiber>;

}  // namespace nntile
