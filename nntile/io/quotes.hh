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

inline constexpr std::size_t quoted_bytes = 100;

/// Quotes a text of `bytes` bytes of which `front` is the beginning: at most quoted_bytes of it,
/// and the length where that cuts it.
inline std::string cut_in_quotes(std::string_view front, std::size_t bytes) {
  std::string text = "'";
  append_printable(text, front.substr(0, quoted_bytes));
  return bytes <= quoted_bytes ? text + '\'' : concat(text, "...' (", bytes, " bytes)");
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
  return detail::cut_in_quotes(name, name.size());
}

}  // namespace nntile::io
