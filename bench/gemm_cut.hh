#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The cut of a product into tasks.

#include <algorithm>

#include "bench/rivals/gemm.hh"
#include "nntile/core/shape.hh"

namespace nntile::bench {

struct ProductCut {
  Index rows, columns;  // of a tile of C
};

/// The longer side of C is cut, which is where less is packed twice; rows where A is transposed,
/// since the task with the rows packs it. Two tasks a worker where each lasts long, so that a
/// disturbed worker takes fewer; one task where sharing takes longer than the product.
inline ProductCut cut_product(gemm_bench::Shape const& s, int workers) {
  constexpr double worth_sharing = 4e5, worth_cutting = 1e9;  // flops: 2 us, 5 ms of a core
  if (workers == 1 || s.flops() < worth_sharing) return {s.m, s.n};
  Index const most = s.flops() / (2.0 * workers) >= worth_cutting ? 2 * workers : workers;
  auto const part = [&](Index total, Index unit) {
    Index const units = (total + unit - 1) / unit;
    return std::min(total, (units + most - 1) / most * unit);
  };
  if (s.trans_a || s.m > s.n) return {part(s.m, 16), s.n};
  return {s.m, part(s.n, 16)};
}

}  // namespace nntile::bench
