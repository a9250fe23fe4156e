#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Sums over the rows of matrices, in ascending order for each column. A block takes a strip of
// columns: all its threads read a tile of rows, and a thread for each column adds them while the
// next tile is under way.

#include <type_traits>

#include "kernels/cuda/kernel.hh"

namespace nntile::kernels::cuda {

/// Rows from which a sum over them is worth a block of threads.
inline constexpr Index long_column = 64;

/// A strip of `several` matrices that are summed together, and `of_rows` numbers of each row.
template <class T, int several, int of_rows = 0> struct Strip {
  using V = compute_t<T>;
  static constexpr int threads = 256;
  /// 64 bytes of a row: whole sectors of memory.
  static constexpr int columns = 64 / sizeof(T);
  static_assert(columns <= warp_size);
  static constexpr int least_blocks = sizeof(T) == 8 ? 2 : 3;
  /// Rows from one of a thread's elements to the next.
  static constexpr int apart = threads / columns;
  /// Elements of each matrix that a thread reads before it uses the first: 16 KB a block in all.
  static constexpr int ahead = (sizeof(T) == 2 ? 32 : 16) / several;
  /// Of a tile.
  static constexpr int rows = ahead * apart;
  static constexpr std::size_t tile_bytes = std::size_t{rows} * columns * sizeof(V);
  static constexpr std::size_t shared_bytes =
      several * tile_bytes + std::size_t{of_rows} * rows * sizeof(V);
  static_assert(shared_bytes <= shared_unasked);

  T const* from[several];
  Index ld[several];
  V const* of_row[of_rows > 0 ? of_rows : 1];
};

/// body(begin, j) for each strip, whose first column is `begin` of m, that is this block's, j < n.
template <class Strip, class Body>
NNTILE_DEVICE void for_each_strip(Thread const& thread, Index m, Index n, Body body) {
  Index const strips = (m + Strip::columns - 1) / Strip::columns;
  for (Index at = thread.block(); at < strips * n; at += thread.blocks()) {
    Pair const p(at, strips, n);
    body(p.i * Strip::columns, p.j);
  }
}
/// Enqueues a kernel of for_each_strip.
template <class Strip, class Kernel>
Status launch_over_strips(Index m, Index n, void* stream, Kernel const& kernel) noexcept {
  return launch_over((m + Strip::columns - 1) / Strip::columns * n, 1, stream, kernel,
                     Strip::shared_bytes);
}

/// For each of `count` columns, at most a strip's: sums = start(column), then fold(sums, values)
/// for each of k rows upwards, then put(column, sums). The values of a row are elements of the
/// matrices after make(values, numbers of the row). All threads of the block call it.
template <class T, int several, int of_rows, class Start, class Make, class Fold, class Put>
NNTILE_DEVICE void fold_columns(Thread& thread, Strip<T, several, of_rows> const& strip, Index k,
                                Index count, Start start, Make make, Fold fold, Put put) {
  using Tile = Strip<T, several, of_rows>;
  using V = compute_t<T>;
  constexpr int rows = Tile::rows, columns = Tile::columns, ahead = Tile::ahead;
  static_assert(of_rows == 0 || rows <= Tile::threads);
  int const rank = thread.rank(), first = rank / columns;
  bool const reads = rank % columns < count;
  // A scheduler of a multiprocessor has every fourth warp: what adds is another's in other blocks.
  int const turn = static_cast<int>((thread.block() + thread.block() / 4) % 8) * warp_size;
  int const column = (rank + turn) % Tile::threads;
  bool const adds = column < columns && column < count;

  auto const tile = [&](int of) {
    return thread.template shared<V>(static_cast<std::size_t>(of) * Tile::tile_bytes,
                                     std::size_t{rows} * columns);
  };
  auto const numbers = [&](int of) {
    return thread.template shared<V>(
        several * Tile::tile_bytes + static_cast<std::size_t>(of) * rows * sizeof(V), rows);
  };
  T const* at[several];
  Index step[several];
  for (int of = 0; of < several; ++of) {
    at[of] = strip.from[of] + first * strip.ld[of] + rank % columns;
    step[of] = Tile::apart * strip.ld[of];
  }
  T held[several][ahead];
  V own[of_rows > 0 ? of_rows : 1];
  auto const read_rows = [&](auto whole, Index left) {
    NNTILE_UNROLL()
    for (int each = 0; each < ahead; ++each) NNTILE_UNROLL()
    for (int of = 0; of < several; ++of) {
      if (whole || first + each * Tile::apart < left) held[of][each] = *at[of];
      at[of] += step[of];
    }
  };
  auto const read = [&](Index begin) {
    if constexpr (of_rows > 0) {
      if (rank < rows && begin + rank < k)
        for (int of = 0; of < of_rows; ++of) own[of] = strip.of_row[of][begin + rank];
    }
    if (!reads) return;
    if (begin + rows <= k)
      read_rows(std::true_type{}, rows);
    else
      read_rows(std::false_type{}, k - begin);
  };
  auto const make_rows = [&](auto whole, Index left) {
    NNTILE_UNROLL()
    for (int each = 0; each < ahead; ++each) {
      int const row = first + each * Tile::apart;
      if (!whole && row >= left) continue;
      Vec<V> values[several], of_row[of_rows > 0 ? of_rows : 1];
      for (int of = 0; of < several; ++of) values[of] = get(&held[of][each]);
      for (int of = 0; of < of_rows; ++of) of_row[of] = Vec<V>::raw(numbers(of)[row]);
      make(values, of_row);
      for (int of = 0; of < several; ++of) tile(of)[rank + each * Tile::threads] = values[of].v;
    }
  };

  decltype(start(Index{})) sums{};
  if (adds) sums = start(column);
  if (k > 0) read(0);
  for (Index begin = 0; begin < k; begin += rows) {
    Index const left = k - begin;
    if constexpr (of_rows > 0) {
      if (rank < rows && rank < left)
        for (int of = 0; of < of_rows; ++of) numbers(of)[rank] = own[of];
    }
    thread.sync();  // those that add are done with the tile before
    if (reads) {
      if (left >= rows)
        make_rows(std::true_type{}, rows);
      else
        make_rows(std::false_type{}, left);
    }
    thread.sync();
    if (left > rows) read(begin + rows);
    if (!adds) continue;
    auto const add = [&](int row) {
      Vec<V> values[several];
      for (int of = 0; of < several; ++of)
        values[of] = Vec<V>::raw(tile(of)[row * columns + column]);
      fold(sums, values);
    };
    if (left >= rows) {
      NNTILE_UNROLL(16)
      for (int row = 0; row < rows; ++row) add(row);
    } else {
      NNTILE_UNROLL(8)
      for (int row = 0; row < static_cast<int>(left); ++row) add(row);
    }
  }
  if (adds) put(column, sums);
}

}  // namespace nntile::kernels::cuda
