#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// What all elementwise ops share: the walk's arguments, cost and reference follow from one function
// of one element.

#include <cmath>
#include <concepts>

#include "nntile/ops/concept.hh"

namespace nntile {

/// Functions of one element that elementwise ops call unqualified, after `using namespace
/// nntile::math`. These are the scalar definitions of references; the vector types of kernels/cpu
/// bring their own, found by their argument.
namespace math {

template <std::floating_point V> V exp(V x) { return std::exp(x); }
/// exp of what is known to be where neither bound of the result is passed by much.
template <std::floating_point V> V exp_in_range(V x) { return std::exp(x); }
/// The constant of the type's precision.
template <std::floating_point V> V by_precision(V, double single, double twice) {
  return V(sizeof(V) == sizeof(float) ? single : twice);
}
template <std::floating_point V> V log(V x) { return std::log(x); }
template <std::floating_point V> V tanh(V x) { return std::tanh(x); }
template <std::floating_point V> V erf(V x) { return std::erf(x); }
template <std::floating_point V> V sqrt(V x) { return std::sqrt(x); }
template <std::floating_point V> V abs(V x) { return std::fabs(x); }
template <std::floating_point V> V fma(V a, V b, V c) { return std::fma(a, b, c); }
/// b where a is NaN: the order of x86's min and max.
template <std::floating_point V> V max(V a, V b) { return a > b ? a : b; }
template <std::floating_point V> V min(V a, V b) { return a < b ? a : b; }

}  // namespace math

/// What the kernel of an elementwise op sees.
template <class Attrs> struct ElementwiseArgs {
  Index n = 0;
  Attrs attrs;
};

/// Base of elementwise ops. The op adds name, Attrs, operands and
///   template <class V> static V apply(Attrs const&, V x, V y, ...)
/// one value per operand that is read, in their order; the last operand is the result. An `update`
/// result becomes beta*dst + apply(...), where beta is an attribute, and is not looked at when beta
/// is 0.
template <class Op, class OpAttrs> struct Elementwise {
  using Attrs = OpAttrs;
  using Args = ElementwiseArgs<Attrs>;
  static constexpr bool elementwise = true;
  static constexpr std::span<DType const> dtypes{float_dtypes};

  static Args args(Attrs const& attrs, TileRange const& range) {
    return {range.extent('i'), attrs};
  }

  static Cost cost(Attrs const&, TileRange const& range) {
    return {0, range.extent('i') *
                   static_cast<Index>(sizeof(float) * (Op::operands.size() + (updates() ? 1 : 0)))};
  }

  static bool overwrites(Attrs const& attrs, int) {
    if constexpr (requires { attrs.beta; })
      return updates() && attrs.beta == 0;
    else
      return false;
  }

  static constexpr std::uint32_t replaces(Attrs const&) {
    return (1u << (Op::operands.size() - 1)) - 1;
  }

  static constexpr bool updates() { return Op::operands.back().access == Access::update; }

  template <Element T>
  requires(is_float(dtype_of<T>)) static void reference(Args const& args, Buffers buffers) {
    constexpr int inputs = static_cast<int>(Op::operands.size()) - 1;
    using V = compute_t<T>;
    T* const out = buffers.at<T>(inputs);
    for (Index i = 0; i < args.n; ++i) {
      V value;
      if constexpr (inputs == 1)
        value = Op::template apply<V>(args.attrs, V(buffers.at<T>(0)[i]));
      else if constexpr (inputs == 2)
        value = Op::template apply<V>(args.attrs, V(buffers.at<T>(0)[i]), V(buffers.at<T>(1)[i]));
      else
        value = Op::template apply<V>(args.attrs, V(buffers.at<T>(0)[i]), V(buffers.at<T>(1)[i]),
                                      V(buffers.at<T>(2)[i]));
      if constexpr (updates())
        if (args.attrs.beta != 0) value = std::fma(V(args.attrs.beta), V(out[i]), value);
      out[i] = T(value);
    }
  }
};

}  // namespace nntile
