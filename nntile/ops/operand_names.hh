#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Compares an op's enum of operands with its table, while compiling.

#include <utility>

#include "nntile/ops/operand.hh"

namespace nntile::detail {

/// Whether the enumerators are the names of the table, in its order, and no more: by the compiler's
/// spelling of them, which ends with "E::x, E::y, (E)2}]" where E is the enum. One instantiation an
/// op, and few steps in it, since every file that includes the op pays for them. Of an enum within
/// a template clang has "(E)0, (E)1, (E)2" alone: there nothing can be compared.
template <class Op, typename Op::Operand... names> consteval bool spelled_as_table() {
  char const* const text = __PRETTY_FUNCTION__;
  std::size_t at = sizeof(__PRETTY_FUNCTION__) - 1;
  auto const is_digit = [](char c) { return c >= '0' && c <= '9'; };
  while (text[at - 1] == ']' || text[at - 1] == '}' || text[at - 1] == '>') --at;
  if (!is_digit(text[at - 1])) return false;  // one more than the table has
  while (text[at - 1] != ')') --at;
  std::size_t const end = at--;
  for (int depth = 1; depth > 0; --at)
    depth += text[at - 1] == ')' ? 1 : text[at - 1] == '(' ? -1 : 0;
  std::size_t const before_name = end - at;  // of "(E)", which is as long as "E::"
  std::size_t numbers = 0;
  for (std::size_t left = Op::operands.size(); left-- > 0;) {
    at -= 2;  // ", "
    std::size_t digits = at;
    while (is_digit(text[digits - 1])) --digits;
    if (text[digits - 1] == ')') {
      ++numbers;
      at = digits - before_name;
      continue;
    }
    char const* const name = Op::operands[left].name;
    std::size_t const length = __builtin_strlen(name);
    if (text[at - length - 1] != ':' || __builtin_memcmp(text + at - length, name, length) != 0)
      return false;
    at -= length + before_name;
  }
#ifdef __clang__
  return numbers == 0 || numbers == Op::operands.size();
#else
  return numbers == 0;
#endif
}

template <class Op, std::size_t... at> consteval bool names_agree(std::index_sequence<at...>) {
  return spelled_as_table<Op, static_cast<typename Op::Operand>(at)...>();
}
template <class Op> consteval bool names_agree() {
  return names_agree<Op>(std::make_index_sequence<Op::operands.size() + 1>{});
}

}  // namespace nntile::detail
