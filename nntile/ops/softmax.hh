#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Softmax along dimension 0, and its derivative.

#include <cmath>
#include <limits>

#include "nntile/ops/concept.hh"

namespace nntile {
namespace ops {

/// The larger of two, NaN if either is: the order of every maximum that an exponential is taken
/// from.
template <std::floating_point V> V maximum(V a, V b) {
  return a != a ? a : b != b ? b : a > b ? a : b;
}

struct SoftmaxBackwardAttrs {
  double beta = 0;
};

/// dx = beta dx + y (dy - sum_v y dy), the sum in blocks of 64. dtypes {every float}.
/// Cost: 3 to 4 |y| * size bytes, twice the reads where v is cut.
struct SoftmaxBackward {
  static constexpr char const* name = "softmax_backward";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  static constexpr Operands operands{
      {"y", "v i..."},
      {"dy", "v i..."},
      {"dx", "v i...", Access::update},
      {"dot", "i...", Access::update, Kind::accumulator, Carry::phases}};

  using Attrs = SoftmaxBackwardAttrs;
  struct Args {
    Index v, n;
    double beta;
    int phase;
    bool first;
  };

  static Phases phases(Attrs const&) {
    auto const read = Access::read;
    return {Phase{{{0, read}, {1, read}, {3, Access::write}}},
            Phase{{{0, read}, {1, read}, {2, Access::update}, {3, read}}}};
  }
  static bool overwrites(Attrs const& attrs, int) { return attrs.beta == 0; }
  static std::uint32_t replaces(Attrs const&) { return 1u << 0 | 1u << 1; }
  static char const* blocked(Attrs const&) { return "v"; }
  static Args args(Attrs const& attrs, TileRange const& range) {
    return {range.extent('v'), range.extent('i'), attrs.beta, range.phase, range.first(3)};
  }
  static Cost cost(Attrs const& attrs, TileRange const& range) {
    Index const passes = range.phase == 0 ? 2 : 3 + (attrs.beta == 0 ? 0 : 1);
    return {0, static_cast<Index>(sizeof(float)) * range.extent('v') * range.extent('i') * passes};
  }

  /// What a task of some phase was given; the rest is null.
  template <class T> struct View {
    T const* y;         // [v, i]
    T const* dy;        // [v, i]
    T* dx;              // [v, i]
    compute_t<T>* dot;  // [i]
  };
  template <class T> NNTILE_ALWAYS_INLINE static View<T> view(int phase, void* const* at) {
    return {static_cast<T const*>(at[0]), static_cast<T const*>(at[1]),
            phase == 0 ? nullptr : static_cast<T*>(at[2]),
            phase < 0 ? nullptr : static_cast<compute_t<T>*>(at[phase == 0 ? 2 : 3])};
  }

  template <Element T>
  requires(is_float(dtype_of<T>)) static void reference(Args const& args, Buffers buffers) {
    using V = compute_t<T>;
    auto const v = view<T>(args.phase, buffers.pointers);
    for (Index i = 0; i < args.n; ++i) {
      Index const column = i * args.v;
      V dot = args.phase == 1 || (args.phase == 0 && !args.first) ? v.dot[i] : V(0);
      if (args.phase != 1)
        for (Index p = 0; p < args.v; ++p)
          dot = std::fma(V(v.y[column + p]), V(v.dy[column + p]), dot);
      if (args.phase == 0) {
        v.dot[i] = dot;
        continue;
      }
      for (Index p = 0; p < args.v; ++p) {
        T& out = v.dx[column + p];
        V const value = V(v.y[column + p]) * (V(v.dy[column + p]) - dot);
        out = T(args.beta == 0 ? value : std::fma(V(args.beta), V(out), value));
      }
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
  static constexpr Operands operands{
      {"x", "v i..."},
      {"y", "v i...", Access::write},
      {"max", "i...", Access::update, Kind::accumulator, Carry::phases},
      {"sum", "i...", Access::update, Kind::accumulator, Carry::phases}};

  using Attrs = SoftmaxAttrs;
  struct Args {
    Index v, n;
    int phase;
    bool first;
  };

  static Phases phases(Attrs const&) {
    auto const read = Access::read;
    auto const write = Access::write;
    return {Phase{{{0, read}, {2, write}}}, Phase{{{0, read}, {2, read}, {3, write}}},
            Phase{{{0, read}, {1, write}, {2, read}, {3, read}}}};
  }
  static std::uint32_t replaces(Attrs const&) { return 1u << 0; }
  static char const* blocked(Attrs const&) { return "v"; }
  static Args args(Attrs const&, TileRange const& range) {
    return {range.extent('v'), range.extent('i'), range.phase, range.first(2)};
  }
  static Cost cost(Attrs const&, TileRange const& range) {
    Index const passes = range.phase == 0 || range.phase == 1 ? 1 : 2;
    return {0, static_cast<Index>(sizeof(float)) * range.extent('v') * range.extent('i') * passes};
  }

  /// What a task of some phase was given; the rest is null.
  template <class T> struct View {
    T const* x;         // [v, i]
    T* y;               // [v, i]
    compute_t<T>* max;  // [i]
    compute_t<T>* sum;  // [i]
  };
  template <class T> NNTILE_ALWAYS_INLINE static View<T> view(int phase, void* const* at) {
    using V = compute_t<T>;
    View<T> v{static_cast<T const*>(at[0]), nullptr, nullptr, nullptr};
    if (phase < 0 || phase == 2) v.y = static_cast<T*>(at[1]);
    if (phase >= 0) v.max = static_cast<V*>(at[phase == 2 ? 2 : 1]);
    if (phase >= 1) v.sum = static_cast<V*>(at[phase == 2 ? 3 : 2]);
    return v;
  }

  template <Element T>
  requires(is_float(dtype_of<T>)) static void reference(Args const& args, Buffers buffers) {
    using V = compute_t<T>;
    auto const v = view<T>(args.phase, buffers.pointers);
    for (Index i = 0; i < args.n; ++i) {
      T const* const x = v.x + i * args.v;
      bool const begins = args.phase < 0 || args.first;
      V max = args.phase > 0 || !begins ? v.max[i] : -std::numeric_limits<V>::infinity();
      if (args.phase <= 0)
        for (Index p = 0; p < args.v; ++p) max = maximum(max, V(x[p]));
      if (args.phase == 0) {
        v.max[i] = max;
        continue;
      }
      V sum = args.phase == 2 || !begins ? v.sum[i] : V(0);
      if (args.phase != 2)
        for (Index p = 0; p < args.v; ++p) sum += std::exp(V(x[p]) - max);
      if (args.phase == 1) {
        v.sum[i] = sum;
        continue;
      }
      for (Index p = 0; p < args.v; ++p)
        v.y[i * args.v + p] = T(std::exp(V(x[p]) - max) * (V(1) / sum));
    }
  }

  template <class Builder> static void gradient(Builder& b) {
    if (!b.wants(0)) return;
    auto const dx = b.target(0);
    b.template op<SoftmaxBackward>({.beta = dx.beta}, b.operand(1), b.grad(1), dx.node);
  }
};

}  // namespace ops

inline constexpr Call<ops::Softmax> softmax{};
inline constexpr Call<ops::SoftmaxBackward> softmax_backward{};
using softmax_ops = OpList<ops::Softmax, ops::SoftmaxBackward>;

}  // namespace nntile
