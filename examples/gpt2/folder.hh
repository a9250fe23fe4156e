#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The folder of a run: a new run's has none yet, a resumed one's has.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/graph/exchange.hh"
#include "nntile/io/checkpoint.hh"

namespace gpt2 {

namespace detail {

/// Throws ValueError where a folder holds a checkpoint and shall not, or shall and does not.
inline void require_checkpoint(std::string const& folder, bool holds, bool resume) {
  if (holds && !resume)
    throw nntile::ValueError(
        nntile::concat("--out: '", folder,
                       "' holds a run already; give --resume to continue it, or another folder"));
  if (!holds && resume)
    throw nntile::ValueError(nntile::concat("--resume: '", folder,
                                            "' holds no checkpoint; train without --resume first"));
}

/// A folder as it looks before it is locked.
enum class FolderLook : unsigned char { absent, without_checkpoint, with_checkpoint };

/// Rank 0's look, on all: others may look when it is made.
inline FolderLook look_at(std::string const& folder, nntile::RankLink const& link) {
  auto const all = nntile::exchange(link, nntile::concat("looking at '", folder, "'"), [&] {
    std::error_code unseen;  // a folder that cannot be read is an error of its opening
    FolderLook look = FolderLook::absent;
    if (link.rank == 0 && std::filesystem::is_directory(folder, unseen))
      look = nntile::io::latest_checkpoint(folder) ? FolderLook::with_checkpoint
                                                   : FolderLook::without_checkpoint;
    return std::vector{static_cast<std::byte>(look)};
  });
  return static_cast<FolderLook>(all[0][0]);
}

}  // namespace detail

/// Opens and locks the folder of a run, and makes it for a new one. Throws ValueError where it
/// holds a checkpoint and `resume` is false, or none and it is true; Error as CheckpointDirectory
/// does. All ranks call it together.
inline std::unique_ptr<nntile::io::CheckpointDirectory> open_folder(
    std::string const& folder, bool resume, nntile::RankLink const& link = {},
    nntile::io::CheckpointOptions const& options = {}) {
  // Most mistakes are seen before anything is made or changed there.
  if (auto const look = detail::look_at(folder, link);
      look != detail::FolderLook::without_checkpoint)
    detail::require_checkpoint(folder, look == detail::FolderLook::with_checkpoint, resume);
  auto directory = std::make_unique<nntile::io::CheckpointDirectory>(folder, options, link);
  // Until it was locked another run may have saved there; and its opening puts back a checkpoint
  // that a save was replacing when it was cut off.
  detail::require_checkpoint(folder, directory->latest().has_value(), resume);
  return directory;
}

/// Writes a file into the folder of a run. Throws Error, also where the path leads to another
/// folder by now, which may be another run's. Of rank 0 alone.
inline void write_into(nntile::io::CheckpointDirectory const& directory, std::string_view name,
                       std::string_view text) {
  directory.check();
  nntile::io::write_file(nntile::concat(directory.path(), '/', name), text);
}

}  // namespace gpt2
