#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Reads the manifest of a checkpoint, which cannot be trusted.

#include <charconv>

#include "nntile/io/manifest.hh"

namespace nntile::io {

/// A parsed manifest.json: its text and twelve bytes a tensor, which has at least eighty there.
/// Tensors are read from the text when they are asked for.
class ManifestText {
 public:
  /// Takes the text. Throws FormatError that names `source` where it was changed, is of another
  /// version, lacks something, or names a file or a tensor twice.
  ManifestText(std::string text, std::string source);

  /// The model, as it was described.
  JsonView model() const { return member(root(), "model", JsonKind::object); }
  SavedState state() const;
  std::vector<FileRecord> const& files() const { return files_; }

  std::size_t size() const { return records_.size(); }
  /// In the order of the text.
  TensorRecord operator[](std::size_t at) const { return record(view(records_[at])); }
  /// The tensor of that name, if there is one.
  std::optional<TensorRecord> find(std::string_view name) const {
    auto const at = by_name_.find(name, [this](std::uint32_t i) { return this->name(i); });
    return at ? std::optional((*this)[*at]) : std::nullopt;
  }

 private:
  template <class... Words> [[noreturn]] void fail(Words const&... words) const {
    throw FormatError(concat(path_in_quotes(source_), ": ", words...));
  }

  JsonView root() const { return detail::root_of(text_); }
  JsonView view(std::uint32_t at) const { return {text_.data() + at, text_.data() + text_.size()}; }
  JsonString name(std::size_t at) const { return word(view(records_[at]), "name"); }

  template <class T> T field(JsonView object, char const* key) const {
    return json_field<T>(object, key, source_);
  }
  JsonView member(JsonView object, char const* key, JsonKind kind) const {
    auto const value = field<JsonView>(object, key);
    if (value.kind() != kind)
      fail("'", key, "' is ", value.shown(), " where ",
           kind == JsonKind::object  ? "an object"
           : kind == JsonKind::array ? "an array"
                                     : "a string",
           " is needed");
    return value;
  }
  JsonString word(JsonView object, char const* key) const {
    return JsonString(member(object, key, JsonKind::string).data());
  }
  std::uint64_t number(JsonView object, char const* key, int base, char const* needed) const {
    JsonString const digits = word(object, key);
    // No number is longer, and nothing long is copied.
    std::string const text = digits.raw().size() > 64 ? "" : digits.text();
    std::uint64_t value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error != std::errc() || end != text.data() + text.size() ||
        (base == 16 && text.size() != 16))
      fail("'", key, "' is ", digits.quoted(), " where ", needed, " is needed");
    return value;
  }
  std::uint64_t checksum(JsonView object) const {
    return number(object, "checksum", 16, "a checksum of 16 hexadecimal digits");
  }

  void check_opening() const;
  void check_version() const;
  void check_state() const;
  void read_files();
  void read_tensors();
  void check_tensor(JsonView json, JsonString name) const;
  TensorRecord record(JsonView json) const;

  std::string text_;
  std::string source_;
  std::vector<FileRecord> files_;       // at most two
  std::vector<std::uint32_t> records_;  // their places in the text
  detail::NameIndex by_name_;           // of indices of records
};

inline ManifestText::ManifestText(std::string text, std::string source)
    : text_(std::move(text)), source_(std::move(source)) {
  check_opening();
  parse_json(text_, source_);
  check_version();
  model();
  check_state();
  read_files();
  read_tensors();
}

inline void ManifestText::check_opening() const {
  using namespace detail;
  std::string_view const text = text_;
  std::size_t const digits = manifest_opening.size();
  std::size_t const end = digits + 16 + manifest_after_checksum.size();
  if (text.size() < end || !text.starts_with(manifest_opening) ||
      text.substr(digits + 16, manifest_after_checksum.size()) != manifest_after_checksum)
    fail("not the manifest of a checkpoint, or its first lines were changed");
  std::string const found = to_hex(hash64(text.substr(end)));
  if (found != text.substr(digits, 16))
    fail("changed since it was written: checksum ", found, " where it says ",
         in_quotes(text.substr(digits, 16)), use_an_older_one);
}

inline void ManifestText::check_version() const {
  if (!(word(root(), "format") == manifest_format)) fail("not a checkpoint of this library");
  if (auto const version = field<std::uint64_t>(root(), "version"); version != manifest_version)
    fail("version ", version, " where ", manifest_version, " is read");
}

inline void ManifestText::check_state() const {
  SavedState const saved = state();
  for (auto const& [name, value] : saved.optimizer.members())
    if (!value.as<double>())
      fail("'optimizer': ", name.quoted(), " is ", value.shown(), " where a number is needed");
}

inline SavedState ManifestText::state() const {
  JsonView const json = root();
  JsonView const random = member(json, "random", JsonKind::object);
  SavedState saved;
  saved.step = field<std::uint64_t>(json, "step");
  saved.sample = field<std::uint64_t>(json, "sample");
  saved.seed = number(random, "seed", 10, "a 64-bit number");
  saved.counter = number(random, "counter", 10, "a 64-bit number");
  if (!field<JsonView>(json, "loss").is_null()) saved.loss = field<double>(json, "loss");
  saved.optimizer = member(json, "optimizer", JsonKind::object);
  saved.run = member(json, "run", JsonKind::object);
  return saved;
}

inline void ManifestText::read_files() {
  for (JsonView const json : member(root(), "files", JsonKind::array).elements()) {
    JsonString const name = word(json, "name");
    auto const known = std::find_if(checkpoint_files.begin(), checkpoint_files.end(),
                                    [&](std::string_view file) { return name == file; });
    if (known == checkpoint_files.end())
      fail("file ", name.quoted(), " where checkpoints have ", checkpoint_files[0], " and ",
           checkpoint_files[1]);
    for (FileRecord const& other : files_)
      if (other.name == *known) fail("file ", name.quoted(), " comes twice");
    files_.push_back({std::string(*known), field<std::uint64_t>(json, "bytes"), checksum(json)});
  }
}

inline void ManifestText::read_tensors() {
  auto const list = member(root(), "tensors", JsonKind::array).elements();
  records_.reserve(list.size());
  by_name_.reserve(list.size());
  for (JsonView const json : list) {
    JsonString const name = word(json, "name");
    check_tensor(json, name);
    by_name_.add(name, records_.size());
    records_.push_back(static_cast<std::uint32_t>(json.data() - text_.data()));
  }
  if (auto const twice = by_name_.settle([this](std::uint32_t at) { return name(at); }))
    fail("tensor ", name(*twice).quoted(), " comes twice");
}

inline void ManifestText::check_tensor(JsonView json, JsonString name) const {
  JsonString const dtype = word(json, "dtype");
  if (!file_dtype_named(dtype)) fail("tensor ", name.quoted(), ": unknown dtype ", dtype.quoted());
  std::size_t rank = 0;
  for (JsonView const extent : member(json, "shape", JsonKind::array).elements())
    if (!extent.as<std::uint64_t>() || ++rank > largest_file_rank)
      fail("tensor ", name.quoted(), ": its shape is no list of at most ", largest_file_rank,
           " extents");
  checksum(json);
  JsonString const file = word(json, "file");
  std::string_view const wanted = checkpoint_files[name.starts_with(optimizer_prefix) ? 1 : 0];
  bool const listed = std::any_of(files_.begin(), files_.end(),
                                  [&](FileRecord const& other) { return other.name == wanted; });
  if (!(file == wanted) || !listed)
    fail("tensor ", name.quoted(), " is in ", file.quoted(), " where ",
         listed ? "it belongs into " : "the files lack ", in_quotes(wanted));
}

/// Of one that has passed check_tensor.
inline TensorRecord ManifestText::record(JsonView json) const {
  std::string name = word(json, "name").text();
  std::string file(checkpoint_file_of(name));
  return {std::move(name), *file_dtype_named(word(json, "dtype")), field<FileShape>(json, "shape"),
          std::move(file), checksum(json)};
}

}  // namespace nntile::io
