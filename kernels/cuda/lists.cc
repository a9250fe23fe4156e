// SPDX-License-Identifier: BSD-3-Clause
// The table of the kernels of devices.
#include "kernels/cuda/lists.hh"

#define NNTILE_KERNELS(op) extern KernelList const op##_kernels;
namespace nntile::kernels::cuda {
#include "cuda_kernel_list.inc"
}
#undef NNTILE_KERNELS
#define NNTILE_KERNELS(op) &op##_kernels,

namespace nntile::kernels::cuda {

std::span<KernelList const* const> lists() noexcept {
  static constexpr KernelList const* all[] = {
#include "cuda_kernel_list.inc"
  };
  return all;
}

}  // namespace nntile::kernels::cuda
