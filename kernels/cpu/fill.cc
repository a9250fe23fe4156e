// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/fill.hh"

#include "kernels/cpu/vec.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

template <class T> struct Fill {
  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::Fill>(call);
    using Operand = ops::Fill::Operand;
    Buffers<ops::Fill> const buffers(call);
    using V = compute_t<T>;
    T* y = buffers.at<T>(Operand::y);
    Vec<V> const value(static_cast<double>(static_cast<V>(rounded_to<T>(args.value))));
    for (std::uint32_t c = 0; c < args.columns.count; ++c, y += args.columns.leading[0])
      for_each_vec<V>(args.n, [&](Index i, auto part) { store(y + i, value, part); });
    return {};
  }
};

constinit auto const kernels = op_kernels<ops::Fill, Fill>();

}  // namespace
NNTILE_KERNEL_LIST(fill, kernels)
}  // namespace nntile::kernels::NNTILE_ISA
