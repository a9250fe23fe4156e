#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Reads JSON text and reports what it finds, value by value. Nothing that it allocates is larger
// than the text.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>

#include "nntile/io/json_text.hh"

namespace nntile::io::detail {

inline bool is_json_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// Parses a text that is one JSON value, by the letter of RFC 8259, and calls a member of `Events`
/// for each piece:
///     null()  boolean(bool)  string(std::string)  start_object()  key(std::string)  end_object()
///     start_array()  end_array()  number_unsigned(std::uint64_t)  number_negative(std::int64_t)
///     number_float(double, std::string_view text)  not_json(std::size_t byte), counted from 1
/// Whole numbers of 64 bits are unsigned, or negative where they begin with a minus; others are
/// floats, infinite where a double cannot hold them. The last one throws; the start of an object or
/// array that is nested too deeply for the caller's stack has to throw as well.
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
        return object();
      case '[':
        return array();
      case '"':
        return events_.string(string());
      case 't':
        expect("true");
        return events_.boolean(true);
      case 'f':
        expect("false");
        return events_.boolean(false);
      case 'n':
        expect("null");
        return events_.null();
      default:
        return number();
    }
  }

  void object() {
    ++at_;
    events_.start_object();
    list('}', [this] {
      if (peek() != '"') fail();
      events_.key(string());
      space();
      expect(':');
      value();
    });
    events_.end_object();
  }
  void array() {
    ++at_;
    events_.start_array();
    list(']', [this] { value(); });
    events_.end_array();
  }
  template <class Item> void list(char close, Item item) {
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
  }

  std::string string() {
    expect('"');
    std::size_t end = at_;
    while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
    std::string result;
    result.reserve(std::min(end, text_.size()) -
                   at_);  // an escape is longer than what it stands for
    while (peek() != '"') {
      if (static_cast<unsigned char>(peek()) < 0x20) fail();  // the end, too
      if (peek() == '\\') {
        escape(result);
        continue;
      }
      std::size_t const length = utf8_length(text_.substr(at_));
      if (length == 0) fail();
      result += text_.substr(at_, length);
      at_ += length;
    }
    ++at_;
    return result;
  }

  void escape(std::string& result) {
    ++at_;
    constexpr std::string_view names = "\"\\/bfnrt";
    if (peek() == 'u') return unicode(result);
    std::size_t const which = names.find(peek());
    if (which == names.npos) fail();
    result += "\"\\/\b\f\n\r\t"[which];
    ++at_;
  }
  /// \uXXXX, or two of them that are the halves of a surrogate pair, as UTF-8.
  void unicode(std::string& result) {
    std::uint32_t point = sixteen_bits();
    if (point >= 0xDC00 && point <= 0xDFFF) fail();
    if (point >= 0xD800 && point <= 0xDBFF) {
      expect('\\');
      std::uint32_t const low = sixteen_bits();
      if (low < 0xDC00 || low > 0xDFFF) fail();
      point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
    }
    int const more = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    constexpr unsigned lead[] = {0x00, 0xC0, 0xE0, 0xF0};
    result += static_cast<char>(lead[more] | (point >> (6 * more)));
    for (int i = more; i-- > 0;) result += static_cast<char>(0x80 | ((point >> (6 * i)) & 0x3f));
  }
  std::uint32_t sixteen_bits() {
    expect('u');
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      char const c = peek();
      bool const digit = c >= '0' && c <= '9';
      char const letter = static_cast<char>(c | 0x20);
      if (!digit && !(letter >= 'a' && letter <= 'f')) fail();
      value = 16 * value + static_cast<std::uint32_t>(digit ? c - '0' : letter - 'a' + 10);
      ++at_;
    }
    return value;
  }

  void number() {
    std::size_t const begin = at_;
    bool const negative = peek() == '-';
    if (negative) ++at_;
    if (peek() == '0')
      ++at_;
    else
      digits();
    bool whole = true;
    if (peek() == '.') {
      whole = false;
      ++at_;
      digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      whole = false;
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      digits();
    }
    std::string_view const text = text_.substr(begin, at_ - begin);
    if (whole && (negative ? report<std::int64_t>(text) : report<std::uint64_t>(text))) return;
    double value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc())
      value = std::numeric_limits<double>::infinity();
    events_.number_float(value, text);
  }
  void digits() {
    if (!is_digit(peek())) fail();
    while (is_digit(peek())) ++at_;
  }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  /// Reports a whole number; false where it does not fit.
  template <class I> bool report(std::string_view text) {
    I value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc())
      return false;
    if constexpr (std::is_signed_v<I>)
      events_.number_negative(value);
    else
      events_.number_unsigned(value);
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Events& events_;
};

}  // namespace nntile::io::detail
