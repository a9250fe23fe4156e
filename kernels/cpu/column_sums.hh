#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Sums along an axis that is not the innermost: lanes over what is kept, terms in ascending order,
// so that any cut of the axis gives the same bits.

#include "kernels/cpu/vec.hh"

namespace nntile::kernels::NNTILE_ISA {

/// A result that a chain of tasks adds to: it starts from beta times what is there, is held in
/// `carry` between tasks where there is one, and is rounded once, by the last.
template <class T> struct ColumnResult {
  using V = compute_t<T>;
  T* out;
  V* carry;
  double beta;
  bool first, last;

  NNTILE_ALWAYS_INLINE ColumnResult at(Index offset) const {
    return {out + offset, carry == nullptr ? nullptr : carry + offset, beta, first, last};
  }
  template <class Part> NNTILE_ALWAYS_INLINE Vec<V> start(Index i, Part part) const {
    if (!first)
      return carry == nullptr ? load(static_cast<T const*>(out) + i, part)
                              : load(static_cast<V const*>(carry) + i, part);
    return beta == 0 ? Vec<V>(0) : Vec<V>(beta) * load(static_cast<T const*>(out) + i, part);
  }
  template <class Part> NNTILE_ALWAYS_INLINE void put(Index i, Vec<V> value, Part part) const {
    if (carry != nullptr && !last)
      store(carry + i, value, part);
    else
      store(out + i, value, part);
  }
  NNTILE_ALWAYS_INLINE V start(Index i) const {
    if (!first) return carry == nullptr ? static_cast<V>(out[i]) : carry[i];
    return beta == 0 ? V(0) : static_cast<V>(beta) * static_cast<V>(out[i]);
  }
  NNTILE_ALWAYS_INLINE void put(Index i, V value) const {
    if (carry != nullptr && !last)
      carry[i] = value;
    else
      out[i] = static_cast<T>(value);
  }
};

/// Adds `count` rows to each of m columns: step(i, k, part, sums) adds row k's terms of columns i
/// and following to `results` sums at once. Sums of a stretch of columns stay in L1 while four rows
/// at a time pass by.
template <class T, int results, class Step>
NNTILE_ALWAYS_INLINE void sum_columns(Index m, Index count,
                                      ColumnResult<T> const (&result)[results], Step step) {
  using V = compute_t<T>;
  constexpr Index stretch = 2048;  // columns: 8 KiB of fp32 sums a result
  constexpr Index rows = 4;
  alignas(64) V held[results][stretch];
  for (Index begin = 0; begin < m; begin += stretch) {
    Index const width = m - begin < stretch ? m - begin : stretch;
    auto const sweep = [&](Index k, Index row_count, bool starts, bool ends)
        __attribute__((always_inline)) {
      for_each_vec<V>(
          width, [&](Index i, auto part) __attribute__((always_inline)) {
            Vec<V> sums[results];
            for (int r = 0; r < results; ++r)
              sums[r] = starts ? result[r].start(begin + i, part)
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
    Index k = 0;
    for (; k + rows < count; k += rows) {
      if (k == 0)
        sweep(k, rows, true, false);
      else
        sweep(k, rows, false, false);
    }
    Index const left = count - k;
    if (k == 0)
      sweep(k, left, true, true);
    else
      sweep(k, left, false, true);
  }
}

}  // namespace nntile::kernels::NNTILE_ISA
