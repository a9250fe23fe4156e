#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Saves checkpoints so that a crash at any instant leaves the last good one.
//
// The order: data files into `step-N.tmp`, each synced; the manifest, synced; the directory,
// synced; one rename to `step-N`, which is the commit; the parent directory, synced; then old
// checkpoints are renamed to `.tmp` and removed. So a name without `.tmp` is complete, and whatever
// has `.tmp` may be removed at any time.

#include "nntile/graph/exchange.hh"
#include "nntile/io/checkpoint_names.hh"
#include "nntile/io/checkpoint_shares.hh"

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
/// cannot mix. Across ranks, whose file system is one, all make, ask and save together: rank 0 has
/// the directory, each writes files of its own into it, and rank 0 commits when all have ended.
/// If one rank fails, all throw, with its number. Of a TensorStore, on which all graphs have been
/// compiled, with io/store.hh:
///   directory.save(model, {{.step = 100}}, sources_of(store, is_saved));
///   Checkpoint::open(*directory.latest()).load(targets_of(store, is_saved));
class CheckpointDirectory {
 public:
  /// Makes the directory where there is none, removes what an interrupted save left, and tries
  /// whether a checkpoint can be begun. Throws Error when another run holds it or it cannot be
  /// written.
  explicit CheckpointDirectory(std::string path, CheckpointOptions options = {},
                               RankLink const& link = {})
      : path_(std::move(path)), options_(options), link_(link) {
    auto const call = [&] { return concat("opening '", path_, "'"); };
    (void)exchange(link_, call, [&] {
      if (options_.keep < 1)
        throw ValueError(
            concat("checkpoints: keep is ", options_.keep, " where at least 1 is needed"));
      if (link_.rank == 0) take_directory();
      return std::vector<std::byte>();
    });
  }

  std::string const& path() const { return path_; }
  /// Throws Error where the path leads to another directory than it did, which may be another
  /// run's. Of rank 0 alone.
  void check() const { lock_->check(); }

  /// Path of the newest committed checkpoint, if any; on every rank that which rank 0 sees.
  std::optional<std::string> latest() const {
    std::string found;
    auto const call = [&] { return concat("looking into '", path_, "'"); };
    auto const all = exchange(link_, call, [&] {
      if (link_.rank == 0) found = latest_checkpoint(path_, options_.fault).value_or("");
      return bytes_of(found);
    });
    found = text_of(all[0]);
    return found.empty() ? std::nullopt : std::optional(found);
  }

  /// Saves a checkpoint of `state.step`; one of the same step is replaced in one rename. Throws
  /// Error when the disk fails or the path leads to another directory than it did, ValueError for
  /// numbers that are not finite and for a model that is no object, OutOfMemory; older checkpoints
  /// are untouched then. Blocks: until everything is on the disk.
  SavedCheckpoint save(Json const& model, TrainingState const& state,
                       std::span<TensorSource const> tensors) {
    if (link_.ranks != 1)
      throw ValueError(concat("save: ", link_.ranks, " ranks write a checkpoint together, by ",
                              "save_shares(model, state, shares_of(store, is_saved))"));
    std::vector<TensorShare> shares;
    for (TensorSource const& tensor : tensors)
      shares.push_back({tensor.name, tensor.dtype, tensor.shape, {}, {tensor}});
    return save_shares(model, state, shares);
  }
  /// The same on all ranks together, of what each has of the tensors, shares_of() of io/store.hh.
  /// Model, state and the list of the tensors are rank 0's. On one rank the bytes are those of
  /// save(). Throws ValueError, too, where two tensors or tiles have one name, where borders do not
  /// cut a tensor, and where what the ranks write is not each of them, once.
  SavedCheckpoint save_shares(Json const& model, TrainingState const& state,
                              std::span<TensorShare const> tensors) {
    return detail::with_memory_for("save checkpoint in", path_, [&] {
      auto const named = [&] { return in_directory(checkpoint_name(state.step)); };
      auto const call = [&] { return concat("saving '", named(), "'"); };
      std::string final, pending, warning;
      (void)exchange(link_, call, [&] {
        final = named(), pending = final + ".tmp";
        if (link_.rank == 0) begin(pending);
        return std::vector<std::byte>();
      });
      bool committed = false;
      try {
        auto const written =
            exchange(link_, call, [&] { return bytes_of(write_own(pending, tensors)); });
        auto const said = exchange(link_, call, [&] {
          if (link_.rank != 0) return std::vector<std::byte>();
          std::string const replaced = finish(pending, final, model, state, tensors, written);
          committed = true;
          sync_directory(path_, options_.fault);
          if (!replaced.empty()) discard(replaced);
          return bytes_of(prune(state.step));
        });
        warning = text_of(said[0]);
      } catch (...) {
        if (link_.rank == 0 && !committed) discard(pending);
        throw;
      }
      return SavedCheckpoint{final, warning};
    });
  }

 private:
  static std::vector<std::byte> bytes_of(std::string_view text) {
    auto const bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }
  static std::string text_of(std::span<std::byte const> bytes) {
    return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
  }
  std::string in_directory(std::string const& name) const { return path_ + "/" + name; }

  /// Makes the directory that is to be a checkpoint.
  void begin(std::string const& pending) const {
    lock_->check();
    remove_tree(pending, options_.fault);
    make_directory(pending, options_.fault);
  }

  /// Writes this rank's files; the text that says what they are.
  std::string write_own(std::string const& pending, std::span<TensorShare const> tensors) const {
    std::map<std::string, std::vector<TensorSource>> files;
    for (TensorShare const& tensor : tensors)
      for (TensorSource const& source : tensor.own)
        files[rank_file(checkpoint_file_of(source.name), link_.rank, link_.ranks)].push_back(
            source);
    Json list = Json::array();
    for (auto const& [name, held] : files) {
      WrittenFile const written =
          save_tensors(pending + "/" + name, held,
                       {.appear = Appear::in_place, .fault = options_.fault}, options_.piece_bytes);
      list.push_back(detail::json_of(name, written));
    }
    return to_text(list);
  }

  /// Writes the manifest of what the ranks have written, and commits. Returns where a checkpoint of
  /// the same step went.
  std::string finish(std::string const& pending, std::string const& final, Json const& model,
                     TrainingState const& state, std::span<TensorShare const> tensors,
                     std::vector<std::vector<std::byte>> const& written) const {
    detail::SharedTensors shared(tensors);
    for (std::size_t rank = 0; rank < written.size(); ++rank) {
      std::string const text = text_of(written[rank]);
      shared.take(rank, parse_json(text, "what a rank has written"));
    }
    Manifest manifest{model, state, {}, {}};
    shared.move_to(manifest);
    std::string const path = concat(pending, '/', manifest_name), text = manifest_text(manifest);
    // Once it has its name, older ones are removed: nothing that cannot be opened may get there.
    (void)ManifestText(text, path);
    write_file(path, text, Appear::in_place, options_.fault);
    sync_directory(pending, options_.fault);
    lock_->check();
    return commit(pending, final);
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
      lock_->check();
      remove_tree(path, options_.fault);
    } catch (...) {  // whatever led here is reported instead
    }
  }

  /// Makes the directory, locks it, and has it ready for a save.
  void take_directory() {
    make_directories(path_, options_.fault);
    lock_.emplace(path_, options_.fault);
    recover();
    probe();
  }

  /// Puts back what a commit without exchange had set aside, then removes everything that was not
  /// committed.
  void recover() const {
    for (std::string const& name : list_directory(path_, options_.fault)) {
      if (auto const final = name_before_old(path_, name)) {
        rename_path(in_directory(name), in_directory(*final), options_.fault);
        sync_directory(path_, options_.fault);
      } else if ((name.ends_with(".old") || name.ends_with(".tmp")) &&
                 step_of(name.substr(0, name.size() - 4))) {
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
  RankLink link_;
  std::optional<DirectoryLock> lock_;  // rank 0's
};

}  // namespace nntile::io
