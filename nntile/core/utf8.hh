#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// UTF-8, as names have it that files shall hold, and text of markup.

#include <cstddef>
#include <string>
#include <string_view>

namespace nntile::detail {

/// Length of the UTF-8 sequence at the front of `text`; 0 when there is none. Source: Unicode 15.0,
/// table 3-7.
inline std::size_t utf8_length(std::string_view text) {
  auto const byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  unsigned const lead = byte(0);
  if (lead < 0x80) return text.empty() ? 0 : 1;
  std::size_t const length = lead >= 0xC2 && lead <= 0xDF   ? 2
                             : (lead & 0xF0u) == 0xE0       ? 3
                             : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                            : 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0u) != 0x80) return 0;
  // No overlong forms, no surrogates, nothing above U+10FFFF.
  unsigned const second = byte(1);
  bool const bad = (lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
                   (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F);
  return bad ? 0 : length;
}

/// Text with U+FFFD for each byte that is not UTF-8.
inline std::string as_utf8(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    std::size_t const length = utf8_length(text);
    result += length == 0 ? "\xEF\xBF\xBD" : text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result;
}

/// Text as it stands between tags and in attributes of XML and HTML; a space for a control
/// character, U+FFFD for a byte that is not UTF-8, as names of files may have, and for U+FFFE and
/// U+FFFF, which XML 1.0 does not have.
inline std::string markup_text(std::string_view text) {
  std::string result;
  for (std::size_t length = 0; !text.empty(); text.remove_prefix(length)) {
    std::size_t const known = utf8_length(text);
    length = known == 0 ? 1 : known;
    bool const is_none =
        known == 0 || text.starts_with("\xEF\xBF\xBE") || text.starts_with("\xEF\xBF\xBF");
    switch (text[0]) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += is_none                                      ? "\xEF\xBF\xBD"
                  : static_cast<unsigned char>(text[0]) < 0x20 ? " "
                                                               : text.substr(0, length);
    }
  }
  return result;
}

}  // namespace nntile::detail
