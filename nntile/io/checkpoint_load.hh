#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Loads checkpoints: everything is verified before anything of the caller's is changed.

#include "nntile/core/box.hh"
#include "nntile/graph/exchange.hh"
#include "nntile/io/checkpoint_files.hh"
#include "nntile/io/checkpoint_names.hh"

namespace nntile::io {

/// The part of a checkpoint to load: for generating text the model's tensors suffice.
enum class Part : std::uint8_t { all, model };

/// A committed checkpoint whose manifest is intact.
class Checkpoint {
 public:
  /// Reads the manifest and compares the sizes of the files that have the part. Throws FormatError
  /// when something was changed or is missing, Error when it cannot be read. With the link of a
  /// store, all ranks call it together, and where one throws all do, as load() has it.
  static Checkpoint open(std::string const& path, Fault const* fault = nullptr,
                         Part part = Part::all, RankLink const& link = {}) {
    return detail::with_memory_for("read checkpoint", path, [&] {
      std::optional<Checkpoint> opened;
      auto const call = [&] { return concat("opening '", path, "'"); };
      (void)exchange(link, call, [&] {
        opened.emplace(Checkpoint(path, fault, part));
        return std::vector<std::byte>();
      });
      return std::move(*opened);
    });
  }

  std::string const& path() const { return path_; }
  /// The model, the state and the tensors, as the manifest says them; views refer to the
  /// checkpoint.
  JsonView model() const { return manifest_.model(); }
  SavedState state() const { return manifest_.state(); }
  ManifestText const& tensors() const { return manifest_; }

  /// Throws FormatError that lists the differences when the checkpoint is of another model.
  void require_model(Json const& model) const {
    if (std::string const difference = json_difference(manifest_.model(), model);
        !difference.empty())
      throw FormatError(concat(path_in_quotes(path_), " is of another model: ", difference));
  }

  /// Whether the files of a part are there, of whatever contents.
  bool has(Part part) const {
    auto const& files = manifest_.files();
    return std::all_of(files.begin(), files.end(), [&](FileRecord const& record) {
      return !wants(part, record.name) || path_exists(file_path(record.name));
    });
  }

  /// Compares names, dtypes and shapes in the manifest with the headers of the files, whose sizes
  /// bear them out. Throws FormatError that names the file or the tensor. Reads no data.
  void check(Part part = Part::all) const {
    detail::with_memory_for("read checkpoint", path_, [&] { opened(part); });
  }

  /// Reads all bytes and compares all checksums. Throws FormatError that names the file or the
  /// tensor.
  void verify(Part part = Part::all) const {
    detail::with_memory_for("read checkpoint", path_, [&] {
      auto files = opened(part);
      for (std::size_t i = 0; i < files.size(); ++i) verify_file(files, i);
    });
  }

  /// Fills the targets: exactly the tensors of `part`. Throws FormatError for a tensor that is
  /// missing, extra, of another dtype or shape, or changed; no target has been written to then.
  /// Bytes are checked once more as they are delivered, which leaves one case, a disk that returns
  /// something else the second time, in which some have.
  /// With the link of a store, all ranks call it together, of what they opened so: each verifies
  /// some of the files and reads what its targets want, and where one throws all do, with its
  /// number.
  void load(std::span<TensorTarget const> targets, Part part = Part::all,
            RankLink const& link = {}) const {
    detail::with_memory_for("read checkpoint", path_, [&] {
      auto const call = [&] { return concat("loading '", path_, "'"); };
      std::optional<Files> files;
      (void)exchange(link, call, [&] {
        match(targets, part);
        files.emplace(opened(part));
        for (std::size_t i = 0; i < files->size(); ++i)
          if (i % static_cast<std::size_t>(link.ranks) == static_cast<std::size_t>(link.rank))
            verify_file(*files, i);
        return std::vector<std::byte>();
      });
      (void)exchange(link, call, [&] {
        detail::fill_or_abandon(targets, [&] {
          for (TensorTarget const& target : targets) deliver(target, *files);
        });
        return std::vector<std::byte>();
      });
    });
  }

 private:
  /// Opens a file of this checkpoint.
  struct Opener {
    Checkpoint const* checkpoint;
    File operator()(FileRecord const& record) const { return checkpoint->open_file(record); }
  };
  using Files = detail::CheckpointFiles<Opener>;

  Checkpoint(std::string const& path, Fault const* fault, Part part)
      : path_(path),
        fault_(fault),
        manifest_(read_file(manifest_path(), largest_manifest, fault), manifest_path()) {
    if (auto const step = step_of(basename_of(path_)); step && *step != state().step)
      throw FormatError(concat(path_in_quotes(manifest_path()), " is of step ", state().step,
                               " where its folder is of another; rename that to ",
                               checkpoint_name(state().step)));
    for (FileRecord const& record : manifest_.files())
      if (wants(part, record.name)) open_file(record);
  }

  std::string manifest_path() const { return file_path(manifest_name); }
  std::string file_path(std::string_view name) const { return concat(path_, '/', name); }
  static bool wants(Part part, std::string_view file) {
    return part == Part::all || is_rank_file(file, checkpoint_file_of(""));
  }
  static bool wants(Part part, TensorRecord const& tensor) {
    return wants(part, checkpoint_file_of(tensor.name));
  }

  /// Compares a file's size, too.
  File open_file(FileRecord const& record) const {
    if (std::string const path = file_path(record.name);
        manifest_.files().size() > checkpoint_files.size() && !path_exists(path))
      throw FormatError(concat(
          path_in_quotes(path), " is not there; the checkpoint was written by ", "several ranks, ",
          manifest_.files().size(), " files: put it back, or use an older checkpoint"));
    File file = File::open(file_path(record.name), fault_);
    if (std::uint64_t const bytes = file.size(); bytes != record.bytes)
      throw FormatError(concat(path_in_quotes(file.path()), " has ", bytes, " bytes where ",
                               record.bytes, " were written", use_an_older_one));
    return file;
  }

  /// The files of a part, each compared with the manifest.
  Files opened(Part part) const {
    Files files(manifest_, {this});
    for (FileRecord const& record : manifest_.files())
      if (wants(part, record.name)) files.add(record);
    return files;
  }

  /// Compares the wanted part with the targets.
  void match(std::span<TensorTarget const> targets, Part part) const {
    std::set<std::string_view> seen;
    for (TensorTarget const& target : targets) {
      auto const record = manifest_.find(target.name);
      if (!record || !wants(part, *record)) fail(concat("has no tensor ", in_quotes(target.name)));
      if (!seen.insert(target.name).second)
        throw ValueError(concat("tensor ", in_quotes(target.name), " is given twice"));
      FileDType const dtype = file_dtype_of(target.dtype);
      if (record->dtype != dtype || record->shape != target.shape)
        fail(concat(": tensor ", in_quotes(target.name), " is ",
                    detail::describe(record->dtype, record->shape), " there but ",
                    detail::describe(dtype, target.shape), " here"));
    }
    auto const check_seen = [&](TensorRecord const& record) {
      if (wants(part, record) && !seen.contains(record.name))
        fail(concat("holds tensor ", in_quotes(record.name),
                    seen.empty() ? detail::nothing_to_load : ", which this model does not have"));
    };
    for (std::size_t i = 0; i < manifest_.size(); ++i)
      if (!manifest_.is_piece(i)) check_seen(manifest_[i]);
    for (std::size_t i = 0; i < manifest_.cut_size(); ++i) check_seen(manifest_.cut(i));
  }

  /// One pass over a file: the whole and each tensor.
  void verify_file(Files& files, std::size_t at) const {
    SafetensorsFile const& file = files.at(at);
    Hash64 whole;
    detail::PieceBuffer buffer;
    whole.update(file.data_begin() - 8);  // the length word
    whole.update(file.entries().text());
    for (TensorEntry const entry : file.entries()) {
      Hash64 hash;
      for (std::uint64_t from = 0; from < entry.bytes(); from += default_piece_bytes) {
        std::span<std::byte> const piece =
            buffer.of(std::min(default_piece_bytes, entry.bytes() - from));
        file.read(entry, from, piece);
        hash.update(piece);
        whole.update(piece);
      }
      check_tensor(file, entry.name, hash.digest());
    }
    if (std::uint64_t const wanted = files.record(at).checksum; whole.digest() != wanted)
      changed(file.path(), "the header", whole.digest(), wanted);
  }

  void deliver(TensorTarget const& target, Files& files) const {
    TensorRecord const record = *manifest_.find(target.name);
    if (!record.borders.empty()) return deliver_cut(target, record, files);
    if (target.wants && !target.wants({}, 0)) return;
    SafetensorsFile const& file = files.at(files.place_of(record.file));
    TensorEntry const entry = file.at(target.name);
    detail::PieceBuffer buffer;
    Hash64 hash;
    detail::for_each_piece(entry.shape, entry.bytes(), default_piece_bytes,
                           [&](std::uint64_t offset, std::uint64_t bytes) {
                             std::span<std::byte> const piece = buffer.of(bytes);
                             file.read(entry, offset, piece);
                             hash.update(piece);
                             target.write(offset, piece);
                           });
    check_tensor(file, target.name, hash.digest());
  }
  /// Puts each piece of the whole together from what its tiles have of it, which in each of them is
  /// one range of bytes.
  void deliver_cut(TensorTarget const& target, TensorRecord const& record, Files& files) const {
    struct Tile {
      std::size_t file;
      TensorEntry entry;
      bool wanted;
      Hash64 hash = Hash64();
    };
    struct Run {
      std::uint64_t in_tile, at, bytes;
    };
    Tiling const tiling = tiling_of(record.borders);
    std::vector<Tile> tiles;
    for (Index tile = 0; tile < tiling.tile_count(); ++tile) {
      std::string const name = piece_name(record.name, tiling, tile);
      std::size_t const file = files.place_of(manifest_.find(name)->file);
      bool const wanted = !target.wants || target.wants(record.borders, tile);
      tiles.push_back({file, files.header(file).at(name), wanted});
    }
    detail::PieceBuffer buffer, ranges;
    std::vector<Run> runs;
    std::size_t open = 0;
    auto const take = [&](std::span<std::byte> piece) {
      if (runs.empty()) return;
      std::uint64_t const begin = runs.front().in_tile;
      auto const range = ranges.of(runs.back().in_tile + runs.back().bytes - begin);
      files.at(tiles[open].file).read(tiles[open].entry, begin, range);
      tiles[open].hash.update(range);
      for (Run const& run : runs)
        std::memcpy(piece.data() + run.at, range.data() + (run.in_tile - begin), run.bytes);
      runs.clear();
    };
    detail::for_each_piece(
        record.shape, detail::bytes_of_tensor(target), default_piece_bytes,
        [&](std::uint64_t offset, std::uint64_t bytes) {
          std::span<std::byte> const piece = buffer.of(bytes);
          nntile::detail::for_each_run_in(
              tiling, size_of(target.dtype), 1, offset, bytes,
              [&](std::size_t tile, std::uint64_t in_tile, std::uint64_t at, std::uint64_t count) {
                if (tile != open) take(piece);
                open = tile;
                if (tiles[tile].wanted) runs.push_back({in_tile, at, count});
              });
          take(piece);
          target.write(offset, piece);
        });
    for (Tile const& tile : tiles)
      if (tile.wanted)
        check_tensor(files.header(tile.file), std::string(tile.entry.name), tile.hash.digest());
  }

  void check_tensor(SafetensorsFile const& file, std::string const& name,
                    std::uint64_t found) const {
    if (std::uint64_t const wanted = manifest_.find(name)->checksum; found != wanted)
      changed(file.path(), concat("tensor ", in_quotes(name)), found, wanted);
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
  ManifestText manifest_;
};

}  // namespace nntile::io
