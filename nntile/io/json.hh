#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Parses JSON that cannot be trusted.

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "nntile/io/name_index.hh"

namespace nntile::io {

/// As deep as anything is read: a container within a container counts as two.
inline constexpr int deepest_json = 127;
/// And as deep as it is read unless the reader says more.
inline constexpr int usual_json_depth = 32;

namespace detail {

/// Receives the parser's events: checks nesting and the range of numbers, and counts the keys that
/// are in open objects at a time.
class JsonCheck {
 public:
  JsonCheck(std::string_view source, std::string_view subject, int max_depth)
      : source_(source), subject_(subject), max_depth_(std::clamp(max_depth, 0, deepest_json)) {}

  void open(std::size_t) {
    if (depth_ == max_depth_) fail(concat("nested deeper than ", max_depth_, " levels"));
    keys_[static_cast<std::size_t>(depth_++)] = 0;
  }
  void close() { open_keys_ -= keys_[static_cast<std::size_t>(--depth_)]; }
  void key(std::string_view) {
    ++keys_[static_cast<std::size_t>(depth_ - 1)];
    most_keys_ = std::max(most_keys_, ++open_keys_);
  }
  void number(std::string_view) {}
  [[noreturn]] void not_json(std::size_t byte) const { fail(concat("not JSON at byte ", byte)); }

  /// Keys in all objects that are open at a time, at most.
  std::size_t most_keys() const { return most_keys_; }

 private:
  [[noreturn]] void fail(std::string const& what) const {
    throw FormatError(concat(path_in_quotes(source_), ": ", subject_, what));
  }

  std::string_view source_;
  std::string_view subject_;
  int max_depth_;
  int depth_ = 0;
  std::size_t open_keys_ = 0;
  std::size_t most_keys_ = 0;
  std::array<std::size_t, deepest_json> keys_;  // of each open container
};

inline constexpr std::uint64_t largest_json = UINT32_MAX;  // bytes, so that 32 bits hold a place

/// Receives the events of a text that has been checked, and looks for keys that come twice in one
/// object.
class JsonKeys {
 public:
  JsonKeys(std::string_view text, std::string_view source, std::size_t most_keys)
      : text_(text), source_(source) {
    hashes_.reserve(most_keys);
  }

  void open(std::size_t at) { opened_[static_cast<std::size_t>(depth_++)] = {at, hashes_.size()}; }
  void close() {
    auto const [at, first] = opened_[static_cast<std::size_t>(--depth_)];
    if (hashes_.size() == first) return;
    JsonView const object(text_.data() + at, text_.data() + text_.size());
    if (auto const twice = key_twice(object, std::span(hashes_).subspan(first)))
      throw FormatError(
          concat(path_in_quotes(source_), ": key ", twice->quoted(), " comes twice in one object"));
    hashes_.resize(first);
  }
  void key(std::string_view key) { hashes_.push_back(hash_of(JsonString(key.data()))); }
  void number(std::string_view text) const {
    Json::Value const value = json_number(text);
    if (auto const* const real = std::get_if<double>(&value); real && !std::isfinite(*real))
      throw FormatError(
          concat(path_in_quotes(source_), ": number ", in_quotes(text), " is out of range"));
  }
  [[noreturn]] void not_json(std::size_t) const { throw Error("JSON: a text has changed"); }

 private:
  std::string_view text_;
  std::string_view source_;
  int depth_ = 0;
  std::vector<std::uint32_t> hashes_;  // of the keys of all open objects
  struct Opened {
    std::size_t at;     // its bracket
    std::size_t first;  // of its hashes
  };
  std::array<Opened, deepest_json> opened_;
};

/// Refuses texts that are too large, hold a NUL or begin with a byte order mark.
inline void check_json_bytes(std::string_view text, std::string_view source) {
  auto const fail = [&](auto const&... what) {
    throw FormatError(concat(path_in_quotes(source), ": not JSON: ", what...));
  };
  if (text.size() > largest_json)
    fail(text.size(), " bytes where at most ", largest_json, " are read");
  if (text.find('\0') != std::string_view::npos) fail("a NUL byte");
  if (text.starts_with("\xEF\xBB\xBF")) fail("a byte order mark");
}

/// The value of a checked text.
inline JsonView root_of(std::string_view text) {
  char const* const end = text.data() + text.size();
  return {std::find_if_not(text.data(), end, is_json_space), end};
}

}  // namespace detail

/// Checks that a text is one JSON value and returns it; the text stays with the caller and outlives
/// what is returned. Throws FormatError that names `source` and the byte; also for a key that comes
/// twice, a number that no double can hold, and nesting deeper than `max_depth`. Cost: two passes.
/// Allocates: four bytes for each key of the objects that are open at a time, less than the text.
inline JsonView parse_json(std::string_view text, std::string_view source,
                           int max_depth = usual_json_depth) {
  detail::check_json_bytes(text, source);
  detail::JsonCheck check(source, "", max_depth);
  detail::JsonParser(text, check).parse();
  detail::JsonKeys keys(text, source, check.most_keys());
  detail::JsonParser(text, keys).parse();
  return detail::root_of(text);
}
/// A literal: which otherwise fits both the text above and the string below.
inline JsonView parse_json(char const* text, std::string_view source,
                           int max_depth = usual_json_depth) {
  return parse_json(std::string_view(text), source, max_depth);
}
/// A text that would not live as long.
JsonView parse_json(std::string const&&, std::string_view, int = usual_json_depth) = delete;

namespace detail {

/// Throws FormatError: the value under a key is of another type than is needed.
[[noreturn]] inline void fail_type(JsonView value, std::string_view key, std::string_view source) {
  throw FormatError(concat(path_in_quotes(source), ": ", in_quotes(key), " is ", value.shown(),
                           " where another type is needed"));
}

}  // namespace detail

/// A member's value as T. Throws FormatError that names source and key where it is of another type.
template <class T> T json_value(JsonView value, std::string_view key, std::string_view source) {
  auto result = value.as<T>();
  if (!result) detail::fail_type(value, key, source);
  return std::move(*result);
}
/// The member of an object as T. Throws FormatError, also where it is missing. Cost: a pass over
/// the object.
template <class T> T json_field(JsonView object, std::string_view key, std::string_view source) {
  auto const found = object.find(key);
  if (!found)
    throw FormatError(concat(path_in_quotes(source), ": ", in_quotes(key), " is missing"));
  return json_value<T>(*found, key, source);
}
/// The same of a member that is looked into where it stands: an array or an object, as `kind` says.
inline JsonView json_field(JsonView object, std::string_view key, std::string_view source,
                           JsonKind kind) {
  auto const found = json_field<JsonView>(object, key, source);
  if (found.kind() != kind) detail::fail_type(found, key, source);
  return found;
}

/// Whether both are the same value: keys in any order, 1 and 1.0 differ.
inline bool operator==(JsonView there, Json const& here);

namespace detail {

inline bool same_elements(JsonView there, Json::Array const& here) {
  auto at = here.begin();
  for (JsonView const element : there.elements())
    if (at == here.end() || !(element == *at++)) return false;
  return at == here.end();
}

/// The value of ours under a key of theirs; null where there is none.
inline Json const* find_key(Json::Object const& here, JsonString key) {
  auto const found =
      std::find_if(here.begin(), here.end(), [&](auto const& ours) { return key == ours.first; });
  return found == here.end() ? nullptr : &found->second;
}

inline bool same_members(JsonView there, Json::Object const& here) {
  std::size_t count = 0;
  for (JsonMember const& member : there.members()) {
    Json const* const ours = ++count > here.size() ? nullptr : find_key(here, member.key);
    if (ours == nullptr || !(member.value == *ours)) return false;
  }
  return count == here.size();
}

}  // namespace detail

inline bool operator==(JsonView there, Json const& here) {
  if (there.is_array()) return here.is_array() && detail::same_elements(there, here.elements());
  if (there.is_object()) return here.is_object() && detail::same_members(there, here.members());
  return !here.is_array() && !here.is_object() && to_json(there) == here;
}

/// Differences of two objects, one level deep: "width is 256 there but 128 here, ..."; empty
/// when they are equal. Lists at most eight keys of theirs and the number of the others.
inline std::string json_difference(JsonView there, Json const& here) {
  if (there == here) return "";
  auto const shown = [](Json const* value) {
    return value == nullptr ? "missing" : to_text(*value).substr(0, 60);
  };
  if (!there.is_object() || !here.is_object())
    return concat(there.shown(), " there but ", shown(&here), " here");
  std::map<std::string, std::string> differences;
  std::size_t more = 0;
  for (JsonMember const& member : there.members()) {
    Json const* const ours = detail::find_key(here.members(), member.key);
    if (ours != nullptr && member.value == *ours) continue;
    if (differences.size() == 8) {
      ++more;
      continue;
    }
    std::string const key = member.key.quoted();
    differences.emplace(
        key, concat(key, " is ", member.value.shown(), " there but ", shown(ours), " here"));
  }
  for (auto const& [key, value] : here.members())
    if (!there.find(key))
      differences.emplace(path_in_quotes(key), concat(path_in_quotes(key), " is missing there but ",
                                                      shown(&value), " here"));
  std::string text;
  for (auto const& [key, difference] : differences)
    text += concat(text.empty() ? "" : ", ", difference);
  return more == 0 ? text : concat(text, " and ", more, " more");
}

}  // namespace nntile::io
