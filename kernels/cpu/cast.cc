// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/cast.hh"

#include "kernels/cpu/vec.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

template <class To, class From> struct Cast {
  static constexpr bool vectors =
      std::same_as<compute_t<To>, float> && std::same_as<compute_t<From>, float>;

  static Status run(KernelCall const& call) noexcept {
    auto const [n, columns] = arguments<ops::Cast>(call);
    Buffers<ops::Cast> const buffers(call);
    From const* x = buffers.at<From>(ops::Cast::Operand::x);
    To* y = buffers.at<To>(ops::Cast::Operand::y);
    for (std::uint32_t c = 0; c < columns.count; ++c) {
      convert(x, y, n);
      x += columns.leading[0], y += columns.leading[1];
    }
    return {};
  }

  NNTILE_ALWAYS_INLINE static void convert(From const* x, To* y, Index n) {
    if constexpr (vectors)
      for_each_vec<float>(n, [&](Index i, auto part) { store(y + i, load(x + i, part), part); });
    else
      for (Index i = 0; i < n; ++i) y[i] = nntile::detail::convert<To>(x[i]);
  }
};

constinit auto const kernels = op_kernels<ops::Cast, Cast>();

}  // namespace
NNTILE_KERNEL_LIST(cast, kernels)
}  // namespace nntile::kernels::NNTILE_ISA
