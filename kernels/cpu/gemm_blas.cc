// SPDX-License-Identifier: BSD-3-Clause
// GEMM of a vendor's library, for Numerics::fast.
#include "kernels/cpu/kernel.hh"

namespace nntile::kernels {

extern KernelList const blas_kernels;
constinit KernelList const blas_kernels{};

}  // namespace nntile::kernels
