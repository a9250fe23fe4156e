#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Compares an op's enum of operands with its table, while compiling.

#include <utility>

#include "nntile/ops/operand.hh"

namespace nntile::detail {

/// Whether the enumerators are the names of the table, in its order, and no more: by the compiler's
/// spelling of them, whose end is "{...::x, ...::y, (...)2}]". One instantiation an op, since each
/// costs a third of a millisecond.
template <class Op, typename Op::Operand... names> consteval bool spelled_as_table() {
  char const* const text = __PRETTY_FUNCTION__;
  std::size_t at = sizeof(__PRETTY_FUNCTION__) - 1;
  while (text[at - 1] == ']' || text[at - 1] == '}' || text[at - 1] == '>') --at;
  if (text[at - 1] < '0' || text[at - 1] > '9') return false;  // one more than the table has
  for (std::size_t left = Op::operands.size(); left-- > 0;) {
    for (int depth = 0; depth > 0 || text[at - 1] != ','; --at)
      depth += text[at - 1] == '>' || text[at - 1] == ')'   ? 1
               : text[at - 1] == '<' || text[at - 1] == '(' ? -1
                                                            : 0;
    --at;
    char const* const name = Op::operands[left].name;
    std::size_t length = 0;
    while (name[length] != 0) ++length;
    for (std::size_t i = 0; i < length; ++i)
      if (text[at - length + i] != name[i]) return false;
    if (text[at - length - 1] != ':') return false;
  }
  return true;
}

template <class Op> consteval bool names_agree() {
  return []<std::size_t... at>(std::index_sequence<at...>) {
    return spelled_as_table<Op, static_cast<typename Op::Operand>(at)...>();
  }(std::make_index_sequence<Op::operands.size() + 1>{});
}

}  // namespace nntile::detail
