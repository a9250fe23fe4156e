#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Reductions along dimension 0 in the canonical order of kernels/cpu/reduce.hh, by the threads of a
// warp or of a block: sixteen of them take a block of 64, its sixteen lanes.

#include <utility>

#include "kernels/cuda/kernel.hh"

namespace nntile::kernels::cuda {

inline constexpr Index canonical_block = 64;
inline constexpr int canonical_lanes = 16;
/// Threads of a block that works on rows, and elements from which a row is worth all of them.
inline constexpr int row_threads = 128;
inline constexpr Index long_row = 1024;

/// Canonical blocks that each sixteen threads read before they sum one.
inline constexpr int strides_ahead = 4;

/// The threads that work on a row together: a warp, or all of a block.
template <int size> class Team {
 public:
  static_assert(size == warp_size || size == row_threads);
  static constexpr int lanes = size;
  static constexpr int teams_a_block = row_threads / size;
  static constexpr int sixteens = size / canonical_lanes;
  /// Of a block's shared memory: doubles for each sixteen of its threads.
  static constexpr std::size_t shared_bytes =
      size == warp_size ? 0 : strides_ahead * sixteens * sizeof(double);

  NNTILE_DEVICE explicit Team(Thread& thread) : thread_(thread) {}

  NNTILE_DEVICE int rank() const { return thread_.rank() % size; }
  NNTILE_DEVICE Thread& thread() const { return thread_; }

  /// body(row) for each row < n that is this team's.
  template <class Body> NNTILE_DEVICE void for_each_row(Index n, Body body) const {
    Index const step = thread_.blocks() * teams_a_block;
    for (Index row = thread_.block() * teams_a_block + thread_.rank() / size; row < n; row += step)
      body(row);
  }
  /// body(i), or write(i, read(i)), for each element i < n of a row that is this thread's.
  template <class... Bodies> NNTILE_DEVICE void for_each(Index n, Bodies... bodies) const {
    for_each_of(rank(), size, n, bodies...);
  }

  /// use(value) in every thread: what the first lane of each sixteen has, the first value of all in
  /// turn, then the second; `count` values in all.
  template <class T, int several, class Use>
  NNTILE_DEVICE void gather(T const (&values)[several], int count, Use use) const {
    if constexpr (size == warp_size) {
      NNTILE_UNROLL()
      for (int at = 0; at < several * sixteens; ++at) {
        T const other = thread_.from(values[at / sixteens], at % sixteens * canonical_lanes);
        if (at < count) use(other);
      }
    } else {
      static_assert(several <= strides_ahead);
      Shared<T> const all = thread_.template shared<T>(0, several * sixteens);
      if (rank() % canonical_lanes == 0) {
        NNTILE_UNROLL()
        for (int each = 0; each < several; ++each)
          all[each * sixteens + rank() / canonical_lanes] = values[each];
      }
      thread_.sync();
      for (int at = 0; at < count; ++at) use(static_cast<T>(all[at]));
      thread_.sync();
    }
  }
  template <class T, class Use> NNTILE_DEVICE void gather(T value, Use use) const {
    T const values[] = {value};
    gather(values, sixteens, use);
  }

 private:
  Thread& thread_;
};

/// This thread's part of a canonical block: of(t) for four elements, the first of which is `first`.
template <class T, class Of>
NNTILE_DEVICE T part_of_block(Index first, Index lane, Index n, Of of) {
  Vec<T> value(0);
  if (first - lane + canonical_block <= n) {
    value = of(0);
    for (int t = 1; t < 4; ++t) value += of(t);
  } else {
    for (int t = 0; t < 4; ++t)
      if (first + t * canonical_lanes < n) value += of(t);
  }
  return value.v;
}
/// The parts of several blocks, summed over the sixteen threads of each.
template <class T, int several>
NNTILE_DEVICE void sum_over_sixteens(Thread& thread, T (&blocks)[several]) {
  NNTILE_UNROLL()
  for (int half = canonical_lanes / 2; half > 0; half /= 2) NNTILE_UNROLL()
  for (int each = 0; each < several; ++each) blocks[each] += thread.exchange(blocks[each], half);
}

/// start + the sum over i < n of term(i), the same in each thread of the team; the range begins at
/// a canonical border. All threads of the team call it.
template <class T, int size, class Term>
NNTILE_DEVICE T canonical_sum(Team<size> const& team, Index n, T start, Term term) {
  constexpr Index stride = canonical_block * Team<size>::sixteens;
  constexpr int most = strides_ahead * Team<size>::sixteens;
  int const lane = team.rank() % canonical_lanes;
  Index own = team.rank() / canonical_lanes * canonical_block + lane;
  T sum = start;
  for (Index begin = 0; begin < n; begin += strides_ahead * stride) {
    T blocks[strides_ahead];
    NNTILE_UNROLL()
    for (int each = 0; each < strides_ahead; ++each, own += stride)
      blocks[each] =
          part_of_block<T>(own, lane, n, [&](int t) { return term(own + t * canonical_lanes); });
    sum_over_sixteens(team.thread(), blocks);
    Index const left = (n - begin + canonical_block - 1) / canonical_block;
    team.gather(blocks, left < most ? static_cast<int>(left) : most, [&](T part) { sum += part; });
  }
  return sum;
}

/// A row of n elements, read(i) each, through which a team goes several times; `held`: in
/// registers, where there are at most held_row<size>. All threads of the team make and sum it.
template <int size> inline constexpr Index held_row = 8 * size;
template <int size, bool held, class Read> class Row {
 public:
  using Value = decltype(std::declval<Read const&>()(Index{}));

  NNTILE_DEVICE Row(Team<size> const& team, Index n, Read const& read)
      : team_(team), n_(n), read_(read) {
    if constexpr (held) {
      NNTILE_UNROLL()
      for (int slot = 0; slot < 4 * strides; ++slot)
        if (Index const i = place(slot); i < n) values_[slot] = read(i);
    }
  }

  /// canonical_sum of term(i, value of i).
  template <class T, class Term> NNTILE_DEVICE T sum(T start, Term term) const {
    if constexpr (!held) {
      return canonical_sum<T>(team_, n_, start, [&](Index i) { return term(i, read_(i)); });
    } else {
      T blocks[strides];
      NNTILE_UNROLL()
      for (int each = 0; each < strides; ++each)
        blocks[each] = part_of_block<T>(
            place(4 * each), team_.rank() % canonical_lanes, n_,
            [&](int t) { return term(place(4 * each + t), values_[4 * each + t]); });
      sum_over_sixteens(team_.thread(), blocks);
      T sum = start;
      team_.gather(blocks, static_cast<int>((n_ + canonical_block - 1) / canonical_block),
                   [&](T part) { sum += part; });
      return sum;
    }
  }

  /// write(i, make(i, value of i)) for each element that is this thread's.
  template <class Make, class Write> NNTILE_DEVICE void for_each(Make make, Write write) const {
    if constexpr (!held) {
      team_.for_each(n_, [&](Index i) { return make(i, read_(i)); }, write);
    } else {
      NNTILE_UNROLL()
      for (int slot = 0; slot < 4 * strides; ++slot)
        if (Index const i = place(slot); i < n_) write(i, make(i, values_[slot]));
    }
  }

 private:
  static constexpr int strides =
      static_cast<int>(held_row<size> / (canonical_block * Team<size>::sixteens));

  /// The element of a slot: one of four in each canonical block.
  NNTILE_DEVICE Index place(int slot) const {
    int const blocks = slot / 4 * Team<size>::sixteens + team_.rank() / canonical_lanes;
    return blocks * canonical_block + slot % 4 * canonical_lanes + team_.rank() % canonical_lanes;
  }

  Team<size> const& team_;
  Index n_;
  Read const& read_;
  Value values_[held ? 4 * strides : 1];
};

/// max(start, term(i) over i < n), the same in each thread of the team: NaN if any element is, and
/// never -0.
template <class T, int size, class Term>
NNTILE_DEVICE T canonical_max(Team<size> const& team, Index n, T start, Term term) {
  auto const larger = [](T a, T b) { return b > a || b != b ? b : a; };
  T best = start;
  NNTILE_UNROLL(8)
  for (Index i = team.rank(); i < n; i += size)
    best = best != best ? best : larger(best, term(i).v);
  for (int half = canonical_lanes / 2; half > 0; half /= 2) {
    T const other = team.thread().exchange(best, half);
    best = best != best ? best : larger(best, other);
  }
  T top = best;
  team.gather(best, [&](T part) { top = top != top ? top : larger(top, part); });
  return top + T(0);
}

/// Enqueues the kernel whose Row suits the length.
template <template <int, bool> class Kernel>
Status launch_over_held_rows(Index rows, Index length, void* stream, KernelCall const& call) {
  auto const shared = Team<row_threads>::shared_bytes;
  if (length <= held_row<warp_size>)
    return launch_over(rows, Team<warp_size>::teams_a_block, stream, Kernel<warp_size, true>{call});
  if (length <= held_row<row_threads>)
    return launch_over(rows, 1, stream, Kernel<row_threads, true>{call}, shared);
  return launch_over(rows, 1, stream, Kernel<row_threads, false>{call}, shared);
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
