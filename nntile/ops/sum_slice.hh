#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The sum along one axis, and its adjoint, which repeats a slice along an axis.

#include <algorithm>
#include <cmath>

#include "nntile/ops/call.hh"

namespace nntile {
namespace ops {

struct SumSliceAttrs {
  int axis = 0;
  double alpha = 1;
  double beta = 0;
  /// Along dimension 0, elements follow one another too: for the later stages of a sum over several
  /// axes, where what is dimension 0 now was not before.
  bool ascending = false;
  /// Operand `divisor` is there: alpha / divisor, in fp64, stands for alpha.
  bool divided = false;
  /// alpha over the number of elements along the axis stands for alpha: a mean, of whatever extent.
  bool mean = false;
};

/// Strides of an operand of axes "i... k j..." or "i... j...": along k and along j, those of i
/// being 1.
struct SliceStrides {
  Index k, j;
};
inline SliceStrides slice_strides(TileRange const& range, OperandIndex operand) {
  if (!range.has(operand)) return {0, 0};
  return {range.stride(operand, 'k'), range.stride(operand, 'j')};
}

/// Extents of the axis view: m inside the axis, k along it, n outside.
struct SliceArgs {
  Index m, k, n;
  double alpha, beta;
  bool inner;  // the axis is dimension 0, and sums run in blocks of 64
  Chain chain;
  bool finishing;
  std::uint32_t skipped;  // elements along k before the task's
  SliceStrides whole;     // of what has the axis
  Index part;             // along j, of what lacks it
};

inline constexpr Fields slice_fields{
    field<&SumSliceAttrs::axis>("axis"),       field<&SumSliceAttrs::alpha>("alpha"),
    field<&SumSliceAttrs::beta>("beta"),       field<&SumSliceAttrs::ascending>("ascending"),
    field<&SumSliceAttrs::divided>("divided"), field<&SumSliceAttrs::mean>("mean")};

/// Number of dimensions inside the axis: `axis`.
template <class Attrs> GroupRanks axis_ranks(Attrs const& attrs) {
  return {{'i', attrs.axis, "axis"}};
}

/// Whether a call has an operand of an op of this file.
template <class Operand> bool slice_has(SumSliceAttrs const& attrs, OperandIndex operand) {
  return operand != Operand::divisor || attrs.divided;
}

inline SliceArgs slice_args(SumSliceAttrs const& attrs, TileRange const& range, OperandIndex whole,
                            OperandIndex part, Chain chain) {
  Index const count = attrs.mean ? std::max<Index>(1, range.whole('k')) : 1;
  return {range.extent('i'),
          range.extent('k'),
          range.extent('j'),
          attrs.alpha / static_cast<double>(count),
          range.beta(attrs.beta),
          attrs.axis == 0 && !attrs.ascending,
          chain,
          range.finishing,
          range.skipped32('k'),
          slice_strides(range, whole),
          range.stride(part, 'j')};
}

/// The factor of a task: alpha, or alpha / divisor where the task has one.
constexpr double slice_factor(double alpha, double const* divisor) {
  return divisor == nullptr ? alpha : alpha / *divisor;
}

/// Appends the derivative of an op of this file by what it reads: the other op.
template <class Op, class Adjoint, class Builder>
void slice_gradient(Builder& b, typename Op::Operand read, typename Op::Operand result) {
  using Operand = typename Op::Operand;
  SumSliceAttrs const& attrs = b.template attrs<Op>();
  if (attrs.divided && b.wants(Operand::divisor)) b.fail("its divisor counts as a constant");
  if (b.wants(read)) {
    auto const to = b.target(read);
    SumSliceAttrs const back{.axis = attrs.axis,
                             .alpha = attrs.alpha,
                             .beta = to.beta,
                             .divided = attrs.divided,
                             .mean = attrs.mean};
    if (attrs.divided)
      b.template op<Adjoint>(back, b.grad(result), b.operand(Operand::divisor), to.node);
    else
      b.template op<Adjoint>(back, b.grad(result), to.node);
  }
  b.keep(result, attrs.beta);
}

/// z[i,k,j] = alpha s[i,j] + beta z[i,k,j]: s repeated along `axis` of z. With
/// `divided`, alpha / divisor stands for alpha. dtypes {every float}.
/// Cost: (|s| + 2|z|) * size bytes, |z| less where beta = 0.
struct BroadcastSlice {
  static constexpr char const* name = "broadcast_slice";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  enum class Operand : std::uint8_t { s, divisor, z };
  static constexpr Operands operands{{"s", "i... j..."},
                                     {"divisor", "", Access::read, Kind::fp64},
                                     {"z", "i... k j...", Access::update}};

  using Attrs = SumSliceAttrs;
  using Args = SliceArgs;
  static constexpr Fields fields = slice_fields;
  static constexpr Hooks<Attrs> hooks{
      .present = &slice_has<Operand>, .ranks = &axis_ranks<Attrs>, .padding = Padding::columns};

  static Args args(Attrs const& attrs, TileRange const& range) {
    return slice_args(attrs, range, Operand::z, Operand::s, {});
  }

  template <Element T>
  requires(is_float(dtype_of<T>))
  static void reference(Args const& args, Buffers<BroadcastSlice> buffers) {
    using V = compute_t<T>;
    T const* const s = buffers.at<T>(Operand::s);  // [i, j]
    T* const z = buffers.at<T>(Operand::z);        // [i, k, j]
    auto const alpha =
        static_cast<V>(slice_factor(args.alpha, buffers.at<double>(Operand::divisor)));
    for (Index j = 0; j < args.n; ++j)
      for (Index k = 0; k < args.k; ++k)
        for (Index i = 0; i < args.m; ++i) {
          T& out = z[i + args.whole.k * k + args.whole.j * j];
          out = T(updated(args.beta, out, alpha * V(s[i + args.part * j])));
        }
  }

  template <class Builder> static void gradient(Builder& b);
};

/// y[i,j] = alpha sum_k x[i,k,j] + beta y[i,j], k being dimension `axis` of x; beta y[i,j] where
/// that is empty. dtypes {every float}. Order: the chain starts from beta*y. Along dimension 0
/// terms alpha*x in blocks of 64 by logical index (element e to lane e mod 16, lanes by the tree
/// 16-8-4-2-1, blocks added upwards); along any other dimension element by element, fma(alpha, x,
/// sum). Accumulates in fp32 (fp64 for fp64). Cost: (|x| + 2|y|) * size bytes.
struct SumSlice {
  static constexpr char const* name = "sum_slice";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  enum class Operand : std::uint8_t { x, divisor, y, carry };
  static constexpr Operands operands{
      {"x", "i... k j..."},
      {"divisor", "", Access::read, Kind::fp64},
      {"y", "i... j...", Access::update},
      {"carry", "i... j...", Access::update, Kind::accumulator, Carry::narrow}};

  using Attrs = SumSliceAttrs;
  using Args = SliceArgs;
  static constexpr Fields fields = slice_fields;
  static constexpr Hooks<Attrs> hooks{
      .present = &slice_has<Operand>,
      .ranks = &axis_ranks<Attrs>,
      .blocked = [](Attrs const& attrs) { return attrs.axis == 0 && !attrs.ascending ? "k" : ""; },
      .grouped = "k",
      .padding = Padding::columns};

  static Args args(Attrs const& attrs, TileRange const& range) {
    return slice_args(attrs, range, Operand::x, Operand::y, range.chain(Operand::y));
  }

  template <Element T>
  requires(is_float(dtype_of<T>))
  static void reference(Args const& args, Buffers<SumSlice> buffers) {
    using V = compute_t<T>;
    T const* const x = buffers.at<T>(Operand::x) + args.skipped * args.whole.k;  // [i, k, j]
    ChainResult<T> const y{buffers.at<T>(Operand::y), buffers.at<V>(Operand::carry), args.beta,
                           args.chain, args.finishing};  // [i, j]
    auto const alpha =
        static_cast<V>(slice_factor(args.alpha, buffers.at<double>(Operand::divisor)));
    for (Index j = 0; j < args.n; ++j)
      for (Index i = 0; i < args.m; ++i) {
        V sum = y.start(i + args.part * j);
        for (Index k = 0; k < args.k; ++k)
          sum = std::fma(alpha, V(x[i + args.whole.k * k + args.whole.j * j]), sum);
        y.put(i + args.part * j, sum);
      }
  }

  template <class Builder> static void gradient(Builder& b) {
    slice_gradient<SumSlice, BroadcastSlice>(b, Operand::x, Operand::y);
  }
};

template <class Builder> void BroadcastSlice::gradient(Builder& b) {
  slice_gradient<BroadcastSlice, SumSlice>(b, Operand::s, Operand::z);
}

}  // namespace ops

inline constexpr Call<ops::SumSlice> sum_slice{};
inline constexpr Call<ops::BroadcastSlice> broadcast_slice{};
using sum_slice_ops = OpList<ops::SumSlice, ops::BroadcastSlice>;

}  // namespace nntile
