// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/kv_cache_append.hh"

#include "kernels/cpu/cache_start.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

template <class T> struct KvCacheAppend {
  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::KvCacheAppend>(call);
    using Operand = ops::KvCacheAppend::Operand;
    Buffers<ops::KvCacheAppend> const buffers(call);
    T const* const x = buffers.at<T const>(Operand::x);  // [row, i, b]
    T* const cache = buffers.at<T>(Operand::cache);      // [row, j, b]
    Index const start = *buffers.at<Index const>(Operand::start);
    if (Status const status = check_start(call, start, args.last_start); !status.ok())
      return status;
    Index const slot = args.first + start;  // of the tile's first token
    Index const begin = slot < 0 ? -slot : 0;
    Index const end = args.j - slot < args.i ? args.j - slot : args.i;
    if (begin >= end) return {};
    std::size_t const bytes = static_cast<std::size_t>(args.row * (end - begin)) * sizeof(T);
    for (Index b = 0; b < args.b; ++b)
      __builtin_memcpy(cache + args.row * (slot + begin + args.j * b),
                       x + args.row * (begin + args.i * b), bytes);
    return {};
  }
};

constinit auto const kernels = op_kernels<ops::KvCacheAppend, KvCacheAppend>();

}  // namespace
NNTILE_KERNEL_LIST(kv_cache_append, kernels)
}  // namespace nntile::kernels::NNTILE_ISA
