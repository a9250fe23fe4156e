#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Reads the header of a safetensors file that cannot be trusted: every check of the format, before
// any data is touched.

#include <set>
#include <tuple>
#include <utility>

#include "nntile/io/json.hh"
#include "nntile/io/safetensors_header.hh"

namespace nntile::io {

/// `lenient` takes what the reference takes: JSON whitespace around the header, unknown keys in an
/// entry, extents beyond the schema's 2^48 - 1 where an empty dimension makes them harmless.
/// `strict` refuses them.
enum class Reading : std::uint8_t { lenient, strict };

/// What a header says. Addresses of entries stay while it lives, moves included.
struct FileHeader {
  struct ByName {
    using is_transparent = void;
    bool operator()(TensorEntry const& a, TensorEntry const& b) const { return a.name < b.name; }
    bool operator()(TensorEntry const& a, std::string_view b) const { return a.name < b; }
    bool operator()(std::string_view a, TensorEntry const& b) const { return a < b.name; }
  };
  std::set<TensorEntry, ByName> tensors;
  std::vector<TensorEntry const*> in_file_order;
  FileMetadata metadata;
};

namespace detail {

/// Receives the parser's events and builds a FileHeader; throws FormatError at the first that does
/// not belong.
class HeaderEvents {
 public:
  HeaderEvents(FileHeader& header, std::string_view source, Reading reading)
      : header_(header), source_(source), reading_(reading) {}

  void null() { scalar("null"); }
  void boolean(bool) { scalar("a boolean"); }
  void number_negative(std::int64_t) { scalar("a negative number"); }
  void number_float(double, std::string_view) { scalar("a number that is no 64-bit integer"); }
  void number_unsigned(std::uint64_t value) {
    if (field_ != Field::shape && field_ != Field::offsets) return scalar("a number");
    if (depth_ != 3) refuse("a number", "an array");
    if (numbers_.size() == (field_ == Field::shape ? largest_file_rank : 2))
      fail(concat(in_quotes(name_), ": ", name_of(field_), " holds more than ", numbers_.size(),
                  " numbers"));
    numbers_.push_back(value);
  }
  void string(std::string value) {
    if (field_ == Field::metadata) {
      header_.metadata.emplace(std::move(name_), std::move(value));
      return;
    }
    if (field_ != Field::dtype) return scalar("a string");
    auto const dtype = file_dtype_named(value);
    if (!dtype) fail(concat(in_quotes(name_), ": unknown dtype ", in_quotes(value)));
    entry_.dtype = *dtype;
  }
  void start_object() {
    enter();
    if (depth_ <= 1 || field_ == Field::ignored) return;
    if (depth_ != 2) refuse("an object", expected(depth_ - 1));
    entry_ = TensorEntry{};
    seen_ = {};
  }
  void key(std::string name) {
    if (depth_ == 1) return tensor(std::move(name));
    if (depth_ == 2) return in_metadata_ ? metadatum(std::move(name)) : field(name);
    // deeper ones are inside an ignored value
  }
  void end_object() {
    --depth_;
    if (depth_ == 1) {
      if (!in_metadata_) finish_entry();
      field_ = Field::none;
    }
  }
  void start_array() {
    enter();
    if (field_ == Field::ignored) return;
    if (depth_ != 3 || (field_ != Field::shape && field_ != Field::offsets))
      refuse("an array", expected(depth_ - 1));
    numbers_.clear();
  }
  void end_array() {
    --depth_;
    if (field_ == Field::shape) entry_.shape = numbers_;
    if (field_ == Field::offsets) {
      if (numbers_.size() != 2)
        fail(concat(in_quotes(name_), ": data_offsets holds ", numbers_.size(), " numbers, not 2"));
      entry_.begin = numbers_[0];
      entry_.end = numbers_[1];
    }
  }
  [[noreturn]] void not_json(std::size_t byte) const {
    fail(concat("header is not JSON at byte ", byte));
  }

 private:
  enum class Field : std::uint8_t { none, dtype, shape, offsets, metadata, ignored };
  static constexpr char const* name_of(Field field) {
    switch (field) {
      case Field::dtype:
        return "dtype";
      case Field::shape:
        return "shape";
      case Field::offsets:
        return "data_offsets";
      default:
        return "";
    }
  }

  [[noreturn]] void fail(std::string const& what) const {
    throw FormatError(concat(path_in_quotes(source_), ": ", what));
  }
  [[noreturn]] void refuse(char const* found, char const* wanted) const {
    if (depth_ < 2 && name_.empty())
      fail(concat("header is ", found, " where ", wanted, " is needed"));
    fail(concat(in_quotes(name_), ": ", name_of(field_), *name_of(field_) ? " is " : "is ", found,
                " where ", wanted, " is needed"));
  }
  /// What a value at this depth should have been; an array or object stands one above its inside.
  char const* expected(int depth) const {
    if (depth <= 1 && field_ == Field::none) return "an object";
    switch (field_) {
      case Field::dtype:
      case Field::metadata:
        return "a string";
      case Field::shape:
      case Field::offsets:
        return depth >= 3 ? "an integer" : "an array of integers";
      default:
        return "an object";
    }
  }
  void scalar(char const* found) {
    if (field_ != Field::ignored) refuse(found, expected(depth_));
  }
  void enter() {
    if (++depth_ > 4) fail("header is nested deeper than 4 levels");
  }
  void tensor(std::string name) {
    if (std::string const problem = name_problem(name); !problem.empty()) fail(problem);
    in_metadata_ = name == metadata_key;
    bool const twice = in_metadata_ ? std::exchange(metadata_seen_, true)
                                    : header_.tensors.contains(std::string_view(name));
    if (twice) fail(concat(in_quotes(name), " comes twice"));
    name_ = std::move(name);
    field_ = Field::none;
  }
  void metadatum(std::string key) {
    if (header_.metadata.contains(key))
      fail(concat("metadata key ", in_quotes(key), " comes twice"));
    name_ = std::move(key);
    field_ = Field::metadata;
  }
  void field(std::string const& name) {
    field_ = name == "dtype"          ? Field::dtype
             : name == "shape"        ? Field::shape
             : name == "data_offsets" ? Field::offsets
                                      : Field::ignored;
    if (field_ == Field::ignored) {
      if (reading_ == Reading::strict)
        fail(concat(in_quotes(name_), ": unknown key ", in_quotes(name)));
      return;
    }
    bool& seen = seen_[static_cast<std::size_t>(field_)];
    if (seen) fail(concat(in_quotes(name_), ": ", name, " comes twice"));
    seen = true;
  }
  void finish_entry() {
    for (Field const needed : {Field::dtype, Field::shape, Field::offsets})
      if (!seen_[static_cast<std::size_t>(needed)])
        fail(concat(in_quotes(name_), ": ", name_of(needed), " is missing"));
    entry_.name = std::move(name_);
    header_.tensors.insert(std::move(entry_));
  }

  FileHeader& header_;
  std::string_view source_;
  Reading reading_;
  int depth_ = 0;
  bool in_metadata_ = false;
  bool metadata_seen_ = false;
  Field field_ = Field::none;
  std::string name_;
  TensorEntry entry_;
  FileShape numbers_;
  std::array<bool, 6> seen_{};
};

/// Checks one entry by itself: its size follows from dtype and shape.
inline void check_entry(TensorEntry const& entry, std::string_view source, Reading reading) {
  auto const fail = [&](std::string const& what) {
    throw FormatError(concat(path_in_quotes(source), ": ", in_quotes(entry.name), ": ", what));
  };
  if (entry.end < entry.begin)
    fail(concat("data ends at ", entry.end, ", before its begin at ", entry.begin));
  auto const bytes = byte_count(entry.dtype, entry.shape);
  if (!bytes)
    fail(concat(name_of(entry.dtype), ' ', to_string(entry.shape),
                " is no whole number of bytes below 2^61"));
  if (*bytes != entry.bytes())
    fail(concat(name_of(entry.dtype), ' ', to_string(entry.shape), " has ", *bytes,
                " bytes but data_offsets span ", entry.bytes()));
  constexpr std::uint64_t schema_limit = (std::uint64_t{1} << 48) - 1;
  if (reading == Reading::strict)
    for (std::uint64_t const extent : entry.shape)
      if (extent > schema_limit) fail(concat("extent ", extent, " exceeds 2^48 - 1"));
}

/// Puts the entries in the order of their data and checks that this has no holes and no overlaps
/// and fills the file.
inline void check_layout(FileHeader& header, std::uint64_t data_bytes, std::string_view source,
                         Reading reading) {
  for (TensorEntry const& entry : header.tensors) {
    check_entry(entry, source, reading);
    header.in_file_order.push_back(&entry);
  }
  std::sort(header.in_file_order.begin(), header.in_file_order.end(),
            [](auto const* a, auto const* b) {
              return std::tie(a->begin, a->end, a->name) < std::tie(b->begin, b->end, b->name);
            });
  std::uint64_t at = 0;
  for (TensorEntry const* const entry : header.in_file_order) {
    if (entry->begin != at)
      throw FormatError(concat(
          path_in_quotes(source), ": ", in_quotes(entry->name), " begins at ", entry->begin,
          entry->begin < at ? ", inside the tensor that ends at " : ", after a hole from ", at));
    at = entry->end;
  }
  if (at != data_bytes)
    throw FormatError(concat(path_in_quotes(source), ": tensors have ", at,
                             " bytes but the file has ", data_bytes, " after its header"));
}

/// Checks what the parser would let pass: a byte order mark, a NUL (which it takes for the end),
/// space in front.
inline void check_header_bytes(std::string_view text, std::string_view source, Reading reading) {
  auto const fail = [&](std::string const& what) {
    throw FormatError(concat(path_in_quotes(source), ": header ", what));
  };
  if (text.empty()) fail("is empty");
  if (text.starts_with("\xEF\xBB\xBF")) fail("begins with a byte order mark");
  for (char const c : text)
    if (static_cast<unsigned char>(c) < 0x20 && !is_json_space(c))
      fail("holds a control character");
  if (reading == Reading::lenient) return;
  if (text.front() != '{') fail("does not begin with '{'");
  if (text[text.find_last_not_of(' ')] != '}') fail("is not padded with spaces");
}

}  // namespace detail

/// Parses the JSON text of a header, for a file with `data_bytes` behind it. Throws FormatError
/// naming `source` and what is wrong. Whatever the text says, no request for memory is larger than
/// it, and all together are a small multiple of its size.
inline FileHeader parse_header(std::string_view text, std::uint64_t data_bytes,
                               std::string_view source, Reading reading = Reading::lenient) {
  detail::check_header_bytes(text, source, reading);
  FileHeader header;
  detail::HeaderEvents events(header, source, reading);
  detail::JsonParser(text, events).parse();
  detail::check_layout(header, data_bytes, source, reading);
  return header;
}

}  // namespace nntile::io
