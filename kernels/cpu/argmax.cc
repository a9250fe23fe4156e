// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/argmax.hh"

#include "kernels/cpu/best.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

template <class T> struct Argmax {
  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::Argmax>(call);
    using Operand = ops::Argmax::Operand;
    Buffers<ops::Argmax> const buffers(call);
    using V = compute_t<T>;
    T const* const x = buffers.at<T>(Operand::x);    // [m, v, n]
    Index* const y = buffers.at<Index>(Operand::y);  // [m, n]
    V* const carry = buffers.at<V>(Operand::best);   // [m, n]
    Chain const chain = args.chain(carry);
    for (Index j = 0; j < args.n; ++j)
      for (Index i = 0; i < args.m; ++i) {
        T const* const line = x + i + j * args.ldx;
        Index const at = i + j * args.m, to = i + j * args.ldy;
        Best<V> best{chain.start(carry, at, V(line[0])), chain.start(y, to, args.v_begin)};
        for (Index v = chain.first ? 1 : 0; v < args.v; ++v)
          best.offer(V(line[v * args.stride]), args.v_begin + v);
        y[to] = best.where;
        if (carry != nullptr) carry[at] = best.value;
      }
    return {};
  }
};

constinit auto const kernels = op_kernels<ops::Argmax, Argmax>();

}  // namespace
NNTILE_KERNEL_LIST(argmax, kernels)
}  // namespace nntile::kernels::NNTILE_ISA
