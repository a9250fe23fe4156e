// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The text of an expected exception (Catch2 2 and 3 spell their string matchers differently).

#include <string>
#include <string_view>

#include "nntile/core/error.hh"

namespace nntile::test {

/// What the call's exception of type E says; a text of its own when it throws none.
template <class E = Error, class Call> std::string message_of(Call&& call) {
  try {
    call();
  } catch (E const& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

inline bool contains(std::string_view text, std::string_view piece) {
  return text.find(piece) != std::string_view::npos;
}

}  // namespace nntile::test
