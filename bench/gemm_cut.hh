#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// How a product is cut into tasks.

#include <algorithm>

#include "nntile/core/shape.hh"

namespace nntile::bench {

struct ProductCut {
  Index rows, columns;  // of a tile of C
};

inline ProductCut cut_product(Index m, Index n, Index, int workers) {
  auto const part = [](Index total, Index pieces, Index unit) {
    return std::max(unit, ((total + pieces - 1) / pieces + unit - 1) / unit * unit);
  };
  return {std::min(m, part(m, workers, 48)), n};
}

}  // namespace nntile::bench
