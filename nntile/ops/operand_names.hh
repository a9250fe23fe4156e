#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Compares an op's enum of operands with its table, while compiling.

#include <string_view>
#include <utility>

#include "nntile/ops/operand.hh"

namespace nntile::detail {

/// The compiler's spelling of an enumerator, or of a number in parentheses where there is none.
template <auto value> consteval std::string_view enumerator_name() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("value = ") + 8);
  text = text.substr(0, text.find_first_of(";]"));
  if (std::size_t const scope = text.rfind(':'); scope != text.npos) text.remove_prefix(scope + 1);
  return text.find(')') == text.npos ? text : std::string_view{};
}

/// Whether the enumerators from 0 on are the table's names, and no more.
template <OperandName Name, std::size_t... positions>
consteval bool names_agree(Operands const& table, std::index_sequence<positions...>) {
  std::string_view const names[] = {enumerator_name<static_cast<Name>(positions)>()...};
  for (std::size_t i = 0; i < max_operands; ++i)
    if (names[i] != (i < table.size() ? std::string_view(table[i].name) : std::string_view{}))
      return false;
  return true;
}
template <OperandName Name> consteval bool names_agree(Operands const& table) {
  return names_agree<Name>(table, std::make_index_sequence<max_operands>{});
}

}  // namespace nntile::detail
