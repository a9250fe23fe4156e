// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/gemm.hh"

#include "kernels/cpu/gemm_block.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

template <class S>
struct Gemm {
  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::Gemm>(call);
    using T = compute_t<S>;
    int const c = args.bias ? 3 : 2;
    for (Index batch = 0; batch < args.batch; ++batch) {
      Product<S, T> x{};
      x.m = args.m, x.n = args.n, x.k = args.k;
      x.a = buffer<S>(call, 0) + args.a_offset + batch * args.a_stride;
      x.b = buffer<S>(call, 1) + args.b_offset + batch * args.b_stride;
      x.bias = args.bias ? buffer<S>(call, 2) + args.bias_offset : nullptr;
      x.c = buffer<S>(call, c) + args.c_offset + batch * args.c_stride;
      x.carry = args.carried ? buffer<T>(call, c + 1) + args.c_offset + batch * args.c_stride : nullptr;
      x.lda = args.lda, x.ldb = args.ldb, x.ldc = args.ldc;
      x.trans_a = args.trans_a, x.trans_b = args.trans_b, x.first = args.first, x.last = args.last;
      x.alpha = static_cast<T>(args.alpha), x.beta = static_cast<T>(args.beta);
      x.activation = args.activation;
      if constexpr (std::same_as<S, T>) multiply_blocked(x);
      else multiply_narrow(x);
    }
    return {};
  }
};

constinit auto const kernels = float_kernels<ops::Gemm, Gemm>();

}  // namespace
NNTILE_KERNEL_LIST(gemm, kernels)
}  // namespace nntile::kernels::NNTILE_ISA
