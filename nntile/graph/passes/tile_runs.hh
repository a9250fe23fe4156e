#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The runs of tiles that coordinates of a mesh have of an axis.

#include <algorithm>

#include "nntile/core/shape.hh"

namespace nntile::passes {

/// The runs of tiles in which an axis is shared out: the longer ones first.
struct TileRuns {
  Index tiles = 0, runs = 1;
  /// The first tile of a run; of run number `runs` the end.
  Index begin(Index run) const { return run * (tiles / runs) + std::min(run, tiles % runs); }
  /// The run that a tile is in.
  Index of(Index tile) const {
    Index const longer = tiles % runs, least = tiles / runs;
    return tile < longer * (least + 1) ? tile / (least + 1)
                                       : longer + (tile - longer * (least + 1)) / least;
  }
};

}  // namespace nntile::passes
