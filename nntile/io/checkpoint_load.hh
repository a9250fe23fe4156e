#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Loads checkpoints: everything is verified before anything of the caller's is changed.

#include "nntile/io/checkpoint_names.hh"
#include "nntile/io/tensor_io.hh"

namespace nntile::io {

/// Which tensors of a checkpoint are wanted: for generating text those of the model suffice.
enum class Part : std::uint8_t { all, model };

/// A committed checkpoint whose manifest is intact.
class Checkpoint {
 public:
  /// Reads the manifest and compares the sizes of the files. Throws FormatError when something was
  /// changed or is missing, Error when it cannot be read.
  static Checkpoint open(std::string const& path, Fault const* fault = nullptr) {
    return detail::with_memory_for("read checkpoint", path,
                                   [&] { return Checkpoint(path, fault); });
  }

  std::string const& path() const { return path_; }
  Json const& model() const { return manifest_.model; }
  TrainingState const& state() const { return manifest_.state; }
  std::vector<TensorRecord> const& tensors() const { return manifest_.tensors; }

  /// Throws FormatError that lists the differences when the checkpoint is of another model.
  void require_model(Json const& model) const {
    if (std::string const difference = json_difference(manifest_.model, model); !difference.empty())
      throw FormatError(concat(path_in_quotes(path_), " is of another model: ", difference));
  }

  /// Reads all bytes and compares all checksums. Throws FormatError that names the file or the
  /// tensor.
  void verify(Part part = Part::all) const {
    detail::with_memory_for("read checkpoint", path_, [&] {
      for (FileRecord const& record : manifest_.files)
        if (wants(part, record.name)) verify_file(record);
    });
  }

  /// Fills the targets: exactly the tensors of `part`. Throws FormatError for a tensor that is
  /// missing, extra, of another dtype or shape, or changed; no target has been written to then.
  /// Bytes are checked once more as they are delivered, which leaves one case, a disk that returns
  /// something else the second time, in which some have.
  void load(std::span<TensorTarget const> targets, Part part = Part::all) const {
    detail::with_memory_for("read checkpoint", path_, [&] {
      Records const records = matched(targets, part);
      verify(part);
      for (FileRecord const& file : manifest_.files)
        if (wants(part, file.name)) deliver(file.name, targets, records);
    });
  }

 private:
  Checkpoint(std::string const& path, Fault const* fault) : path_(path), fault_(fault) {
    std::string const source = file_path(std::string(manifest_name));
    manifest_ = parse_manifest(read_file(source, largest_manifest, fault_), source);
    for (FileRecord const& record : manifest_.files) {
      std::uint64_t const bytes = File::open(file_path(record.name), fault_).size();
      if (bytes != record.bytes)
        throw FormatError(concat(path_in_quotes(file_path(record.name)), " has ", bytes,
                                 " bytes where ", record.bytes, " were written", use_an_older_one));
    }
  }

  std::string file_path(std::string const& name) const { return path_ + "/" + name; }
  static bool wants(Part part, std::string_view file) {
    return part == Part::all || file == checkpoint_file_of("");
  }

  using Records = std::map<std::string_view, TensorRecord const*>;

  /// Records of the wanted part by name, after they were compared with the targets.
  Records matched(std::span<TensorTarget const> targets, Part part) const {
    Records records;
    for (TensorRecord const& record : manifest_.tensors)
      if (wants(part, record.file)) records.emplace(record.name, &record);
    std::set<std::string_view> seen;
    for (TensorTarget const& target : targets) {
      auto const found = records.find(target.name);
      if (found == records.end()) fail(concat("has no tensor ", in_quotes(target.name)));
      if (!seen.insert(target.name).second)
        throw ValueError(concat("tensor ", in_quotes(target.name), " is given twice"));
      TensorRecord const& record = *found->second;
      FileDType const dtype = file_dtype_of(target.dtype);
      if (record.dtype != dtype || record.shape != target.shape)
        fail(concat(": tensor ", in_quotes(target.name), " is ",
                    detail::describe(record.dtype, record.shape), " there but ",
                    detail::describe(dtype, target.shape), " here"));
    }
    for (auto const& [name, record] : records)
      if (!seen.contains(name))
        fail(concat("holds tensor ", in_quotes(name), ", which has no place here"));
    return records;
  }

  /// One pass over a file: the whole and each tensor.
  void verify_file(FileRecord const& record) const {
    std::string const path = file_path(record.name);
    auto const file = SafetensorsFile::open(path, Reading::strict, fault_);
    Hash64 whole;
    detail::PieceBuffer buffer;
    whole.update(read_header(path, file.data_begin()));
    std::map<std::string_view, std::uint64_t> checksums;
    for (TensorEntry const* const entry : file.entries()) {
      Hash64 hash;
      for (std::uint64_t at = 0; at < entry->bytes(); at += default_piece_bytes) {
        std::span<std::byte> const piece =
            buffer.of(std::min(default_piece_bytes, entry->bytes() - at));
        file.read(*entry, at, piece);
        hash.update(piece);
        whole.update(piece);
      }
      checksums.emplace(entry->name, hash.digest());
    }
    compare(record, file, checksums);
    if (whole.digest() != record.checksum)
      changed(path, "the header", whole.digest(), record.checksum);
  }

  std::string read_header(std::string const& path, std::uint64_t bytes) const {
    std::string text(static_cast<std::size_t>(bytes), '\0');
    File::open(path, fault_)
        .read_at(0, std::as_writable_bytes(std::span(text.data(), text.size())));
    return text;
  }

  void compare(FileRecord const& record, SafetensorsFile const& file,
               std::map<std::string_view, std::uint64_t> const& checksums) const {
    std::size_t recorded = 0;
    for (TensorRecord const& tensor : manifest_.tensors) {
      if (tensor.file != record.name) continue;
      ++recorded;
      TensorEntry const& entry = file.at(tensor.name);
      if (entry.dtype != tensor.dtype || entry.shape != tensor.shape)
        fail(concat(": tensor ", in_quotes(tensor.name), " is ",
                    detail::describe(entry.dtype, entry.shape), " in its file but ",
                    detail::describe(tensor.dtype, tensor.shape), " in the manifest"));
      std::uint64_t const checksum = checksums.at(tensor.name);
      if (checksum != tensor.checksum)
        changed(file.path(), concat("tensor ", in_quotes(tensor.name)), checksum, tensor.checksum);
    }
    if (recorded != file.entries().size())
      fail(concat(": ", in_quotes(record.name), " holds tensors that the manifest does not list"));
  }

  void deliver(std::string const& name, std::span<TensorTarget const> targets,
               Records const& records) const {
    auto const file = SafetensorsFile::open(file_path(name), Reading::strict, fault_);
    detail::PieceBuffer buffer;
    for (TensorTarget const& target : targets) {
      TensorRecord const& record = *records.at(target.name);
      if (record.file != name) continue;
      TensorEntry const& entry = file.at(target.name);
      Hash64 hash;
      detail::for_each_piece(entry.shape, entry.bytes(), default_piece_bytes,
                             [&](std::uint64_t offset, std::uint64_t bytes) {
                               std::span<std::byte> const piece = buffer.of(bytes);
                               file.read(entry, offset, piece);
                               hash.update(piece);
                               target.write(offset, piece);
                             });
      if (hash.digest() != record.checksum)
        changed(file.path(), concat("tensor ", in_quotes(record.name)), hash.digest(),
                record.checksum);
    }
  }

  [[noreturn]] void fail(std::string const& what) const {
    throw FormatError(
        concat("checkpoint ", path_in_quotes(path_), what.starts_with(':') ? "" : " ", what));
  }
  [[noreturn]] static void changed(std::string const& path, std::string const& what,
                                   std::uint64_t found, std::uint64_t wanted) {
    throw FormatError(concat(path_in_quotes(path), ": ", what, " was changed: checksum ",
                             to_hex(found), " where ", to_hex(wanted), " was written",
                             use_an_older_one));
  }

  std::string path_;
  Fault const* fault_;
  Manifest manifest_;
};

}  // namespace nntile::io
