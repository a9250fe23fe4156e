#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Pairs of a block of 64 queries and one of 64 keys, by a block of threads. Outer positions have
// results, which are sums over inner ones, upwards: queries and keys, or keys and queries. A thread
// has 4 outer by 8 inner positions, and of a result 4 rows: chains of FMAs that hide each other's
// latency, for 12 words of shared memory in 32 of them.

#include "kernels/cuda/rows.hh"

#include "kernels/cpu/attention_layout.hh"
#include "nntile/ops/attention.hh"
#include "nntile/ops/chain.hh"

namespace nntile::kernels::cuda::sdpa {

/// Rows `ld` apart, of which `count` are there, times a factor.
template <class T> struct Rows {
  T const* at;
  Index ld;
  int count;
  compute_t<T> factor = 1;
};

/// `width`: elements of a result's row that the block has.
template <class T, int width> class Pairs {
 public:
  using V = compute_t<T>;
  static constexpr int side = attention_block, threads = row_threads, across = 16;
  static constexpr int down = threads / across;
  static constexpr int own = side / across, inner = side / down, columns = width / down;
  using Sums = Vec<V>[inner][own];
  using Result = Vec<V>[columns][own];

  /// Of a block's shared memory: the pairs, panels of rows, four numbers for each query.
  static constexpr int line = side + 4;  // whole vectors, not all in one bank
  static constexpr int depth = 64 / sizeof(V);
  static constexpr int steps_at_once = sizeof(V) == 4 ? 2 : 1;  // as registers allow
  static constexpr int loads_at_once = sizeof(V) == 4 ? 4 : 2;  // likewise
  static constexpr std::size_t pair_count = side * line, panel_count = 2 * depth * line;
  static constexpr std::size_t shared_bytes = (pair_count + panel_count + 4 * side) * sizeof(V);

  NNTILE_DEVICE explicit Pairs(Thread& thread)
      : thread_(thread),
        pairs_(thread.shared<V>(0, pair_count)),
        panels_(thread.shared<V>(pair_count * sizeof(V), panel_count)),
        numbers_(thread.shared<V>((pair_count + panel_count) * sizeof(V), 4 * side)) {}

  NNTILE_DEVICE Thread& thread() const { return thread_; }
  /// Positions of this thread in the block, and columns of its results.
  NNTILE_DEVICE int outer(int i) const { return thread_.rank() % across * own + i; }
  NNTILE_DEVICE int inner_at(int j) const { return thread_.rank() / across * inner + j; }
  NNTILE_DEVICE int column(int c) const {
    constexpr int group = columns < 8 ? columns : 8;
    return c / group * group * down + thread_.rank() / across * group + c % group;
  }
  NNTILE_DEVICE decltype(auto) pair(int j, int i) const {
    return pairs_[inner_at(j) * line + outer(i)];
  }
  NNTILE_DEVICE decltype(auto) pair_at(int inner_position, int outer_position) const {
    return pairs_[inner_position * line + outer_position];
  }
  /// A diagonal of which no pair of the block is on another side: 64 bits take registers.
  static NNTILE_DEVICE int diagonal(Index at) {
    return at < -side ? -side : at > side ? side : static_cast<int>(at);
  }
  /// Number `kind` of 4 of a query.
  NNTILE_DEVICE decltype(auto) number(int kind, int query) const {
    return numbers_[kind * side + query];
  }
  /// Shared memory of the rows, for others after a barrier.
  NNTILE_DEVICE Shared<V> const& panels() const { return panels_; }

  /// body(j, i) for each pair of this thread.
  template <class Body> static NNTILE_DEVICE void for_each(Body body) {
    NNTILE_UNROLL()
    for (int j = 0; j < inner; ++j) {
      NNTILE_UNROLL()
      for (int i = 0; i < own; ++i) body(j, i);
    }
  }
  /// body(c, i) for each element of a result that is this thread's, `rows` by d of them there.
  template <class Body> NNTILE_DEVICE void for_each_result(int rows, int d, Body body) const {
    NNTILE_UNROLL()
    for (int i = 0; i < own; ++i) {
      NNTILE_UNROLL()
      for (int c = 0; c < columns; ++c)
        if (outer(i) < rows && column(c) < d) body(c, i);
    }
  }

  /// sums[inner][outer] = the products of rows of d elements, upwards from 0. All threads call it.
  NNTILE_DEVICE void multiply(Sums& sums, Rows<T> const& outers, Rows<T> const& inners,
                              Index d) const {
    for_each([&](int j, int i) { sums[j][i] = Vec<V>(0); });
    bool const idle = outer(0) >= outers.count || inner_at(0) >= inners.count;
    for (Index begin = 0; begin < d; begin += depth) {
      int const steps = d - begin < depth ? static_cast<int>(d - begin) : depth;
      thread_.sync();
      fetch_columns(outers, begin, steps, 0);
      fetch_columns(inners, begin, steps, depth * line);
      thread_.sync();
      if (idle) continue;
      NNTILE_UNROLL(steps_at_once)
      for (int k = 0; k < steps; ++k) {
        Vec<V> of_outer[own], of_inner[inner];
        NNTILE_UNROLL()
        for (int i = 0; i < own; ++i) of_outer[i] = Vec<V>::raw(panels_[k * line + outer(i)]);
        NNTILE_UNROLL()
        for (int j = 0; j < inner; ++j)
          of_inner[j] = Vec<V>::raw(panels_[(depth + k) * line + inner_at(j)]);
        for_each([&](int j, int i) { sums[j][i] = fma(of_outer[i], of_inner[j], sums[j][i]); });
      }
    }
  }

  /// result += the pairs times rows of inner positions, elements below d of them, upwards; pairs
  /// that sees(outer, inner) denies take no part, unless `all` are seen. All threads call it.
  template <class Sees>
  NNTILE_DEVICE void add(Result& result, Rows<T> const& inners, int d, bool all, Sees sees) const {
    constexpr int wide = width + 4;
    constexpr int at_once = static_cast<int>(panel_count) / wide;
    for (int begin = 0; begin < inners.count; begin += at_once) {
      int const rows = inners.count - begin < at_once ? inners.count - begin : at_once;
      thread_.sync();
      NNTILE_UNROLL(4)
      for (int at = thread_.rank(); at < rows * width; at += threads) {
        int const row = at / width, e = at % width;
        Vec<V> value(0);
        if (e < d) value = get(inners.at + (begin + row) * inners.ld + e);
        panels_[row * wide + e] = value.v;
      }
      thread_.sync();
      if (column(0) >= d) continue;
      NNTILE_UNROLL(steps_at_once)
      for (int row = 0; row < rows; ++row) {
        Vec<V> weight[own], value[columns];
        NNTILE_UNROLL()
        for (int i = 0; i < own; ++i)
          weight[i] = Vec<V>::raw(pairs_[(begin + row) * line + outer(i)]);
        NNTILE_UNROLL()
        for (int c = 0; c < columns; ++c) value[c] = Vec<V>::raw(panels_[row * wide + column(c)]);
        NNTILE_UNROLL()
        for (int i = 0; i < own; ++i)
          if (all || sees(outer(i), begin + row)) NNTILE_UNROLL()
        for (int c = 0; c < columns; ++c) result[c][i] = fma(weight[i], value[c], result[c][i]);
      }
    }
  }

 private:
  /// Elements begin, ... of rows, those of one element side by side, zeros for rows that are not.
  NNTILE_DEVICE void fetch_columns(Rows<T> const& rows, Index begin, int steps, int to) const {
    NNTILE_UNROLL(loads_at_once)
    for (int at = thread_.rank(); at < side * depth; at += threads) {
      int const step = at % depth, row = at / depth;
      if (step >= steps) continue;
      Vec<V> value(0);
      if (row < rows.count)
        value = Vec<V>::raw(rows.factor) * get(rows.at + row * rows.ld + begin + step);
      panels_[to + step * line + row] = value.v;
    }
  }

  Thread& thread_;
  Shared<V> pairs_, panels_, numbers_;
};

}  // namespace nntile::kernels::cuda::sdpa
