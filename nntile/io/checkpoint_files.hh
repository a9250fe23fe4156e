#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The data files of a checkpoint: many, where many ranks wrote it.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "nntile/io/manifest_parse.hh"
#include "nntile/io/safetensors_reader.hh"
#include "nntile/io/tensor_io.hh"

namespace nntile::io::detail {

/// Data files whose headers are those that a manifest says, of which a bounded number is open. They
/// refer to the manifest and to `open(record)`, which gives one as a File, at any time. Cost: of
/// adding all files one pass over the manifest and the headers.
template <class Open> class CheckpointFiles {
 public:
  /// A process may have 1024 files open by default, sockets of its ranks included.
  static constexpr std::size_t most_open = 64;

  CheckpointFiles(ManifestText const& manifest, Open open)
      : manifest_(&manifest), open_(std::move(open)) {
    for (std::size_t i = 0; i < manifest.size(); ++i) ++tensors_in_[manifest[i].file];
  }

  std::size_t size() const { return files_.size(); }
  FileRecord const& record(std::size_t at) const { return *files_[at].record; }
  /// The place of a file that was added.
  std::size_t place_of(std::string const& name) const { return places_.at(name); }

  /// Throws FormatError where the header is not as the manifest says.
  void add(FileRecord const& record) {
    make_room();
    files_.push_back({&record, SafetensorsFile::of(open_(record), Reading::strict)});
    opened_.push_back(files_.size() - 1);
    places_[record.name] = files_.size() - 1;
    compare(record, files_.back().file);
  }

  /// The file, which may be closed: for its entries.
  SafetensorsFile const& header(std::size_t place) const { return files_[place].file; }
  /// The file, open until the next call.
  SafetensorsFile const& at(std::size_t place) {
    DataFile& data = files_[place];
    if (!data.file.is_open()) {
      make_room();
      data.file.reopen(open_(*data.record));
      opened_.push_back(place);
    }
    return data.file;
  }

 private:
  struct DataFile {
    FileRecord const* record;
    SafetensorsFile file;
  };

  /// Closes the file that was opened first, where no more may be open.
  void make_room() {
    if (opened_.size() < most_open) return;
    files_[opened_.front()].file.close();
    opened_.erase(opened_.begin());
  }

  void compare(FileRecord const& record, SafetensorsFile const& file) const {
    auto const fail = [&](auto const&... words) {
      throw FormatError(concat(path_in_quotes(file.path()), words...));
    };
    for (TensorEntry const entry : file.entries()) {
      auto const tensor = manifest_->find(entry.name);
      if (!tensor || tensor->file != record.name)
        fail(" holds tensor ", in_quotes(entry.name), ", which the manifest does not list");
      if (entry.dtype != tensor->dtype || entry.shape != tensor->shape)
        fail(": tensor ", in_quotes(tensor->name), " is ", describe(entry.dtype, entry.shape),
             " here but ", describe(tensor->dtype, tensor->shape), " in the manifest");
    }
    // Names are listed once, here and there, so that as many as are listed are all.
    auto const listed = tensors_in_.find(record.name);
    if (file.entries().size() == (listed == tensors_in_.end() ? 0 : listed->second)) return;
    for (std::size_t i = 0; i < manifest_->size(); ++i)
      if (TensorRecord const tensor = (*manifest_)[i];
          tensor.file == record.name && !file.entries().find(tensor.name))
        fail(" has no tensor ", in_quotes(tensor.name), ", which the manifest lists");
  }

  ManifestText const* manifest_;
  Open open_;
  std::map<std::string, std::size_t> tensors_in_;
  std::vector<DataFile> files_;
  std::map<std::string_view, std::size_t> places_;  // by name
  std::vector<std::size_t> opened_;                 // the first one first
};

}  // namespace nntile::io::detail
