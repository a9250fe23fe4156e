#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The grammar of JSON: reads a text that cannot be trusted and reports its parts in place.
// Allocates nothing.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "nntile/core/utf8.hh"

namespace nntile::io::detail {

inline bool is_json_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

using nntile::detail::utf8_length;

/// The value of a hexadecimal digit; -1 for another byte.
inline int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  char const letter = static_cast<char>(c | 0x20);
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

/// Parses a text that is one JSON value, by the letter of RFC 8259, and calls a member of `Events`
/// for each part that some reader asks for:
///     open(std::size_t at)  close()   of an object or array
///     key(std::string_view)           from its opening quote on
///     number(std::string_view text)
///     not_json(std::size_t byte)      counted from 1
/// The last one throws; an open() that is nested too deeply for the caller's stack has to throw as
/// well. Cost: one pass.
template <class Events> class JsonParser {
 public:
  JsonParser(std::string_view text, Events& events) : text_(text), events_(events) {}

  void parse() {
    value();
    space();
    if (at_ != text_.size()) fail();
  }

 private:
  [[noreturn]] void fail() const { events_.not_json(at_ + 1); }
  /// The next byte; NUL, which no rule takes, at the end.
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void space() {
    while (is_json_space(peek())) ++at_;
  }
  void expect(char c) {
    if (peek() != c) fail();
    ++at_;
  }
  void expect(std::string_view word) {
    for (char const c : word) expect(c);
  }

  void value() {
    space();
    switch (peek()) {
      case '{':
        return list('}', [this] { member(); });
      case '[':
        return list(']', [this] { value(); });
      case '"':
        return string();
      case 't':
        return expect("true");
      case 'f':
        return expect("false");
      case 'n':
        return expect("null");
      default:
        return number();
    }
  }

  template <class Item> void list(char close, Item item) {
    events_.open(at_++);
    space();
    if (peek() != close) {
      item();
      for (space(); peek() == ','; space()) {
        ++at_;
        space();
        item();
      }
    }
    expect(close);
    events_.close();
  }
  void member() {
    if (peek() != '"') fail();
    std::size_t const begin = at_;
    string();
    events_.key(text_.substr(begin, at_ - begin));
    space();
    expect(':');
    value();
  }

  void string() {
    expect('"');
    while (peek() != '"') {
      auto const byte = static_cast<unsigned char>(peek());
      if (byte < 0x20) fail();  // the end, too
      if (byte == '\\') {
        escape();
      } else if (byte < 0x80) {
        ++at_;
      } else {
        std::size_t const length = utf8_length(text_.substr(at_));
        if (length == 0) fail();
        at_ += length;
      }
    }
    ++at_;
  }
  void escape() {
    ++at_;
    if (peek() == 'u') return unicode();
    constexpr std::string_view names = "\"\\/bfnrt";
    if (names.find(peek()) == names.npos) fail();
    ++at_;
  }
  /// \uXXXX, or two of them that are the halves of a surrogate pair.
  void unicode() {
    std::uint32_t const point = sixteen_bits();
    if (point >= 0xDC00 && point <= 0xDFFF) fail();
    if (point < 0xD800 || point > 0xDBFF) return;
    expect('\\');
    std::uint32_t const low = sixteen_bits();
    if (low < 0xDC00 || low > 0xDFFF) fail();
  }
  std::uint32_t sixteen_bits() {
    expect('u');
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      int const digit = hex_value(peek());
      if (digit < 0) fail();
      value = 16 * value + static_cast<std::uint32_t>(digit);
      ++at_;
    }
    return value;
  }

  void number() {
    std::size_t const begin = at_;
    if (peek() == '-') ++at_;
    if (peek() == '0')
      ++at_;
    else
      digits();
    if (peek() == '.') {
      ++at_;
      digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      digits();
    }
    events_.number(text_.substr(begin, at_ - begin));
  }
  void digits() {
    if (!is_digit(peek())) fail();
    while (is_digit(peek())) ++at_;
  }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  std::string_view text_;
  std::size_t at_ = 0;
  Events& events_;
};

}  // namespace nntile::io::detail
