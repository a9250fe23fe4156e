#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Saves checkpoints so that a crash at any instant leaves the last good one.
//
// The order: data files into `step-N.tmp`, each synced; the manifest, synced; the directory,
// synced; one rename to `step-N`, which is the commit; the parent directory, synced; then old
// checkpoints are renamed to `.tmp` and removed. So a name without `.tmp` is complete, and whatever
// has `.tmp` may be removed at any time.

#include "nntile/io/checkpoint_names.hh"
#include "nntile/io/tensor_io.hh"

namespace nntile::io {

/// Options of a directory of checkpoints.
struct CheckpointOptions {
  /// Committed checkpoints that stay, the newest ones; at least 1.
  int keep = 2;
  std::uint64_t piece_bytes = default_piece_bytes;
  Fault const* fault = nullptr;
};

/// The result of a save. `warning` names an old checkpoint that could not be removed; the new one
/// is valid all the same.
struct SavedCheckpoint {
  std::string path;
  std::string warning;
};

/// A directory in which one run keeps its checkpoints. Locks it while it lives, so that two runs
/// cannot mix.
class CheckpointDirectory {
 public:
  /// Makes the directory where there is none, removes what an interrupted save left, and tries
  /// whether a checkpoint can be begun. Throws Error when another run holds it or it cannot be
  /// written.
  explicit CheckpointDirectory(std::string path, CheckpointOptions options = {})
      : path_(std::move(path)),
        options_(options),
        lock_(made(path_, options.fault), options.fault) {
    if (options_.keep < 1)
      throw ValueError(
          concat("checkpoints: keep is ", options_.keep, " where at least 1 is needed"));
    recover();
    probe();
  }

  std::string const& path() const { return path_; }

  /// Path of the newest committed checkpoint, if any.
  std::optional<std::string> latest() const { return latest_checkpoint(path_, options_.fault); }

  /// Saves a checkpoint of `state.step`; one of the same step is replaced in one rename. Throws
  /// Error when the disk fails or the path leads to another directory than it did, ValueError for
  /// numbers that are not finite, OutOfMemory; older checkpoints are untouched then. Blocks: until
  /// everything is on the disk.
  SavedCheckpoint save(Json const& model, TrainingState const& state,
                       std::span<TensorSource const> tensors) {
    return detail::with_memory_for("save checkpoint in", path_, [&] {
      lock_.check();
      std::string const name = checkpoint_name(state.step);
      std::string const pending = in_directory(name + ".tmp");
      remove_tree(pending, options_.fault);
      make_directory(pending, options_.fault);
      std::string replaced;
      try {
        write_files(pending, model, state, tensors);
        sync_directory(pending, options_.fault);
        lock_.check();
        replaced = commit(pending, in_directory(name));
      } catch (...) {
        discard(pending);
        throw;
      }
      sync_directory(path_, options_.fault);
      if (!replaced.empty()) discard(replaced);
      return SavedCheckpoint{in_directory(name), prune(state.step)};
    });
  }

 private:
  static std::string const& made(std::string const& path, Fault const* fault) {
    make_directories(path, fault);
    return path;
  }
  std::string in_directory(std::string const& name) const { return path_ + "/" + name; }

  void write_files(std::string const& pending, Json const& model, TrainingState const& state,
                   std::span<TensorSource const> tensors) const {
    std::map<std::string, std::vector<TensorSource>> files;
    for (TensorSource const& tensor : tensors)
      files[std::string(checkpoint_file_of(tensor.name))].push_back(tensor);
    Manifest manifest{model, state, {}, {}};
    for (auto const& [name, held] : files) {
      WrittenFile const written =
          save_tensors(pending + "/" + name, held,
                       {.appear = Appear::in_place, .fault = options_.fault}, options_.piece_bytes);
      manifest.files.push_back({name, written.bytes, written.checksum});
      for (auto const& [entry, checksum] : written.tensors)
        manifest.tensors.push_back({entry.name, entry.dtype, entry.shape, name, checksum});
    }
    write_file(concat(pending, '/', manifest_name), manifest_text(manifest), Appear::in_place,
               options_.fault);
  }

  /// Gives the pending directory its name. Returns where a checkpoint of the same step went that
  /// had it before.
  std::string commit(std::string const& pending, std::string const& final) const {
    if (!path_exists(final)) {
      rename_path(pending, final, options_.fault);
      return "";
    }
    std::string old = final + ".old";
    remove_tree(old, options_.fault);
    if (exchange_paths(pending, final, options_.fault)) return pending;
    // Without an exchange there is an instant at which neither has the name; recover() knows
    // `.old`.
    rename_path(final, old, options_.fault);
    try {
      rename_path(pending, final, options_.fault);
    } catch (...) {
      ::rename(old.c_str(), final.c_str());
      throw;
    }
    return old;
  }

  /// Removes what is of no use, as far as that works: the next start removes the rest. Nothing in a
  /// directory that is another run's.
  void discard(std::string const& path) const noexcept {
    try {
      lock_.check();
      remove_tree(path, options_.fault);
    } catch (...) {  // whatever led here is reported instead
    }
  }

  /// Puts back what a commit without exchange had set aside, then removes everything that was not
  /// committed.
  void recover() const {
    for (std::string const& name : list_directory(path_, options_.fault)) {
      bool const old = name.ends_with(".old");
      if (!(old || name.ends_with(".tmp")) || !step_of(name.substr(0, name.size() - 4))) continue;
      std::string const final = in_directory(name.substr(0, name.size() - 4));
      if (old && !path_exists(final)) {
        rename_path(in_directory(name), final, options_.fault);
        sync_directory(path_, options_.fault);
      } else {
        remove_tree(in_directory(name), options_.fault);
      }
    }
  }

  /// Makes and removes what a save begins with: better now than after hours of training.
  void probe() const {
    std::string const name = in_directory(checkpoint_name(0) + ".tmp");
    make_directory(name, options_.fault);
    remove_tree(name, options_.fault);
  }

  /// Removes all but the newest; returns what went wrong.
  std::string prune(std::uint64_t current) const {
    try {
      auto const steps = checkpoint_steps(path_, options_.fault);
      auto others = static_cast<std::ptrdiff_t>(steps.size()) - 1;
      for (std::uint64_t const step : steps) {
        if (step == current || others < options_.keep) continue;
        --others;
        std::string const name = in_directory(checkpoint_name(step));
        // Renamed first: a removal that stops half-way must not leave something with a checkpoint's
        // name.
        rename_path(name, name + ".tmp", options_.fault);
        remove_tree(name + ".tmp", options_.fault);
      }
      return "";
    } catch (std::exception const& error) {
      return concat("an old checkpoint stays: ", std::string_view(error.what()));
    }
  }

  std::string path_;
  CheckpointOptions options_;
  DirectoryLock lock_;
};

}  // namespace nntile::io
