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

template <std::size_t... counts>
constexpr auto joined(std::array<OpInfo const*, counts> const&... lists) {
  std::array<OpInfo const*, (0 + ... + counts)> all{};
  std::size_t at = 0;
  auto const append = [&](auto const& list) {
    for (OpInfo const* const op : list) all[at++] = op;
  };
  (append(lists), ...);
  return all;
}

template <class... Lists> constexpr auto op_table() { return joined(infos_of(Lists{})...); }

}  // namespace detail

/// The ops in the order of nntile/ops.hh.
inline constexpr auto all_ops =
    detail::op_table<adamw_step_ops, add_ops, add_fiber_ops, add_slice_ops, argmax_ops,
                     attention_ops, cast_ops, copy_ops, cross_entropy_ops, embedding_ops, fill_ops,
                     gelutanh_ops, gemm_ops, global_norm_ops, layer_norm_ops, randn_ops, sample_ops,
                     scale_ops, softmax_ops, sum_slice_ops>();

/// The op of that name, or null.
constexpr OpInfo const* find_op(std::string_view name) {
  for (OpInfo const* const op : all_ops)
    if (name == op->name) return op;
  return nullptr;
}

}  // namespace nntile
