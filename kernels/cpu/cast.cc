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

/// The C++ types behind dtypes; the fp32_fast tags are float.
template <int dtype> struct Storage {
  using type = float;
};
template <> struct Storage<static_cast<int>(DType::fp64)> {
  using type = double;
};
template <> struct Storage<static_cast<int>(DType::bf16)> {
  using type = bf16_t;
};
template <> struct Storage<static_cast<int>(DType::fp16)> {
  using type = fp16_t;
};
template <> struct Storage<static_cast<int>(DType::int64)> {
  using type = std::int64_t;
};
template <> struct Storage<static_cast<int>(DType::int32)> {
  using type = std::int32_t;
};
template <> struct Storage<static_cast<int>(DType::boolean)> {
  using type = bool;
};

template <int number> consteval Kernels<1> cast_kernel() {
  constexpr int to = number / dtype_count;
  constexpr int from = number % dtype_count;
  using Body = Cast<typename Storage<to>::type, typename Storage<from>::type>;
  return kernel<ops::Cast, static_cast<DType>(to), static_cast<DType>(from)>(&Body::run);
}

template <int... numbers> consteval auto cast_kernels(std::integer_sequence<int, numbers...>) {
  return join(cast_kernel<numbers>()...);
}

constinit auto const kernels =
    cast_kernels(std::make_integer_sequence<int, dtype_count * dtype_count>{});

}  // namespace
NNTILE_KERNEL_LIST(cast, kernels)
}  // namespace nntile::kernels::NNTILE_ISA
