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
  /// Whether that one is a tile of another.
  bool is_piece(std::size_t at) const { return pieces_[at]; }
  /// Tensors that are cut, in the order of the text.
  std::size_t cut_size() const { return cuts_.size(); }
  TensorRecord cut(std::size_t at) const;
  /// The tensor of that name, if there is one; a tile of a cut one, too.
  std::optional<TensorRecord> find(std::string_view name) const {
    if (auto const at = number_of(name)) return (*this)[*at];
    auto const at = cut_by_name_.find(name, [this](std::uint32_t i) { return cut_name(i); });
    return at ? std::optional(cut(*at)) : std::nullopt;
  }

 private:
  template <class... Words> [[noreturn]] void fail(Words const&... words) const {
    throw FormatError(concat(path_in_quotes(source_), ": ", words...));
  }

  JsonView root() const { return detail::root_of(text_); }
  JsonView view(std::uint32_t at) const { return {text_.data() + at, text_.data() + text_.size()}; }
  JsonString name(std::size_t at) const { return word(view(records_[at]), "name"); }
  JsonString cut_name(std::size_t at) const { return word(view(cuts_[at]), "name"); }
  std::optional<std::uint32_t> number_of(std::string_view name) const {
    return by_name_.find(name, [this](std::uint32_t i) { return this->name(i); });
  }

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
  static constexpr std::size_t most_files = 1u << 17;
  using Numbers = std::vector<std::uint32_t>;
  Numbers::const_iterator lower_file(Numbers const& sorted, std::string const& name) const {
    return std::lower_bound(
        sorted.begin(), sorted.end(), name,
        [&](std::uint32_t file, std::string const& wanted) { return files_[file].name < wanted; });
  }
  Numbers read_files();  // sorted by name
  void read_tensors(Numbers const& files);
  void check_tensor(JsonView json, JsonString name, Numbers const& files) const;
  void read_cuts();
  void check_cut(TensorRecord const& tensor);
  TensorRecord record(JsonView json) const;

  std::string text_;
  std::string source_;
  std::vector<FileRecord> files_;       // at most two of a rank
  std::vector<std::uint32_t> records_;  // their places in the text
  detail::NameIndex by_name_;           // of indices of records
  std::vector<bool> pieces_;            // whether a record is a tile of a cut one
  std::vector<std::uint32_t> cuts_;     // as records_
  detail::NameIndex cut_by_name_;
};

inline ManifestText::ManifestText(std::string text, std::string source)
    : text_(std::move(text)), source_(std::move(source)) {
  check_opening();
  parse_json(text_, source_);
  check_version();
  model();
  check_state();
  read_tensors(read_files());
  read_cuts();
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
  auto const version = field<std::uint64_t>(root(), "version");
  if (version < 1 || version > manifest_version)
    fail("version ", version, " where 1 to ", manifest_version, " are read");
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

inline ManifestText::Numbers ManifestText::read_files() {
  Numbers sorted;
  for (JsonView const json : member(root(), "files", JsonKind::array).elements()) {
    JsonString const name = word(json, "name");
    std::string text = name.raw().size() > 64 ? "" : name.text();
    if (std::none_of(checkpoint_files.begin(), checkpoint_files.end(),
                     [&](std::string_view file) { return is_rank_file(text, file); }))
      fail("file ", name.quoted(), " where checkpoints have ", checkpoint_files[0], " and ",
           checkpoint_files[1], ", or those of ranks");
    auto const at = lower_file(sorted, text);
    if (at != sorted.end() && files_[*at].name == text)
      fail("file ", name.quoted(), " comes twice");
    if (files_.size() == most_files) fail("more than ", most_files, " files");
    sorted.insert(at, static_cast<std::uint32_t>(files_.size()));
    files_.push_back({std::move(text), field<std::uint64_t>(json, "bytes"), checksum(json)});
  }
  return sorted;
}

inline void ManifestText::read_tensors(Numbers const& files) {
  auto const list = member(root(), "tensors", JsonKind::array).elements();
  records_.reserve(list.size());
  by_name_.reserve(list.size());
  for (JsonView const json : list) {
    JsonString const name = word(json, "name");
    check_tensor(json, name, files);
    by_name_.add(name, records_.size());
    records_.push_back(static_cast<std::uint32_t>(json.data() - text_.data()));
  }
  if (auto const twice = by_name_.settle([this](std::uint32_t at) { return name(at); }))
    fail("tensor ", name(*twice).quoted(), " comes twice");
}

inline void ManifestText::check_tensor(JsonView json, JsonString name, Numbers const& files) const {
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
  std::string const text = file.raw().size() > 64 ? "" : file.text();
  bool const belongs = is_rank_file(text, wanted);
  auto const at = lower_file(files, text);
  if (!belongs || at == files.end() || files_[*at].name != text)
    fail("tensor ", name.quoted(), " is in ", file.quoted(), " where ",
         belongs ? "the files lack " : "it belongs into ", in_quotes(belongs ? text : wanted));
}

inline void ManifestText::read_cuts() {
  pieces_.resize(records_.size());
  if (!root().find("cut")) return;
  for (JsonView const json : member(root(), "cut", JsonKind::array).elements()) {
    cut_by_name_.add(word(json, "name"), cuts_.size());
    cuts_.push_back(static_cast<std::uint32_t>(json.data() - text_.data()));
    check_cut(cut(cuts_.size() - 1));
  }
  if (auto const twice = cut_by_name_.settle([this](std::uint32_t at) { return cut_name(at); }))
    fail("cut tensor ", cut_name(*twice).quoted(), " comes twice");
}

/// Marks the records of its tiles.
inline void ManifestText::check_cut(TensorRecord const& tensor) {
  auto const wrong = [&](auto const&... words) {
    fail("cut tensor ", in_quotes(tensor.name), ": ", words...);
  };
  if (number_of(tensor.name)) wrong("it is whole, too");
  if (std::string const problem = borders_problem(tensor.borders, tensor.shape); !problem.empty())
    wrong(problem);
  std::uint64_t tiles = 1;
  for (auto const& borders : tensor.borders)
    if (tiles = borders.size() - 1 > records_.size() / tiles ? records_.size() + 1
                                                             : tiles * (borders.size() - 1);
        tiles > records_.size())
      wrong("it has more tiles than there are tensors");
  Tiling const tiling = tiling_of(tensor.borders);
  for (Index tile = 0; tile < tiling.tile_count(); ++tile) {
    std::string const name = piece_name(tensor.name, tiling, tile);
    auto const at = number_of(name);
    if (!at) wrong("there is no tensor ", in_quotes(name));
    TensorRecord const piece = (*this)[*at];
    if (pieces_[*at]) wrong("tensor ", in_quotes(name), " is another's tile");
    if (piece.shape != piece_shape(tiling, tile) || piece.dtype != tensor.dtype)
      wrong("tensor ", in_quotes(name), " is ", name_of(piece.dtype), ' ', to_string(piece.shape),
            " where its tile is ", name_of(tensor.dtype), ' ',
            to_string(piece_shape(tiling, tile)));
    pieces_[*at] = true;
  }
}

/// The dtype is that of the first tile.
inline TensorRecord ManifestText::cut(std::size_t at) const {
  JsonView const json = view(cuts_[at]);
  TensorRecord tensor{
      word(json, "name").text(), FileDType::f32, field<FileShape>(json, "shape"), "", 0, {}};
  for (JsonView const dimension : member(json, "borders", JsonKind::array).elements()) {
    auto const borders = dimension.as<std::vector<std::uint64_t>>();
    if (!borders) fail("cut tensor ", in_quotes(tensor.name), ": its borders are no numbers");
    tensor.borders.push_back(*borders);
  }
  std::string first = concat(tensor.name, "#t");
  for (std::size_t d = 0; d < tensor.borders.size(); ++d) first += d == 0 ? "0" : ",0";
  if (auto const piece = number_of(first)) tensor.dtype = (*this)[*piece].dtype;
  return tensor;
}

/// Of one that has passed check_tensor.
inline TensorRecord ManifestText::record(JsonView json) const {
  std::string name = word(json, "name").text();
  return {std::move(name),
          *file_dtype_named(word(json, "dtype")),
          field<FileShape>(json, "shape"),
          word(json, "file").text(),
          checksum(json),
          {}};
}

}  // namespace nntile::io
