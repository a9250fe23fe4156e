#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A constant in every element.

#include "nntile/ops/call.hh"
#include "nntile/ops/columns.hh"

namespace nntile {
namespace ops {

/// y = value, rounded to y's dtype. dtypes {every float}. Cost: |y| * size bytes.
struct Fill {
  static constexpr char const* name = "fill";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  enum class Operand : std::uint8_t { y };
  static constexpr Operands operands{{"y", "i...", Access::write}};

  struct Attrs {
    double value = 0;
  };
  /// Columns of n elements.
  struct Args {
    Index n;
    double value;
    Columns<1> columns;
  };

  static Args args(Attrs const& attrs, TileRange const& range) {
    Args args{0, attrs.value, {}};
    args.columns = columns_of<1>(range, 1, args.n, Operand::y);
    return args;
  }
  static constexpr Fields fields{field<&Attrs::value>("value")};
  static constexpr Hooks<Attrs> hooks{.padding = Padding::any};
  static constexpr char const* no_gradient = "it reads nothing";

  template <Element T>
  requires(is_float(dtype_of<T>))
  static void reference(Args const& args, Buffers<Fill> buffers) {
    T* y = buffers.at<T>(Operand::y);
    for (std::uint32_t c = 0; c < args.columns.count; ++c, y += args.columns.leading[0])
      for (Index i = 0; i < args.n; ++i) y[i] = rounded_to<T>(args.value);
  }
};

/// Here and not in nntile, where std::fill would be as good a match after both using-directives.
inline constexpr Call<Fill> fill{};

}  // namespace ops

using fill_ops = OpList<ops::Fill>;

}  // namespace nntile
