#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Draws a class from each column of logits.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "nntile/core/random.hh"
#include "nntile/ops/call.hh"

namespace nntile {
namespace ops {

struct SampleAttrs {
  std::uint64_t seed = 0;
  std::uint64_t name = 0;  // hash_name of what is sampled, so that two samplers of one seed differ
  double temperature = 1;  // at least 0; 0 takes the largest logit, of equal ones the first
  Index top_k = 0;         // at least 0; 0 takes all classes
  double top_p = 1;        // in (0, 1]
};

/// y[j] = a class drawn from softmax(logits[:,j] / temperature), restricted to the `top_k` largest
/// logits and then to the fewest largest whose probability reaches `top_p`; equal logits rank by
/// class, the lowest first. The random number is Philox4x32-10 of {seed, name, step, j}. Weights
/// are integers, 2^40 exp((x - max) / temperature) cut towards 0, so that their sums have no order;
/// what has weight 0, as -inf has, is never drawn. dtypes {every float}; step and y int64; the
/// class axis is not cut. Cost: several times |logits| * size bytes. Fails where a logit is NaN or
/// inf, or all are -inf. Throws ValueError for attributes outside what SampleAttrs says, ShapeError
/// where there are no classes or 2^23 and more, whose weights 64 bits could not add up.
struct Sample {
  static constexpr char const* name = "sample";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  enum class Operand : std::uint8_t { logits, step, y };
  static constexpr Operands operands{{"logits", "v! j..."},
                                     {"step", "", Access::read, Kind::int64},
                                     {"y", "j...", Access::write, Kind::int64}};

  using Attrs = SampleAttrs;
  /// Columns are numbered in the whole tensor, as for randn.
  struct Args {
    Index v;
    std::uint64_t key;
    double temperature, top_p;
    Index top_k, begin, count;
    std::int64_t rank;
    Index leading;  // of the tile of logits
    std::int32_t extent[max_rank];
    Index stride[max_rank];
  };

  /// The sum of one weight more than that, each at most 2^40, is below 2^64.
  static constexpr Index most_classes = (Index{1} << 23) - 1;

  static void check(Attrs const& attrs, AxisTable const& axes) {
    if (!(attrs.temperature >= 0 && attrs.temperature < std::numeric_limits<double>::infinity()))
      throw ValueError(concat(name, ": temperature=", attrs.temperature,
                              "; it must be a finite number, 0 or more"));
    if (attrs.top_k < 0)
      throw ValueError(concat(name, ": top_k=", attrs.top_k,
                              "; it must be 0, which takes all classes, or more"));
    if (!(attrs.top_p > 0 && attrs.top_p <= 1))
      throw ValueError(concat(name, ": top_p=", attrs.top_p, "; it must be above 0 and at most 1"));
    if (axes.whole('v') == 0)
      throw ShapeError(concat(name, ": logits[v]=0; there is no class to draw"));
    if (axes.whole('v') > most_classes)
      throw ShapeError(concat(name, ": logits[v]=", axes.whole('v'), "; at most ", most_classes,
                              " classes have weights that 64 bits add up"));
  }
  static Args args(Attrs const& attrs, TileRange const& range) {
    TileBox const box = range.box(Operand::y);
    Shape const whole = range.table().shape(Operand::y);
    Args args{};
    args.v = range.extent('v');
    args.key = random_key(attrs.seed, attrs.name);
    args.temperature = attrs.temperature;
    args.top_p = attrs.top_p;
    args.top_k = attrs.top_k;
    args.count = range.extent('j');
    args.rank = static_cast<std::int64_t>(whole.size());
    args.leading = range.leading(Operand::logits);
    Index stride = 1;
    for (std::size_t d = 0; d < whole.size(); ++d) {
      args.begin += stride * box.begin[d];
      if (box.extent[d] > INT32_MAX)
        throw ShapeError(concat("its kernel counts up to ", INT32_MAX, " columns of a tile along ",
                                "dimension ", d, ", and there are ", box.extent[d],
                                "; use smaller tiles"));
      args.extent[d] = static_cast<std::int32_t>(box.extent[d]);
      args.stride[d] = stride;
      stride *= whole[d];
    }
    return args;
  }

  static constexpr Fields fields{field<&Attrs::seed>("seed"), field<&Attrs::name>("name"),
                                 field<&Attrs::temperature>("temperature"),
                                 field<&Attrs::top_k>("top_k"), field<&Attrs::top_p>("top_p")};
  /// Weights are whole numbers: their sums are exact.
  static constexpr Hooks<Attrs> hooks{
      .check = &check, .ungrouped = "v", .padding = Padding::columns};
  static constexpr char const* no_gradient = "a drawn class does not vary with the logits";

  /// Number of column `j` of the tile in the whole tensor.
  NNTILE_ALWAYS_INLINE static Index column(Args const& args, Index j) {
    Index result = args.begin;
    for (std::int64_t d = 0; d < args.rank; ++d) {
      result += j % args.extent[d] * args.stride[d];
      j /= args.extent[d];
    }
    return result;
  }

  /// Weight of the largest logit.
  static constexpr double unit = 0x1p40;

  /// Least weight that is `top_p` of all, at least 1.
  NNTILE_ALWAYS_INLINE static std::uint64_t wanted(double top_p, std::uint64_t total) {
    double const share = top_p * static_cast<double>(total);
    auto const cut = share > 0 ? static_cast<std::uint64_t>(share) : 0;
    auto const enough = cut + (static_cast<double>(cut) < share ? 1 : 0);
    return enough < 1 ? 1 : enough > total ? total : enough;
  }

  /// A number below `total`.
  NNTILE_ALWAYS_INLINE static std::uint64_t draw(RandomWords const& words, std::uint64_t total) {
    double const share = static_cast<double>(bits53(words.word[0], words.word[1])) * 0x1p-53;
    auto const number = static_cast<std::uint64_t>(share * static_cast<double>(total));
    return number < total ? number : total - 1;
  }

  template <Element T>
  requires(is_float(dtype_of<T>))
  static Status reference(Args const& args, Buffers<Sample> buffers) {
    auto const step = static_cast<std::uint64_t>(*buffers.at<std::int64_t>(Operand::step));
    for (Index j = 0; j < args.count; ++j) {
      T const* const logits = buffers.at<T>(Operand::logits) + j * args.leading;  // [v]
      std::vector<double> x(logits, logits + args.v);
      std::vector<std::size_t> order(x.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      for (double const value : x)
        if (value != value) return {"a logit is not a number"};
      std::sort(order.begin(), order.end(),
                [&](std::size_t a, std::size_t b) { return x[a] != x[b] ? x[a] > x[b] : a < b; });
      double const max = x[order[0]];
      if (std::isinf(max)) return {max > 0 ? "a logit is inf" : "no logit is finite"};
      if (args.temperature == 0) {
        buffers.at<std::int64_t>(Operand::y)[j] = static_cast<std::int64_t>(order[0]);
        continue;
      }
      auto const weight = [&](std::size_t v) {
        return static_cast<std::uint64_t>(std::exp((x[v] - max) / args.temperature) * unit);
      };
      if (args.top_k > 0 && args.top_k < args.v) order.resize(static_cast<std::size_t>(args.top_k));
      std::uint64_t total = 0;
      for (auto const v : order) total += weight(v);
      if (args.top_p < 1) {
        std::uint64_t const enough = wanted(args.top_p, total);
        std::uint64_t sum = 0;
        std::size_t kept = 0;
        while (sum < enough) sum += weight(order[kept++]);
        order.resize(kept);
        total = sum;
      }
      std::vector<char> kept(x.size());
      for (auto const v : order) kept[v] = 1;
      std::uint64_t left =
          draw(philox(args.key, static_cast<std::uint64_t>(column(args, j)), step), total);
      std::size_t chosen = 0;
      for (; kept[chosen] == 0 || left >= weight(chosen); ++chosen)
        if (kept[chosen] != 0) left -= weight(chosen);
      buffers.at<std::int64_t>(Operand::y)[j] = static_cast<std::int64_t>(chosen);
    }
    return {};
  }
};

/// Here and not in nntile, where std::sample would be as good a match after both using-directives.
inline constexpr Call<Sample> sample{};

}  // namespace ops

using sample_ops = OpList<ops::Sample>;

}  // namespace nntile
