#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// JSON values. Our own, because the destructor of nlohmann's allocates, and so ends the process
// when memory is short.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/io/quotes.hh"

namespace nntile::io {

/// One JSON value. Objects keep their keys sorted, so equal values print as equal texts. Integers
/// stay integers of 64 bits: 1 and 1.0 are different values.
class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::map<std::string, Json, std::less<>>;
  using Value = std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string,
                             Array, Object>;

  Json() = default;
  Json(std::same_as<bool> auto value) : value_(value) {}
  Json(std::floating_point auto value) : value_(static_cast<double>(value)) {}
  template <std::integral I>
  requires(!std::same_as<I, bool> && !std::same_as<I, char>) Json(I value)
      : value_(static_cast<std::uint64_t>(value)) {
    // Only negative numbers are signed, so that one number has one form.
    if constexpr (std::signed_integral<I>)
      if (value < 0) value_ = static_cast<std::int64_t>(value);
  }
  Json(char const* text) : value_(std::string(text)) {}
  Json(std::string_view text) : value_(std::string(text)) {}
  Json(std::string text) : value_(std::move(text)) {}
  Json(Array values) : value_(std::move(values)) {}
  Json(Object members) : value_(std::move(members)) {}
  template <class T>
  requires(!std::same_as<T, Json> && std::constructible_from<Json, T>)
      Json(std::vector<T> const& values)
      : value_(Array(values.begin(), values.end())) {}
  template <class T, class Compare>
  requires(!std::same_as<T, Json> && std::constructible_from<Json, T>)
      Json(std::map<std::string, T, Compare> const& members)
      : value_(Object(members.begin(), members.end())) {}

  /// Json::object({{"width", 256}, {"name", "tiny"}}).
  static Json object(std::initializer_list<std::pair<std::string const, Json>> members = {}) {
    return Json(Object(members.begin(), members.end()));
  }
  static Json array() { return Json(Array()); }

  bool operator==(Json const&) const = default;

  Value const& value() const { return value_; }
  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }

  /// Members of an object. Throws TypeError for another value.
  Object const& members() const {
    if (!is_object()) throw TypeError("JSON: members of a value that is no object");
    return std::get<Object>(value_);
  }
  /// Elements of an array. Throws TypeError for another value.
  Array const& elements() const {
    if (!is_array()) throw TypeError("JSON: elements of a value that is no array");
    return std::get<Array>(value_);
  }

  /// The member of that name, or null when there is none or this is no object.
  Json const* find(std::string_view key) const {
    if (!is_object()) return nullptr;
    auto const found = members().find(key);
    return found == members().end() ? nullptr : &found->second;
  }
  /// The member of that name; a null value where there is none or this is no object.
  Json const& operator[](std::string_view key) const {
    static Json const null;
    Json const* const found = find(key);
    return found == nullptr ? null : *found;
  }
  /// The member to be set; a null value becomes an object. Throws TypeError for another value.
  Json& operator[](std::string_view key) {
    if (is_null()) value_ = Object();
    if (!is_object())
      throw TypeError(concat("JSON: member ", in_quotes(key), " of a value that is no object"));
    return std::get<Object>(value_).try_emplace(std::string(key)).first->second;
  }
  /// Appends to an array; a null value becomes one. Throws TypeError for another value.
  void push_back(Json element) {
    if (is_null()) value_ = Array();
    if (!is_array()) throw TypeError("JSON: element appended to a value that is no array");
    std::get<Array>(value_).push_back(std::move(element));
  }

  /// The value as T: bool, an integer or float that can hold it, std::string, a vector or a map of
  /// such; nothing when it is of another type or does not fit. Floats take integers, never the
  /// other way.
  template <class T> std::optional<T> as() const;

 private:
  Value value_;
};

namespace detail {

template <class T> inline constexpr bool is_vector = false;
template <class T> inline constexpr bool is_vector<std::vector<T>> = true;
template <class T> inline constexpr bool is_string_map = false;
template <class T, class Compare>
inline constexpr bool is_string_map<std::map<std::string, T, Compare>> = true;

template <class T> std::optional<T> json_number(Json::Value const& value) {
  return std::visit(
      [](auto const& held) -> std::optional<T> {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::same_as<Held, std::int64_t> || std::same_as<Held, std::uint64_t>) {
          if constexpr (std::floating_point<T>)
            return static_cast<T>(held);
          else if (std::in_range<T>(held))
            return static_cast<T>(held);
        } else if constexpr (std::same_as<Held, double> && std::floating_point<T>) {
          return static_cast<T>(held);
        }
        return std::nullopt;
      },
      value);
}

template <class List> std::optional<List> json_list(Json const& json) {
  if (!json.is_array()) return std::nullopt;
  List list;
  for (Json const& element : json.elements()) {
    auto value = element.as<typename List::value_type>();
    if (!value) return std::nullopt;
    list.push_back(std::move(*value));
  }
  return list;
}

template <class Map> std::optional<Map> json_map(Json const& json) {
  if (!json.is_object()) return std::nullopt;
  Map map;
  for (auto const& [key, member] : json.members()) {
    auto value = member.template as<typename Map::mapped_type>();
    if (!value) return std::nullopt;
    map.emplace(key, std::move(*value));
  }
  return map;
}

}  // namespace detail

template <class T> std::optional<T> Json::as() const {
  if constexpr (std::same_as<T, Json>) {
    return *this;
  } else if constexpr (std::same_as<T, bool> || std::same_as<T, std::string>) {
    T const* const held = std::get_if<T>(&value_);
    return held == nullptr ? std::nullopt : std::optional<T>(*held);
  } else if constexpr (std::integral<T> || std::floating_point<T>) {
    return detail::json_number<T>(value_);
  } else if constexpr (detail::is_vector<T>) {
    return detail::json_list<T>(*this);
  } else {
    static_assert(detail::is_string_map<T>,
                  "JSON gives bool, numbers, std::string, and std::vector or std::map<std::string, "
                  ".> of these");
    return detail::json_map<T>(*this);
  }
}

}  // namespace nntile::io
