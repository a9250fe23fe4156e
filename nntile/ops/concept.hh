#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// What an op is, its type-erased description, and the callable object that serves every layer.

#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

#include "nntile/core/codelet.hh"
#include "nntile/core/cost.hh"
#include "nntile/ops/operand.hh"
#include "nntile/ops/tile_range.hh"

namespace nntile {

/// Largest attribute and kernel-argument structs of an op, in bytes.
inline constexpr std::size_t max_attrs_bytes = 96;
inline constexpr std::size_t max_args_bytes = 176;

/// Receives the tile tasks of an op that enumerates them itself.
class TileSink {
 public:
  virtual void task(TileRange const& range) = 0;

 protected:
  ~TileSink() = default;
};

// clang-format off
/// An op is an empty struct that says everything about one computation:
///   name       the kernel's name
///   Attrs      constants of the call; a plain struct with defaults
///   operands   a constant, or a function of Attrs: names, axes, accesses, dtypes
///   dtypes     what the operands of Kind::element may be
///   Args       what a kernel sees; args(attrs, range) fills it for one tile task
///   cost       of one tile task
///   reference  the definition, sequential: reference<T>(args, buffers), the oracle when T is double
/// and, where it has them:
///   ranks(attrs)                ranks of groups that attributes fix
///   check(attrs, axes)          throws ValueError or ShapeError where attributes or extents mean nothing
///   phases(attrs)               passes over a reduced axis
///   overwrites(attrs, operand)  whether an `update` result is overwritten (beta = 0)
///   tiles(attrs, range, sink)   an irregular set of tile tasks: moves `range` by take(), passes each to the sink
///   blocked(attrs)              letters of axes summed in blocks of 64: cuts elsewhere have bits of their own
///   replaces(attrs)             bits of the operands in whose memory a plan or a caller may put the last one: of the same
///                               axes and dtype, and kernels read an element of them before they write it, and never
///                               again (but what they wrote); no other result may share memory with an operand
///   gradient(builder)           appends the nodes of its derivative: reads values by operand(i), so that overwritten
///                               ones are refused, and ends with keep(result, beta) where a result is updated
// clang-format on
template <class Op>
concept OpStruct = std::is_empty_v<Op> &&
    requires(typename Op::Attrs const& attrs, TileRange const& range) {
  { Op::name } -> std::convertible_to<char const*>;
  Op::operands;
  Op::dtypes;
  { Op::args(attrs, range) } -> std::same_as<typename Op::Args>;
  { Op::cost(attrs, range) } -> std::same_as<Cost>;
  requires std::is_trivially_copyable_v<typename Op::Attrs> &&
      sizeof(typename Op::Attrs) <= max_attrs_bytes;
  requires std::is_trivially_copyable_v<typename Op::Args> &&
      sizeof(typename Op::Args) <= max_args_bytes;
};

/// Buffers of a reference call, by position of the operand in the task.
struct Buffers {
  void* const* pointers;
  template <class T> T* at(int operand) const { return static_cast<T*>(pointers[operand]); }
};

/// An op without its type: constants and plain functions, so that graphs and plans are no
/// templates.
struct OpInfo {
  char const* name;
  std::size_t attrs_bytes;
  std::size_t args_bytes;
  std::span<DType const> dtypes;
  Operands (*operands)(void const* attrs);
  GroupRanks (*ranks)(void const* attrs);
  void (*check)(void const* attrs, AxisTable const& axes);
  Phases (*phases)(void const* attrs);
  bool (*overwrites)(void const* attrs, int operand);
  void (*args)(void const* attrs, TileRange const& range, void* out);
  Cost (*cost)(void const* attrs, TileRange const& range);
  void (*tiles)(void const* attrs, TileRange const& range,
                TileSink& sink);  // null: the standard walk
  char const* (*blocked)(void const* attrs);
  std::uint32_t (*replaces)(void const* attrs);
  Codelet const* (*reference)(DType element);  // null: none
};

namespace detail {

template <class Op> typename Op::Attrs const& attrs_of(void const* attrs) {
  return *static_cast<typename Op::Attrs const*>(attrs);
}

template <class Op> Operands operands_of(void const* attrs) {
  if constexpr (requires { Op::operands(attrs_of<Op>(attrs)); })
    return Op::operands(attrs_of<Op>(attrs));
  else
    return Op::operands;
}

template <class Op, class T> Status run_reference(KernelCall const& call) noexcept {
  typename Op::Args args;
  std::memcpy(&args, call.attributes, sizeof args);
  if constexpr (std::same_as<decltype(Op::template reference<T>(args, Buffers{call.buffers})),
                             Status>)
    return Op::template reference<T>(args, Buffers{call.buffers});
  else
    return Op::template reference<T>(args, Buffers{call.buffers}), Status{};
}

template <class Op, class T>
inline constexpr Codelet reference_codelet{Op::name, &run_reference<Op, T>, nullptr, nullptr};

template <class Op> Codelet const* reference_of(DType element) {
  return for_dtype(element, [](auto tag) -> Codelet const* {
    using T = typename decltype(tag)::type;
    if constexpr (requires(typename Op::Args const& args, Buffers buffers) {
                    Op::template reference<T>(args, buffers);
                  })
      return &reference_codelet<Op, T>;
    else
      return nullptr;
  });
}

}  // namespace detail

/// The description of an op, one object per op.
template <OpStruct Op>
inline constexpr OpInfo op_info{
    .name = Op::name,
    .attrs_bytes = sizeof(typename Op::Attrs),
    .args_bytes = sizeof(typename Op::Args),
    .dtypes = Op::dtypes,
    .operands = &detail::operands_of<Op>,
    .ranks = [](void const* attrs) -> GroupRanks {
      (void)attrs;
      if constexpr (requires { Op::ranks(detail::attrs_of<Op>(attrs)); })
        return Op::ranks(detail::attrs_of<Op>(attrs));
      else
        return {};
    },
    .check =
        [](void const* attrs, AxisTable const& axes) {
          (void)attrs, (void)axes;
          if constexpr (requires { Op::check(detail::attrs_of<Op>(attrs), axes); })
            Op::check(detail::attrs_of<Op>(attrs), axes);
        },
    .phases = [](void const* attrs) -> Phases {
      (void)attrs;
      if constexpr (requires { Op::phases(detail::attrs_of<Op>(attrs)); })
        return Op::phases(detail::attrs_of<Op>(attrs));
      else
        return {};
    },
    .overwrites = [](void const* attrs, int operand) -> bool {
      (void)attrs, (void)operand;
      if constexpr (requires { Op::overwrites(detail::attrs_of<Op>(attrs), operand); })
        return Op::overwrites(detail::attrs_of<Op>(attrs), operand);
      else
        return false;
    },
    .args =
        [](void const* attrs, TileRange const& range, void* out) {
          auto const args = Op::args(detail::attrs_of<Op>(attrs), range);
          std::memcpy(out, &args, sizeof args);
        },
    .cost = [](void const* attrs,
               TileRange const& range) { return Op::cost(detail::attrs_of<Op>(attrs), range); },
    .tiles =
        [] {
          using Function = void (*)(void const*, TileRange const&, TileSink&);
          if constexpr (requires(TileRange const& range, TileSink& sink,
                                 typename Op::Attrs const& attrs) {
                          Op::tiles(attrs, range, sink);
                        })
            return Function{[](void const* attrs, TileRange const& range, TileSink& sink) {
              Op::tiles(detail::attrs_of<Op>(attrs), range, sink);
            }};
          else
            return Function{nullptr};
        }(),
    .blocked = [](void const* attrs) -> char const* {
      (void)attrs;
      if constexpr (requires { Op::blocked(detail::attrs_of<Op>(attrs)); })
        return Op::blocked(detail::attrs_of<Op>(attrs));
      else
        return "";
    },
    .replaces = [](void const* attrs) -> std::uint32_t {
      (void)attrs;
      if constexpr (requires { Op::replaces(detail::attrs_of<Op>(attrs)); })
        return Op::replaces(detail::attrs_of<Op>(attrs));
      else
        return 0;
    },
    .reference = &detail::reference_of<Op>,
};

/// The axes of a call, its attributes and extents checked. Throws ShapeError, ValueError.
inline AxisTable axes_of(OpInfo const& op, void const* attrs, Operands const& operands,
                         std::span<GivenOperand const> given) {
  AxisTable table = resolve_axes(op.name, operands, op.ranks(attrs), given);
  op.check(attrs, table);
  return table;
}

namespace detail {

/// What is returned where a static_assert has refused a call: it fits wherever the result was
/// wanted, so that nothing else is reported.
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

/// Says which member an op lacks, or has of another kind. What OpStruct demands, in words.
template <class Op> consteval bool checked_op() {
  static_assert(std::is_empty_v<Op>, "an op is an empty struct: its constants are in Attrs");
  static_assert(requires { { Op::name } -> std::convertible_to<char const*>; },
                "an op needs `static constexpr char const* name`");
  static_assert(requires { typename Op::Attrs; }, "an op needs a type `Attrs`: its constants");
  static_assert(requires { typename Op::Args; }, "an op needs a type `Args`: what its kernel sees");
  static_assert(requires { Op::operands; },
                "an op needs `operands`: names, axes and accesses, a constant or of its Attrs");
  static_assert(requires { Op::dtypes; },
                "an op needs `static constexpr std::span<DType const> dtypes`");
  if constexpr (requires { typename Op::Attrs; typename Op::Args; }) {
    using Attrs = typename Op::Attrs;
    using Args = typename Op::Args;
    static_assert(requires(Attrs const& attrs, TileRange const& range) {
                    { Op::args(attrs, range) } -> std::same_as<Args>;
                  }, "an op needs `static Args args(Attrs const&, TileRange const&)`");
    static_assert(requires(Attrs const& attrs, TileRange const& range) {
                    { Op::cost(attrs, range) } -> std::same_as<Cost>;
                  }, "an op needs `static Cost cost(Attrs const&, TileRange const&)`");
    static_assert(std::is_trivially_copyable_v<Attrs> && sizeof(Attrs) <= max_attrs_bytes,
                  "Attrs of an op are trivially copyable, of at most max_attrs_bytes");
    static_assert(std::is_trivially_copyable_v<Args> && sizeof(Args) <= max_args_bytes,
                  "Args of an op are trivially copyable, of at most max_args_bytes");
  }
  return true;
}

}  // namespace detail

/// The callable object of an op. It forwards to `apply(op, attrs, operands...)`, found in the layer
/// of the operands: gelu(tile, tile) and gelu(tensor, tensor) block until that call is done,
/// gelu.async(...) returns what to wait for, y = gelu(node) adds a node to a graph. Attributes come
/// first: gemm({.trans_a = true}, a, b).
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

  template <class... Operands>
  auto async(typename Op::Attrs const& attrs, Operands&&... operands) const {
    if constexpr (detail::AsyncApplicable<Op, std::remove_cvref_t<Operands>...>) {
      return apply_async(Op{}, attrs, operands...);
    } else {
      static_assert(!OpStruct<Op>,
                    "async() is for Tiles, or Tensors, on one runtime: these operands are of several "
                    "kinds, or Nodes, on which the plain call adds the op to their graph");
      return detail::Refused{};
    }
  }
  template <class First, class... Rest>
  requires(!std::convertible_to<First, typename Op::Attrs const&>)
  auto async(First&& first, Rest&&... rest) const {
    return async(typename Op::Attrs{}, first, rest...);
  }
  template <std::size_t N, class... Operands>
  void async(detail::an_attribute_is_misspelt_or_of_another_type const (&)[N],
             Operands&&...) const volatile = delete;
};

/// The ops of a header, for the build: `using gelutanh_ops = OpList<ops::Gelutanh,
/// ops::GelutanhBackward>;`.
template <OpStruct... Ops> struct OpList {};

/// Every float dtype: what most ops take.
inline constexpr DType float_dtypes[] = {
    DType::fp64,           DType::fp32,           DType::bf16,          DType::fp16,
    DType::fp32_fast_tf32, DType::fp32_fast_fp16, DType::fp32_fast_bf16};

}  // namespace nntile
