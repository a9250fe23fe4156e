// SPDX-License-Identifier: BSD-3-Clause
// Bound: the bytes of the new rows. Tokens that the cache has no room for, which the CPU's kernel
// refuses, go nowhere; attention to such a cache gives NaN.
#include "nntile/ops/kv_cache_append.hh"

#include "kernels/cuda/kernel.hh"

namespace nntile::kernels::cuda {
namespace {

template <class T> struct KvCacheAppend {
  static constexpr int threads = loop_threads;
  DeviceCall<ops::KvCacheAppend> call;

  static Status enqueue(KernelCall const& from, void* stream) noexcept {
    KvCacheAppend const kernel{DeviceCall<ops::KvCacheAppend>(from)};
    auto const& args = kernel.call.arguments.args;
    return launch_loop(args.row * args.i * args.b, stream, kernel);
  }
  NNTILE_DEVICE void operator()(Thread& thread) const {
    using Operand = ops::KvCacheAppend::Operand;
    auto const& args = call.args();
    auto const buffers = call.buffers();
    T const* const x = buffers.template at<T const>(Operand::x);  // [row, i, b]
    T* const cache = buffers.template at<T>(Operand::cache);      // [row, j, b]
    Index const start = *buffers.template at<Index const>(Operand::start);
    if (start < 0 || start > args.last_start) return;
    for_each_pair(thread, args.row * args.i, args.b, [&](Index at, Index b) {
      Index const slot = args.first + start + at / args.row;
      if (slot >= 0 && slot < args.j)
        cache[at % args.row + args.row * (slot + args.j * b)] = x[at + args.row * args.i * b];
    });
  }
};

constinit auto const kernels = op_kernels<ops::KvCacheAppend, KvCacheAppend>();

}  // namespace
NNTILE_KERNEL_LIST(kv_cache_append, kernels)
}  // namespace nntile::kernels::cuda
