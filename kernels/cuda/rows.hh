#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Reductions along dimension 0 in the canonical order of kernels/cpu/reduce.hh, by the threads of a
// warp or of a block: sixteen of them take a block of 64, its sixteen lanes.

#include <utility>

#include "kernels/cuda/runs.hh"

namespace nntile::kernels::cuda {

inline constexpr Index canonical_block = 64;
inline constexpr int canonical_lanes = 16;
/// Threads of a block that works on rows, and elements from which a row is worth all of them.
inline constexpr int row_threads = 128;
inline constexpr Index long_row = 1024;

/// Canonical blocks that each sixteen threads read before they sum one.
inline constexpr int strides_ahead = 4;
/// Blocks whose sums the threads of a block hold together before they add them in turn.
inline constexpr int most_parts = 1024;

/// The threads that work on a row together: a warp, or all of a block.
template <int size> class Team {
 public:
  static_assert(size == warp_size || size == row_threads);
  static constexpr int lanes = size;
  static constexpr int teams_a_block = row_threads / size;
  static constexpr int sixteens = size / canonical_lanes;
  /// Of a block's shared memory: doubles for the sums of canonical blocks, and that of all.
  static constexpr std::size_t shared_bytes =
      size == warp_size ? 0 : (most_parts + 4) * sizeof(double);

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

  /// use(value) in every thread: the value that the first lane of each sixteen has, in turn.
  template <class T, class Use> NNTILE_DEVICE void gather(T value, Use use) const {
    if constexpr (size == warp_size) {
      T const values[] = {value};
      gather(values, sixteens, use);
    } else {
      Shared<T> const all = thread_.template shared<T>(0, sixteens);
      if (rank() % canonical_lanes == 0) all[rank() / canonical_lanes] = value;
      thread_.sync();
      for (int at = 0; at < sixteens; ++at) use(static_cast<T>(all[at]));
      thread_.sync();
    }
  }
  /// The same of several of a warp, the first value of all in turn, then the second; `count` in
  /// all.
  template <class T, int several, class Use>
  NNTILE_DEVICE void gather(T const (&values)[several], int count, Use use) const {
    static_assert(size == warp_size);
    NNTILE_UNROLL()
    for (int at = 0; at < several * sixteens; ++at) {
      T const other = thread_.from(values[at / sixteens], at % sixteens * canonical_lanes);
      if (at < count) use(other);
    }
  }

 private:
  Thread& thread_;
};

/// This thread's part of a canonical block: of(t) for four elements, the first of which is `first`;
/// `whole`: the block is known to end before n.
template <class T, bool whole = false, class Of>
NNTILE_DEVICE T part_of_block(Index first, Index lane, Index n, Of of) {
  Vec<T> value(0);
  if (whole || first - lane + canonical_block <= n) {
    value = of(0);
    NNTILE_UNROLL()
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

/// start + the first `count` parts, one after another.
template <class T>
NNTILE_DEVICE T sum_in_turn(Thread& thread, T start, Shared<T> const& parts, int count) {
  T sum = start;
  int at = 0;
  for (; at + 4 <= count; at += 4) {
    Quad<T> const four = thread.four(parts, at);
    NNTILE_UNROLL()
    for (int k = 0; k < 4; ++k) sum += four.of[k];
  }
  for (; at < count; ++at) sum += static_cast<T>(parts[at]);
  return sum;
}

/// Sums of canonical blocks of term(i): those of `strides_ahead` blocks for each sixteen of the
/// team, from the element `own` of this thread on.
template <class T, bool whole, int size, class Term>
NNTILE_DEVICE void sum_blocks(Team<size> const& team, Index own, Index n,
                              T (&blocks)[strides_ahead], Term term) {
  constexpr Index stride = canonical_block * Team<size>::sixteens;
  int const lane = team.rank() % canonical_lanes;
  NNTILE_UNROLL()
  for (int each = 0; each < strides_ahead; ++each)
    blocks[each] = part_of_block<T, whole>(own + each * stride, lane, n, [&](int t) {
      return term(own + (each * stride + t * canonical_lanes));
    });
  sum_over_sixteens(team.thread(), blocks);
}

/// start + the sum over i < n of term(i), the same in each thread of the team; the range begins at
/// a canonical border. All threads of the team call it.
template <class T, int size, class Term>
NNTILE_DEVICE T canonical_sum(Team<size> const& team, Index n, T start, Term term) {
  constexpr int sixteens = Team<size>::sixteens;
  constexpr Index at_once = canonical_block * sixteens * strides_ahead;
  int const sixteen = team.rank() / canonical_lanes;
  Index const own = sixteen * canonical_block + team.rank() % canonical_lanes;
  T sum = start, blocks[strides_ahead];
  if constexpr (size == warp_size) {
    for (Index begin = 0; begin < n; begin += at_once) {
      if (begin + at_once <= n)
        sum_blocks<T, true>(team, begin + own, n, blocks, term);
      else
        sum_blocks<T, false>(team, begin + own, n, blocks, term);
      Index const left = (n - begin + canonical_block - 1) / canonical_block;
      constexpr int most = strides_ahead * sixteens;
      team.gather(blocks, left < most ? static_cast<int>(left) : most,
                  [&](T part) { sum += part; });
    }
  } else {
    // The first warp adds what all have summed, once for many blocks.
    Shared<T> const parts = team.thread().template shared<T>(0, most_parts + 4);
    for (Index base = 0; base < n; base += most_parts * canonical_block) {
      Index const end =
          n - base < most_parts * canonical_block ? n : base + most_parts * canonical_block;
      auto const keep = [&](Index begin) {
        if (team.rank() % canonical_lanes != 0) return;
        NNTILE_UNROLL()
        for (int each = 0; each < strides_ahead; ++each)
          parts[(begin - base) / canonical_block + each * sixteens + sixteen] = blocks[each];
      };
      Index begin = base;
      for (; begin + at_once <= end; begin += at_once) {
        sum_blocks<T, true>(team, begin + own, n, blocks, term);
        keep(begin);
      }
      if (begin < end) {
        sum_blocks<T, false>(team, begin + own, n, blocks, term);
        keep(begin);
      }
      team.thread().sync();
      if (team.rank() < warp_size) {
        int const count = static_cast<int>((end - base + canonical_block - 1) / canonical_block);
        sum = sum_in_turn(team.thread(), sum, parts, count);
        if (team.rank() == 0) parts[most_parts] = sum;
      }
      team.thread().sync();
      sum = parts[most_parts];
    }
  }
  return sum;
}

/// The most elements, of `bytes` bytes each, of a row that is kept in the registers of a team.
template <int size, std::size_t bytes>
inline constexpr Index held_row = Index{size} * (size == warp_size && bytes <= 8 ? 32 : 16);

/// A row of n elements that a team holds in registers, at most held_row of them, n and where they
/// lie in fours. Four threads have a canonical block, each four times four elements beside each
/// other: read(i, Count<4>) gives those from i on as a Run. All threads of the team make and sum
/// it.
template <int size, class Value> class HeldRow {
 public:
  static constexpr int strides = static_cast<int>(held_row<size, sizeof(Value)>) / (16 * size);
  /// Of a block's shared memory: doubles for the sums of canonical blocks.
  static constexpr int parts = strides * size / 4;
  static constexpr std::size_t shared_bytes =
      Team<size>::teams_a_block * std::size_t{parts} * sizeof(double);

  template <class Read>
  NNTILE_DEVICE HeldRow(Team<size> const& team, Index n, Read read)
      : team_(team),
        first_(team.rank() / 4 * canonical_block + team.rank() % 4 * 4),
        left_(static_cast<int>(n - first_)) {
    NNTILE_UNROLL()
    for (int four = 0; four < 4 * strides; ++four)
      if (step(four) < left_) values_[four] = read(first_ + step(four), Count<4>{});
  }

  /// canonical_sum of term(value).
  template <class T, class Term> NNTILE_DEVICE T sum(T start, Term term) const {
    int const team = team_.thread().rank() / size;
    Shared<T> const sums = team_.thread().template shared<T>(
        static_cast<std::size_t>(team * parts) * sizeof(T), parts);
    NNTILE_UNROLL()
    for (int each = 0; each < strides; ++each) {
      T const block = sum_of_block<T>(each, term);
      if (team_.rank() % 4 == 0) sums[each * (size / 4) + team_.rank() / 4] = block;
    }
    sync();
    int const count = static_cast<int>((first_ + left_ + canonical_block - 1) / canonical_block);
    T const sum = sum_in_turn(team_.thread(), start, sums, count);
    sync();
    return sum;
  }

  /// body(i, Run of values, Count<4>) for the elements that are this thread's, as they were read.
  template <class Body> NNTILE_DEVICE void for_each(Body body) const {
    NNTILE_UNROLL()
    for (int four = 0; four < 4 * strides; ++four)
      if (step(four) < left_) body(first_ + step(four), values_[four], Count<4>{});
  }

 private:
  /// From the first element of this thread to its four of this number.
  static NNTILE_DEVICE int step(int four) { return four / 4 * (16 * size) + four % 4 * 16; }
  NNTILE_DEVICE void sync() const {
    if constexpr (size == warp_size)
      team_.thread().sync_warp();
    else
      team_.thread().sync();
  }

  /// That of this thread and the three beside it: as sixteen lanes would sum it, of which each has
  /// four.
  template <class T, class Term> NNTILE_DEVICE T sum_of_block(int stride, Term term) const {
    int const begin = step(4 * stride);
    // A lane of -0 alone becomes 0: it makes no odds, what it is added to is never -0.
    Vec<T> lanes[4] = {Vec<T>(0), Vec<T>(0), Vec<T>(0), Vec<T>(0)};
    NNTILE_UNROLL()
    for (int t = 0; t < 4; ++t) {
      if (begin + t * 16 >= left_) continue;
      NNTILE_UNROLL()
      for (int lane = 0; lane < 4; ++lane) lanes[lane] += term(values_[4 * stride + t].of[lane]);
    }
    NNTILE_UNROLL()
    for (int half = 2; half > 0; half /= 2) NNTILE_UNROLL()
    for (int lane = 0; lane < 4; ++lane)
      lanes[lane] += Vec<T>::raw(team_.thread().exchange(lanes[lane].v, half));
    return ((lanes[0] + lanes[2]) + (lanes[1] + lanes[3])).v;
  }

  Team<size> const& team_;
  Index first_;
  int left_;  // elements from the first on
  Run<4, Value> values_[4 * strides];
};

/// A row of any length, likewise: read again in each use.
template <int size, class Value, class Read> class LongRow {
 public:
  NNTILE_DEVICE LongRow(Team<size> const& team, Index n, Read read)
      : team_(team), n_(n), read_(read) {}

  template <class T, class Term> NNTILE_DEVICE T sum(T start, Term term) const {
    return canonical_sum<T>(team_, n_, start,
                            [&](Index i) { return term(read_(i, Count<1>{}).of[0]); });
  }
  template <class Body> NNTILE_DEVICE void for_each(Body body) const {
    team_.for_each(n_, [&](Index i) { body(i, read_(i, Count<1>{}), Count<1>{}); });
  }

 private:
  Team<size> const& team_;
  Index n_;
  Read read_;
};

/// A row that is `held` or long.
template <class Value, bool held, int size, class Read>
NNTILE_DEVICE auto row_of(Team<size> const& team, Index n, Read read) {
  if constexpr (held)
    return HeldRow<size, Value>(team, n, read);
  else
    return LongRow<size, Value, Read>(team, n, read);
}

/// max(start, term(i) over i < n), the same in each thread of the team: NaN if any element is, and
/// never -0.
template <class T, int size, class Term>
NNTILE_DEVICE T canonical_max(Team<size> const& team, Index n, T start, Term term) {
  auto const larger = [](T a, T b) { return a > b || a != a ? a : b; };
  T best = start;
  bool nan = false;
  auto const offer = [&](T value) {
    nan |= value != value;
    best = value > best ? value : best;
  };
  constexpr int ahead = 8;
  Index i = team.rank();
  for (; i + (ahead - 1) * size < n; i += ahead * size) {
    T values[ahead];
    NNTILE_UNROLL()
    for (int each = 0; each < ahead; ++each) values[each] = term(i + each * size).v;
    NNTILE_UNROLL()
    for (int each = 0; each < ahead; ++each) offer(values[each]);
  }
  for (; i < n; i += size) offer(term(i).v);
  if (nan) best = static_cast<T>(__builtin_nan(""));
  for (int half = canonical_lanes / 2; half > 0; half /= 2)
    best = larger(best, team.thread().exchange(best, half));
  T top = best;
  team.gather(best, [&](T part) { top = larger(top, part); });
  return top + T(0);
}

/// Enqueues the kernel whose rows, of such values, suit the length; `fours`: those of each operand
/// begin where fours do.
template <template <int, bool> class Kernel, class Value>
Status launch_over_held_rows(Index rows, Index length, bool fours, void* stream,
                             KernelCall const& call) {
  bool const held = fours && length % 4 == 0;
  if (held && length <= held_row<warp_size, sizeof(Value)>)
    return launch_over(rows, Team<warp_size>::teams_a_block, stream, Kernel<warp_size, true>{call},
                       HeldRow<warp_size, Value>::shared_bytes);
  if (held && length <= held_row<row_threads, sizeof(Value)>)
    return launch_over(rows, 1, stream, Kernel<row_threads, true>{call},
                       HeldRow<row_threads, Value>::shared_bytes);
  return launch_over(rows, 1, stream, Kernel<row_threads, false>{call},
                     Team<row_threads>::shared_bytes);
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
