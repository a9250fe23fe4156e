#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// JSON values, and reading them from files that cannot be trusted. The one place that includes
// nlohmann/json.

#include <nlohmann/json.hpp>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "nntile/core/error.hh"

namespace nntile::io {

/// Objects keep their keys sorted, so equal values print as equal texts.
using Json = nlohmann::json;

/// A name as error texts show it: in single quotes, cut where it is long.
inline std::string in_quotes(std::string_view name) {
  constexpr std::size_t shown = 100;
  if (name.size() <= shown) return concat('\'', name, '\'');
  return concat('\'', name.substr(0, shown), "...' (", name.size(), " bytes)");
}

namespace detail {

/// Refuses what a parser would let pass: deep nesting, and keys that come twice, of which only the
/// last would be kept.
class JsonGuard {
 public:
  JsonGuard(std::string_view source, int max_depth) : source_(source), max_depth_(max_depth) {}

  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    if (depth >= max_depth_)
      throw FormatError(
          concat(in_quotes(source_), ": JSON is nested deeper than ", max_depth_, " levels"));
    if (event == Json::parse_event_t::object_start) keys_.emplace_back();
    if (event == Json::parse_event_t::object_end) keys_.pop_back();
    if (event == Json::parse_event_t::key &&
        !keys_.back().insert(parsed.get_ref<std::string const&>()).second)
      throw FormatError(concat(in_quotes(source_), ": key ",
                               in_quotes(parsed.get_ref<std::string const&>()),
                               " comes twice in one object"));
    return true;
  }

 private:
  std::string_view source_;
  int max_depth_;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace detail

/// Parses a text that is one JSON value. Throws FormatError that names `source` and the byte; also
/// for a key that comes twice and for nesting deeper than `max_depth`.
inline Json parse_json(std::string_view text, std::string_view source, int max_depth = 32) {
  // The parser takes a NUL for the end and skips a byte order mark; neither is JSON.
  if (text.find('\0') != std::string_view::npos || text.starts_with("\xEF\xBB\xBF"))
    throw FormatError(concat(in_quotes(source), ": not JSON: a NUL byte or a byte order mark"));
  try {
    return Json::parse(text.begin(), text.end(), detail::JsonGuard(source, max_depth));
  } catch (Json::parse_error const& error) {
    throw FormatError(concat(in_quotes(source), ": not JSON at byte ", error.byte));
  } catch (Json::exception const&) {
    throw FormatError(concat(in_quotes(source), ": not JSON: a number is out of range"));
  }
}

/// The value under a key of an object, as T. Throws FormatError that names source and key where it
/// is missing or of another type.
template <class T>
requires std::default_initializable<T> T json_field(Json const& object, char const* key,
                                                    std::string_view source) {
  auto const found = object.find(key);
  if (found == object.end())
    throw FormatError(concat(in_quotes(source), ": '", key, "' is missing"));
  bool fits = true;
  if constexpr (std::unsigned_integral<T>) fits = found->is_number_unsigned();
  if constexpr (std::signed_integral<T>) fits = found->is_number_integer();
  if constexpr (std::floating_point<T>) fits = found->is_number();
  try {
    if (fits) return found->template get<T>();
  } catch (Json::exception const&) {
    fits = false;
  }
  throw FormatError(concat(in_quotes(source), ": '", key, "' is ", in_quotes(found->dump()),
                           " where another type is needed"));
}

/// Text of a value. Throws ValueError when a string in it is not UTF-8. `indent` -1 is one line.
inline std::string to_text(Json const& value, int indent = -1) {
  try {
    return value.dump(indent);
  } catch (Json::exception const&) {
    throw ValueError("JSON: a string is not UTF-8");
  }
}

/// What differs between two objects, one level deep: "width is 256 there but 128 here, ..."; empty
/// when they are equal.
inline std::string json_difference(Json const& there, Json const& here) {
  if (there == here) return "";
  if (!there.is_object() || !here.is_object())
    return concat(in_quotes(to_text(there)), " there but ", in_quotes(to_text(here)), " here");
  std::set<std::string> keys;
  for (auto const& item : there.items()) keys.insert(item.key());
  for (auto const& item : here.items()) keys.insert(item.key());
  std::string text;
  for (std::string const& key : keys) {
    Json const a = there.value(key, Json());
    Json const b = here.value(key, Json());
    if (a == b && there.contains(key) == here.contains(key)) continue;
    auto const shown = [&](Json const& object, Json const& value) {
      return object.contains(key) ? to_text(value).substr(0, 60) : std::string("missing");
    };
    text += concat(text.empty() ? "" : ", ", key, " is ", shown(there, a), " there but ",
                   shown(here, b), " here");
  }
  return text;
}

}  // namespace nntile::io
