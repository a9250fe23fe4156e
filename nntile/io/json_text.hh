#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The text of a JSON value.

#include <charconv>
#include <cmath>

#include "nntile/io/json_parse.hh"
#include "nntile/io/json_value.hh"

namespace nntile::io {

namespace detail {

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

}  // namespace nntile::io
