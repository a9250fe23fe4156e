#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// CudaRing: the ring on NVIDIA's devices.

#include "nntile/runtime/cuda.hh"
#include "nntile/runtime/ring/nest.hh"

namespace nntile {

struct CudaRingPolicy : RingPolicy {
  using Device = Cuda;
};
using CudaRing = BasicRing<CudaRingPolicy>;

}  // namespace nntile
