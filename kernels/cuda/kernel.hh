#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Parts that the kernels of this folder share: values of one thread, a device's call, loops.

// The vector types of the CPU with one lane, which has FMA.
#define NNTILE_ISA cuda
#define NNTILE_SCALAR_FMA

#include <cstring>

#include "kernels/cpu/functions.hh"
#include "kernels/cuda/launch.hh"
#include "nntile/ops/chain.hh"

namespace nntile::kernels::cuda {

/// The call of a task, by value: what the host hands over lives as long as the entry alone.
template <class Op> struct DeviceCall {
  Arguments<Op> arguments;
  void* pointers[Op::operands.size()];

  explicit DeviceCall(KernelCall const& call) {
    std::memcpy(&arguments, call.arguments, sizeof arguments);
    std::size_t count = Op::operands.size();
    if constexpr (nntile::detail::lacks_operands<Op>())
      count = arguments.operands.rank(OperandIndex(count));
    std::memcpy(pointers, call.buffers, count * sizeof(void*));
  }

  NNTILE_DEVICE typename Op::Args const& args() const { return arguments.args; }
  NNTILE_DEVICE Buffers<Op> buffers() const {
    return Buffers<Op>(KernelCall{pointers, &arguments, nullptr});
  }
};

/// Threads of a block whose work needs no others.
inline constexpr int loop_threads = 256;
/// The same where each thread goes through much: few of them, on as many multiprocessors as can be.
inline constexpr int column_threads = 64;
/// Blocks that fill any device several times over; their threads take several elements each.
inline constexpr Index most_blocks = 4096;

/// Elements whose operands a thread reads before it writes the first of them: what is under way of
/// memory decides how fast it is.
inline constexpr int elements_ahead = 4;

/// Elements that each thread of a loop over n takes: one, unless n fills a device several times.
inline constexpr Index elements_a_thread(Index n) {
  return n < Index{1} << 19 ? 1 : elements_ahead;
}

/// Enqueues a kernel, none for an empty result.
template <class Kernel>
Status launch_over(Index items, Index items_a_block, void* stream, Kernel const& kernel,
                   std::size_t shared = 0) noexcept {
  if (items <= 0) return {};
  Index const blocks = (items + items_a_block - 1) / items_a_block;
  return launch({blocks < most_blocks ? blocks : most_blocks, shared}, stream, kernel);
}
/// Enqueues a kernel of for_each over n elements.
template <class Kernel>
Status launch_loop(Index n, void* stream, Kernel const& kernel, std::size_t shared = 0) noexcept {
  return launch_over(n, loop_threads * elements_a_thread(n), stream, kernel, shared);
}

/// A function of an index from `begin` on.
template <class Body> struct Shifted {
  Index begin;
  Body const& body;
  template <class... Values> NNTILE_DEVICE auto operator()(Index i, Values const&... values) const {
    return body(begin + i, values...);
  }
};
template <class Body> NNTILE_DEVICE Shifted<Body> shifted(Index begin, Body const& body) {
  return {begin, body};
}

/// body(i) for i < n that thread `rank` of `size` has, which take turns; write(i, read(i))
/// likewise. What is written at i nothing reads at another.
template <class Body> NNTILE_DEVICE void for_each_of(Index rank, Index size, Index n, Body body) {
  for (Index i = rank; i < n; i += size) body(i);
}
template <class Read, class Write>
NNTILE_DEVICE void for_each_of(Index rank, Index size, Index n, Read read, Write write) {
  Index i = rank;
  for (; i + (elements_ahead - 1) * size < n; i += elements_ahead * size) {
    decltype(read(i)) values[elements_ahead];
    NNTILE_UNROLL()
    for (int k = 0; k < elements_ahead; ++k) values[k] = read(i + k * size);
    NNTILE_UNROLL()
    for (int k = 0; k < elements_ahead; ++k) write(i + k * size, values[k]);
  }
  for (; i < n; i += size) write(i, read(i));
}

/// The same over this thread's share of i < n. Blocks of `threads` have runs of elements, each of
/// them enough for `elements_ahead` a thread where a thread reads ahead.
template <int threads = loop_threads, class... Bodies>
NNTILE_DEVICE void for_each(Thread const& thread, Index n, Bodies... bodies) {
  Index const run = threads * (sizeof...(Bodies) > 1 ? elements_a_thread(n) : 1);
  for (Index begin = thread.block() * run; begin < n; begin += thread.blocks() * run)
    for_each_of(thread.rank(), threads, n - begin < run ? n - begin : run,
                shifted(begin, bodies)...);
}

/// Of the element `at` of [m, n], the first index fastest, both indices.
struct Pair {
  Index i, j;
  NNTILE_DEVICE Pair(Index at, Index m, Index n) {
    if (n == 1) {
      i = at, j = 0;
    } else if ((at | m) >> 32 == 0) {  // a device divides 64 bits by many instructions
      j = static_cast<std::uint32_t>(at) / static_cast<std::uint32_t>(m);
      i = at - j * m;
    } else {
      j = at / m;
      i = at - j * m;
    }
  }
};
/// body(i, j) for this thread's share of i < m and j < n, the first index fastest.
template <int threads = loop_threads, class Body>
NNTILE_DEVICE void for_each_pair(Thread const& thread, Index m, Index n, Body body) {
  for_each<threads>(thread, m * n, [&](Index at) {
    Pair const p(at, m, n);
    body(p.i, p.j);
  });
}
/// write(i, j, read(i, j)) likewise.
template <class Read, class Write>
NNTILE_DEVICE void for_each_pair(Thread const& thread, Index m, Index n, Read read, Write write) {
  for_each(
      thread, m * n,
      [&](Index at) {
        Pair const p(at, m, n);
        return read(p.i, p.j);
      },
      [&](Index at, auto const& value) {
        Pair const p(at, m, n);
        write(p.i, p.j, value);
      });
}

/// Types that a device rounds to by an instruction.
template <class T>
inline constexpr bool is_narrow = std::same_as<T, bf16_t> || std::same_as<T, fp16_t>;
/// The name of a type to tensor cores, and to that instruction.
template <class T> inline constexpr Factor factor_of = Factor::tf32;
template <> inline constexpr Factor factor_of<bf16_t> = Factor::bf16;
template <> inline constexpr Factor factor_of<fp16_t> = Factor::fp16;

/// One element as what is computed with, and back with one rounding.
template <class T> NNTILE_DEVICE Vec<compute_t<T>> get(T const* p) { return load(p, All{}); }
template <class T> NNTILE_DEVICE void put(T* p, Vec<compute_t<T>> value) {
  if constexpr (is_narrow<T>)
    p->bits = static_cast<std::uint16_t>(packed<factor_of<T>>(value.v, 0));
  else
    store(p, value, All{});
}

/// write(i, k, j, read(i, k, j)) for this thread's share of [m, k, n].
template <class Read, class Write>
NNTILE_DEVICE void for_each_triple(Thread const& thread, Index m, Index k, Index n, Read read,
                                   Write write) {
  for_each(
      thread, m * k * n,
      [&](Index at) {
        Pair const outer(at, m, k * n), inner(outer.j, k, n);
        return read(outer.i, inner.i, inner.j);
      },
      [&](Index at, auto const& value) {
        Pair const outer(at, m, k * n), inner(outer.j, k, n);
        write(outer.i, inner.i, inner.j, value);
      });
}

/// `value`, or fma(beta, before, value) where beta is not 0.
template <class T>
NNTILE_DEVICE Vec<compute_t<T>> updated_at(T const* before, double beta, Vec<compute_t<T>> value) {
  return updated_by(beta, [=] { return get(before); }, value);
}

}  // namespace nntile::kernels::cuda
