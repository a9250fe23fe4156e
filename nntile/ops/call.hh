#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The callable object of an op, which serves every layer, and the checks of an op's struct.

#include <concepts>
#include <cstddef>
#include <type_traits>

#include "nntile/ops/concept.hh"
#include "nntile/ops/struct_checks.hh"

namespace nntile {

struct ExecutionContext;

namespace detail {

/// The result where a static_assert has refused a call: it fits wherever the result was wanted, so
/// that nothing else is reported.
struct Refused {
  template <class T> operator T() const;
};

/// Elements of a braced list that fits no Attrs; its name is what g++ says of such a call.
struct an_attribute_is_misspelt_or_of_another_type {
  template <class T> an_attribute_is_misspelt_or_of_another_type(T const&);
};

template <class Op, class... Operands>
concept Applicable = requires(Op op, typename Op::Attrs const& attrs, Operands const&... operands) {
  apply(op, attrs, operands...);
};
template <class Op, class... Operands>
concept AsyncApplicable =
    requires(Op op, typename Op::Attrs const& attrs, Operands const&... operands) {
      apply_async(op, attrs, operands...);
    };

/// An operand, in the place of attributes that are left out.
template <class X, class Attrs>
concept OperandOf = !std::convertible_to<X, Attrs const&> &&
                    !std::same_as<std::remove_cvref_t<X>, ExecutionContext>;

struct AnyBuilder {};

/// Whether there is one, and no operand has an access that tasks of ops do not have.
template <class Op> consteval bool has_result() {
  bool result = false;
  for (OperandInfo const& operand : Op::operands) {
    if (operand.access > Access::accumulate) return false;
    result |= writes(operand.access);
  }
  return result;
}

template <class Op> consteval bool has_second() {
  for (OperandInfo const& operand : Op::operands)
    if (operand.kind == Kind::second) return true;
  return false;
}

/// Whether hidden operands stand behind those that calls give.
template <class Op> consteval bool hidden_stand_last() {
  bool hidden = false;
  for (OperandInfo const& operand : Op::operands) {
    if (hidden && operand.carry == Carry::none) return false;
    hidden = operand.carry != Carry::none;
  }
  return true;
}

/// Whether each narrow carry has its result: see result_of_carry.
template <class Op> consteval bool carries_have_results() {
  int results = 0, carries = 0;
  for (OperandInfo const& operand : Op::operands) {
    if (operand.carry == Carry::narrow) ++carries;
    if (operand.carry == Carry::none && operand.kind == Kind::element && writes(operand.access))
      ++results;
  }
  return carries <= results;
}

/// Says which member an op lacks, or has of another kind. What OpStruct demands, in words.
template <class Op> consteval bool checked_op() {
  static_assert(Empty<Op>, "an op is an empty struct: its constants are in Attrs");
  static_assert(
      requires {
        { Op::name } -> std::convertible_to<char const*>;
      }, "an op needs `static constexpr char const* name`");
  static_assert(requires { typename Op::Attrs; }, "an op needs a type `Attrs`: its constants");
  static_assert(requires { typename Op::Args; }, "an op needs a type `Args`: what its kernel sees");
  static_assert(
      requires { requires OperandName<typename Op::Operand>; },
      "an op needs `enum class Operand : std::uint8_t`: the names of its operands");
  static_assert(
      requires {
        { Op::operands } -> std::convertible_to<Operands const&>;
      }, "an op needs `static constexpr Operands operands`: names, axes and accesses");
  static_assert(
      HasDtypes<Op>,
      "an op needs `static constexpr std::span<DType const> dtypes`, or `types`, a table of "
      "ElementTypes, where operands have two");
  static_assert(
      requires {
        { Op::fields } -> std::convertible_to<Fields const&>;
      },
      "an op needs `static constexpr Fields fields`: the members of its Attrs by name, "
      "{field<&Attrs::alpha>(\"alpha\")}");
  if constexpr (requires {
                  typename Op::Attrs;
                  typename Op::Args;
                }) {
    using Attrs = typename Op::Attrs;
    using Args = typename Op::Args;
    static_assert(
        requires { requires std::same_as<decltype(Op::hooks), Hooks<Attrs> const>; },
        "an op needs `static constexpr Hooks<Attrs> hooks`, {} where it has none");
    static_assert(
        requires(Attrs const& attrs, TileRange const& range) {
          { Op::args(attrs, range) } -> std::same_as<Args>;
        }, "an op needs `static Args args(Attrs const&, TileRange const&)`");
    static_assert(TriviallyCopyable<Attrs> && sizeof(Attrs) <= max_attrs_bytes,
                  "Attrs of an op are trivially copyable, of at most max_attrs_bytes");
    static_assert(TriviallyCopyable<Args> && sizeof(Args) <= max_args_bytes,
                  "Args of an op are trivially copyable, of at most max_args_bytes");
    static_assert(alignof(Attrs) <= args_alignment && alignof(Args) <= args_alignment,
                  "Attrs and Args of an op are aligned to at most 8 bytes: graphs and plans keep "
                  "them so");
    if constexpr (requires {
                    { Op::fields } -> std::convertible_to<Fields const&>;
                  })
      static_assert(fields_are_all<Op>(),
                    "`fields` of an op lists each member of its Attrs, once: files and errors know "
                    "no others");
    if constexpr (requires {
                    { Op::operands } -> std::convertible_to<Operands const&>;
                    requires std::same_as<decltype(Op::hooks), Hooks<Attrs> const>;
                  })
      if constexpr (ConstantHooks<Op>)
        static_assert(sizeof(Args) > max_args_bytes || sizeof(Arguments<Op>) <= max_args_bytes,
                      "Args of an op that may lack operands take less than max_args_bytes: an "
                      "OperandSet stands behind them");
#ifndef __CUDACC__  // CUDA's front end, which finds no address of a template in a requirement
    static_assert(
        requires { Op::no_reference; } || requires { &Op::template reference<float>; } ||
            requires { &Op::template reference<double>; },
        "an op needs `template <Element T> static void reference(Args const&, "
        "Buffers<Op>)`, or `no_reference`, the reason why not");
    if constexpr (HasDtypes<Op> &&
                  (requires { &Op::template reference<float>; } ||
                   requires { &Op::template reference<double>; }) &&
                  requires { requires std::same_as<decltype(Op::hooks), Hooks<Attrs> const>; })
      if constexpr (ConstantHooks<Op>)
        static_assert(
            Op::hooks.kernel != nullptr || reference_fits<Op>(),
            "`reference` of an op takes the op's own `Args const&` and `Buffers<Op>`, of a "
            "dtype that it lists; an elementwise Op is derived from Elementwise<Op, Attrs>");
    static_assert(
        requires { Op::no_gradient; } || requires { &Op::template gradient<AnyBuilder>; },
        "an op needs `template <class Builder> static void gradient(Builder&)`, or "
        "`no_gradient`, the reason why not");
#endif
  }
  if constexpr (requires {
                  { Op::operands } -> std::convertible_to<Operands const&>;
                }) {
    static_assert(
        axes_are_spelled<Op>(),
        "axes of an operand are up to 8 letters parted by blanks, \"...\" behind one that "
        "is any number of dimensions, \"!\" behind one that is never cut; a result has "
        "each letter once");
    static_assert(
        has_result<Op>(),
        "an op has a result: an operand of Access::write, Access::update or Access::accumulate, "
        "and operands of no other access but Access::read");
    static_assert(
        !HasDtypes<Op> || HasTypes<Op> || !has_second<Op>(),
        "an operand of Kind::second needs `types`, a table of ElementTypes, in place of `dtypes`");
    static_assert(hidden_stand_last<Op>(),
                  "hidden operands, of a Carry, stand last: those before are what a call gives");
    static_assert(
        carries_have_results<Op>(),
        "an operand of Carry::narrow holds sums of a result of the op's own dtype, the n-th of "
        "the n-th such result, and there are fewer results");
    if constexpr (requires { requires Op::elementwise; }) {
      static_assert(Op::alike(),
                    "operands of an elementwise op have the same axes and the op's dtype, and all "
                    "but the last, the result, are read");
      static_assert(Op::applies(),
                    "an elementwise op needs `template <class V> static constexpr V apply(Attrs "
                    "const&, V x, V y, ...)`: a value for each operand but the last, the result");
      static_assert(!Op::updates() || Op::has_beta(),
                    "an elementwise op whose result is of Access::update needs `double beta` in "
                    "its Attrs");
    }
  }
#ifndef __CUDACC__  // nvcc spells enumerators in another way
  if constexpr (requires {
                  requires OperandName<typename Op::Operand>;
                  Op::operands;
                })
    static_assert(
        names_agree<Op>(),
        "the enum `Operand` and the table `operands` have the same names in the same order");
#endif
  return true;
}

}  // namespace detail

/// The callable object of an op. It forwards to `apply(op, attrs, operands...)`, found in the layer
/// of the operands: gelutanh(tile, tile) and gelutanh(tensor, tensor) block until that call is
/// done, gelutanh.async(...) returns what to wait for, y = gelutanh(node) adds a node to a graph.
/// Attributes come first: gemm({.trans_a = true}, a, b). Before them async() takes an
/// ExecutionContext (ops/execution.hh): gemm.async({.isa = Isa::v3}, {.trans_a = true}, a, b, c).
template <class Op>
requires(std::is_class_v<Op>)
struct Call {
  static_assert(detail::checked_op<Op>());
  using op_type = Op;

  template <class... Operands>
  auto operator()(typename Op::Attrs const& attrs, Operands&&... operands) const {
    if constexpr (detail::Applicable<Op, std::remove_cvref_t<Operands>...>) {
      return apply(Op{}, attrs, operands...);
    } else {
      static_assert(!OpStruct<Op>,
                    "an op takes Nodes of one graph, or Tiles, or Tensors, on one runtime: these "
                    "operands are of several kinds, or numbers; attributes stand first, in braces");
      return detail::Refused{};
    }
  }
  template <class First, class... Rest>
  requires(!std::convertible_to<First, typename Op::Attrs const&>)
  auto operator()(First&& first, Rest&&... rest) const {
    return (*this)(typename Op::Attrs{}, first, rest...);
  }
  /// Takes a braced list that is no Attrs, in g++, and is the worse choice for one that is.
  template <std::size_t N, class... Operands>
  void operator()(detail::an_attribute_is_misspelt_or_of_another_type const (&)[N],
                  Operands&&...) const volatile = delete;
  /// Take attributes that stand last, and say so.
  template <class X> auto operator()(X const&, typename Op::Attrs const&) const volatile {
    return attributes_stand_last();
  }
  template <class X, class Y>
  auto operator()(X const&, Y const&, typename Op::Attrs const&) const volatile {
    return attributes_stand_last();
  }
  template <class X, class Y, class Z>
  auto operator()(X const&, Y const&, Z const&, typename Op::Attrs const&) const volatile {
    return attributes_stand_last();
  }

  template <class... Operands>
  auto async(typename Op::Attrs const& attrs, Operands&&... operands) const {
    return start(attrs, operands...);
  }
  template <class First, class... Rest>
  requires detail::OperandOf<First, typename Op::Attrs>
  auto async(First&& first, Rest&&... rest) const {
    return start(typename Op::Attrs{}, first, rest...);
  }
  /// The worse choice for braces that fit Attrs as well; those above come first.
  template <class... Operands>
  auto async(ExecutionContext const& context, typename Op::Attrs const& attrs,
             Operands&&... operands) const volatile {
    return start(attrs, context, operands...);
  }
  template <class First, class... Rest>
  requires detail::OperandOf<First, typename Op::Attrs>
  auto async(ExecutionContext const& context, First&& first, Rest&&... rest) const volatile {
    return start(typename Op::Attrs{}, context, first, rest...);
  }
  template <std::size_t N>
  void async(detail::an_attribute_is_misspelt_or_of_another_type const (&)[N], ...) const
      volatile = delete;
  template <class X, class Y> auto async(X const&, Y const&, typename Op::Attrs const&) const {
    return attributes_stand_last();
  }
  template <class X, class Y, class Z>
  auto async(X const&, Y const&, Z const&, typename Op::Attrs const&) const {
    return attributes_stand_last();
  }
  /// The same of a context; the worse choice for braces that fit Attrs as well.
  template <class X, class Y>
  auto async(X const&, Y const&, ExecutionContext const&) const volatile {
    return context_stands_last();
  }
  template <class X, class Y, class Z>
  auto async(X const&, Y const&, Z const&, ExecutionContext const&) const volatile {
    return context_stands_last();
  }

 private:
  template <class... Operands>
  static auto start(typename Op::Attrs const& attrs, Operands const&... operands) {
    if constexpr (detail::AsyncApplicable<Op, Operands...>) {
      return apply_async(Op{}, attrs, operands...);
    } else {
      static_assert(
          !OpStruct<Op>,
          "async() is for Tiles, or Tensors, on one runtime: these operands are of several "
          "kinds, or Nodes, on which the plain call adds the op to their graph");
      return detail::Refused{};
    }
  }
  template <class Its = Op> static auto attributes_stand_last() {
    static_assert(!OpStruct<Its>,
                  "attributes of an op stand first, in braces: gemm({.trans_a = true}, a, b)");
    return detail::Refused{};
  }
  template <class Its = Op> static auto context_stands_last() {
    static_assert(!OpStruct<Its>,
                  "the context of async() stands first, in braces, before attributes: "
                  "gemm.async({.isa = Isa::v3}, {.trans_a = true}, a, b, c)");
    return detail::Refused{};
  }
};

}  // namespace nntile
