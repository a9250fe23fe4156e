#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Layer normalisation along dimension 0, and its derivatives.

#include <cmath>

#include "nntile/ops/gradient_target.hh"
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
  enum class Operand : std::uint8_t { x, dy, gamma, mean, rstd, dx, c1, c2 };
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
    Index e;
    std::uint32_t n, skipped;  // elements along e before the task's
    Index whole_e;
    double beta;
    int phase;
    bool first;
    Index ldx, lddy, lddx;
  };
  static constexpr Fields fields{field<&Attrs::beta>("beta")};
  static constexpr Hooks<Attrs> hooks{.phases = [](Attrs const&) -> Phases {
                                        using enum Access;
                                        Phase const given{{{Operand::x, read},
                                                           {Operand::dy, read},
                                                           {Operand::gamma, read},
                                                           {Operand::mean, read},
                                                           {Operand::rstd, read}}};
                                        Phase sum = given, apply = given;
                                        sum.uses.push_back({Operand::c1, write});
                                        sum.uses.push_back({Operand::c2, write});
                                        apply.uses.push_back({Operand::dx, update});
                                        apply.uses.push_back({Operand::c1, read});
                                        apply.uses.push_back({Operand::c2, read});
                                        return {sum, apply};
                                      },
                                      .blocked = [](Attrs const&) { return "e"; },
                                      .grouped = "e",
                                      .padding = Padding::columns};
  static constexpr char const* no_gradient = no_second_derivative;

  static Args args(Attrs const& attrs, TileRange const& range) {
    return {range.extent('e'),
            range.extent32('i'),
            range.skipped32('e'),
            range.whole('e'),
            attrs.beta,
            range.phase,
            range.first(Operand::c1),
            range.leading(Operand::x),
            range.leading(Operand::dy),
            range.leading(Operand::dx)};
  }

  template <Element T>
  requires(is_float(dtype_of<T>))
  static void reference(Args const& args, Buffers<LayerNormBackward> buffers) {
    using V = compute_t<T>;
    T const* const gamma = buffers.at<T>(Operand::gamma) + args.skipped;  // [e]
    V* const c1s = buffers.at<V>(Operand::c1);                            // [i], where e is cut
    V* const c2s = buffers.at<V>(Operand::c2);                            // [i], likewise
    V const size = V(args.whole_e);
    Chain const chain = Chain{args.first}.in_phase(args.phase, 0);
    for (Index i = 0; i < args.n; ++i) {
      T const* const x = buffers.at<T>(Operand::x) + i * args.ldx + args.skipped;     // [e]
      T const* const dy = buffers.at<T>(Operand::dy) + i * args.lddy + args.skipped;  // [e]
      V const mean = buffers.at<V>(Operand::mean)[i], rstd = buffers.at<V>(Operand::rstd)[i];
      V c1 = chain.start(c1s, i), c2 = chain.start(c2s, i);
      auto const xhat = [&](Index e) { return (V(x[e]) - mean) * rstd; };
      auto const g = [&](Index e) { return V(dy[e]) * V(gamma[e]); };
      if (args.phase != 1)
        for (Index e = 0; e < args.e; ++e) {
          c1 += g(e);
          c2 = std::fma(g(e), xhat(e), c2);
        }
      if (args.phase == 0) {
        c1s[i] = c1;
        c2s[i] = c2;
        continue;
      }
      T* const dx = buffers.at<T>(Operand::dx) + i * args.lddx;  // [e]
      for (Index e = 0; e < args.e; ++e)
        dx[e] =
            T(updated(args.beta, dx[e], rstd * (g(e) - std::fma(xhat(e), c2 / size, c1 / size))));
    }
  }
};

struct LayerNormWeightBackwardAttrs {
  double beta_dgamma = 0;
  double beta_dbeta = 0;
};

/// dgamma[e,j] = beta_dgamma dgamma + sum_s dy xhat, dbeta[e,j] = beta_dbeta dbeta + sum_s dy, xhat
/// = (x - mean) rstd; s is the first token axis, in ascending order, and may be empty. dtypes
/// {every float}. Cost: 2 |x| * size bytes.
struct LayerNormWeightBackward {
  static constexpr char const* name = "layer_norm_weight_backward";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  enum class Operand : std::uint8_t { x, dy, mean, rstd, dgamma, dbeta, carry_dgamma, carry_dbeta };
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
    Index e;
    std::uint32_t s, rest;  // elements of the tile along s beside the task's
    Index n;
    double beta_dgamma, beta_dbeta;
    Chain chain;
    bool finishing;
    std::uint32_t skipped;  // elements along s before the task's
    Index ldx, lddy, ld_mean, ld_rstd, ld_dgamma, ld_dbeta;
  };
  static constexpr Fields fields{field<&Attrs::beta_dgamma>("beta_dgamma"),
                                 field<&Attrs::beta_dbeta>("beta_dbeta")};
  static constexpr Hooks<Attrs> hooks{
      .overwrites =
          [](Attrs const& attrs, OperandIndex result) {
            return (result == Operand::dgamma ? attrs.beta_dgamma : attrs.beta_dbeta) == 0;
          },
      .grouped = "s",
      .padding = Padding::columns};
  static constexpr char const* no_gradient = no_second_derivative;

  static Args args(Attrs const& attrs, TileRange const& range) {
    return {range.extent('e'),
            range.extent32('s'),
            range.rest32('s'),
            range.extent('j'),
            range.beta(attrs.beta_dgamma),
            range.beta(attrs.beta_dbeta),
            range.chain(Operand::dgamma),
            range.finishing,
            range.skipped32('s'),
            range.has(Operand::x) ? range.leading(Operand::x) : 0,
            range.has(Operand::dy) ? range.leading(Operand::dy) : 0,
            range.has(Operand::mean) ? range.leading(Operand::mean) : 0,
            range.has(Operand::rstd) ? range.leading(Operand::rstd) : 0,
            range.leading(Operand::dgamma),
            range.leading(Operand::dbeta)};
  }

  template <Element T>
  requires(is_float(dtype_of<T>))
  static void reference(Args const& args, Buffers<LayerNormWeightBackward> buffers) {
    using V = compute_t<T>;
    T const* const x = buffers.at<T>(Operand::x);        // [e, s, j]
    T const* const dy = buffers.at<T>(Operand::dy);      // [e, s, j]
    V const* const mean = buffers.at<V>(Operand::mean);  // [s, j]
    V const* const rstd = buffers.at<V>(Operand::rstd);  // [s, j]
    ChainResult<T> const dgamma{buffers.at<T>(Operand::dgamma),
                                buffers.at<V>(Operand::carry_dgamma), args.beta_dgamma, args.chain,
                                args.finishing};
    ChainResult<T> const dbeta{buffers.at<T>(Operand::dbeta), buffers.at<V>(Operand::carry_dbeta),
                               args.beta_dbeta, args.chain, args.finishing};
    for (Index j = 0; j < args.n; ++j)
      for (Index e = 0; e < args.e; ++e) {
        Index const of_gamma = e + args.ld_dgamma * j, of_beta = e + args.ld_dbeta * j;
        V sum_gamma = dgamma.start(of_gamma), sum_beta = dbeta.start(of_beta);
        for (Index s = 0; s < args.s; ++s) {
          Index const token = args.skipped + s + (Index{args.s} + args.rest) * j;
          V const slope = V(dy[e + args.lddy * token]);
          V const xhat = (V(x[e + args.ldx * token]) - mean[args.skipped + s + args.ld_mean * j]) *
                         rstd[args.skipped + s + args.ld_rstd * j];
          sum_gamma = std::fma(slope, xhat, sum_gamma);
          sum_beta += slope;
        }
        dgamma.put(of_gamma, sum_gamma);
        dbeta.put(of_beta, sum_beta);
      }
  }
};

struct LayerNormAttrs {
  double eps = 1e-5;
};

/// y = (x - mean) rstd gamma + beta, mean = sum_e x / E, rstd = 1 / sqrt(sum_e (x - mean)^2 / E +
/// eps); e is dimension 0. Both sums in blocks of 64, the second about the first one's mean. dtypes
/// {every float}; mean and rstd, kept for the derivative, are fp32 (fp64 for fp64), NaN where E =
/// 0. Cost: 2 |x| * size bytes, 4 where e is cut. Throws ValueError for an eps that is below 0 or
/// not finite. Source: Ba, Kiros, Hinton 2016.
struct LayerNorm {
  static constexpr char const* name = "layer_norm";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  enum class Operand : std::uint8_t { x, gamma, beta, y, mean, rstd };
  static constexpr Operands operands{{"x", "e i..."},
                                     {"gamma", "e"},
                                     {"beta", "e"},
                                     {"y", "e i...", Access::write},
                                     {"mean", "i...", Access::write, Kind::accumulator},
                                     {"rstd", "i...", Access::write, Kind::accumulator}};

  using Attrs = LayerNormAttrs;
  struct Args {
    Index e;
    std::uint32_t n, skipped;  // elements along e before the task's
    Index whole_e;
    double eps;
    int phase;
    Chain chain;
    Index ldx, ldy;
  };
  static constexpr Fields fields{field<&Attrs::eps>("eps")};
  static constexpr Hooks<Attrs> hooks{
      .check =
          [](Attrs const& attrs, AxisTable const&) {
            if (!(attrs.eps >= 0 && std::isfinite(attrs.eps)))
              throw ValueError(
                  concat(name, ": eps of ", attrs.eps, "; 0 or more, finite, such as 1e-5"));
          },
      .phases = [](Attrs const&) -> Phases {
        using enum Access;
        return {Phase{{{Operand::x, read}, {Operand::mean, write}}},
                Phase{{{Operand::x, read}, {Operand::mean, read}, {Operand::rstd, write}}},
                Phase{{{Operand::x, read},
                       {Operand::gamma, read},
                       {Operand::beta, read},
                       {Operand::y, write},
                       {Operand::mean, read},
                       {Operand::rstd, read}}}};
      },
      .blocked = [](Attrs const&) { return "e"; },
      .grouped = "e",
      .finishes = [](Attrs const&) { return true; },
      .padding = Padding::columns};

  static Args args(Attrs const& attrs, TileRange const& range) {
    return {range.extent('e'),
            range.extent32('i'),
            range.skipped32('e'),
            range.whole('e'),
            attrs.eps,
            range.phase,
            range.chain(Operand::mean),
            range.has(Operand::x) ? range.leading(Operand::x) : 0,
            range.leading(Operand::y)};
  }

  template <Element T>
  requires(is_float(dtype_of<T>))
  static void reference(Args const& args, Buffers<LayerNorm> buffers) {
    using V = compute_t<T>;
    T const* const gamma = buffers.at<T>(Operand::gamma);  // [e]
    T const* const beta = buffers.at<T>(Operand::beta);    // [e]
    V* const mean = buffers.at<V>(Operand::mean);          // [i]
    V* const rstd = buffers.at<V>(Operand::rstd);          // [i]
    V const size = V(args.whole_e);
    Chain const chain = args.chain;
    for (Index i = 0; i < args.n; ++i) {
      T const* const x = buffers.at<T>(Operand::x) + i * args.ldx + args.skipped;  // [e]
      if (args.phase <= 0) {
        V sum = chain.start(mean, i);
        for (Index e = 0; e < args.e; ++e) sum += V(x[e]);
        mean[i] = chain.last ? sum / size : sum;
      }
      if (args.phase < 0 || args.phase == 1) {
        V sum = chain.start(rstd, i);
        for (Index e = 0; e < args.e; ++e)
          sum = std::fma(V(x[e]) - mean[i], V(x[e]) - mean[i], sum);
        rstd[i] = chain.last ? V(1) / std::sqrt(sum / size + V(args.eps)) : sum;
      }
      if (args.phase == 0 || args.phase == 1) continue;
      T* const y = buffers.at<T>(Operand::y) + i * args.ldy;  // [e]
      for (Index e = 0; e < args.e; ++e)
        y[e] = T(std::fma((V(x[e]) - mean[i]) * rstd[i], V(gamma[e]), V(beta[e])));
    }
  }

  /// Weight gradients sum over the first token axis here, and over the others stage by stage.
  template <class Builder> static void gradient(Builder& b) {
    auto const dy = b.grad(Operand::y);
    if (b.wants(Operand::gamma) || b.wants(Operand::beta)) {
      Dims const& x = b.shape(Operand::x);
      if (x.size() < 2) b.fail("weight gradients need a token axis; give x two dimensions or more");
      Dims stage{x[0]};  // [e, j]
      for (std::size_t d = 2; d < x.size(); ++d) stage.push_back(x[d]);
      bool const staged = x.size() > 2 || b.meet(Operand::gamma, Operand::beta);
      auto const place = [&](Operand operand) {
        return target_or_temporary(b, operand, b.wants(operand) && !staged, stage, dy.dtype(),
                                   ".grad.stage");
      };
      auto const dgamma = place(Operand::gamma);
      auto const dbeta = place(Operand::beta);
      b.template op<LayerNormWeightBackward>({.beta_dgamma = dgamma.beta, .beta_dbeta = dbeta.beta},
                                             b.operand(Operand::x), dy, b.operand(Operand::mean),
                                             b.operand(Operand::rstd), dgamma.node, dbeta.node);
      if (staged && b.wants(Operand::gamma)) b.sum_trailing(dgamma.node, Operand::gamma);
      if (staged && b.wants(Operand::beta)) b.sum_trailing(dbeta.node, Operand::beta);
    }
    if (!b.wants(Operand::x)) return;
    auto const dx = b.target(Operand::x);
    b.template op<LayerNormBackward>({.beta = dx.beta}, b.operand(Operand::x), dy,
                                     b.operand(Operand::gamma), b.operand(Operand::mean),
                                     b.operand(Operand::rstd), dx.node);
  }
};

}  // namespace ops

inline constexpr Call<ops::LayerNorm> layer_norm{};
inline constexpr Call<ops::LayerNormBackward> layer_norm_backward{};
inline constexpr Call<ops::LayerNormWeightBackward> layer_norm_weight_backward{};
using layer_norm_ops = OpList<ops::LayerNorm, ops::LayerNormBackward, ops::LayerNormWeightBackward>;

}  // namespace nntile
