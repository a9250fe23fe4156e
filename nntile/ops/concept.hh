#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Definition of an op, and its type-erased description.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <type_traits>

#include "nntile/core/codelet.hh"
#include "nntile/core/computation.hh"
#include "nntile/core/traits.hh"
#include "nntile/ops/arguments.hh"
#include "nntile/ops/field_text.hh"
#include "nntile/ops/hooks.hh"
#include "nntile/ops/operand.hh"
#include "nntile/ops/operand_names.hh"
#include "nntile/ops/tile_range.hh"

namespace nntile {

/// Largest attribute and kernel-argument structs of an op, in bytes.
inline constexpr std::size_t max_attrs_bytes = 96;
inline constexpr std::size_t max_args_bytes = 176;
/// The most that either is aligned to: graphs, plans and calls keep them at multiples of it.
inline constexpr std::size_t args_alignment = 8;

namespace detail {

template <class Op>
concept HasTypes = requires { Op::types; };
template <class Op>
concept HasDtypes = HasTypes<Op> || requires { Op::dtypes; };
/// Not Elementwise, or as that base asks.
template <class Op>
concept FitsElementwise = !requires { requires Op::elementwise; } || requires {
  requires Op::alike() && Op::applies() && (!Op::updates() || Op::has_beta());
};

}  // namespace detail

// clang-format off
/// An op is an empty struct that says everything about one computation:
///   name       the kernel's name, which no other op has
///   Operand    a scoped enum of all operands that a call can have
///   operands   the table of the same operands, in the same order: names, axes, accesses, dtypes
///   dtypes     what the operands of Kind::element may be; where there are others of Kind::second, `types`,
///              a table of ElementTypes in its place, of which the first with an element type is the usual one
///   Attrs      constants of the call, a plain struct with defaults; `fields` lists its members by name
///   Args       what a kernel sees besides buffers; args(attrs, range) fills it for one tile task
///   hooks      the optional facts; {} where there is none
///   reference  the definition, sequential: reference<T>(args, buffers), the oracle when T is double;
///              where it returns a failed Status, or throws, its task fails; or `no_reference`, the reason
///   gradient   gradient(builder) appends the nodes of its derivative: reads values by operand(name), so that
///              overwritten ones are refused, and ends with keep(result, beta) where a result is updated;
///              or `no_gradient`, the reason
/// The bytes of a task follow from accesses, extents and dtypes: an `update` reads and writes.
// clang-format on
template <class Op>
concept OpStruct = Empty<Op> && requires(typename Op::Attrs const& attrs, TileRange const& range) {
  { Op::name } -> std::convertible_to<char const*>;
  requires OperandName<typename Op::Operand>;
  { Op::operands } -> std::convertible_to<Operands const&>;
  requires detail::HasDtypes<Op>;
  { Op::fields } -> std::convertible_to<Fields const&>;
  { Op::args(attrs, range) } -> std::same_as<typename Op::Args>;
  requires std::same_as<decltype(Op::hooks), Hooks<typename Op::Attrs> const>;
  requires TriviallyCopyable<typename Op::Attrs> && sizeof(typename Op::Attrs) <= max_attrs_bytes;
  requires TriviallyCopyable<typename Op::Args> && sizeof(Arguments<Op>) <= max_args_bytes;
  requires detail::FitsElementwise<Op>;
};

/// An op without its type: constants and plain functions, so that graphs and plans are no
/// templates. Operands are counted here among those that the call has, bit o for the o-th.
struct OpInfo {
  char const* name;
  std::uint64_t type;  // type_number of the op
  std::size_t attrs_bytes;
  std::size_t args_bytes;
  std::span<DType const> dtypes;  // of operands of Kind::element
  TypeTable types;                // if some are of Kind::second, else empty
  Fields const* fields;
  void const* defaults;     // an Attrs as it is when a call says nothing
  char const* no_gradient;  // the reason, or null
  Operands const* table;    // all that a call can have
  OperandSet (*present)(void const* attrs);
  Operands (*operands)(void const* attrs);
  GroupRanks (*ranks)(void const* attrs);
  void (*check)(void const* attrs, AxisTable const& axes);
  Phases (*phases)(void const* attrs);
  bool (*overwrites)(void const* attrs, int operand);
  void (*args)(void const* attrs, TileRange const& range, void* out);
  Index (*flops)(void const* attrs, TileRange const& range);
  Index (*elements)(void const* attrs, TileRange const& range, OperandIndex operand);
  void (*tiles)(void const* attrs, TileRange const& range,
                TileSink& sink);  // null: the standard walk
  char const* (*blocked)(void const* attrs);
  char const* grouped;
  Index paired_terms;
  char const* ungrouped;
  bool (*finishes)(void const* attrs);
  std::uint32_t (*replaces)(void const* attrs);
  Codelet const* (*reference)(ElementTypes types);  // null: none
  Codelet const* (*kernel)(ElementTypes types);     // null: the library's
  Padding padding;
  char const* sides;
  bool takes_gradients;
};

namespace detail {

template <class Op> inline constexpr typename Op::Attrs default_attrs{};

template <class Op> typename Op::Attrs const& attrs_of(void const* attrs) {
  return *static_cast<typename Op::Attrs const*>(attrs);
}

template <class Op> OperandSet present_of(void const* attrs) {
  OperandSet present;
  for (std::size_t o = 0; o < Op::operands.size(); ++o)
    if (Op::hooks.present == nullptr || Op::hooks.present(attrs_of<Op>(attrs), OperandIndex(o)))
      present.add(OperandIndex(o));
  return present;
}

template <class Op> Operands operands_of(void const* attrs) {
  if constexpr (Op::hooks.present == nullptr && Op::hooks.axes == nullptr) return Op::operands;
  OperandSet const present = present_of<Op>(attrs);
  Operands result;
  for (std::size_t o = 0; o < Op::operands.size(); ++o) {
    if (!present.has(OperandIndex(o))) continue;
    result.push_back(Op::operands[o]);
    if constexpr (Op::hooks.axes != nullptr)
      if (char const* const axes = Op::hooks.axes(attrs_of<Op>(attrs), OperandIndex(o)))
        result.back().axes = axes;
  }
  return result;
}

template <class Op> bool overwrites(void const* attrs, int operand) {
  using Attrs = typename Op::Attrs;
  (void)attrs, (void)operand;
  if constexpr (Op::hooks.overwrites != nullptr)
    return Op::hooks.overwrites(attrs_of<Op>(attrs),
                                present_of<Op>(attrs).at(static_cast<std::size_t>(operand)));
  else if constexpr (requires(Attrs const& given) { given.beta; })
    return attrs_of<Op>(attrs).beta == 0;
  else
    return false;
}

template <class Op> std::uint32_t replaces(void const* attrs) {
  std::uint32_t bits = 0;
  if constexpr (Op::hooks.replaces != nullptr) {
    OperandSet const present = present_of<Op>(attrs), set = Op::hooks.replaces(attrs_of<Op>(attrs));
    for (std::size_t o = 0; o < Op::operands.size(); ++o)
      if (present.has(OperandIndex(o)) && set.has(OperandIndex(o)))
        bits |= 1u << present.rank(OperandIndex(o));
  }
  return bits;
}

template <class Op, DType... dtypes>
concept HasReference = requires(typename Op::Args const& args, Buffers<Op> buffers) {
  Op::template reference<stored_t<dtypes>...>(args, buffers);
};

/// The outcome of a body that may throw. One function for all, so that none compiles it anew.
inline Status outcome_of(Status (*body)(KernelCall const&), KernelCall const& call) noexcept {
  try {
    return body(call);
  } catch (std::exception const& error) {
    if (*error.what() == 0) return {"its reference threw"};
    std::strncpy(call.text, error.what(), status_text_bytes - 1);
    call.text[status_text_bytes - 1] = 0;
    return {call.text};
  } catch (...) {
    return {"its reference threw what is no std::exception"};
  }
}

template <class Op, class... Types> Status run_reference(KernelCall const& call) noexcept {
  constexpr auto body = [](KernelCall const& its) -> Status {
    auto const args = arguments<Op>(its);
    Buffers<Op> const buffers(its);
    if constexpr (std::same_as<decltype(Op::template reference<Types...>(args, buffers)), Status>)
      return Op::template reference<Types...>(args, buffers);
    else
      return Op::template reference<Types...>(args, buffers), Status{};
  };
  return outcome_of(body, call);
}

template <class Op, DType... dtypes>
inline constexpr Codelet reference_codelet{Op::name, &run_reference<Op, stored_t<dtypes>...>,
                                           nullptr,  nullptr,
                                           0,        &computation_of<Op, dtypes...>};

/// Whether an op that has `dtypes` lists this one.
template <class Op> constexpr bool lists(DType dtype) {
  for (DType const each : Op::dtypes)
    if (each == dtype) return true;
  return false;
}

/// The codelet that f.template operator()<element>() returns for a dtype that the op lists, or
/// <element, second> for an op that lists `types`; null for others, which f is not compiled for.
template <class Op, class F> Codelet const* for_types(ElementTypes types, F const& f) {
  Codelet const* found = nullptr;
  if constexpr (HasTypes<Op>)
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      (void)((Op::types[i] == types &&
              (found = f.template operator()<Op::types[i].element, Op::types[i].second>(), true)) ||
             ...);
    }(std::make_index_sequence<std::size(Op::types)>{});
  else
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      auto const take = [&]<DType dtype>() {
        if constexpr (lists<Op>(dtype))
          if (types.element == dtype) found = f.template operator()<dtype>();
      };
      (take.template operator()<static_cast<DType>(i)>(), ...);
    }(std::make_index_sequence<dtype_count>{});
  return found;
}

template <class Op> Codelet const* reference_of([[maybe_unused]] ElementTypes types) {
  if constexpr (requires { Op::no_reference; })
    return nullptr;
  else
    return for_types<Op>(types, []<DType... dtypes>() -> Codelet const* {
      if constexpr (HasReference<Op, dtypes...>)
        return &reference_codelet<Op, dtypes...>;
      else
        return nullptr;
    });
}

/// The op's own entries with what they leave out: the computation, and a reference for the CPU. The
/// same object each time, since tasks know it by address.
template <class Op, DType... dtypes> Codelet const* whole_kernel(Codelet const& own) {
  static Codelet const whole = [&own] {
    Codelet result = own;
    if constexpr (HasReference<Op, dtypes...>)
      if (!own.runs_on_cpu()) result.cpu = &run_reference<Op, stored_t<dtypes>...>;
    if (own.computation == nullptr) result.computation = &computation_of<Op, dtypes...>;
    return result;
  }();
  return &whole;
}

template <class Op> Codelet const* kernel_of(ElementTypes types) {
  Codelet const* const own = Op::hooks.kernel(types);
  if (own == nullptr || (own->runs_on_cpu() && own->computation != nullptr)) return own;
  return for_types<Op>(types,
                       [own]<DType... dtypes>() { return whole_kernel<Op, dtypes...>(*own); });
}

/// `kernel_of`, or null where the op has no entries of its own.
template <class Op> constexpr auto own_kernel() -> Codelet const* (*)(ElementTypes) {
  if constexpr (Op::hooks.kernel != nullptr)
    return &kernel_of<Op>;
  else
    return nullptr;
}

/// The element types of `types`, each once.
struct ElementList {
  DType dtypes[dtype_count] = {};
  std::size_t size = 0;
  constexpr explicit ElementList(TypeTable types) {
    bool known[dtype_count] = {};
    for (ElementTypes const& each : types)
      if (bool& seen = known[static_cast<int>(each.element)]; !seen) {
        seen = true;
        dtypes[size++] = each.element;
      }
  }
};
template <class Op> inline constexpr ElementList elements_of{Op::types};

template <class Op> constexpr std::span<DType const> dtypes_of() {
  if constexpr (HasTypes<Op>)
    return {elements_of<Op>.dtypes, elements_of<Op>.size};
  else
    return Op::dtypes;
}
template <class Op> constexpr TypeTable types_of() {
  if constexpr (HasTypes<Op>)
    return Op::types;
  else
    return {};
}

template <class Op> constexpr char const* no_gradient_of() {
  if constexpr (requires { Op::no_gradient; })
    return Op::no_gradient;
  else
    return nullptr;
}

}  // namespace detail

/// The description of an op, one object per op.
template <OpStruct Op>
inline constexpr OpInfo op_info{
    .name = Op::name,
    .type = type_number<Op>,
    .attrs_bytes = sizeof(typename Op::Attrs),
    .args_bytes = sizeof(Arguments<Op>),
    .dtypes = detail::dtypes_of<Op>(),
    .types = detail::types_of<Op>(),
    .fields = &Op::fields,
    .defaults = &detail::default_attrs<Op>,
    .no_gradient = detail::no_gradient_of<Op>(),
    .table = &Op::operands,
    .present = &detail::present_of<Op>,
    .operands = &detail::operands_of<Op>,
    .ranks = [](void const* attrs) -> GroupRanks {
      (void)attrs;
      if constexpr (Op::hooks.ranks != nullptr)
        return Op::hooks.ranks(detail::attrs_of<Op>(attrs));
      else
        return {};
    },
    .check =
        [](void const* attrs, AxisTable const& axes) {
          (void)attrs, (void)axes;
          if constexpr (Op::hooks.check != nullptr)
            Op::hooks.check(detail::attrs_of<Op>(attrs), axes);
        },
    .phases = [](void const* attrs) -> Phases {
      (void)attrs;
      if constexpr (Op::hooks.phases != nullptr)
        return Op::hooks.phases(detail::attrs_of<Op>(attrs));
      else
        return {};
    },
    .overwrites = &detail::overwrites<Op>,
    .args = [](void const* attrs, TileRange const& range,
               void* out) { write_arguments<Op>(detail::attrs_of<Op>(attrs), range, out); },
    .flops = [](void const* attrs, TileRange const& range) -> Index {
      (void)attrs, (void)range;
      if constexpr (Op::hooks.flops != nullptr)
        return Op::hooks.flops(detail::attrs_of<Op>(attrs), range);
      else
        return 0;
    },
    .elements = [](void const* attrs, TileRange const& range, OperandIndex operand) -> Index {
      (void)attrs;
      if constexpr (Op::hooks.elements != nullptr)
        return Op::hooks.elements(detail::attrs_of<Op>(attrs), range, operand);
      else
        return range.elements(operand);
    },
    .tiles =
        [] {
          using Function = void (*)(void const*, TileRange const&, TileSink&);
          if constexpr (Op::hooks.tiles != nullptr)
            return Function{[](void const* attrs, TileRange const& range, TileSink& sink) {
              Op::hooks.tiles(detail::attrs_of<Op>(attrs), range, sink);
            }};
          else
            return Function{nullptr};
        }(),
    .blocked = [](void const* attrs) -> char const* {
      (void)attrs;
      if constexpr (Op::hooks.blocked != nullptr)
        return Op::hooks.blocked(detail::attrs_of<Op>(attrs));
      else
        return "";
    },
    .grouped = Op::hooks.grouped,
    .paired_terms = Op::hooks.paired_terms,
    .ungrouped = Op::hooks.ungrouped,
    .finishes = [](void const* attrs) -> bool {
      (void)attrs;
      if constexpr (Op::hooks.finishes != nullptr)
        return Op::hooks.finishes(detail::attrs_of<Op>(attrs));
      else
        return false;
    },
    .replaces = &detail::replaces<Op>,
    .reference = &detail::reference_of<Op>,
    .kernel = detail::own_kernel<Op>(),
    .padding = Op::hooks.padding,
    .sides = Op::hooks.sides,
    .takes_gradients = Op::hooks.takes_gradients,
};

/// The types of a call whose operands of Kind::element are `element`: of those that the op lists,
/// the first.
constexpr ElementTypes usual_types(OpInfo const& op, DType element) {
  for (ElementTypes const& types : op.types)
    if (types.element == element) return types;
  return {element, element};
}

/// "; the call has trans_a=true": the attributes that a call gives, those aside that a text names;
/// nothing where there are none.
inline std::string given_attributes(OpInfo const& op, void const* attrs, std::string_view said) {
  std::string const text = fields_text(*op.fields, attrs, op.defaults, said);
  return text.empty() ? text : concat("; the call has ", text);
}

/// The axes of a call, its attributes and extents checked, unless these are open: then a plan
/// checks them. Throws ShapeError, where operands do not fit with the attributes that the call
/// gives, ValueError.
inline AxisTable axes_of(OpInfo const& op, void const* attrs, Operands const& operands,
                         GivenOperands const& given) {
  AxisTable table;
  try {
    table = resolve_axes(op.name, operands, op.ranks(attrs), given);
  } catch (ShapeError const& error) {
    std::string const said = error.what();
    throw ShapeError(said + given_attributes(op, attrs, said));
  }
  table.present = op.present(attrs);
  if (!table.open()) op.check(attrs, table);
  return table;
}

/// The reason that derivatives have no gradient.
inline constexpr char const* no_second_derivative = "second derivatives are not there yet";

/// The ops of a header, for the build: `using gelutanh_ops = OpList<ops::Gelutanh,
/// ops::GelutanhBackward>;`.
template <OpStruct... Ops> struct OpList {};

/// Every float dtype: what most ops take.
inline constexpr DType float_dtypes[] = {
    DType::fp64,           DType::fp32,           DType::bf16,          DType::fp16,
    DType::fp32_fast_tf32, DType::fp32_fast_fp16, DType::fp32_fast_bf16};

namespace detail {

struct IndexedTypes {
  ElementTypes each[2 * sizeof float_dtypes / sizeof(DType)] = {};
  constexpr IndexedTypes() {
    std::size_t at = 0;
    for (DType const element : float_dtypes) each[at++] = {element, DType::int64};
    for (DType const element : float_dtypes) each[at++] = {element, DType::int32};
  }
};
inline constexpr IndexedTypes indexed{};

}  // namespace detail

/// Every float dtype beside labels or indices of either size.
inline constexpr TypeTable indexed_types{detail::indexed.each};

}  // namespace nntile
