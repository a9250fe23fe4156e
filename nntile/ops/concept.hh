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
///   phases(attrs)               passes over a reduced axis
///   overwrites(attrs, operand)  whether an `update` result is overwritten (beta = 0)
///   tiles(attrs, range, sink)   an irregular set of tile tasks: moves `range` by take(), passes each to the sink
///   blocked(attrs)              letters of axes summed in blocks of 64: cuts elsewhere have bits of their own
///   replaces(attrs)             bits of the operands in whose memory a plan may put the last one: of the same axes and
///                               dtype, and kernels read an element of them before they write it, and never again
///   gradient(builder)           appends the nodes of its derivative
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

/// The callable object of an op. It forwards to `apply(op, attrs, operands...)`, found in the layer
/// of the operands: gelu(tile, tile) and gelu(tensor, tensor) block until that call is done,
/// gelu.async(...) returns what to wait for, y = gelu(node) adds a node to a graph. Attributes come
/// first: gemm({.trans_a = true}, a, b).
template <OpStruct Op> struct Call {
  using op_type = Op;

  template <class... Operands>
  auto operator()(typename Op::Attrs const& attrs, Operands&&... operands) const {
    return apply(Op{}, attrs, operands...);
  }
  template <class First, class... Rest>
  requires(!std::convertible_to<First, typename Op::Attrs const&>) auto operator()(
      First&& first, Rest&&... rest) const {
    return apply(Op{}, typename Op::Attrs{}, first, rest...);
  }
  template <class... Operands>
  auto async(typename Op::Attrs const& attrs, Operands&&... operands) const {
    return apply_async(Op{}, attrs, operands...);
  }
  template <class First, class... Rest>
  requires(!std::convertible_to<First, typename Op::Attrs const&>) auto async(
      First&& first, Rest&&... rest) const {
    return apply_async(Op{}, typename Op::Attrs{}, first, rest...);
  }
};

/// The ops of a header, for the build: `using gelutanh_ops = OpList<ops::Gelutanh,
/// ops::GelutanhBackward>;`.
template <OpStruct... Ops> struct OpList {};

/// Every float dtype: what most ops take.
inline constexpr DType float_dtypes[] = {
    DType::fp64,           DType::fp32,           DType::bf16,          DType::fp16,
    DType::fp32_fast_tf32, DType::fp32_fast_fp16, DType::fp32_fast_bf16};

}  // namespace nntile
