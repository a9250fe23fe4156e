// SPDX-License-Identifier: BSD-3-Clause
// Peak of one core: independent multiply-adds in registers. The denominator of "share of peak".
#include "kernels/cpu/vec.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

/// Buffers: the number of flops done (fp64), and a value that depends on all of them (fp32).
struct Peak {
  static constexpr char const* name = "fma_peak";
  struct Args {
    std::int64_t iterations;
  };
};

Status run(KernelCall const& call) noexcept {
  auto const iterations = arguments<Peak>(call).iterations;
  constexpr int chains =
      12;  // latency 4 to 5 cycles, two a cycle; more would spill on 16 registers
  Vec<float> sums[chains];
  for (int i = 0; i < chains; ++i) sums[i] = Vec<float>(1e-3 * i);
  Vec<float> const a(0.999), b(1e-3);
  for (std::int64_t n = 0; n < iterations; ++n) {
#pragma GCC unroll 12
    for (int i = 0; i < chains; ++i) sums[i] = fma(sums[i], a, b);
  }
  Vec<float> total = sums[0];
  for (int i = 1; i < chains; ++i) total += sums[i];
  float values[64];
  store(values, total);
  *static_cast<double*>(call.buffers[0]) =
      2.0 * chains * Vec<float>::lanes * static_cast<double>(iterations);
  *static_cast<float*>(call.buffers[1]) = values[0];
  return {};
}

constinit auto const kernels = kernel<Peak, DType::fp32>(&run);

}  // namespace
NNTILE_KERNEL_LIST(peak, kernels)
}  // namespace nntile::kernels::NNTILE_ISA
