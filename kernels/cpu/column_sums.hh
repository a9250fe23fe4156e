#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Sums along an axis that is not the innermost: lanes over what is kept, terms in ascending order,
// so that any cut of the axis gives the same bits.

#include "kernels/cpu/chain.hh"

namespace nntile::kernels::NNTILE_ISA {

/// Columns that are added up at once, whose sums stay in L1, and on the stack: 8 KiB a result.
template <class V> inline constexpr Index column_stretch = 8192 / static_cast<Index>(sizeof(V));

/// Rows that are fetched ahead of the one that is added: 4 KiB or more, which the CPU's own
/// prefetching would reach across the ends of rows and pages too late.
template <class T> NNTILE_ALWAYS_INLINE Index rows_ahead(Index m) {
  constexpr Index most = column_stretch<compute_t<T>>;
  Index const width = m < 1 ? 1 : m < most ? m : most;
  return 1 + 4096 / (width * static_cast<Index>(sizeof(T)));
}

/// Adds `count` rows to each of m columns: step(i, k, part, sums) adds row k's terms of columns i
/// and following to `results` sums at once. Rows pass by one at a time, as memory has them; where
/// they are so short that a sum is not in L1 yet when it is wanted again, four at a time.
template <class T, int results, class Step>
NNTILE_ALWAYS_INLINE void sum_columns(Index m, Index count,
                                      ColumnResult<T> const (&result)[results], Step step) {
  using V = compute_t<T>;
  constexpr Index most = column_stretch<V>;
  alignas(64) V held[results][most];
  for (Index begin = 0; begin < m; begin += most) {
    Index const width = m - begin < most ? m - begin : most;
    auto const sweep = [&](Index k, Index row_count, bool starts,
                           bool ends) __attribute__((always_inline)) {
      for_each_vec<V>(width, [&](Index i, auto part) __attribute__((always_inline)) {
        Vec<V> sums[results];
        for (int r = 0; r < results; ++r)
          sums[r] = starts        ? result[r].start(begin + i, part)
                    : results > 1 ? load_twice(static_cast<V const*>(held[r]) + i, All{})
                                  : load(static_cast<V const*>(held[r]) + i, All{});
        for (Index row = 0; row < row_count; ++row) step(begin + i, k + row, part, sums);
        for (int r = 0; r < results; ++r) {
          if (ends)
            result[r].put(begin + i, sums[r], part);
          else
            store(held[r] + i, sums[r], All{});
        }
      });
    };
    Index const rows = width < 16 * Vec<V>::lanes ? 4 : 1;
    if (count <= rows) {
      sweep(0, count, true, true);
      continue;
    }
    sweep(0, rows, true, false);
    Index k = rows;
    if (rows == 1)
      for (; k + 1 < count; ++k) sweep(k, 1, false, false);
    else
      for (; k + 4 < count; k += 4) sweep(k, 4, false, false);
    sweep(k, count - k, false, true);
  }
}

}  // namespace nntile::kernels::NNTILE_ISA
