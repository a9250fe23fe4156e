#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Names and paths in the texts of errors, which stay on one line whatever a file says.

#include <cstddef>
#include <string>
#include <string_view>

#include "nntile/core/error.hh"

namespace nntile::io {

namespace detail {
/// Control characters as \x0a; the rest as it is.
inline void append_printable(std::string& text, std::string_view bytes) {
  for (char const c : bytes) {
    auto const byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f)
      text += c;
    else
      text += concat("\\x", "0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15u]);
  }
}
}  // namespace detail

/// A path in single quotes, whole.
inline std::string path_in_quotes(std::string_view path) {
  std::string text = "'";
  detail::append_printable(text, path);
  return text + '\'';
}

/// A name that comes from a file in single quotes, cut where it is long.
inline std::string in_quotes(std::string_view name) {
  constexpr std::size_t shown = 100;
  if (name.size() <= shown) return path_in_quotes(name);
  std::string text = "'";
  detail::append_printable(text, name.substr(0, shown));
  return concat(text, "...' (", name.size(), " bytes)");
}

}  // namespace nntile::io
