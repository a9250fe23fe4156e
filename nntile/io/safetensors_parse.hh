#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Reads the header of a safetensors file that cannot be trusted: every check of the format, before
// any data is touched.

#include <iterator>
#include <tuple>
#include <utility>

#include "nntile/io/json.hh"
#include "nntile/io/safetensors_header.hh"

namespace nntile::io {

/// `lenient` takes what the reference takes: JSON whitespace around the header, unknown keys in an
/// entry with whatever is nested in them, names of any length, metadata that is null, extents
/// beyond the schema's 2^48 - 1 where an empty dimension makes them harmless. `strict` refuses
/// these.
///
/// By choice, both refuse four kinds that the reference takes:
/// - a tensor or a metadata key that comes twice, of which the reference keeps the last;
/// - control characters in names, which end in logs and terminals;
/// - more than 64 dimensions, beyond any array in use: NumPy 2 has at most 64;
/// - what no writer writes and the reference takes by accident of its parser: an entry as the array
///   [dtype, shape, data_offsets], a dtype as the object {"F32": null}.
enum class Reading : std::uint8_t { lenient, strict };

namespace detail {
class HeaderReader;
}

/// A parsed header: its text and forty bytes a tensor, which has at least fifty there. A
/// container of TensorEntry in the order of their data, which are read from the text when they are
/// asked for.
class FileHeader {
 public:
  FileHeader() = default;

  std::size_t size() const { return records_.size(); }
  bool empty() const { return records_.empty(); }
  TensorEntry operator[](std::size_t at) const;
  TensorEntry front() const { return (*this)[0]; }
  TensorEntry back() const { return (*this)[size() - 1]; }

  class Iterator {
   public:
    Iterator(FileHeader const& header, std::size_t at) : header_(&header), at_(at) {}
    TensorEntry operator*() const { return (*header_)[at_]; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(Iterator const& other) const { return at_ == other.at_; }

   private:
    FileHeader const* header_;
    std::size_t at_;
  };
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size()}; }

  /// Position of the tensor of that name, if there is one.
  std::optional<std::size_t> find(std::string_view name) const {
    return by_name_.find(name, [this](std::uint32_t at) { return this->name(at); });
  }
  /// Its name as it stands in the text.
  JsonString name(std::size_t at) const { return JsonString(text_.data() + records_[at].name); }
  /// As it stands in the file.
  std::string_view text() const { return text_; }
  /// An object of strings, or null.
  JsonView metadata() const { return metadata_ == 0 ? JsonView() : view(metadata_); }

 private:
  friend class detail::HeaderReader;

  struct Record {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint32_t name = 0;   // its quote in the text
    std::uint32_t shape = 0;  // its bracket
    FileDType dtype = FileDType::f32;
  };

  JsonView view(std::uint32_t at) const { return {text_.data() + at, text_.data() + text_.size()}; }

  std::string text_;
  std::vector<Record> records_;  // in the order of the data
  detail::NameIndex by_name_;    // of indices of records
  std::uint32_t metadata_ = 0;
};

inline TensorEntry FileHeader::operator[](std::size_t at) const {
  Record const& record = records_[at];
  return {name(at).text(), record.dtype, *view(record.shape).as<FileShape>(), record.begin,
          record.end};
}

namespace detail {

/// Reads a header into a FileHeader; throws FormatError at the first thing that does not belong.
class HeaderReader {
 public:
  HeaderReader(std::string text, std::string_view source, Reading reading)
      : source_(source), reading_(reading) {
    header_.text_ = std::move(text);
  }

  FileHeader read(std::uint64_t data_bytes) {
    check_bytes();
    JsonCheck check(source_, "header is ", deepest_json);
    JsonParser(std::string_view(header_.text_), check).parse();
    JsonView const root = root_of(header_.text_);
    if (!root.is_object()) fail("header is ", kind_of(root), " where an object is needed");
    header_.records_.reserve(root.members().size());
    for (JsonMember const& member : root.members())
      if (member.key == metadata_key)
        metadata(member.value);
      else
        tensor(member.key, member.value);
    sort();
    check_layout(data_bytes);
    return std::move(header_);
  }

 private:
  using Record = FileHeader::Record;

  template <class... Words> [[noreturn]] void fail(Words const&... words) const {
    throw FormatError(concat(path_in_quotes(source_), ": ", words...));
  }
  std::uint32_t place(char const* at) const {
    return static_cast<std::uint32_t>(at - header_.text_.data());
  }

  /// The kind of a value, in the text of an error.
  static char const* kind_of(JsonView value) {
    switch (value.kind()) {
      case JsonKind::null:
        return "null";
      case JsonKind::boolean:
        return "a boolean";
      case JsonKind::string:
        return "a string";
      case JsonKind::array:
        return "an array";
      case JsonKind::object:
        return "an object";
      case JsonKind::number:
        break;
    }
    auto const number = json_number(value.text());
    return std::holds_alternative<std::uint64_t>(number)  ? "a number"
           : std::holds_alternative<std::int64_t>(number) ? "a negative number"
                                                          : "a number that is no 64-bit integer";
  }

  /// Refuses, with a message each, common mistakes and what only strict reading refuses.
  void check_bytes() const {
    std::string_view const text = header_.text_;
    if (text.empty()) fail("header is empty");
    if (text.size() > largest_header)
      fail("header of ", text.size(), " bytes where at most ", largest_header, " are read");
    if (text.starts_with("\xEF\xBB\xBF")) fail("header begins with a byte order mark");
    for (char const c : text)
      if (static_cast<unsigned char>(c) < 0x20 && !is_json_space(c))
        fail("header holds a control character");
    if (reading_ == Reading::lenient) return;
    if (text.front() != '{') fail("header does not begin with '{'");
    if (text[text.find_last_not_of(' ')] != '}') fail("header is not padded with spaces");
  }

  void metadata(JsonView value) {
    if (std::exchange(metadata_seen_, true)) fail(in_quotes(metadata_key), " comes twice");
    if (value.is_null() && reading_ == Reading::lenient) return;
    if (!value.is_object())
      fail(in_quotes(metadata_key), " is ", kind_of(value), " where an object is needed");
    std::vector<std::uint32_t> hashes;
    hashes.reserve(value.members().size());
    for (JsonMember const& member : value.members()) {
      if (!member.value.is_string())
        fail("metadata key ", member.key.quoted(), " is ", kind_of(member.value),
             " where a string is needed");
      hashes.push_back(hash_of(member.key));
    }
    if (auto const twice = key_twice(value, hashes))
      fail("metadata key ", twice->quoted(), " comes twice");
    header_.metadata_ = place(value.data());
  }

  void tensor(JsonString name, JsonView value) {
    check_name(name);
    if (!value.is_object())
      fail(name.quoted(), " is ", kind_of(value), " where an object is needed");
    Record record{.name = place(name.data())};
    bool dtype = false, shape = false, offsets = false;
    auto const once = [&](bool& seen, char const* field) {
      if (std::exchange(seen, true)) fail(name.quoted(), ": ", field, " comes twice");
    };
    for (auto const& [key, field] : value.members()) {
      if (key == "dtype") {
        once(dtype, "dtype");
        record.dtype = dtype_of(name, field);
      } else if (key == "shape") {
        once(shape, "shape");
        numbers(name, "shape", field, largest_file_rank);
        record.shape = place(field.data());
      } else if (key == "data_offsets") {
        once(offsets, "data_offsets");
        std::tie(record.begin, record.end) = offsets_of(name, field);
      } else if (reading_ == Reading::strict) {
        fail(name.quoted(), ": unknown key ", key.quoted());
      }
    }
    for (auto const& [seen, field] :
         {std::pair(dtype, "dtype"), std::pair(shape, "shape"), std::pair(offsets, "data_offsets")})
      if (!seen) fail(name.quoted(), ": ", field, " is missing");
    header_.records_.push_back(record);
  }

  void check_name(JsonString name) const {
    std::size_t bytes = 0;
    name.for_each_byte([&](char c) {
      if (is_control(c)) fail(control_problem(c));
      ++bytes;
      return true;
    });
    if (reading_ == Reading::strict && bytes > longest_name)
      fail("name ", name.quoted(), " is longer than ", longest_name, " bytes");
  }

  FileDType dtype_of(JsonString name, JsonView value) const {
    if (!value.is_string())
      fail(name.quoted(), ": dtype is ", kind_of(value), " where a string is needed");
    JsonString const text(value.data());
    auto const dtype = file_dtype_named(text);
    if (!dtype) fail(name.quoted(), ": unknown dtype ", text.quoted());
    return *dtype;
  }

  /// Checks a list of whole numbers; returns how many there are.
  std::size_t numbers(JsonString name, char const* field, JsonView value, std::size_t most) const {
    if (!value.is_array())
      fail(name.quoted(), ": ", field, " is ", kind_of(value),
           " where an array of integers is needed");
    std::size_t count = 0;
    for (JsonView const number : value.elements()) {
      if (number.kind() != JsonKind::number || *number.data() == '-' || !number.as<std::uint64_t>())
        fail(name.quoted(), ": ", field, " is ", kind_of(number), " where an integer is needed");
      if (++count > most) fail(name.quoted(), ": ", field, " holds more than ", most, " numbers");
    }
    return count;
  }
  std::pair<std::uint64_t, std::uint64_t> offsets_of(JsonString name, JsonView value) const {
    if (std::size_t const count = numbers(name, "data_offsets", value, 2); count != 2)
      fail(name.quoted(), ": data_offsets holds ", count, " numbers, not 2");
    auto at = value.elements().begin();
    auto const begin = *(*at).as<std::uint64_t>();
    return {begin, *(*++at).as<std::uint64_t>()};
  }

  /// Puts tensors in the order of their data, empty ones at one place in that of the text.
  void sort() {
    auto& records = header_.records_;
    std::sort(records.begin(), records.end(), [](Record const& a, Record const& b) {
      return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    header_.by_name_.reserve(records.size());
    for (std::size_t i = 0; i < records.size(); ++i) header_.by_name_.add(header_.name(i), i);
    auto const name = [this](std::uint32_t at) { return header_.name(at); };
    if (auto const twice = header_.by_name_.settle(name))
      fail(name(*twice).quoted(), " comes twice");
  }

  /// Checks that each tensor has the bytes of its shape, and that together they fill the file, with
  /// no holes and no overlaps.
  void check_layout(std::uint64_t data_bytes) const {
    for (std::size_t i = 0; i < header_.size(); ++i) check_size(i);
    std::uint64_t at = 0;
    for (std::size_t i = 0; i < header_.size(); ++i) {
      Record const& record = header_.records_[i];
      if (record.begin != at)
        fail(header_.name(i).quoted(), " begins at ", record.begin,
             record.begin < at ? ", inside the tensor that ends at " : ", after a hole from ", at);
      at = record.end;
    }
    if (at != data_bytes)
      fail("tensors have ", at, " bytes but the file has ", data_bytes, " after its header");
  }
  void check_size(std::size_t i) const {
    Record const& record = header_.records_[i];
    FileShape const shape = *header_.view(record.shape).as<FileShape>();
    auto const wrong = [&](auto const&... words) {
      fail(header_.name(i).quoted(), ": ", words...);
    };
    if (record.end < record.begin)
      wrong("data ends at ", record.end, ", before its begin at ", record.begin);
    auto const bytes = byte_count(record.dtype, shape);
    if (!bytes)
      wrong(name_of(record.dtype), ' ', to_string(shape),
            " is no whole number of bytes below 2^61");
    if (*bytes != record.end - record.begin)
      wrong(name_of(record.dtype), ' ', to_string(shape), " has ", *bytes,
            " bytes but data_offsets span ", record.end - record.begin);
    if (reading_ == Reading::strict)
      for (std::uint64_t const extent : shape)
        if (extent > largest_extent) wrong("extent ", extent, " exceeds 2^48 - 1");
  }

  std::string_view source_;
  Reading reading_;
  FileHeader header_;
  bool metadata_seen_ = false;
};

}  // namespace detail

/// Parses the JSON text of a header, for a file with `data_bytes` behind it. Throws FormatError
/// naming `source` and what is wrong. Whatever the text says, it and all requests for memory
/// together are less than twice its size.
inline FileHeader parse_header(std::string text, std::uint64_t data_bytes, std::string_view source,
                               Reading reading = Reading::lenient) {
  return detail::HeaderReader(std::move(text), source, reading).read(data_bytes);
}

}  // namespace nntile::io
