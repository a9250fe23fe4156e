#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A model in one safetensors file or in several with an index, as model hubs keep them.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nntile/io/directory.hh"
#include "nntile/io/safetensors_reader.hh"

namespace nntile::io {

/// A tensor and the file that holds it.
struct LocatedTensor {
  SafetensorsFile const* file = nullptr;
  TensorEntry entry;
};

/// Whether tensors that are not requested, or that an index does not list, are an error.
enum class Extra : std::uint8_t { refused, ignored };

/// The tensors of a model by name, whichever file they are in. Filler entries are left out.
class SafetensorsSet {
 public:
  /// Opens a `.safetensors` file, a `.json` index beside its files, or a directory with
  /// `model.safetensors` or `model.safetensors.index.json`. Throws FormatError when an index names
  /// anything but a file beside it, a tensor that its file lacks, or (unless `extra` is ignored)
  /// fails to name one that it has.
  static SafetensorsSet open(std::string const& path, Reading reading = Reading::lenient,
                             Extra extra = Extra::refused, Fault const* fault = nullptr) {
    return detail::with_memory_for("read", path, [&] {
      SafetensorsSet set;
      set.path_ = chosen(path);
      if (set.path_.ends_with(".json")) {
        set.add_index(reading, extra, fault);
      } else {
        set.add_file(set.path_, reading, fault);
        set.locate();
      }
      return set;
    });
  }

  std::string const& path() const { return path_; }
  /// Number of tensors.
  std::size_t size() const { return size_; }
  /// Calls f(LocatedTensor) for each.
  template <class F> void for_each(F f) const {
    for (auto const& file : files_)
      for (TensorEntry entry : file->entries())
        if (!is_padding(entry.name)) f(LocatedTensor{file.get(), std::move(entry)});
  }
  LocatedTensor at(std::string_view name) const {
    auto const found = find(name);
    if (!found) throw FormatError(concat(path_in_quotes(path_), ": no tensor ", in_quotes(name)));
    auto const [file, entry] = place(*found);
    return {files_[file].get(), files_[file]->entries()[entry]};
  }

 private:
  static constexpr std::uint64_t largest_index = std::uint64_t{64}
                                                 << 20;  // bytes; indexes in use have below 1 MiB

  static std::string chosen(std::string const& path) {
    if (!is_directory(path)) return path;
    std::string const index = path + "/model.safetensors.index.json";
    return path_exists(index) ? index : path + "/model.safetensors";
  }

  void add_file(std::string const& path, Reading reading, Fault const* fault) {
    files_.push_back(
        std::make_unique<SafetensorsFile>(SafetensorsFile::open(path, reading, fault)));
  }

  /// Lists the tensors of all files. A tensor's number counts those of the files before its own.
  void locate() {
    std::size_t count = 0;
    firsts_.reserve(files_.size());
    for (auto const& file : files_) {
      firsts_.push_back(count);
      count += file->entries().size();
    }
    by_name_.reserve(count);
    for (std::size_t number = 0; number < count; ++number)
      if (JsonString const text = name(number); !text.starts_with(padding_prefix)) {
        by_name_.add(text, number);
        ++size_;
      }
    if (auto const twice = by_name_.settle([this](std::uint32_t number) { return name(number); }))
      throw FormatError(concat(path_in_quotes(files_[place(*twice).file]->path()), ": tensor ",
                               name(*twice).quoted(), " is in another file of ",
                               path_in_quotes(path_), " too"));
  }
  std::optional<std::uint32_t> find(std::string_view wanted) const {
    return by_name_.find(wanted, [this](std::uint32_t number) { return name(number); });
  }

  /// Sizes and other metadata in an index are hints, and wrong in files in use: only its map
  /// counts.
  void add_index(Reading reading, Extra extra, Fault const* fault) {
    std::string const text = read_file(path_, largest_index, fault);
    auto const map = json_field<JsonView>(parse_json(text, path_), "weight_map", path_);
    if (!map.is_object())
      throw FormatError(concat(path_in_quotes(path_), ": 'weight_map' is ", map.shown(),
                               " where an object is needed"));
    std::map<std::string, std::size_t, std::less<>> opened;  // index of each file
    for (auto const& [tensor, value] : map.members()) {
      std::string const name = file_of(tensor, value);
      if (!opened.try_emplace(name, files_.size()).second) continue;
      add_file(parent_of(path_) + "/" + name, reading, fault);
    }
    locate();
    std::vector<bool> listed(firsts_.empty() ? 0
                                             : firsts_.back() + files_.back()->entries().size());
    for (auto const& [tensor, value] : map.members()) {
      std::string const file = file_of(tensor, value);
      if (tensor.starts_with(padding_prefix)) continue;
      auto const at = find(tensor.text());
      if (!at || place(*at).file != opened.find(file)->second)
        throw FormatError(concat(path_in_quotes(path_), ": tensor ", tensor.quoted(), " is not in ",
                                 in_quotes(file)));
      listed[*at] = true;
    }
    if (extra == Extra::ignored) return;
    for (std::size_t number = 0; number < listed.size(); ++number)
      if (!listed[number] && !name(number).starts_with(padding_prefix))
        throw FormatError(concat(path_in_quotes(files_[place(number).file]->path()), ": tensor ",
                                 name(number).quoted(), " is not listed in ",
                                 path_in_quotes(path_)));
  }
  std::string file_of(JsonString tensor, JsonView value) const {
    if (!value.is_string())
      throw FormatError(concat(path_in_quotes(path_), ": the file of tensor ", tensor.quoted(),
                               " is ", value.shown(), " where a string is needed"));
    std::string name = JsonString(value.data()).text();
    if (!is_basename(name))
      throw FormatError(concat(path_in_quotes(path_), ": file ", in_quotes(name), " of tensor ",
                               tensor.quoted(), " is not a plain file name"));
    return name;
  }

  struct Place {
    std::size_t file = 0;
    std::size_t entry = 0;
  };
  Place place(std::size_t number) const {
    auto const behind = std::upper_bound(firsts_.begin(), firsts_.end(), number);
    auto const file = static_cast<std::size_t>(behind - firsts_.begin()) - 1;
    return {file, number - firsts_[file]};
  }
  JsonString name(std::size_t number) const {
    auto const [file, entry] = place(number);
    return files_[file]->entries().name(entry);
  }

  std::string path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;  // entries refer to them
  std::vector<std::size_t> firsts_;                      // number of each file's first tensor
  detail::NameIndex by_name_;                            // of numbers
  std::size_t size_ = 0;
};

}  // namespace nntile::io
