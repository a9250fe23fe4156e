#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Parts that all elementwise ops share: the walk's arguments, cost and reference follow from one
// function of one element.

#include <cmath>
#include <concepts>
#include <string_view>
#include <utility>

#include "nntile/ops/call.hh"
#include "nntile/ops/columns.hh"

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

/// Operands of an elementwise op whose tiles may be padded.
inline constexpr std::size_t most_elementwise_columns = 3;

/// Arguments of the kernel of an elementwise op: columns of n elements.
template <class Attrs> struct ElementwiseArgs {
  Index n = 0;
  Attrs attrs;
  Columns<most_elementwise_columns> columns = {};
};

/// Base of elementwise ops. The op adds name, Operand, operands, fields, gradient and
///   template <class V> static constexpr V apply(Attrs const&, V x, V y, ...)
/// one value per operand that is read, in their order; the last operand is the result. All have the
/// same axes and the op's dtype. An `update` result becomes beta*dst + apply(...), where beta is an
/// attribute, and is not looked at when beta is 0.
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
  /// Whether the operands are alike: one element of each is at one place. All but the last are
  /// read, and that is written or updated.
  static constexpr bool alike() {
    OperandInfo const& last = Op::operands.back();
    for (std::size_t o = 0; o < Op::operands.size(); ++o) {
      OperandInfo const& each = Op::operands[o];
      if (each.kind != Kind::element || each.carry != Carry::none ||
          std::string_view(each.axes) != last.axes)
        return false;
      if (o + 1 < Op::operands.size() && each.access != Access::read) return false;
    }
    return last.access == Access::write || last.access == Access::update;
  }
  /// Whether `apply` takes the operands that are read, as V.
  template <class V> static constexpr bool applies() {
    return []<std::size_t... o>(std::index_sequence<o...>) {
      return requires(Attrs const& attrs) {
        { Op::template apply<V>(attrs, V(o)...) } -> std::convertible_to<V>;
      };
    }(std::make_index_sequence<Op::operands.size() - 1>{});
  }
  static constexpr bool applies() { return applies<float>() || applies<double>(); }
  static constexpr bool has_beta() {
    return requires(Attrs const& attrs) {
      { attrs.beta } -> std::convertible_to<double>;
    };
  }
  static constexpr bool by_columns() { return Op::operands.size() <= most_elementwise_columns; }
  static constexpr Hooks<Attrs> hooks{.replaces = [](Attrs const&) { return inputs(); },
                                      .padding = by_columns() ? Padding::any : Padding::none};

  static Args args(Attrs const& attrs, TileRange const& range) {
    Args args{range.elements(result()), attrs};
    if constexpr (by_columns())
      args.columns = columns_of<most_elementwise_columns>(range, Op::operands.size(), args.n);
    return args;
  }

  template <Element T>
  requires(is_float(dtype_of<T>))
  static void reference(Args const& args, Buffers<Op> buffers) {
    using V = compute_t<T>;
    for (Index c = 0; c < static_cast<Index>(args.columns.count); ++c) {
      T* const out = column<T>(args, buffers, Op::operands.size() - 1, c);
      for (Index i = 0; i < args.n; ++i) {
        V const value = [&]<std::size_t... o>(std::index_sequence<o...>) {
          return Op::template apply<V>(args.attrs,
                                       static_cast<V>(column<T const>(args, buffers, o, c)[i])...);
        }(std::make_index_sequence<Op::operands.size() - 1>{});
        if constexpr (updates())
          out[i] = T(updated(args.attrs.beta, out[i], value));
        else
          out[i] = T(value);
      }
    }
  }

  /// A column of the operand at a position.
  template <class T>
  NNTILE_ALWAYS_INLINE static T* column(Args const& args, Buffers<Op> const& buffers,
                                        std::size_t position, Index number) {
    T* const first = buffers.template at<T>(name_of(position));
    if constexpr (by_columns())
      return first + number * static_cast<Index>(args.columns.leading[position]);
    return first;
  }

  /// The name of the operand at a position.
  static constexpr auto name_of(std::size_t position) {
    return static_cast<typename Op::Operand>(position);
  }
};

}  // namespace nntile
