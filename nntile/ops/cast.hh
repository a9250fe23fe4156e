#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The only change of dtype.

#include "nntile/ops/add.hh"
#include "nntile/ops/columns.hh"

namespace nntile {

namespace detail {

/// Every dtype from every other, from itself first.
struct CastTypes {
  ElementTypes each[dtype_count * dtype_count] = {};
  constexpr CastTypes() {
    std::size_t at = 0;
    for (DType const to : all_dtypes) {
      each[at++] = {to, to};
      for (DType const from : all_dtypes)
        if (from != to) each[at++] = {to, from};
    }
  }
};
inline constexpr CastTypes cast_types{};

/// One value to another dtype: floats round to nearest even, once; to an integer they are cut
/// towards 0; a NaN, and any number that the integer has no room for, becomes its smallest value;
/// to bool everything but 0 is true.
template <class To, class From> NNTILE_ALWAYS_INLINE To convert(From value) {
  using Source = compute_t<From>;
  auto const wide = static_cast<Source>(value);
  if constexpr (std::same_as<To, bool>) {
    return wide != Source(0);
  } else if constexpr (std::integral<To> &&
                       (std::floating_point<Source> || sizeof(To) < sizeof(Source))) {
    constexpr auto limit = static_cast<Source>(sizeof(To) == 8 ? 0x1p63 : 0x1p31);
    bool const fits = wide >= -limit && wide < limit;
    return fits ? static_cast<To>(wide) : static_cast<To>(std::uint64_t{1} << (8 * sizeof(To) - 1));
  } else if constexpr (std::same_as<To, double> || std::integral<To>) {
    return static_cast<To>(wide);
  } else if constexpr (sizeof(To) == sizeof(float)) {
    return To(static_cast<float>(wide));
  } else {
    return To(wide);
  }
}

}  // namespace detail

namespace ops {

struct CastAttrs {};

/// y = x in y's dtype; dtypes {all}, x any of them. Cost: (size of x + size of y) * |x| bytes.
struct Cast {
  static constexpr char const* name = "cast";
  static constexpr TypeTable types{nntile::detail::cast_types.each};
  enum class Operand : std::uint8_t { x, y };
  static constexpr Operands operands{{"x", "i...", Access::read, Kind::second},
                                     {"y", "i...", Access::write}};

  using Attrs = CastAttrs;
  /// Columns of n elements.
  struct Args {
    Index n;
    Columns<2> columns;  // of x and y
  };

  static Args args(Attrs const&, TileRange const& range) {
    Args args{};
    args.columns = columns_of<2>(range, 2, args.n, Operand::x);
    return args;
  }
  static constexpr Fields fields{};
  static constexpr Hooks<Attrs> hooks{.padding = Padding::any};
  static constexpr char const* no_reference = "its kernels cover every pair of dtypes";

  template <class Builder> static void gradient(Builder& b) {
    if (!b.wants(Operand::x)) return;
    auto const target = b.target(Operand::x);
    if (target.beta == 0) return b.template op<Cast>({}, b.grad(Operand::y), target.node);
    auto const part = b.temporary(b.shape(Operand::x), b.dtype(Operand::x), "cast.grad");
    b.template op<Cast>({}, b.grad(Operand::y), part);
    b.template op<Add>({.alpha = 1, .beta = target.beta}, part, target.node, target.node);
  }
};

}  // namespace ops

/// cast(x, y), or cast(node, DType::bf16), which names the dtype of the result alone.
struct CastCall : Call<ops::Cast> {
  using Call<ops::Cast>::operator();
  template <class Operand> auto operator()(Operand&& x, DType dtype) const {
    return (*this)(x, tensor_like(x, dtype));
  }
};
inline constexpr CastCall cast{};
using cast_ops = OpList<ops::Cast>;

}  // namespace nntile
