#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Layer normalisation along dimension 0, and its derivatives.

#include <cmath>

#include "nntile/ops/sum_slice.hh"

namespace nntile {
namespace ops {

struct LayerNormBackwardAttrs {
  double beta = 0;
};

/// dx = beta dx + rstd (g - (xhat c2/E + c1/E)), with g = dy gamma, xhat = (x - mean) rstd, c1 =
/// sum_e g, c2 = sum_e g xhat in blocks of 64. dtypes {every float}; statistics fp32 (fp64 for
/// fp64). Cost: 3 to 4 |x| * size bytes, twice the reads where e is cut.
struct LayerNormBackward {
  static constexpr char const* name = "layer_norm_backward";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  static constexpr Operands operands{
      {"x", "e i..."},
      {"dy", "e i..."},
      {"gamma", "e"},
      {"mean", "i...", Access::read, Kind::accumulator},
      {"rstd", "i...", Access::read, Kind::accumulator},
      {"dx", "e i...", Access::update},
      {"c1", "i...", Access::update, Kind::accumulator, Carry::phases},
      {"c2", "i...", Access::update, Kind::accumulator, Carry::phases}};

  using Attrs = LayerNormBackwardAttrs;
  struct Args {
    Index e, n, whole_e;
    double beta;
    int phase;
    bool first;
  };

  static Phases phases(Attrs const&) {
    auto const read = Access::read;
    return {Phase{{{0, read},
                   {1, read},
                   {2, read},
                   {3, read},
                   {4, read},
                   {6, Access::write},
                   {7, Access::write}}},
            Phase{{{0, read},
                   {1, read},
                   {2, read},
                   {3, read},
                   {4, read},
                   {5, Access::update},
                   {6, read},
                   {7, read}}}};
  }
  static bool overwrites(Attrs const& attrs, int) { return attrs.beta == 0; }
  static char const* blocked(Attrs const&) { return "e"; }
  static Args args(Attrs const& attrs, TileRange const& range) {
    return {range.extent('e'), range.extent('i'), range.whole('e'),
            attrs.beta,        range.phase,       range.first(6)};
  }
  static Cost cost(Attrs const& attrs, TileRange const& range) {
    Index const passes = range.phase == 0 ? 2 : 3 + (attrs.beta == 0 ? 0 : 1);
    return {0, static_cast<Index>(sizeof(float)) * range.extent('e') * range.extent('i') * passes};
  }

  /// What a task of some phase was given; the rest is null.
  template <class T> struct View {
    using V = compute_t<T>;
    T const* x;      // [e, i]
    T const* dy;     // [e, i]
    T const* gamma;  // [e]
    V const* mean;   // [i]
    V const* rstd;   // [i]
    T* dx;           // [e, i]
    V* c1;           // [i]
    V* c2;           // [i]
  };
  template <class T> NNTILE_ALWAYS_INLINE static View<T> view(int phase, void* const* at) {
    using V = compute_t<T>;
    View<T> v{static_cast<T const*>(at[0]),
              static_cast<T const*>(at[1]),
              static_cast<T const*>(at[2]),
              static_cast<V const*>(at[3]),
              static_cast<V const*>(at[4]),
              nullptr,
              nullptr,
              nullptr};
    if (phase != 0) v.dx = static_cast<T*>(at[5]);
    if (phase >= 0) {
      v.c1 = static_cast<V*>(at[phase == 0 ? 5 : 6]);
      v.c2 = static_cast<V*>(at[phase == 0 ? 6 : 7]);
    }
    return v;
  }

  template <Element T>
  requires(is_float(dtype_of<T>)) static void reference(Args const& args, Buffers buffers) {
    using V = compute_t<T>;
    auto const v = view<T>(args.phase, buffers.pointers);
    V const size = V(args.whole_e);
    for (Index i = 0; i < args.n; ++i) {
      Index const column = i * args.e;
      V c1 = args.phase == 1 || (args.phase == 0 && !args.first) ? v.c1[i] : V(0);
      V c2 = args.phase == 1 || (args.phase == 0 && !args.first) ? v.c2[i] : V(0);
      auto const xhat = [&](Index e) { return (V(v.x[column + e]) - v.mean[i]) * v.rstd[i]; };
      auto const g = [&](Index e) { return V(v.dy[column + e]) * V(v.gamma[e]); };
      if (args.phase != 1)
        for (Index e = 0; e < args.e; ++e) {
          c1 += g(e);
          c2 = std::fma(g(e), xhat(e), c2);
        }
      if (args.phase == 0) {
        v.c1[i] = c1;
        v.c2[i] = c2;
        continue;
      }
      for (Index e = 0; e < args.e; ++e) {
        T& out = v.dx[column + e];
        V const value = v.rstd[i] * (g(e) - std::fma(xhat(e), c2 / size, c1 / size));
        out = T(args.beta == 0 ? value : std::fma(V(args.beta), V(out), value));
      }
    }
  }
};

struct LayerNormWeightBackwardAttrs {
  double beta_dgamma = 0;
  double beta_dbeta = 0;
};

/// dgamma[e,j] = beta_dgamma dgamma + sum_s dy xhat, dbeta[e,j] = beta_dbeta dbeta + sum_s dy, xhat
/// = (x - mean) rstd; s is the first token axis, in ascending order, and may be empty. dtypes {every float}. Cost: 2
/// |x| * size bytes.
struct LayerNormWeightBackward {
  static constexpr char const* name = "layer_norm_weight_backward";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  static constexpr Operands operands{
      {"x", "e s j..."},
      {"dy", "e s j..."},
      {"mean", "s j...", Access::read, Kind::accumulator},
      {"rstd", "s j...", Access::read, Kind::accumulator},
      {"dgamma", "e j...", Access::update},
      {"dbeta", "e j...", Access::update},
      {"carry_dgamma", "e j...", Access::update, Kind::accumulator, Carry::narrow},
      {"carry_dbeta", "e j...", Access::update, Kind::accumulator, Carry::narrow}};

  using Attrs = LayerNormWeightBackwardAttrs;
  struct Args {
    Index e, s, n;
    double beta_dgamma, beta_dbeta;
    bool first, last, carried;
  };

  static bool overwrites(Attrs const& attrs, int operand) {
    return (operand == 4 ? attrs.beta_dgamma : attrs.beta_dbeta) == 0;
  }
  static Args args(Attrs const& attrs, TileRange const& range) {
    return {range.extent('e'), range.extent('s'), range.extent('j'), attrs.beta_dgamma,
            attrs.beta_dbeta,  range.first(4),    range.last(4),     range.carried(6)};
  }
  static Cost cost(Attrs const&, TileRange const& range) {
    return {0, static_cast<Index>(sizeof(float)) * (2 * range.elements(0) + 4 * range.elements(4))};
  }

  template <Element T>
  requires(is_float(dtype_of<T>)) static void reference(Args const& args, Buffers buffers) {
    using V = compute_t<T>;
    T const* const x = buffers.at<T>(0);     // [e, s, j]
    T const* const dy = buffers.at<T>(1);    // [e, s, j]
    V const* const mean = buffers.at<V>(2);  // [s, j]
    V const* const rstd = buffers.at<V>(3);  // [s, j]
    auto const reduce = [&](int result, double beta, auto term) {
      T* const out = buffers.at<T>(result);                                 // [e, j]
      V* const carry = args.carried ? buffers.at<V>(result + 2) : nullptr;  // [e, j]
      for (Index j = 0; j < args.n; ++j)
        for (Index e = 0; e < args.e; ++e) {
          Index const at = e + args.e * j;
          V sum = !args.first ? (args.carried ? carry[at] : V(out[at]))
                  : beta == 0 ? V(0)
                              : V(beta) * V(out[at]);
          for (Index s = 0; s < args.s; ++s)
            sum = term(e + args.e * (s + args.s * j), s + args.s * j, sum);
          if (args.carried && !args.last)
            carry[at] = sum;
          else
            out[at] = T(sum);
        }
    };
    reduce(4, args.beta_dgamma, [&](Index at, Index token, V sum) {
      return std::fma(V(dy[at]), (V(x[at]) - mean[token]) * rstd[token], sum);
    });
    reduce(5, args.beta_dbeta, [&](Index at, Index, V sum) { return sum + V(dy[at]); });
  }
};

struct LayerNormAttrs {
  double eps = 1e-5;
};

/// y = (x - mean) rstd gamma + beta, mean = sum_e x / E, rstd = 1 / sqrt(sum_e (x - mean)^2 / E +
/// eps); e is dimension 0. Both sums in blocks of 64, the second about the first one's mean. dtypes
/// {every float}; mean and rstd, kept for the derivative, are fp32 (fp64 for fp64), NaN where E = 0. Cost: 2 |x| *
/// size bytes, 4 where e is cut. Source: Ba, Kiros, Hinton 2016.
struct LayerNorm {
  static constexpr char const* name = "layer_norm";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  static constexpr Operands operands{{"x", "e i..."},
                                     {"gamma", "e"},
                                     {"beta", "e"},
                                     {"y", "e i...", Access::write},
                                     {"mean", "i...", Access::write, Kind::accumulator},
                                     {"rstd", "i...", Access::write, Kind::accumulator}};

  using Attrs = LayerNormAttrs;
  struct Args {
    Index e, n, whole_e;
    double eps;
    int phase;
    bool first, last;
  };

  static Phases phases(Attrs const&) {
    auto const read = Access::read;
    auto const write = Access::write;
    return {Phase{{{0, read}, {4, write}}}, Phase{{{0, read}, {4, read}, {5, write}}},
            Phase{{{0, read}, {1, read}, {2, read}, {3, write}, {4, read}, {5, read}}}};
  }
  static char const* blocked(Attrs const&) { return "e"; }
  static Args args(Attrs const& attrs, TileRange const& range) {
    return {range.extent('e'), range.extent('i'), range.whole('e'), attrs.eps,
            range.phase,       range.first(4),    range.last(4)};
  }
  static Cost cost(Attrs const&, TileRange const& range) {
    Index const passes = range.phase == 0 || range.phase == 1 ? 1 : 2;
    return {0, static_cast<Index>(sizeof(float)) * range.extent('e') * range.extent('i') * passes};
  }

  /// What a task of some phase was given; the rest is null.
  template <class T> struct View {
    using V = compute_t<T>;
    T const* x;      // [e, i]
    T const* gamma;  // [e]
    T const* beta;   // [e]
    T* y;            // [e, i]
    V* mean;         // [i]
    V* rstd;         // [i]
  };
  template <class T> NNTILE_ALWAYS_INLINE static View<T> view(int phase, void* const* at) {
    using V = compute_t<T>;
    auto const x = static_cast<T const*>(at[0]);
    if (phase == 0) return {x, nullptr, nullptr, nullptr, static_cast<V*>(at[1]), nullptr};
    if (phase == 1)
      return {x, nullptr, nullptr, nullptr, static_cast<V*>(at[1]), static_cast<V*>(at[2])};
    return {x,
            static_cast<T const*>(at[1]),
            static_cast<T const*>(at[2]),
            static_cast<T*>(at[3]),
            static_cast<V*>(at[4]),
            static_cast<V*>(at[5])};
  }

  template <Element T>
  requires(is_float(dtype_of<T>)) static void reference(Args const& args, Buffers buffers) {
    using V = compute_t<T>;
    auto const v = view<T>(args.phase, buffers.pointers);
    V const size = V(args.whole_e);
    bool const all = args.phase < 0;
    for (Index i = 0; i < args.n; ++i) {
      T const* const x = v.x + i * args.e;
      if (all || args.phase == 0) {
        V sum = args.first ? V(0) : v.mean[i];
        for (Index e = 0; e < args.e; ++e) sum += V(x[e]);
        v.mean[i] = args.last ? sum / size : sum;
      }
      if (all || args.phase == 1) {
        V sum = args.first ? V(0) : v.rstd[i];
        for (Index e = 0; e < args.e; ++e)
          sum = std::fma(V(x[e]) - v.mean[i], V(x[e]) - v.mean[i], sum);
        v.rstd[i] = args.last ? V(1) / std::sqrt(sum / size + V(args.eps)) : sum;
      }
      if (all || args.phase == 2)
        for (Index e = 0; e < args.e; ++e)
          v.y[i * args.e + e] =
              T(std::fma((V(x[e]) - v.mean[i]) * v.rstd[i], V(v.gamma[e]), V(v.beta[e])));
    }
  }

  /// Weight gradients sum over the first token axis here, and over the others stage by stage.
  template <class Builder> static void gradient(Builder& b) {
    auto const dy = b.grad(3);
    if (b.wants(1) || b.wants(2)) {
      Shape const& x = b.shape(0);
      if (x.size() < 2) b.fail("weight gradients need a token axis; give x two dimensions or more");
      Shape stage{x[0]};  // [e, j]
      for (std::size_t d = 2; d < x.size(); ++d) stage.push_back(x[d]);
      struct Target {
        std::remove_cvref_t<decltype(dy)> node;
        double beta;
      };
      bool const staged = x.size() > 2 || b.meet(1, 2);
      auto const place = [&](int operand) -> Target {
        if (b.wants(operand) && !staged) {
          auto const target = b.target(operand);
          return {target.node, target.beta};
        }
        return {b.temporary(stage, dy.dtype(), concat(b.name(operand), ".grad.stage")), 0};
      };
      Target const dgamma = place(1);
      Target const dbeta = place(2);
      b.template op<LayerNormWeightBackward>({.beta_dgamma = dgamma.beta, .beta_dbeta = dbeta.beta},
                                             b.operand(0), dy, b.operand(4), b.operand(5),
                                             dgamma.node, dbeta.node);
      if (staged && b.wants(1)) b.sum_trailing(dgamma.node, 1);
      if (staged && b.wants(2)) b.sum_trailing(dbeta.node, 2);
    }
    if (!b.wants(0)) return;
    auto const dx = b.target(0);
    b.template op<LayerNormBackward>({.beta = dx.beta}, b.operand(0), dy, b.operand(1),
                                     b.operand(4), b.operand(5), dx.node);
  }
};

}  // namespace ops

inline constexpr Call<ops::LayerNorm> layer_norm{};
inline constexpr Call<ops::LayerNormBackward> layer_norm_backward{};
inline constexpr Call<ops::LayerNormWeightBackward> layer_norm_weight_backward{};
using layer_norm_ops = OpList<ops::LayerNorm, ops::LayerNormBackward, ops::LayerNormWeightBackward>;

}  // namespace nntile
