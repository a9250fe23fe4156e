#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Normally distributed numbers that depend on the seed, the tensor's name and the element alone.

#include <cmath>

#include "nntile/core/random.hh"
#include "nntile/ops/call.hh"

namespace nntile {
namespace ops {

struct RandnAttrs {
  std::uint64_t seed = 0;
  std::uint64_t name = 0;  // hash_name of the tensor's full name
  double mean = 0;
  double stddev = 1;
};

/// y = mean + stddev * N(0, 1). Elements 2j and 2j+1, counted in the whole column-major tensor, are
/// the two values of Box and Muller for block j of Philox4x32-10, in fp64, rounded to y's dtype.
/// dtypes {every float}. Cost: |y| * size bytes. Throws ValueError for a mean or stddev that is not
/// finite, and for a stddev below 0. Source: Box and Muller 1958.
struct Randn {
  static constexpr char const* name = "randn";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  enum class Operand : std::uint8_t { y };
  static constexpr Operands operands{{"y", "i...", Access::write}};

  using Attrs = RandnAttrs;
  /// Extents of the tile, strides of the whole tensor, and where in it the tile begins.
  struct Args {
    std::uint64_t key;
    double mean, stddev;
    Index begin;
    std::int64_t rank;
    Index leading;  // of the tile
    Index extent[max_rank], stride[max_rank];
  };

  static void check(Attrs const& attrs, AxisTable const&) {
    if (!std::isfinite(attrs.mean) || !std::isfinite(attrs.stddev) || attrs.stddev < 0)
      throw ValueError(concat(name, ": a mean of ", attrs.mean, " and a deviation of ",
                              attrs.stddev, "; both are finite, and the latter is 0 or more"));
  }
  static Args args(Attrs const& attrs, TileRange const& range) {
    TileBox const box = range.box(Operand::y);
    Shape const whole = range.table().shape(Operand::y);
    Args args{};
    args.key = random_key(attrs.seed, attrs.name);
    args.mean = attrs.mean;
    args.stddev = attrs.stddev;
    args.rank = static_cast<std::int64_t>(whole.size());
    args.leading = range.leading(Operand::y);
    Index stride = 1;
    for (std::size_t d = 0; d < whole.size(); ++d) {
      args.begin += stride * box.begin[d];
      args.extent[d] = box.extent[d];
      args.stride[d] = stride;
      stride *= whole[d];
    }
    return args;
  }

  static constexpr Fields fields{field<&Attrs::seed>("seed"), field<&Attrs::name>("name"),
                                 field<&Attrs::mean>("mean"), field<&Attrs::stddev>("stddev")};
  static constexpr Hooks<Attrs> hooks{.check = &check, .padding = Padding::any};
  static constexpr char const* no_gradient = "it reads nothing";

  template <Element T>
  requires(is_float(dtype_of<T>))
  static void reference(Args const& args, Buffers<Randn> buffers) {
    T* const y = buffers.at<T>(Operand::y);
    Index count = 1;
    for (std::int64_t d = 0; d < args.rank; ++d) count *= args.extent[d];
    Index const rows = args.rank == 0 ? 1 : args.extent[0];
    for (Index i = 0; i < count; ++i) {
      Index element = args.begin;
      Index rest = i;
      for (std::int64_t d = 0; d < args.rank; ++d) {
        element += rest % args.extent[d] * args.stride[d];
        rest /= args.extent[d];
      }
      RandomWords const words = philox(args.key, static_cast<std::uint64_t>(element / 2), 0);
      double const u =
          static_cast<double>(bits53(words.word[0], words.word[1]) + 1) * 0x1p-53;  // (0, 1]
      double const turn = static_cast<double>(bits53(words.word[2], words.word[3])) * 0x1p-53;
      double const radius = std::sqrt(-2 * std::log(u));
      double const angle = 6.283185307179586 * turn;
      double const normal = radius * (element % 2 == 0 ? std::cos(angle) : std::sin(angle));
      y[i % rows + i / rows * args.leading] =
          rounded_to<T>(std::fma(args.stddev, normal, args.mean));
    }
  }
};

}  // namespace ops

inline constexpr Call<ops::Randn> randn{};
using randn_ops = OpList<ops::Randn>;

}  // namespace nntile
