#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Softmax along dimension 0, and its derivative.

#include <cmath>
#include <limits>

#include "nntile/ops/call.hh"

namespace nntile {
namespace ops {

/// NaN-propagating maximum: the order of every maximum that is subtracted before an exponential;
/// never -0.
template <std::floating_point V> constexpr V maximum(V a, V b) {
  return a != a ? a : b != b ? b : (a > b ? a : b) + V(0);
}

struct SoftmaxBackwardAttrs {
  double beta = 0;
};

/// dx = beta dx + y (dy - sum_v y dy), the sum in blocks of 64. dtypes {every float}.
/// Cost: 3 to 4 |y| * size bytes, twice the reads where v is cut.
struct SoftmaxBackward {
  static constexpr char const* name = "softmax_backward";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  enum class Operand : std::uint8_t { y, dy, dx, dot };
  static constexpr Operands operands{
      {"y", "v i..."},
      {"dy", "v i..."},
      {"dx", "v i...", Access::update},
      {"dot", "i...", Access::update, Kind::accumulator, Carry::phases}};

  using Attrs = SoftmaxBackwardAttrs;
  struct Args {
    Index v;
    std::uint32_t n, skipped;  // elements along v before the task's
    double beta;
    int phase;
    bool first;
    Index ldy, lddy, lddx;
  };
  static constexpr Fields fields{field<&Attrs::beta>("beta")};
  static constexpr Hooks<Attrs> hooks{
      .phases = [](Attrs const&) -> Phases {
        using enum Access;
        return {Phase{{{Operand::y, read}, {Operand::dy, read}, {Operand::dot, write}}},
                Phase{{{Operand::y, read},
                       {Operand::dy, read},
                       {Operand::dx, update},
                       {Operand::dot, read}}}};
      },
      .blocked = [](Attrs const&) { return "v"; },
      .grouped = "v",
      .replaces = [](Attrs const&) -> OperandSet { return {Operand::y, Operand::dy}; },
      .padding = Padding::columns};
  static constexpr char const* no_gradient = no_second_derivative;

  static Args args(Attrs const& attrs, TileRange const& range) {
    return {range.extent('v'),
            range.extent32('i'),
            range.skipped32('v'),
            attrs.beta,
            range.phase,
            range.first(Operand::dot),
            range.leading(Operand::y),
            range.leading(Operand::dy),
            range.leading(Operand::dx)};
  }

  template <Element T>
  requires(is_float(dtype_of<T>))
  static void reference(Args const& args, Buffers<SoftmaxBackward> buffers) {
    using V = compute_t<T>;
    V* const dots = buffers.at<V>(Operand::dot);  // [i], where v is cut
    Chain const chain = Chain{args.first}.in_phase(args.phase, 0);
    for (Index i = 0; i < args.n; ++i) {
      T const* const y = buffers.at<T>(Operand::y) + i * args.ldy + args.skipped;     // [v]
      T const* const dy = buffers.at<T>(Operand::dy) + i * args.lddy + args.skipped;  // [v]
      V dot = chain.start(dots, i);
      if (args.phase != 1)
        for (Index p = 0; p < args.v; ++p) dot = std::fma(V(y[p]), V(dy[p]), dot);
      if (args.phase == 0) {
        dots[i] = dot;
        continue;
      }
      T* const dx = buffers.at<T>(Operand::dx) + i * args.lddx;  // [v]
      for (Index p = 0; p < args.v; ++p)
        dx[p] = T(updated(args.beta, dx[p], V(y[p]) * (V(dy[p]) - dot)));
    }
  }
};

struct SoftmaxAttrs {};

/// y = exp(x - max_v x) * (1 / sum_v exp(x - max)), along dimension 0; the sum in blocks of 64. The
/// maximum is NaN if any element is. -inf is an ordinary masked score with probability 0; a column
/// of nothing but -inf gives NaN, and so does one with +inf, as in PyTorch. dtypes {every float}.
/// Cost: 2 |x| * size bytes, 4 where v is cut.
struct Softmax {
  static constexpr char const* name = "softmax";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  enum class Operand : std::uint8_t { x, y, max, sum };
  static constexpr Operands operands{
      {"x", "v i..."},
      {"y", "v i...", Access::write},
      {"max", "i...", Access::update, Kind::accumulator, Carry::phases, Combine::max},
      {"sum", "i...", Access::update, Kind::accumulator, Carry::phases}};

  using Attrs = SoftmaxAttrs;
  struct Args {
    Index v;
    std::uint32_t n, skipped;  // elements along v before the task's
    int phase;
    bool first;
    Index ldx, ldy;
  };
  static constexpr Fields fields{};
  static constexpr Hooks<Attrs> hooks{
      .phases = [](Attrs const&) -> Phases {
        using enum Access;
        return {Phase{{{Operand::x, read}, {Operand::max, write}}},
                Phase{{{Operand::x, read}, {Operand::max, read}, {Operand::sum, write}}},
                Phase{{{Operand::x, read},
                       {Operand::y, write},
                       {Operand::max, read},
                       {Operand::sum, read}}}};
      },
      .blocked = [](Attrs const&) { return "v"; },
      .grouped = "v",
      .replaces = [](Attrs const&) -> OperandSet { return {Operand::x}; },
      .padding = Padding::columns};

  static Args args(Attrs const&, TileRange const& range) {
    return {
        range.extent('v'),         range.extent32('i'),       range.skipped32('v'),     range.phase,
        range.first(Operand::max), range.leading(Operand::x), range.leading(Operand::y)};
  }

  template <Element T>
  requires(is_float(dtype_of<T>))
  static void reference(Args const& args, Buffers<Softmax> buffers) {
    using V = compute_t<T>;
    V* const maxima = buffers.at<V>(Operand::max);  // [i], where v is cut
    V* const sums = buffers.at<V>(Operand::sum);    // [i], likewise
    Chain const of_max = Chain{args.first}.in_phase(args.phase, 0);
    Chain const of_sum = Chain{args.first}.in_phase(args.phase, 1);
    for (Index i = 0; i < args.n; ++i) {
      T const* const x = buffers.at<T>(Operand::x) + i * args.ldx + args.skipped;  // [v]
      V max = of_max.start(maxima, i, -std::numeric_limits<V>::infinity());
      if (args.phase <= 0)
        for (Index p = 0; p < args.v; ++p) max = maximum(max, V(x[p]));
      if (args.phase == 0) {
        maxima[i] = max;
        continue;
      }
      V sum = of_sum.start(sums, i);
      if (args.phase != 2)
        for (Index p = 0; p < args.v; ++p) sum += std::exp(V(x[p]) - max);
      if (args.phase == 1) {
        sums[i] = sum;
        continue;
      }
      T* const y = buffers.at<T>(Operand::y) + i * args.ldy;  // [v]
      for (Index p = 0; p < args.v; ++p) y[p] = T(std::exp(V(x[p]) - max) * (V(1) / sum));
    }
  }

  template <class Builder> static void gradient(Builder& b) {
    if (!b.wants(Operand::x)) return;
    auto const dx = b.target(Operand::x);
    b.template op<SoftmaxBackward>({.beta = dx.beta}, b.operand(Operand::y), b.grad(Operand::y),
                                   dx.node);
  }
};

}  // namespace ops

inline constexpr Call<ops::Softmax> softmax{};
inline constexpr Call<ops::SoftmaxBackward> softmax_backward{};
using softmax_ops = OpList<ops::Softmax, ops::SoftmaxBackward>;

}  // namespace nntile
