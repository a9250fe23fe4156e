// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/simt/runtime.hh"

#include "kernels/cpu/kernel.hh"
#include "nntile/core/computation.hh"

#define NNTILE_KERNELS(op) extern KernelList const op##_kernels;
namespace nntile::kernels::cuda {
#include "cuda_kernel_list.inc"
}
#undef NNTILE_KERNELS
#define NNTILE_KERNELS(op) &kernels::cuda::op##_kernels,

namespace nntile::test {
namespace {

template <class Fits> Codelet const* find(Fits fits) {
  static constexpr kernels::KernelList const* lists[] = {
#include "cuda_kernel_list.inc"
  };
  for (kernels::KernelList const* const list : lists)
    for (int i = 0; i < list->count; ++i)
      if (fits(*list->codelets[i].computation)) return &list->codelets[i];
  return nullptr;
}

}  // namespace

Codelet const* on_device(Codelet const& codelet) {
  return find([&](Computation const& each) { return &each == codelet.computation; });
}

Codelet const* on_device(std::string_view op, DType element, DType second) {
  return find([&](Computation const& each) {
    return each.name == op && each.element == element && each.second == second;
  });
}

}  // namespace nntile::test
