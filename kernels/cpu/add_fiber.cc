// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/add_fiber.hh"

#include "kernels/cpu/vec.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

template <class T> struct AddFiber {
  using V = compute_t<T>;

  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::AddFiber>(call);
    using Operand = ops::AddFiber::Operand;
    Buffers<ops::AddFiber> const buffers(call);
    T const* const x = buffers.at<T const>(Operand::x);  // [m, k, n]
    T const* const f = buffers.at<T const>(Operand::f);  // [k]
    T* const z = buffers.at<T>(Operand::z);              // [m, k, n]
    Vec<V> const alpha(args.alpha);
    for (Index j = 0; j < args.n; ++j) {
      T const* from = x + j * args.x.j;  // [m, k]
      T* to = z + j * args.z.j;          // [m, k]
      if (args.m == 1 && args.x.k == 1 && args.z.k == 1) {
        for_each_vec<V>(args.k, [&](Index k, auto part) {
          store(to + k, fma(alpha, load(f + k, part), load(from + k, part)), part);
        });
        continue;
      }
      for (Index k = 0; k < args.k; ++k, from += args.x.k, to += args.z.k) {
        Vec<V> const value(static_cast<double>(static_cast<V>(f[k])));
        for_each_vec<V>(args.m, [&](Index i, auto part) {
          store(to + i, fma(alpha, value, load(from + i, part)), part);
        });
      }
    }
    return {};
  }
};

constinit auto const kernels = op_kernels<ops::AddFiber, AddFiber>();

}  // namespace
NNTILE_KERNEL_LIST(add_fiber, kernels)
}  // namespace nntile::kernels::NNTILE_ISA
