#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Mistakes in an op's struct that compile by themselves, found where its Call is made.

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include "nntile/ops/concept.hh"

namespace nntile::detail {

/// Whether the hooks that the op has are without a mistake: of others compilers say so where they
/// are.
template <class Op>
concept ConstantHooks = requires { typename std::bool_constant<lacks_operands<Op>()>; };

/// Whether an operand's axes are as OperandInfo says; those of a result besides each once, for
/// tiles that lie off such a diagonal would be written by no task.
constexpr bool axes_are_spelled(char const* axes, bool result) {
  if (axes == nullptr) return false;
  std::size_t count = 0;
  bool seen[128] = {};
  while (*axes != 0) {
    char const letter = *axes++;
    if (letter == ' ') continue;
    bool const plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
    if (!plain || (result && seen[static_cast<unsigned char>(letter)])) return false;
    seen[static_cast<unsigned char>(letter)] = true;
    if (*axes == '.') {
      if (axes[1] != '.' || axes[2] != '.') return false;
      axes += 3;
    }
    if (*axes == '!') ++axes;
    if (*axes != 0 && *axes != ' ') return false;
    ++count;
  }
  return count <= max_rank;
}
template <class Op> consteval bool axes_are_spelled() {
  for (OperandInfo const& operand : Op::operands)
    if (!axes_are_spelled(operand.axes, writes(operand.access))) return false;
  return true;
}

/// A value of any member of a struct.
struct Anything {
  template <class T> operator T() const;
};
template <class Struct, std::size_t... i>
consteval bool has_more_members(std::index_sequence<i...>) {
  return requires { Struct{(void(i), Anything{})..., Anything{}}; };
}
/// Whether each member of Attrs is among the fields, and no name stands there twice.
template <class Op> consteval bool fields_are_all() {
  for (std::size_t i = 0; i < Op::fields.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (std::string_view(Op::fields[i].name) == Op::fields[j].name) return false;
  return !std::is_aggregate_v<typename Op::Attrs> ||
         !has_more_members<typename Op::Attrs>(std::make_index_sequence<Op::fields.size()>{});
}

/// Whether `reference` takes the op's own Args and Buffers for some of its types.
template <class Op> consteval bool reference_fits() {
  if constexpr (HasTypes<Op>)
    return []<std::size_t... i>(std::index_sequence<i...>) {
      return (HasReference<Op, Op::types[i].element, Op::types[i].second> || ...);
    }(std::make_index_sequence<std::size(Op::types)>{});
  else
    return []<std::size_t... i>(std::index_sequence<i...>) {
      constexpr auto fits = []<DType dtype>() {
        if constexpr (lists<Op>(dtype)) return HasReference<Op, dtype>;
        return false;
      };
      return (fits.template operator()<static_cast<DType>(i)>() || ...);
    }(std::make_index_sequence<dtype_count>{});
}

}  // namespace nntile::detail
