#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Reductions along dimension 0 in the canonical order of kernels/cpu/reduce.hh, by the threads of a
// warp or of a block: sixteen of them take a block of 64, its sixteen lanes.

#include "kernels/cuda/kernel.hh"

namespace nntile::kernels::cuda {

inline constexpr Index canonical_block = 64;
inline constexpr int canonical_lanes = 16;
/// Threads of a block that works on rows, and elements from which a row is worth all of them.
inline constexpr int row_threads = 128;
inline constexpr Index long_row = 1024;

/// The threads that work on a row together: a warp, or all of a block.
template <int size> class Team {
 public:
  static_assert(size == warp_size || size == row_threads);
  static constexpr int lanes = size;
  static constexpr int teams_a_block = row_threads / size;
  static constexpr int sixteens = size / canonical_lanes;
  /// Of a block's shared memory: a double for each sixteen of its threads.
  static constexpr std::size_t shared_bytes =
      size == warp_size ? 0 : (row_threads / canonical_lanes) * sizeof(double);

  NNTILE_DEVICE explicit Team(Thread& thread) : thread_(thread) {}

  NNTILE_DEVICE int rank() const { return thread_.rank() % size; }
  NNTILE_DEVICE Thread& thread() const { return thread_; }

  /// body(row) for each row < n that is this team's.
  template <class Body> NNTILE_DEVICE void for_each_row(Index n, Body body) const {
    Index const step = thread_.blocks() * teams_a_block;
    for (Index row = thread_.block() * teams_a_block + thread_.rank() / size; row < n; row += step)
      body(row);
  }
  /// body(i) for each element i < n of a row that is this thread's.
  template <class Body> NNTILE_DEVICE void for_each(Index n, Body body) const {
    for (Index i = rank(); i < n; i += size) body(i);
  }

  /// use(h, value) in every thread, for each sixteen h < count in turn: what its first lane has.
  template <class T, class Use> NNTILE_DEVICE void gather(T value, int count, Use use) const {
    if constexpr (size == warp_size) {
      for (int h = 0; h < sixteens; ++h) {
        T const other = thread_.from(value, h * canonical_lanes);
        if (h < count) use(other);
      }
    } else {
      Shared<T> const all = thread_.template shared<T>(0, sixteens);
      if (rank() % canonical_lanes == 0) all[rank() / canonical_lanes] = value;
      thread_.sync();
      for (int h = 0; h < count; ++h) use(static_cast<T>(all[h]));
      thread_.sync();
    }
  }

 private:
  Thread& thread_;
};

/// start + the sum over i < n of term(i), the same in each thread of the team; the range begins at
/// a canonical border. All threads of the team call it.
template <class T, int size, class Term>
NNTILE_DEVICE T canonical_sum(Team<size> const& team, Index n, T start, Term term) {
  constexpr Index stride = canonical_block * Team<size>::sixteens;
  int const lane = team.rank() % canonical_lanes;
  T sum = start;
  for (Index begin = 0; begin < n; begin += stride) {
    Index const own = begin + team.rank() / canonical_lanes * canonical_block;
    Vec<T> value(0);
    if (own + canonical_block <= n) {
      value = term(own + lane);
      for (int t = 1; t < 4; ++t) value += term(own + t * canonical_lanes + lane);
    } else {
      for (int t = 0; t < 4; ++t)
        if (Index const at = own + t * canonical_lanes + lane; at < n) value += term(at);
    }
    T block = value.v;
    for (int half = canonical_lanes / 2; half > 0; half /= 2)
      block += team.thread().exchange(block, half);
    Index const left = (n - begin + canonical_block - 1) / canonical_block;
    int const blocks = left < Team<size>::sixteens ? static_cast<int>(left) : Team<size>::sixteens;
    team.gather(block, blocks, [&](T part) { sum += part; });
  }
  return sum;
}

/// max(start, term(i) over i < n), the same in each thread of the team: NaN if any element is, and
/// never -0.
template <class T, int size, class Term>
NNTILE_DEVICE T canonical_max(Team<size> const& team, Index n, T start, Term term) {
  auto const larger = [](T a, T b) { return b > a || b != b ? b : a; };
  T best = start;
  for (Index i = team.rank(); i < n; i += size)
    best = best != best ? best : larger(best, term(i).v);
  for (int half = canonical_lanes / 2; half > 0; half /= 2) {
    T const other = team.thread().exchange(best, half);
    best = best != best ? best : larger(best, other);
  }
  T top = best;
  team.gather(best, Team<size>::sixteens,
              [&](T part) { top = top != top ? top : larger(top, part); });
  return top + T(0);
}

/// Enqueues Kernel<warp_size> or, for long rows, Kernel<row_threads>, whose threads share
/// `shared` bytes; each is made from the call.
template <template <int> class Kernel>
Status launch_over_rows(Index rows, Index length, void* stream, KernelCall const& call,
                        std::size_t shared = Team<row_threads>::shared_bytes) noexcept {
  if (length > long_row) return launch_over(rows, 1, stream, Kernel<row_threads>{call}, shared);
  return launch_over(rows, Team<warp_size>::teams_a_block, stream, Kernel<warp_size>{call});
}

}  // namespace nntile::kernels::cuda
