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
  TensorEntry const* entry = nullptr;
};

/// Whether tensors that nobody asks for, or that an index does not list, are an error.
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
      if (set.path_.ends_with(".json"))
        set.add_index(reading, extra, fault);
      else
        set.add_file(set.path_, reading, fault);
      return set;
    });
  }

  std::string const& path() const { return path_; }
  std::map<std::string_view, LocatedTensor> const& tensors() const { return tensors_; }
  LocatedTensor const& at(std::string_view name) const {
    auto const found = tensors_.find(name);
    if (found == tensors_.end())
      throw FormatError(concat(path_in_quotes(path_), ": no tensor ", in_quotes(name)));
    return found->second;
  }

 private:
  static constexpr std::uint64_t largest_index = std::uint64_t{64}
                                                 << 20;  // bytes; indexes in use have below 1 MiB

  static std::string chosen(std::string const& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return path;
    std::string const index = path + "/model.safetensors.index.json";
    return path_exists(index) ? index : path + "/model.safetensors";
  }

  SafetensorsFile const& add_file(std::string const& path, Reading reading, Fault const* fault) {
    files_.push_back(
        std::make_unique<SafetensorsFile>(SafetensorsFile::open(path, reading, fault)));
    SafetensorsFile const& file = *files_.back();
    for (TensorEntry const* const entry : file.entries())
      if (!is_padding(entry->name) &&
          !tensors_.try_emplace(entry->name, LocatedTensor{&file, entry}).second)
        throw FormatError(concat(path_in_quotes(path), ": tensor ", in_quotes(entry->name),
                                 " is in another file of ", path_in_quotes(path_), " too"));
    return file;
  }

  /// Sizes and other metadata in an index are hints, and wrong in files in use: only its map
  /// counts.
  void add_index(Reading reading, Extra extra, Fault const* fault) {
    Json const index = parse_json(read_file(path_, largest_index, fault), path_);
    auto const map = json_field<std::map<std::string, std::string>>(index, "weight_map", path_);
    std::map<std::string, SafetensorsFile const*> opened;
    for (auto const& [tensor, name] : map) {
      if (!is_basename(name))
        throw FormatError(concat(path_in_quotes(path_), ": file ", in_quotes(name), " of tensor ",
                                 in_quotes(tensor), " is not a plain file name"));
      auto& file = opened[name];
      if (file == nullptr) file = &add_file(parent_of(path_) + "/" + name, reading, fault);
      if (file->find(tensor) == nullptr)
        throw FormatError(concat(path_in_quotes(path_), ": tensor ", in_quotes(tensor),
                                 " is not in ", in_quotes(name)));
    }
    if (extra == Extra::ignored) return;
    for (auto const& [name, located] : tensors_)
      if (!map.contains(std::string(name)))
        throw FormatError(concat(path_in_quotes(located.file->path()), ": tensor ", in_quotes(name),
                                 " is not listed in ", path_in_quotes(path_)));
  }

  std::string path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;  // entries refer to them
  std::map<std::string_view, LocatedTensor> tensors_;
};

}  // namespace nntile::io
