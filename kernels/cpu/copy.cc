// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/copy.hh"

#include "kernels/cpu/elementwise.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

/// From 64 KiB on x86 copies by its own instruction, which need not read what it overwrites: on
/// Zen 5 1.4 times as fast out of the caches as registers are, and as fast within.
void copy_bytes(void* to, void const* from, std::size_t bytes) {
#if defined(__x86_64__)
  if (bytes >= 64 * 1024) {
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
    return;
  }
#endif
  __builtin_memcpy(to, from, bytes);
}

template <class T> struct Copy {
  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::Copy>(call);
    Buffers<ops::Copy> const buffers(call);
    if constexpr (std::same_as<T, compute_t<T>>)
      for (Index c = 0; c < static_cast<Index>(args.columns.count); ++c)
        copy_bytes(ops::Copy::column<T>(args, buffers, 1, c),
                   ops::Copy::column<T>(args, buffers, 0, c),
                   static_cast<std::size_t>(args.n) * sizeof(T));
    else
      elementwise_body<ops::Copy, T, compute_t<T>>(args, call);
    return {};
  }
};

constinit auto const kernels = op_kernels<ops::Copy, Copy>();

}  // namespace
NNTILE_KERNEL_LIST(copy, kernels)
}  // namespace nntile::kernels::NNTILE_ISA
