#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The text of a JSON value.

#include <charconv>
#include <cmath>

#include "nntile/io/json_value.hh"

namespace nntile::io {

namespace detail {

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

inline void append_string(std::string& text, std::string_view value) {
  text += '"';
  while (!value.empty()) {
    std::size_t const length = utf8_length(value);
    if (length == 0) throw ValueError("JSON: a string is not UTF-8");
    auto const c = static_cast<unsigned char>(value[0]);
    constexpr std::string_view escaped = "\"\\\b\f\n\r\t";
    if (std::size_t const at = escaped.find(value[0]); at != std::string_view::npos) {
      text += '\\';
      text += "\"\\bfnrt"[at];
    } else if (c < 0x20) {
      text += concat("\\u00", "0123456789abcdef"[c >> 4], "0123456789abcdef"[c & 15u]);
    } else {
      text += value.substr(0, length);
    }
    value.remove_prefix(length);
  }
  text += '"';
}

/// The shortest text that reads back as the same bits, marked as no integer.
inline void append_double(std::string& text, double value) {
  if (!std::isfinite(value)) throw ValueError(concat("JSON: ", value, " is no JSON number"));
  char digits[32];
  auto const end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  std::string_view const shortest(digits, static_cast<std::size_t>(end - digits));
  text += shortest;
  if (shortest.find_first_of(".e") == std::string_view::npos) text += ".0";
}

/// Appends values; `indent` -1 puts all on one line.
class JsonWriter {
 public:
  JsonWriter(std::string& text, int indent) : text_(text), indent_(indent) {}

  void write(Json const& json) {
    std::visit([this](auto const& value) { put(value); }, json.value());
  }

 private:
  void put(std::monostate) { text_ += "null"; }
  void put(bool value) { text_ += value ? "true" : "false"; }
  void put(std::int64_t value) { text_ += concat(value); }
  void put(std::uint64_t value) { text_ += concat(value); }
  void put(double value) { append_double(text_, value); }
  void put(std::string const& value) { append_string(text_, value); }
  void put(Json::Array const& values) {
    list('[', ']', values, [&](Json const& value) { write(value); });
  }
  void put(Json::Object const& members) {
    list('{', '}', members, [&](auto const& member) {
      append_string(text_, member.first);
      text_ += indent_ < 0 ? ":" : ": ";
      write(member.second);
    });
  }
  template <class List, class Put>
  void list(char open, char close, List const& items, Put put_item) {
    text_ += open;
    ++depth_;
    bool first = true;
    for (auto const& item : items) {
      if (!first) text_ += ',';
      first = false;
      line();
      put_item(item);
    }
    --depth_;
    if (!first) line();
    text_ += close;
  }
  void line() {
    if (indent_ < 0) return;
    text_ += '\n';
    text_.append(static_cast<std::size_t>(indent_ * depth_), ' ');
  }

  std::string& text_;
  int indent_;
  int depth_ = 0;
};

}  // namespace detail

/// Text of a value, `indent` spaces a level, -1 for one line. Throws ValueError when a string in it
/// is not UTF-8 or a number not finite.
inline std::string to_text(Json const& json, int indent = -1) {
  std::string text;
  detail::JsonWriter(text, indent).write(json);
  return text;
}

/// A string as JSON writes it, quotes included.
inline std::string json_string(std::string_view value) {
  std::string text;
  detail::append_string(text, value);
  return text;
}

/// What differs between two objects, one level deep: "width is 256 there but 128 here, ..."; empty
/// when they are equal.
inline std::string json_difference(Json const& there, Json const& here) {
  auto const shown = [](Json const* value) {
    return value == nullptr ? "missing" : to_text(*value).substr(0, 60);
  };
  if (there == here) return "";
  if (!there.is_object() || !here.is_object())
    return concat(shown(&there), " there but ", shown(&here), " here");
  Json::Object keys = there.members();
  keys.insert(here.members().begin(), here.members().end());
  std::string text;
  for (auto const& [key, value] : keys) {
    Json const* const a = there.find(key);
    Json const* const b = here.find(key);
    if (a != nullptr && b != nullptr && *a == *b) continue;
    text +=
        concat(text.empty() ? "" : ", ", key, " is ", shown(a), " there but ", shown(b), " here");
  }
  return text;
}

}  // namespace nntile::io
