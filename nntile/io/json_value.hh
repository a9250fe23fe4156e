#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// JSON values to be written. Our own, because the destructor of nlohmann's allocates, and so ends
// the process when memory is short.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
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
  requires(!std::same_as<I, bool> && !std::same_as<I, char>)
  Json(I value) : value_(static_cast<std::uint64_t>(value)) {
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
  Json(std::vector<T> const& values) : value_(Array(values.begin(), values.end())) {}
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
  /// Appends to an array; a null value becomes one. Throws TypeError for another value. Inlined,
  /// g++ 12 takes parts of the element for uninitialized.
  [[gnu::noinline]] void push_back(Json element) {
    if (is_null()) value_ = Array();
    if (!is_array()) throw TypeError("JSON: element appended to a value that is no array");
    std::get<Array>(value_).push_back(std::move(element));
  }

 private:
  Value value_;
};

}  // namespace nntile::io
