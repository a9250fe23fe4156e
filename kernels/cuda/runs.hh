#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Loops of elements one by one whose threads take runs of them, 16 bytes at once: a device executes
// fewer instructions for an element than its memory needs time for.

#include <type_traits>

#include "kernels/cuda/kernel.hh"

namespace nntile::kernels::cuda {

/// Elements of a run where operands have these types: 16 bytes of the narrowest, at most 8.
template <class... T>
inline constexpr int run_length = [] {
  std::size_t narrowest = 8;
  ((narrowest = sizeof(T) < narrowest ? sizeof(T) : narrowest), ...);
  return narrowest < 2 ? 8 : static_cast<int>(16 / narrowest);
}();

/// Elements that lie one behind the other, as they are stored.
template <int count, class T> struct Run {
  T of[count];
};
/// The number of elements that a body is given: a whole run, or one.
template <int count> using Count = std::integral_constant<int, count>;

template <int count, class T> NNTILE_DEVICE Run<count, T> get_run(Thread& thread, T const* from) {
  Run<count, T> run;
  if constexpr (count % Pack<T>::size == 0) {
    NNTILE_UNROLL()
    for (int begin = 0; begin < count; begin += Pack<T>::size) {
      Pack<T> const pack = thread.pack(from + begin);
      NNTILE_UNROLL()
      for (int k = 0; k < Pack<T>::size; ++k) run.of[begin + k] = pack.of[k];
    }
  } else if constexpr (count == 4) {
    Quad<T> const four = thread.four(from, 0);
    NNTILE_UNROLL()
    for (int k = 0; k < count; ++k) run.of[k] = four.of[k];
  } else {
    NNTILE_UNROLL()
    for (int k = 0; k < count; ++k) run.of[k] = from[k];
  }
  return run;
}
template <int count, class T>
NNTILE_DEVICE void put_run(Thread& thread, T* to, Run<count, T> const& run) {
  if constexpr (count % Pack<T>::size == 0) {
    NNTILE_UNROLL()
    for (int begin = 0; begin < count; begin += Pack<T>::size) {
      Pack<T> pack;
      NNTILE_UNROLL()
      for (int k = 0; k < Pack<T>::size; ++k) pack.of[k] = run.of[begin + k];
      thread.put(to + begin, pack);
    }
  } else if constexpr (count == 4) {
    Quad<T> four;
    NNTILE_UNROLL()
    for (int k = 0; k < count; ++k) four.of[k] = run.of[k];
    thread.set_four(to, 0, four);
  } else {
    NNTILE_UNROLL()
    for (int k = 0; k < count; ++k) to[k] = run.of[k];
  }
}

/// The same of what is computed with, each rounded once.
template <int count, class T>
NNTILE_DEVICE void put_run(Thread& thread, T* to, Run<count, Vec<compute_t<T>>> const& values) {
  if constexpr (is_narrow<T> && count == 4) {  // two at a time
    std::uint64_t const low = packed<factor_of<T>>(values.of[0].v, values.of[1].v);
    std::uint64_t const high = packed<factor_of<T>>(values.of[2].v, values.of[3].v);
    thread.put(to, high << 32 | low);
  } else if constexpr (is_narrow<T> && count % Pack<T>::size == 0) {
    NNTILE_UNROLL()
    for (int begin = 0; begin < count; begin += Pack<T>::size) {
      Pack<std::uint32_t> words;
      NNTILE_UNROLL()
      for (int k = 0; k < Pack<T>::size / 2; ++k)
        words.of[k] =
            packed<factor_of<T>>(values.of[begin + 2 * k].v, values.of[begin + 2 * k + 1].v);
      thread.put(to + begin, words);
    }
  } else {
    Run<count, T> run;
    NNTILE_UNROLL()
    for (int k = 0; k < count; ++k) put(run.of + k, values.of[k]);
    put_run(thread, to, run);
  }
}

/// body(i, Count) for elements i < n, a run from i on or one: those of thread `rank` of `size`.
template <int length, class Body>
NNTILE_DEVICE void for_each_run_of(Index rank, Index size, Index n, Body body) {
  for (Index i = rank * length; i + length <= n; i += size * length) body(i, Count<length>{});
  if constexpr (length > 1)
    for (Index i = n / length * length + rank; i < n; i += size) body(i, Count<1>{});
}

/// body(i, c, Count) for this thread's share of i < n in each column, a run from i on or one.
template <int length, class Body>
NNTILE_DEVICE void for_each_run(Thread& thread, Index n, Index columns, Body body) {
  Index const runs = (n + length - 1) / length;
  Index const step = thread.blocks() * loop_threads;
  for (Index at = thread.block() * loop_threads + thread.rank(); at < runs * columns; at += step) {
    Pair const place(at, runs, columns);
    Index i = place.i * length;
    if (i + length <= n)
      body(i, place.j, Count<length>{});
    else
      for (; i < n; ++i) body(i, place.j, Count<1>{});
  }
}

/// Whether elements from here on, and those of the columns that follow in such steps, begin at
/// multiples of so many bytes.
inline bool begins_packs(void const* first, Index step_bytes, std::size_t multiple = 16) {
  return (reinterpret_cast<std::uintptr_t>(first) | static_cast<std::uintptr_t>(step_bytes)) %
             multiple ==
         0;
}

/// Enqueues Kernel<length> where the operands' elements lie in packs, else Kernel<1>, over n
/// elements in each of `columns` columns.
template <template <int> class Kernel, int length>
Status launch_over_runs(Index n, Index columns, bool packs, void* stream,
                        KernelCall const& call) noexcept {
  if (!packs) return launch_over(n * columns, loop_threads, stream, Kernel<1>{call});
  Index const runs = (n + length - 1) / length;
  return launch_over(runs * columns, loop_threads, stream, Kernel<length>{call});
}

}  // namespace nntile::kernels::cuda
