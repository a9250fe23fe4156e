#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The norm of all gradients together, and clipping by it.

#include <cmath>

#include "nntile/ops/cast.hh"
#include "nntile/ops/columns.hh"
#include "nntile/ops/copy.hh"
#include "nntile/ops/gemm.hh"

namespace nntile {
namespace ops {

struct SumSquaresAttrs {};

/// y[j] = sum_k x[k,j]^2 over dimension 0, in fp64, blocks of 64; 0 where that is empty. What is
/// left of the dimensions is summed by sum_slice on fp64, innermost first. dtypes {every float}; an
/// fp64 square may overflow to infinity. Cost: |x| * size bytes.
struct SumSquares {
  static constexpr char const* name = "sum_squares";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  enum class Operand : std::uint8_t { x, y };
  static constexpr Operands operands{{"x", "k j..."}, {"y", "j...", Access::write, Kind::fp64}};

  using Attrs = SumSquaresAttrs;
  struct Args {
    Index k, n;
    bool first;
    std::uint32_t skipped;  // elements along k before the task's
    Index ldx;
  };

  static constexpr Fields fields{};
  static constexpr Hooks<Attrs> hooks{.blocked = [](Attrs const&) { return "k"; },
                                      .grouped = "k",
                                      .padding = Padding::columns,
                                      .takes_gradients = true};

  static Args args(Attrs const&, TileRange const& range) {
    return {range.extent('k'), range.extent('j'), range.first(Operand::y), range.skipped32('k'),
            range.leading(Operand::x)};
  }

  template <Element T>
  requires(is_float(dtype_of<T>))
  static void reference(Args const& args, Buffers<SumSquares> buffers) {
    T const* const x = buffers.at<T>(Operand::x) + args.skipped;  // [k, j]
    double* const y = buffers.at<double>(Operand::y);             // [j]
    for (Index j = 0; j < args.n; ++j) {
      double sum = Chain{args.first}.start(y, j);
      for (Index k = 0; k < args.k; ++k) {
        auto const value = static_cast<double>(static_cast<compute_t<T>>(x[k + args.ldx * j]));
        sum = std::fma(value, value, sum);
      }
      y[j] = sum;
    }
  }

  /// dx[k,j] = 2 x[k,j] dy[j], a product without a sum; dy is rounded to x's dtype.
  template <class Builder> static void gradient(Builder& b) {
    if (!b.wants(Operand::x)) return;
    auto dy = b.grad(Operand::y);
    if (b.dtype(Operand::x) != DType::fp64) {
      auto const rounded = b.temporary(b.shape(Operand::y), b.dtype(Operand::x),
                                       concat(b.name(Operand::y), ".grad.rounded"));
      b.template op<Cast>({}, dy, rounded);
      dy = rounded;
    }
    auto const dx = b.target(Operand::x);
    b.template op<Gemm>({.ndim = 0, .batch_ndim = b.rank(Operand::y), .alpha = 2, .beta = dx.beta},
                        b.operand(Operand::x), dy, dx.node);
  }
};

struct GlobalNormAddAttrs {
  double beta = 1;
};

/// total = beta total + part: adds one tensor's sum of squares to that of all; fp64 scalars. Called
/// in the order of the tensors' names, beta = 0 for the first.
struct GlobalNormAdd {
  static constexpr char const* name = "global_norm_add";
  static constexpr DType fp64_only[] = {DType::fp64};
  static constexpr std::span<DType const> dtypes{fp64_only};
  enum class Operand : std::uint8_t { part, total };
  static constexpr Operands operands{{"part", ""}, {"total", "", Access::update}};

  using Attrs = GlobalNormAddAttrs;
  struct Args {
    double beta;
  };

  static constexpr Fields fields{field<&Attrs::beta>("beta")};
  static constexpr Hooks<Attrs> hooks{};

  static Args args(Attrs const& attrs, TileRange const&) { return {attrs.beta}; }

  template <Element T>
  requires std::same_as<T, double>
  static void reference(Args const& args, Buffers<GlobalNormAdd> buffers) {
    double& total = *buffers.at<double>(Operand::total);
    double const part = *buffers.at<double>(Operand::part);
    total = args.beta == 0 ? part : std::fma(args.beta, total, part);
  }

  template <class Builder> static void gradient(Builder& b) {
    if (b.wants(Operand::part)) b.pass(Operand::part, Operand::total);
    b.keep(Operand::total, b.template attrs<GlobalNormAdd>().beta);
  }
};

struct ClipScaleAttrs {
  double max_norm = 1;
};

/// scale = min(1, max_norm / (sqrt(total) + 1e-6)), total an fp64 sum of squares; in fp64, rounded
/// to fp32 once. NaN where total is, 0 where it is infinite. Throws ValueError for a max_norm that
/// is below 0 or not finite. Source: torch.nn.utils.clip_grad_norm_.
struct ClipScale {
  static constexpr char const* name = "clip_scale";
  static constexpr DType fp32_only[] = {DType::fp32};
  static constexpr std::span<DType const> dtypes{fp32_only};
  enum class Operand : std::uint8_t { total, scale };
  static constexpr Operands operands{{"total", "", Access::read, Kind::fp64},
                                     {"scale", "", Access::write}};

  using Attrs = ClipScaleAttrs;
  struct Args {
    double max_norm;
  };

  static Args args(Attrs const& attrs, TileRange const&) { return {attrs.max_norm}; }
  static constexpr Fields fields{field<&Attrs::max_norm>("max_norm")};
  static constexpr Hooks<Attrs> hooks{.check = [](Attrs const& attrs, AxisTable const&) {
    if (!(attrs.max_norm >= 0 && std::isfinite(attrs.max_norm)))
      throw ValueError(
          concat(name, ": max_norm of ", attrs.max_norm, "; 0 or more, finite, such as 1"));
  }};
  static constexpr char const* no_gradient = "clipping counts its scale as a constant";

  template <Element T>
  requires std::same_as<T, float>
  static void reference(Args const& args, Buffers<ClipScale> buffers) {
    double const ratio = args.max_norm / (std::sqrt(*buffers.at<double>(Operand::total)) + 1e-6);
    *buffers.at<float>(Operand::scale) = static_cast<float>(ratio > 1 ? 1 : ratio);
  }
};

struct ScaleByAttrs {};

/// x = s x, s an fp32 scalar tensor: a factor that is data, as clipping's. dtypes {every float}.
/// Cost: 2|x| * size bytes.
struct ScaleBy {
  static constexpr char const* name = "scale_by";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  enum class Operand : std::uint8_t { s, x };
  static constexpr Operands operands{{"s", "", Access::read, Kind::fp32},
                                     {"x", "i...", Access::update}};

  using Attrs = ScaleByAttrs;
  /// Columns of n elements.
  struct Args {
    Index n;
    Columns<1> columns;
  };

  static Args args(Attrs const&, TileRange const& range) {
    Args args{};
    args.columns = columns_of<1>(range, 1, args.n, Operand::x);
    return args;
  }
  static constexpr Fields fields{};
  static constexpr Hooks<Attrs> hooks{.padding = Padding::any};

  template <Element T>
  requires(is_float(dtype_of<T>))
  static void reference(Args const& args, Buffers<ScaleBy> buffers) {
    using V = compute_t<T>;
    T* x = buffers.at<T>(Operand::x);  // [i]
    for (std::uint32_t c = 0; c < args.columns.count; ++c, x += args.columns.leading[0])
      for (Index i = 0; i < args.n; ++i) x[i] = T(V(*buffers.at<float>(Operand::s)) * V(x[i]));
  }

  template <class Builder> static void gradient(Builder& b) {
    if (b.wants(Operand::s))
      b.fail("that of s needs the x which it overwrites; multiply by gemm where s has a gradient");
    auto const scaled = b.temporary(b.shape(Operand::x), b.dtype(Operand::x),
                                    concat(b.name(Operand::x), ".grad.scaled"));
    b.template op<Copy>({}, b.grad(Operand::x), scaled);
    b.template op<ScaleBy>({}, b.operand(Operand::s), scaled);
    auto const dx = b.target(Operand::x);
    b.template op<Add>({.alpha = 1, .beta = dx.beta}, scaled, dx.beta == 0 ? scaled : dx.node,
                       dx.node);
  }
};

}  // namespace ops

inline constexpr Call<ops::SumSquares> sum_squares{};
inline constexpr Call<ops::GlobalNormAdd> global_norm_add{};
inline constexpr Call<ops::ClipScale> clip_scale{};
inline constexpr Call<ops::ScaleBy> scale_by{};
using global_norm_ops = OpList<ops::SumSquares, ops::GlobalNormAdd, ops::ClipScale, ops::ScaleBy>;

}  // namespace nntile
