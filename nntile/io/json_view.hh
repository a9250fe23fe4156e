#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// JSON values where they stand, in a text that has been checked: nothing is copied before it is
// asked for.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <system_error>
#include <type_traits>

#include "nntile/io/json_parse.hh"
#include "nntile/io/json_text.hh"

namespace nntile::io {

namespace detail {

/// Behind the string that begins at `at`, in a checked text.
inline char const* json_string_end(char const* at) {
  for (++at; *at != '"'; ++at)
    if (*at == '\\') ++at;
  return at + 1;
}

/// Behind the value that begins at `at`, in a checked text that ends at `end`.
inline char const* json_value_end(char const* at, char const* end) {
  if (*at == '"') return json_string_end(at);
  if (*at != '{' && *at != '[') {
    while (at != end && *at != ',' && *at != ']' && *at != '}' && !is_json_space(*at)) ++at;
    return at;
  }
  for (int depth = 0;;) {
    char const c = *at;
    at = c == '"' ? json_string_end(at) : at + 1;
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth == 0) return at;
  }
}

inline char const* skip_json_space(char const* at) {
  while (is_json_space(*at)) ++at;
  return at;
}

}  // namespace detail

/// A string of a checked JSON text, escapes as they stand there.
class JsonString {
 public:
  /// From its opening quote on.
  explicit JsonString(char const* begin) : begin_(begin) {}

  char const* data() const { return begin_; }
  /// Between its quotes.
  std::string_view raw() const {
    return {begin_ + 1, static_cast<std::size_t>(detail::json_string_end(begin_) - begin_) - 2};
  }

  /// Calls f(byte) for each byte that it encodes, until that returns false.
  template <class F> void for_each_byte(F f) const {
    Bytes bytes(begin_ + 1);
    for (int byte = bytes.next(); byte >= 0 && f(static_cast<char>(byte)); byte = bytes.next()) {
    }
  }
  /// The text that it encodes.
  std::string text() const {
    std::string result;
    result.reserve(raw().size());  // an escape is longer than the bytes that it encodes
    for_each_byte([&](char c) {
      result += c;
      return true;
    });
    return result;
  }
  /// For the text of an error: in quotes, cut where it is long.
  std::string quoted() const {
    std::string front;
    std::size_t bytes = 0;
    for_each_byte([&](char c) {
      if (++bytes <= detail::quoted_bytes) front += c;
      return true;
    });
    return detail::cut_in_quotes(front, bytes);
  }

  /// Below, at or above 0 as this stands before, at or behind the other in the order of bytes.
  int compare(JsonString const& other) const {
    char const *a = begin_ + 1, *b = other.begin_ + 1;
    while (*a == *b && *a != '"' && *a != '\\') ++a, ++b;
    Bytes left(a), right(b);
    for (;;) {
      int const x = left.next(), y = right.next();
      if (x != y || x < 0) return x - y;
    }
  }
  int compare(std::string_view other) const {
    std::size_t at = 0;
    Bytes bytes(begin_ + 1);
    for (;;) {
      int const x = bytes.next();
      int const y = at < other.size() ? static_cast<unsigned char>(other[at++]) : -1;
      if (x != y || x < 0) return x - y;
    }
  }
  bool operator==(std::string_view other) const { return compare(other) == 0; }
  bool starts_with(std::string_view prefix) const {
    std::size_t at = 0;
    for_each_byte([&](char c) { return at < prefix.size() && c == prefix[at] && ++at > 0; });
    return at == prefix.size();
  }

 private:
  /// Resolves escapes, byte by byte.
  class Bytes {
   public:
    explicit Bytes(char const* at) : at_(at) {}

    /// The next byte; -1 at the end.
    int next() {
      if (held_ > 0) return static_cast<unsigned char>(bytes_[--held_]);
      if (*at_ == '"') return -1;
      if (*at_ != '\\') return static_cast<unsigned char>(*at_++);
      char const name = at_[1];
      if (name == 'u') return unicode();
      at_ += 2;
      return "\"\\/\b\f\n\r\t"[std::string_view("\"\\/bfnrt").find(name)];
    }

   private:
    int unicode() {
      std::uint32_t point = sixteen_bits();
      if (point >= 0xD800 && point <= 0xDBFF)
        point = 0x10000 + ((point - 0xD800) << 10) + (sixteen_bits() - 0xDC00);
      if (point < 0x80) return static_cast<int>(point);
      for (unsigned limit = 0x40; point >= limit; limit >>= 1) {  // the lead byte has the rest
        bytes_[held_++] = static_cast<char>(0x80 | (point & 0x3f));
        point >>= 6;
      }
      constexpr unsigned lead[] = {0x00, 0xC0, 0xE0, 0xF0};
      return static_cast<int>(lead[held_] | point);
    }
    std::uint32_t sixteen_bits() {
      std::uint32_t value = 0;
      for (int i = 2; i < 6; ++i)
        value = 16 * value + static_cast<std::uint32_t>(detail::hex_value(at_[i]));
      at_ += 6;
      return value;
    }

    char const* at_;
    int held_ = 0;
    char bytes_[4];  // the rest of a sequence, last byte first
  };

  char const* begin_;
};

/// Kinds of JSON values.
enum class JsonKind : std::uint8_t { null, boolean, number, string, array, object };

class JsonView;
struct JsonMember;

/// The elements of an array or the members of an object, one after another.
template <class Item> class JsonList {
 public:
  class Iterator {
   public:
    Iterator(char const* at, char const* end) : at_(at), end_(end) {}
    Item operator*() const;
    Iterator& operator++();
    bool operator==(std::default_sentinel_t) const { return *at_ == ']' || *at_ == '}'; }

   private:
    char const* at_;  // an item, or the bracket behind the last one
    char const* end_;
  };

  /// Of the container whose opening bracket is at `at`.
  JsonList(char const* at, char const* end) : at_(at), end_(end) {}

  Iterator begin() const { return {detail::skip_json_space(at_ + 1), end_}; }
  std::default_sentinel_t end() const { return {}; }
  /// Cost: a pass over the text.
  std::size_t size() const {
    std::size_t count = 0;
    for (auto at = begin(); at != end(); ++at) ++count;
    return count;
  }

 private:
  char const* at_;
  char const* end_;
};

/// One value of a checked JSON text. Refers to the text, and is as cheap to copy as two pointers.
/// Queries read the text anew: to find a member or to count costs a pass over the value.
class JsonView {
 public:
  /// null
  JsonView() : JsonView(null_text.data(), null_text.data() + null_text.size()) {}
  /// The value that begins at `at` in a text that parse_json has checked and that ends at `end`.
  JsonView(char const* at, char const* end) : at_(at), end_(end) {}

  JsonKind kind() const {
    switch (*at_) {
      case 'n':
        return JsonKind::null;
      case 't':
      case 'f':
        return JsonKind::boolean;
      case '"':
        return JsonKind::string;
      case '[':
        return JsonKind::array;
      case '{':
        return JsonKind::object;
      default:
        return JsonKind::number;
    }
  }
  bool is_null() const { return kind() == JsonKind::null; }
  bool is_array() const { return kind() == JsonKind::array; }
  bool is_object() const { return kind() == JsonKind::object; }
  bool is_string() const { return kind() == JsonKind::string; }

  /// Its first byte.
  char const* data() const { return at_; }
  /// As it stands.
  std::string_view text() const {
    return {at_, static_cast<std::size_t>(detail::json_value_end(at_, end_) - at_)};
  }
  /// For the text of an error: cut where it is long.
  std::string shown() const {
    std::string result;
    detail::append_printable(result, text().substr(0, 60));
    return result;
  }

  /// Nothing for a value that is no array.
  JsonList<JsonView> elements() const { return is_array() ? list<JsonView>() : none<JsonView>(); }
  /// Nothing for a value that is no object.
  JsonList<JsonMember> members() const {
    return is_object() ? list<JsonMember>() : none<JsonMember>();
  }
  /// The member of that name, if this is an object that has one.
  std::optional<JsonView> find(std::string_view key) const;
  /// The member of that name; null where there is none.
  JsonView operator[](std::string_view key) const { return find(key).value_or(JsonView()); }

  /// The value as T: bool, an integer or float that can hold it, std::string, a vector or a map of
  /// such, JsonView; nothing when it is of another type or does not fit. Floats take integers,
  /// never the other way. Lists and maps need several times the memory of their texts.
  template <class T> std::optional<T> as() const;

 private:
  static constexpr std::string_view null_text = "null";
  static constexpr std::string_view empty_text = "[]";
  template <class Item> JsonList<Item> list() const { return {at_, end_}; }
  template <class Item> static JsonList<Item> none() {
    return {empty_text.data(), empty_text.data() + empty_text.size()};
  }
  template <class List> std::optional<List> as_list() const;
  template <class Map> std::optional<Map> as_map() const;

  char const* at_;
  char const* end_;
};

/// A member of an object.
struct JsonMember {
  JsonString key;
  JsonView value;
};

namespace detail {

/// The value of the member that begins at `at`.
inline char const* json_member_value(char const* at) {
  return skip_json_space(skip_json_space(json_string_end(at)) + 1);
}

/// The number of a checked text: whole numbers of 64 bits are unsigned, or signed where they begin
/// with a minus; others are doubles, infinite where a double cannot hold them.
inline Json::Value json_number(std::string_view text) {
  char const *const begin = text.data(), *const end = begin + text.size();
  auto const read = [&]<class T>(T value) -> Json::Value {
    auto const [stop, error] = std::from_chars(begin, end, value);
    if (error == std::errc() && stop == end) return value;
    return {};
  };
  Json::Value const whole = text[0] == '-' ? read(std::int64_t{}) : read(std::uint64_t{});
  if (whole.index() != 0) return whole;
  Json::Value const real = read(double{});
  return real.index() != 0 ? real : Json::Value(std::numeric_limits<double>::infinity());
}

template <class T> std::optional<T> number_as(Json::Value const& value) {
  return std::visit(
      [](auto const& held) -> std::optional<T> {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::same_as<Held, std::int64_t> || std::same_as<Held, std::uint64_t>) {
          if constexpr (std::floating_point<T>)
            return static_cast<T>(held);
          else if (std::in_range<T>(held))
            return static_cast<T>(held);
        } else if constexpr (std::same_as<Held, double> && std::floating_point<T>) {
          auto const real = static_cast<T>(held);
          if (std::isfinite(real) || !std::isfinite(held)) return real;
        }
        return std::nullopt;
      },
      value);
}

template <class T> inline constexpr bool is_vector = false;
template <class T> inline constexpr bool is_vector<std::vector<T>> = true;
template <class T> inline constexpr bool is_string_map = false;
template <class T, class Compare>
inline constexpr bool is_string_map<std::map<std::string, T, Compare>> = true;

}  // namespace detail

template <class Item> Item JsonList<Item>::Iterator::operator*() const {
  if constexpr (std::same_as<Item, JsonMember>)
    return {JsonString(at_), JsonView(detail::json_member_value(at_), end_)};
  else
    return {at_, end_};
}
template <class Item> auto JsonList<Item>::Iterator::operator++() -> Iterator& {
  char const* at = at_;
  if constexpr (std::same_as<Item, JsonMember>) at = detail::json_member_value(at);
  at = detail::skip_json_space(detail::json_value_end(at, end_));
  at_ = *at == ',' ? detail::skip_json_space(at + 1) : at;
  return *this;
}

inline std::optional<JsonView> JsonView::find(std::string_view key) const {
  for (JsonMember const& member : members())
    if (member.key == key) return member.value;
  return std::nullopt;
}

template <class List> std::optional<List> JsonView::as_list() const {
  if (!is_array()) return std::nullopt;
  List list;
  list.reserve(elements().size());
  for (JsonView const element : elements()) {
    auto value = element.as<typename List::value_type>();
    if (!value) return std::nullopt;
    list.push_back(std::move(*value));
  }
  return list;
}

template <class Map> std::optional<Map> JsonView::as_map() const {
  if (!is_object()) return std::nullopt;
  Map map;
  for (JsonMember const& member : members()) {
    auto value = member.value.as<typename Map::mapped_type>();
    if (!value) return std::nullopt;
    map.emplace(member.key.text(), std::move(*value));
  }
  return map;
}

template <class T> std::optional<T> JsonView::as() const {
  if constexpr (std::same_as<T, JsonView>) {
    return *this;
  } else if constexpr (std::same_as<T, bool>) {
    return kind() == JsonKind::boolean ? std::optional(*at_ == 't') : std::nullopt;
  } else if constexpr (std::same_as<T, std::string>) {
    return is_string() ? std::optional(JsonString(at_).text()) : std::nullopt;
  } else if constexpr (std::integral<T> || std::floating_point<T>) {
    if (kind() != JsonKind::number) return std::nullopt;
    return detail::number_as<T>(detail::json_number(text()));
  } else if constexpr (detail::is_vector<T>) {
    return as_list<T>();
  } else {
    static_assert(detail::is_string_map<T>,
                  "JSON gives bool, numbers, std::string, JsonView, and std::vector or "
                  "std::map<std::string, .> of these");
    return as_map<T>();
  }
}

/// A value of its own, for texts that are small: it needs up to fifty times their memory.
inline Json to_json(JsonView view) {
  switch (view.kind()) {
    case JsonKind::null:
      return {};
    case JsonKind::boolean:
      return *view.as<bool>();
    case JsonKind::string:
      return *view.as<std::string>();
    case JsonKind::number:
      return std::visit(
          [](auto const& value) -> Json {
            if constexpr (std::constructible_from<Json, decltype(value)>) return Json(value);
            return {};
          },
          detail::json_number(view.text()));
    case JsonKind::array: {
      Json result = Json::array();
      for (JsonView const element : view.elements()) result.push_back(to_json(element));
      return result;
    }
    case JsonKind::object:
      break;
  }
  Json result = Json::object();
  for (JsonMember const& member : view.members()) result[member.key.text()] = to_json(member.value);
  return result;
}

}  // namespace nntile::io
