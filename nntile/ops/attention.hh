#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Scaled dot-product attention over tiles of queries and keys, and its derivative. Memory is linear
// in the sequence.

#include <algorithm>
#include <limits>
#include <vector>

#include "nntile/ops/attention_tiles.hh"
#include "nntile/ops/softmax.hh"

namespace nntile {
namespace ops {

/// With P = exp(s - max) / sum, s as in Attention, D[i] = sum_d dout out, dS = P (dout v^T - D)
/// scale: dv = beta_dv dv + P^T dout, dk = beta_dk dk + dS^T q, dq = beta_dq dq + dS k. Every
/// element of a result is a chain of FMAs from beta times what was there: dq over keys, dk and dv
/// over queries, upwards; D in blocks of 64. Masked pairs take no part; without any key, dq = beta_dq
/// dq. dtypes {every float};
/// accumulates in fp32 (fp64 for fp64). Cost: 10 d flops a pair that is not masked (scores are
/// computed again).
struct AttentionBackward {
  static constexpr char const* name = "attention_backward";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  static constexpr Operands operands{
      {"q", "d! h i b..."},
      {"k", "d! h j b..."},
      {"v", "d! h j b..."},
      {"out", "d! h i b..."},
      {"max", "i h b...", Access::read, Kind::accumulator},
      {"sum", "i h b...", Access::read, Kind::accumulator},
      {"dout", "d! h i b..."},
      {"dq", "d! h i b...", Access::update},
      {"dk", "d! h j b...", Access::update},
      {"dv", "d! h j b...", Access::update},
      {"carry_dq", "d! h i b...", Access::update, Kind::accumulator, Carry::narrow},
      {"carry_dk", "d! h j b...", Access::update, Kind::accumulator, Carry::narrow},
      {"carry_dv", "d! h j b...", Access::update, Kind::accumulator, Carry::narrow}};

  using Attrs = AttentionAttrs;
  using Args = AttentionArgs;

  static bool overwrites(Attrs const& attrs, int operand) {
    return (operand == 7 ? attrs.beta_dq : operand == 8 ? attrs.beta_dk : attrs.beta_dv) == 0;
  }
  static void check(Attrs const& attrs, AxisTable const& axes) {
    detail::check_attention(name, attrs, axes);
  }
  static Args args(Attrs const& attrs, TileRange const& range) {
    Args args = detail::attention_args(attrs, range);
    args.first = range.first(7);
    args.last = range.last(7);
    args.first_k = range.first(8);
    args.last_k = range.last(8);
    args.carried = range.carried(10);
    return args;
  }
  static Cost cost(Attrs const& attrs, TileRange const& range) {
    return {5 * range.extent('d') * range.extent('h') * range.extent('b') *
                detail::attention_pairs_twice(attrs, range),
            static_cast<Index>(sizeof(float)) * (5 * range.elements(0) + 6 * range.elements(1))};
  }

  /// Key tiles outside, query tiles inside, both upwards; pairs of tiles without a visible pair are
  /// left out, unless there are no keys at all.
  static void tiles(Attrs const& attrs, TileRange const& all, TileSink& sink) {
    constexpr std::uint32_t dq_bits = 1u << 7 | 1u << 10;
    std::size_t const i = all.axis_of('i'), j = all.axis_of('j');
    detail::each_attention_head(all, [&](TileRange range) {
      for (Index key = 0; key < range.tiles(j); ++key) {
        range.take(j, key);
        bool first = true;
        for (Index query = 0; query < range.tiles(i); ++query) {
          range.take(i, query);
          Index const horizon = detail::attention_horizon(attrs, range);
          if (range.begin('j') >= horizon && range.whole('j') > 0) continue;
          bool const last_key =
              range.begin('j') + range.extent('j') >= horizon || key + 1 == range.tiles(j);
          bool const last_query = query + 1 == range.tiles(i);
          range.first_bits = (key == 0 ? dq_bits : 0u) | (first ? ~dq_bits : 0u);
          range.last_bits = (last_key ? dq_bits : 0u) | (last_query ? ~dq_bits : 0u);
          sink.task(range);
          first = false;
        }
      }
    });
  }

  template <Element T>
  requires(is_float(dtype_of<T>)) static void reference(Args const& args, Buffers buffers) {
    using V = compute_t<T>;
    Index const d = args.d;
    auto const at_i = [&](Index i, Index h, Index b) {
      return d * (h + args.h * (i + args.i * b));
    };
    auto const at_j = [&](Index j, Index h, Index b) {
      return d * (h + args.h * (j + args.j * b));
    };
    auto const dot = [&](T const* x, T const* y) {
      V sum = 0;
      for (Index e = 0; e < d; ++e) sum = std::fma(V(x[e]), V(y[e]), sum);
      return sum;
    };
    std::vector<V> p(static_cast<std::size_t>(args.i * args.j)), ds(p.size()),
        sum(static_cast<std::size_t>(d));
    // result[e] = beta result[e] + sum over t with weight(t) of weight times row(t)[e]
    auto const reduce = [&](int result, Index at, double beta, bool first, bool last, Index count,
                            auto seen, auto weight, auto row) {
      T* const out = buffers.at<T>(result) + at;
      V* const carry = args.carried ? buffers.at<V>(result + 3) + at : nullptr;
      for (Index e = 0; e < d; ++e) {
        V value = !first      ? (args.carried ? carry[e] : V(out[e]))
                  : beta == 0 ? V(0)
                              : V(beta) * V(out[e]);
        for (Index t = 0; t < count; ++t)
          if (seen(t)) value = std::fma(weight(t), V(row(t)[e]), value);
        if (args.carried && !last)
          carry[e] = value;
        else
          out[e] = T(value);
      }
    };
    for (Index b = 0; b < args.b; ++b)
      for (Index h = 0; h < args.h; ++h) {
        auto const q = [&](Index i) { return buffers.at<T>(0) + at_i(i, h, b); };
        auto const k = [&](Index j) { return buffers.at<T>(1) + at_j(j, h, b); };
        auto const v = [&](Index j) { return buffers.at<T>(2) + at_j(j, h, b); };
        auto const dout = [&](Index i) { return buffers.at<T>(6) + at_i(i, h, b); };
        auto const sees = [&](Index i, Index j) { return j <= i + args.diagonal; };
        auto const pair = [&](Index i, Index j) {
          return static_cast<std::size_t>(i + args.i * j);
        };
        for (Index i = 0; i < args.i; ++i) {
          Index const row = i + args.i * (h + args.h * b);
          V const rowsum = dot(dout(i), buffers.at<T>(3) + at_i(i, h, b));
          for (Index j = 0; j < args.j; ++j) {
            if (!sees(i, j)) continue;
            V const score = V(args.scale) * dot(q(i), k(j));
            p[pair(i, j)] = std::exp(score - buffers.at<V>(4)[row]) / buffers.at<V>(5)[row];
            ds[pair(i, j)] = p[pair(i, j)] * (dot(dout(i), v(j)) - rowsum) * V(args.scale);
          }
        }
        for (Index i = 0; i < args.i; ++i)
          reduce(
              7, at_i(i, h, b), args.beta_dq, args.first, args.last, args.j,
              [&](Index j) { return sees(i, j); }, [&](Index j) { return ds[pair(i, j)]; }, k);
        for (Index j = 0; j < args.j; ++j) {
          auto const seen = [&](Index i) { return sees(i, j); };
          reduce(
              8, at_j(j, h, b), args.beta_dk, args.first_k, args.last_k, args.i, seen,
              [&](Index i) { return ds[pair(i, j)]; }, q);
          reduce(
              9, at_j(j, h, b), args.beta_dv, args.first_k, args.last_k, args.i, seen,
              [&](Index i) { return p[pair(i, j)]; }, dout);
        }
      }
  }
};

/// out[:,i] = sum_j exp(s[i,j] - max[i]) v[:,j] / sum[i], s = scale q[:,i].k[:,j], max and sum over
/// the keys j that query i sees, for every head h and batch index b. q and out are {d, h, i, b..},
/// k and v {d, h, j, b..}; d is never cut. `causal`: query i sees key j where j <= i + (Tk - Tq),
/// the sequences aligned at their ends. Order: q is scaled first, with one rounding; key blocks of
/// 64 upwards, each with the new maximum m (0 in place of -inf), sum and out times exp(old m - m),
/// then keys ascending: sum += p, out = fma(p, v, out); masked keys take no part; at the end out
/// times 1 / sum. A NaN score makes its row NaN; a row of nothing but -inf gives NaN, as in
/// PyTorch; without any key, out = 0, max = -inf and sum = 0. dtypes {every float}; statistics and sums fp32 (fp64 for fp64). Cost: 4 d flops a pair
/// that is not masked. Throws ShapeError where `causal` and Tk < Tq. Source: Rabe and Staats 2021;
/// Dao et al. 2022.
struct Attention {
  static constexpr char const* name = "attention";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  static constexpr Operands operands{
      {"q", "d! h i b..."},
      {"k", "d! h j b..."},
      {"v", "d! h j b..."},
      {"out", "d! h i b...", Access::write},
      {"max", "i h b...", Access::write, Kind::accumulator},
      {"sum", "i h b...", Access::write, Kind::accumulator},
      {"carry", "d! h i b...", Access::update, Kind::accumulator, Carry::narrow}};

  using Attrs = AttentionAttrs;
  using Args = AttentionArgs;

  static char const* blocked(Attrs const&) { return "j"; }
  static void check(Attrs const& attrs, AxisTable const& axes) {
    detail::check_attention(name, attrs, axes);
  }
  static Args args(Attrs const& attrs, TileRange const& range) {
    Args args = detail::attention_args(attrs, range);
    args.first = range.first(3);
    args.last = range.last(3);
    args.carried = range.carried(6);
    return args;
  }
  static Cost cost(Attrs const& attrs, TileRange const& range) {
    return {2 * range.extent('d') * range.extent('h') * range.extent('b') *
                detail::attention_pairs_twice(attrs, range),
            static_cast<Index>(sizeof(float)) * 2 * (range.elements(0) + range.elements(1))};
  }

  /// A chain over key tiles, upwards, for each tile of queries; key tiles that it does not see are
  /// left out.
  static void tiles(Attrs const& attrs, TileRange const& all, TileSink& sink) {
    std::size_t const i = all.axis_of('i'), j = all.axis_of('j');
    detail::each_attention_head(all, [&](TileRange range) {
      for (Index query = 0; query < range.tiles(i); ++query) {
        range.take(i, query);
        Index const horizon = detail::attention_horizon(attrs, range);
        range.last_bits = 0;
        for (Index key = 0; range.last_bits == 0; ++key) {
          range.take(j, key);
          range.first_bits = key == 0 ? ~0u : 0u;
          range.last_bits =
              range.begin('j') + range.extent('j') >= horizon || key + 1 == range.tiles(j) ? ~0u
                                                                                           : 0u;
          sink.task(range);
        }
      }
    });
  }

  template <Element T>
  requires(is_float(dtype_of<T>)) static void reference(Args const& args, Buffers buffers) {
    using V = compute_t<T>;
    constexpr V infinity = std::numeric_limits<V>::infinity();
    Index const d = args.d;
    std::vector<V> p(static_cast<std::size_t>(args.j)), sums(static_cast<std::size_t>(d));
    for (Index b = 0; b < args.b; ++b)
      for (Index h = 0; h < args.h; ++h)
        for (Index i = 0; i < args.i; ++i) {
          Index const at = d * (h + args.h * (i + args.i * b));
          Index const row = i + args.i * (h + args.h * b);
          T const* const q = buffers.at<T>(0) + at;
          T* const out = buffers.at<T>(3) + at;
          V* const carry = args.carried ? buffers.at<V>(6) + at : nullptr;
          V& max = buffers.at<V>(4)[row];
          V& sum = buffers.at<V>(5)[row];
          Index const keys = std::max<Index>(0, std::min(args.j, i + args.diagonal + 1));
          V top = args.first ? -infinity : max;
          for (Index j = 0; j < keys; ++j) {
            T const* const k = buffers.at<T>(1) + d * (h + args.h * (j + args.j * b));
            V score = 0;
            for (Index e = 0; e < d; ++e) score = std::fma(V(args.scale) * V(q[e]), V(k[e]), score);
            p[static_cast<std::size_t>(j)] = score;
            top = maximum(top, score);
          }
          V const base = top == -infinity ? V(0) : top;
          V const kept = args.first ? V(0) : std::exp(max - base);
          V total = args.first ? V(0) : sum * kept;
          for (Index e = 0; e < d; ++e)
            sums[static_cast<std::size_t>(e)] =
                args.first ? V(0) : kept * (args.carried ? carry[e] : V(out[e]));
          for (Index j = 0; j < keys; ++j) {
            T const* const v = buffers.at<T>(2) + d * (h + args.h * (j + args.j * b));
            V const weight = std::exp(p[static_cast<std::size_t>(j)] - base);
            total += weight;
            for (Index e = 0; e < d; ++e) {
              V& value = sums[static_cast<std::size_t>(e)];
              value = std::fma(weight, V(v[e]), value);
            }
          }
          max = top;
          sum = total;
          for (Index e = 0; e < d; ++e) {
            V const value = sums[static_cast<std::size_t>(e)];
            if (args.last)
              out[e] = T(args.j == 0 ? V(0) : value * (V(1) / total));
            else if (args.carried)
              carry[e] = value;
            else
              out[e] = T(value);
          }
        }
  }

  template <class Builder> static void gradient(Builder& b) {
    if (!b.wants(0) && !b.wants(1) && !b.wants(2)) return;
    auto const dout = b.grad(3);
    struct Target {
      std::remove_cvref_t<decltype(dout)> node;
      double beta;
      bool apart;  // of an operand that meets an earlier one: added to it afterwards
    };
    auto const place = [&](int operand) -> Target {
      bool apart = false;
      for (int earlier = 0; earlier < operand; ++earlier) apart |= b.meet(operand, earlier);
      if (apart || !b.wants(operand))
        return {b.temporary(b.shape(operand), dout.dtype(),
                            concat(b.name(operand), apart ? ".grad.part" : ".grad.unused")),
                0, apart && b.wants(operand)};
      auto const target = b.target(operand);
      return {target.node, target.beta, false};
    };
    Target const dq = place(0), dk = place(1), dv = place(2);
    Attrs attrs = b.template attrs<Attention>();
    attrs.beta_dq = dq.beta;
    attrs.beta_dk = dk.beta;
    attrs.beta_dv = dv.beta;
    b.template op<AttentionBackward>(attrs, b.operand(0), b.operand(1), b.operand(2), b.operand(3),
                                     b.operand(4), b.operand(5), dout, dq.node, dk.node, dv.node);
    if (dk.apart) b.sum_trailing(dk.node, 1);
    if (dv.apart) b.sum_trailing(dv.node, 2);
  }
};

}  // namespace ops

inline constexpr Call<ops::Attention> attention{};
inline constexpr Call<ops::AttentionBackward> attention_backward{};
using attention_ops = OpList<ops::Attention, ops::AttentionBackward>;

}  // namespace nntile
