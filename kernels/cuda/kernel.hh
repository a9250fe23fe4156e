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
/// Blocks that fill any device several times over; their threads take several elements each.
inline constexpr Index most_blocks = 4096;

/// Enqueues a kernel, none for an empty result.
template <class Kernel>
Status launch_over(Index items, Index items_a_block, void* stream, Kernel const& kernel,
                   std::size_t shared = 0) noexcept {
  if (items <= 0) return {};
  Index const blocks = (items + items_a_block - 1) / items_a_block;
  return launch({blocks < most_blocks ? blocks : most_blocks, shared}, stream, kernel);
}

/// body(i) for this thread's share of i < n.
template <class Body> NNTILE_DEVICE void for_each(Thread const& thread, Index n, Body body) {
  Index const step = thread.blocks() * loop_threads;
  for (Index i = thread.block() * loop_threads + thread.rank(); i < n; i += step) body(i);
}

/// body(i, j) for this thread's share of i < m and j < n, the first index fastest.
template <class Body>
NNTILE_DEVICE void for_each_pair(Thread const& thread, Index m, Index n, Body body) {
  for_each(thread, m * n, [&](Index at) {
    if (n == 1)
      body(at, Index{0});
    else
      body(at % m, at / m);
  });
}

/// One element as what is computed with, and back with one rounding.
template <class T> NNTILE_DEVICE Vec<compute_t<T>> get(T const* p) { return load(p, All{}); }
template <class T> NNTILE_DEVICE void put(T* p, Vec<compute_t<T>> value) { store(p, value, All{}); }

/// Stores a result: `value`, or fma(beta, before, value) where beta is not 0.
template <class T> NNTILE_DEVICE void update(T* p, double beta, Vec<compute_t<T>> value) {
  put(p, updated_by(beta, [=] { return get(static_cast<T const*>(p)); }, value));
}

}  // namespace nntile::kernels::cuda
