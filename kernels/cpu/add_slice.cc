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
      T const* from = x + j * args.x.j;       // [m, k]
      T const* const slice = s + j * args.s;  // [m]
      T* to = z + j * args.z.j;               // [m, k]
      if (args.m == 1 && args.x.k == 1 && args.z.k == 1) {
        Vec<V> const value(static_cast<double>(static_cast<V>(slice[0])));
        for_each_vec<V>(args.k, [&](Index k, auto part) {
          store(to + k, fma(alpha, value, load(from + k, part)), part);
        });
        continue;
      }
      for (Index k = 0; k < args.k; ++k, from += args.x.k, to += args.z.k)
        for_each_vec<V>(args.m, [&](Index i, auto part) {
          store(to + i, fma(alpha, load(slice + i, part), load(from + i, part)), part);
        });
    }
    return {};
  }
};

constinit auto const kernels = op_kernels<ops::AddSlice, AddSlice>();

}  // namespace
NNTILE_KERNEL_LIST(add_slice, kernels)
}  // namespace nntile::kernels::NNTILE_ISA
