#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Every op of nntile/ops.hh by name: for tools, files and tests. Programs include the ops they use.

#include <array>
#include <string_view>

#include "nntile/ops.hh"

namespace nntile {

namespace detail {

template <class... Ops> constexpr auto infos_of(OpList<Ops...>) {
  return std::array<OpInfo const*, sizeof...(Ops)>{&op_info<Ops>...};
}

template <class... Ops, class... More> constexpr auto joined_list(OpList<Ops...>, OpList<More...>) {
  return OpList<Ops..., More...>{};
}
template <class List> constexpr auto joined_lists(List list) { return list; }
template <class First, class Second, class... Rest>
constexpr auto joined_lists(First first, Second second, Rest... rest) {
  return joined_lists(joined_list(first, second), rest...);
}

}  // namespace detail

/// The types of the ops, in the order of nntile/ops.hh.
using AllOps = decltype(detail::joined_lists(
    adamw_step_ops{}, add_ops{}, add_fiber_ops{}, add_slice_ops{}, argmax_ops{}, attention_ops{},
    cast_ops{}, copy_ops{}, cross_entropy_ops{}, embedding_ops{}, fill_ops{}, gelutanh_ops{},
    gemm_ops{}, global_norm_ops{}, kv_cache_append_ops{}, layer_norm_ops{}, randn_ops{},
    sample_ops{}, scale_ops{}, softmax_ops{}, sum_slice_ops{}));

/// The ops themselves, in the same order.
inline constexpr auto all_ops = detail::infos_of(AllOps{});

/// The op of that name, or null.
constexpr OpInfo const* find_op(std::string_view name) {
  for (OpInfo const* const op : all_ops)
    if (name == op->name) return op;
  return nullptr;
}

}  // namespace nntile
