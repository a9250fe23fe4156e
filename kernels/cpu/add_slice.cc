// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/add_slice.hh"

#include "kernels/cpu/vec.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

template <class T> struct AddSlice {
  using V = compute_t<T>;

  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::AddSlice>(call);
    using Operand = ops::AddSlice::Operand;
    Buffers<ops::AddSlice> const buffers(call);
    T const* const x = buffers.at<T const>(Operand::x);  // [m, k, n]
    T const* const s = buffers.at<T const>(Operand::s);  // [m, n]
    T* const z = buffers.at<T>(Operand::z);              // [m, k, n]
    Vec<V> const alpha(args.alpha);
    for (Index j = 0; j < args.n; ++j) {
      if (args.m == 1) {
        Vec<V> const value(static_cast<double>(static_cast<V>(s[j])));
        for_each_vec<V>(args.k, [&](Index k, auto part) {
          store(z + j * args.k + k, fma(alpha, value, load(x + j * args.k + k, part)), part);
        });
        continue;
      }
      for (Index k = 0; k < args.k; ++k) {
        Index const at = args.m * (k + args.k * j);
        for_each_vec<V>(args.m, [&](Index i, auto part) {
          store(z + at + i, fma(alpha, load(s + args.m * j + i, part), load(x + at + i, part)),
                part);
        });
      }
    }
    return {};
  }
};

constinit auto const kernels = float_kernels<ops::AddSlice, AddSlice>();

}  // namespace
NNTILE_KERNEL_LIST(add_slice, kernels)
}  // namespace nntile::kernels::NNTILE_ISA
