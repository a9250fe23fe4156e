#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// What all elementwise ops share: the walk's arguments, cost and reference follow from one function
// of one element.

#include <cmath>
#include <concepts>
#include <utility>

#include "nntile/ops/concept.hh"

namespace nntile {

/// Functions of one element that elementwise ops call unqualified, after `using namespace
/// nntile::math`. These are the scalar definitions of references; the vector types of kernels/cpu
/// bring their own, found by their argument.
namespace math {

template <std::floating_point V> constexpr V exp(V x) { return std::exp(x); }
/// exp of what is known to be where neither bound of the result is passed by much.
template <std::floating_point V> constexpr V exp_in_range(V x) { return std::exp(x); }
/// The constant of the type's precision.
template <std::floating_point V> constexpr V by_precision(V, double single, double twice) {
  return V(sizeof(V) == sizeof(float) ? single : twice);
}
template <std::floating_point V> constexpr V log(V x) { return std::log(x); }
template <std::floating_point V> constexpr V tanh(V x) { return std::tanh(x); }
template <std::floating_point V> constexpr V erf(V x) { return std::erf(x); }
template <std::floating_point V> constexpr V sqrt(V x) { return std::sqrt(x); }
template <std::floating_point V> constexpr V abs(V x) { return std::fabs(x); }
template <std::floating_point V> constexpr V fma(V a, V b, V c) { return std::fma(a, b, c); }
/// b where a is NaN: the order of x86's min and max.
template <std::floating_point V> constexpr V max(V a, V b) { return a > b ? a : b; }
template <std::floating_point V> constexpr V min(V a, V b) { return a < b ? a : b; }

}  // namespace math

/// What the kernel of an elementwise op sees.
template <class Attrs> struct ElementwiseArgs {
  Index n = 0;
  Attrs attrs;
};

/// Base of elementwise ops. The op adds name, Operand, operands, fields, gradient and
///   template <class V> static constexpr V apply(Attrs const&, V x, V y, ...)
/// one value per operand that is read, in their order; the last operand is the result. An `update`
/// result becomes beta*dst + apply(...), where beta is an attribute, and is not looked at when beta
/// is 0.
template <class Op, class OpAttrs> struct Elementwise {
  using Attrs = OpAttrs;
  using Args = ElementwiseArgs<Attrs>;
  static constexpr bool elementwise = true;
  static constexpr std::span<DType const> dtypes{float_dtypes};

  static constexpr bool updates() { return Op::operands.back().access == Access::update; }
  static constexpr OperandIndex result() { return OperandIndex(Op::operands.size() - 1); }
  static constexpr OperandSet inputs() {
    OperandSet set;
    for (std::size_t o = 0; o + 1 < Op::operands.size(); ++o) set.add(OperandIndex(o));
    return set;
  }
  static constexpr Hooks<Attrs> hooks{.replaces = [](Attrs const&) { return inputs(); }};

  static Args args(Attrs const& attrs, TileRange const& range) {
    return {range.extent('i'), attrs};
  }

  template <Element T>
  requires(is_float(dtype_of<T>))
  static void reference(Args const& args, Buffers<Op> buffers) {
    using V = compute_t<T>;
    T* const out = buffers.template at<T>(name_of(Op::operands.size() - 1));
    for (Index i = 0; i < args.n; ++i) {
      V const value = [&]<std::size_t... o>(std::index_sequence<o...>) {
        return Op::template apply<V>(
            args.attrs, static_cast<V>(buffers.template at<T const>(name_of(o))[i])...);
      }(std::make_index_sequence<Op::operands.size() - 1>{});
      if constexpr (updates())
        out[i] = T(updated(args.attrs.beta, out[i], value));
      else
        out[i] = T(value);
    }
  }

  /// The name of the operand at a position.
  static constexpr auto name_of(std::size_t position) {
    return static_cast<typename Op::Operand>(position);
  }
};

}  // namespace nntile
