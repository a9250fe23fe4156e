#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// How a product is cut into tasks.

#include <algorithm>

#include <cstdlib>

#include "nntile/core/shape.hh"

namespace nntile::bench {

struct ProductCut {
  Index rows, columns;  // of a tile of C
};

inline ProductCut cut_product(Index m, Index n, Index, int workers) {
  auto const part = [](Index total, Index pieces, Index unit) {
    return std::max(unit, ((total + pieces - 1) / pieces + unit - 1) / unit * unit);
  };
  Index const pr = std::getenv("CUT_M") ? std::atoi(std::getenv("CUT_M")) : workers;
  Index const pc = std::getenv("CUT_N") ? std::atoi(std::getenv("CUT_N")) : 1;
  return {std::min(m, part(m, pr, 48)), std::min(n, part(n, pc, 8))};
}

}  // namespace nntile::bench
