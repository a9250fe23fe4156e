#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Parses JSON that cannot be trusted.

#include "nntile/io/json_parse.hh"

namespace nntile::io {

namespace detail {

/// What is easier mended when it is named.
inline void check_json_bytes(std::string_view text, std::string_view source) {
  if (text.find('\0') != std::string_view::npos)
    throw FormatError(concat(path_in_quotes(source), ": not JSON: a NUL byte"));
  if (text.starts_with("\xEF\xBB\xBF"))
    throw FormatError(concat(path_in_quotes(source), ": not JSON: a byte order mark"));
}

/// Builds a Json from the parser's events.
class JsonBuilder {
 public:
  JsonBuilder(std::string_view source, int max_depth) : source_(source), max_depth_(max_depth) {}

  Json take() { return std::move(root_); }

  void null() { put(Json()); }
  void boolean(bool value) { put(Json(value)); }
  void number_negative(std::int64_t value) { put(Json(value)); }
  void number_unsigned(std::uint64_t value) { put(Json(value)); }
  void number_float(double value, std::string_view text) {
    if (!std::isfinite(value)) fail(concat("number ", in_quotes(text), " is out of range"));
    put(Json(value));
  }
  void string(std::string value) { put(Json(std::move(value))); }
  void start_object() { open(Json::object()); }
  void start_array() { open(Json::array()); }
  void end_object() { close(); }
  void end_array() { close(); }
  void key(std::string name) {
    if (open_.back().find(name) != nullptr)
      fail(concat("key ", in_quotes(name), " comes twice in one object"));
    keys_.back() = std::move(name);
  }
  [[noreturn]] void not_json(std::size_t byte) const { fail(concat("not JSON at byte ", byte)); }

 private:
  [[noreturn]] void fail(std::string const& what) const {
    throw FormatError(concat(path_in_quotes(source_), ": ", what));
  }

  void open(Json container) {
    if (open_.size() == static_cast<std::size_t>(max_depth_))
      fail(concat("JSON is nested deeper than ", max_depth_, " levels"));
    open_.push_back(std::move(container));
    keys_.emplace_back();
  }
  void close() {
    Json container = std::move(open_.back());
    open_.pop_back();
    keys_.pop_back();
    put(std::move(container));
  }
  void put(Json value) {
    if (open_.empty())
      root_ = std::move(value);
    else if (open_.back().is_array())
      open_.back().push_back(std::move(value));
    else
      open_.back()[keys_.back()] = std::move(value);
  }

  std::string_view source_;
  int max_depth_;
  Json root_;
  std::vector<Json> open_;
  std::vector<std::string> keys_;  // of each open container, the member that comes next
};

}  // namespace detail

/// Parses a text that is one JSON value. Throws FormatError that names `source` and the byte; also
/// for a key that comes twice and for nesting deeper than `max_depth`.
inline Json parse_json(std::string_view text, std::string_view source, int max_depth = 32) {
  detail::check_json_bytes(text, source);
  detail::JsonBuilder builder(source, max_depth);
  detail::JsonParser(text, builder).parse();
  return builder.take();
}

/// The member of an object as T. Throws FormatError that names source and key where it is missing
/// or of another type.
template <class T> T json_field(Json const& object, std::string_view key, std::string_view source) {
  Json const* const found = object.find(key);
  if (found == nullptr)
    throw FormatError(concat(path_in_quotes(source), ": '", key, "' is missing"));
  auto value = found->as<T>();
  if (!value)
    throw FormatError(concat(path_in_quotes(source), ": '", key, "' is ",
                             to_text(*found).substr(0, 60), " where another type is needed"));
  return std::move(*value);
}

}  // namespace nntile::io
