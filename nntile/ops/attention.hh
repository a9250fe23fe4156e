#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Scaled dot-product attention over tiles of queries and keys, and its derivative. Memory is linear
// in the sequence.

#include <algorithm>
#include <limits>
#include <vector>

#include "nntile/ops/attention_tiles.hh"
#include "nntile/ops/gradient_target.hh"
#include "nntile/ops/softmax.hh"

namespace nntile {
namespace ops {

/// With P = exp(s - max) / sum, s as in Attention, D[i] = sum_d dout out, dS = P (dout v^T - D)
/// scale: dv = beta_dv dv + P^T dout, dk = beta_dk dk + dS^T q, dq = beta_dq dq + dS k. Every
/// element of a result is a chain of FMAs from beta times what was there: dq over keys, dk and dv
/// over queries, upwards; D in blocks of 64. Masked pairs take no part; without any key, dq =
/// beta_dq dq. dtypes {every float}; accumulates in fp32 (fp64 for fp64). Cost: 10 d flops a pair
/// that is not masked (scores are computed again).
struct AttentionBackward {
  static constexpr char const* name = "attention_backward";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  enum class Operand : std::uint8_t {
    q,
    k,
    v,
    out,
    max,
    sum,
    dout,
    dq,
    dk,
    dv,
    carry_dq,
    carry_dk,
    carry_dv
  };
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
  static constexpr Fields fields = attention_fields;
  static constexpr char const* no_gradient = no_second_derivative;

  static bool overwrites(Attrs const& attrs, OperandIndex result) {
    return (result == Operand::dq   ? attrs.beta_dq
            : result == Operand::dk ? attrs.beta_dk
                                    : attrs.beta_dv) == 0;
  }
  static Args args(Attrs const& attrs, TileRange const& range) {
    Args args = detail::attention_args(attrs, range);
    args.keys = range.chain(Operand::dq);
    args.queries = range.chain(Operand::dk);
    args.beta_dk = range.beta(attrs.beta_dk);
    args.beta_dv = range.beta(attrs.beta_dv);
    args.finishing = range.finishing;
    return args;
  }

  /// Key tiles outside, query tiles inside, both upwards; pairs of tiles without a visible pair are
  /// left out, unless there are no keys at all. Canonical groups of queries are chains of dk and
  /// dv, each of one task at least.
  static void tiles(Attrs const& attrs, TileRange const& all, TileSink& sink) {
    std::size_t const i = all.axis_of('i'), j = all.axis_of('j');
    detail::each_attention_head(all, sink, [&](TileRange range) {
      for (Index key = 0; key < range.tiles(j); ++key) {
        range.take(j, key);
        bool first = true;
        if (range.groups(i).count > 1) {
          group_tiles(attrs, range, key, sink);
          continue;
        }
        for (Index query = 0; query < range.tiles(i); ++query) {
          range.take(i, query);
          Index const horizon = detail::attention_horizon(attrs, range);
          if (range.begin('j') >= horizon && range.whole('j') > 0) continue;
          bool const last_key =
              range.begin('j') + range.extent('j') >= horizon || key + 1 == range.tiles(j);
          bool const last_query = query + 1 == range.tiles(i);
          range.firsts =
              (key == 0 ? over_keys : OperandSet{}) | (first ? over_queries : OperandSet{});
          range.lasts =
              (last_key ? over_keys : OperandSet{}) | (last_query ? over_queries : OperandSet{});
          sink.task(range);
          first = false;
        }
      }
    });
  }
  static constexpr OperandSet over_keys{Operand::dq, Operand::carry_dq};
  static constexpr OperandSet over_queries = OperandSet::all() - over_keys;

  /// The groups of queries over one tile of keys.
  static void group_tiles(Attrs const& attrs, TileRange range, Index key, TileSink& sink) {
    std::size_t const i = range.axis_of('i'), j = range.axis_of('j');
    GroupCut const groups = range.groups(i);
    for (range.canonical_group = 0; range.canonical_group < groups.count; ++range.canonical_group) {
      Index const begin = groups.begin(range.canonical_group),
                  end = groups.begin(range.canonical_group + 1);
      bool first = true;
      for (Index query = 0; query < range.tiles(i); ++query) {
        range.take(i, query);
        AxisRange& part = range.axis(i);
        part.offset = std::max<Index>(0, begin - part.tile_begin);
        part.extent = std::min(part.tile_extent, end - part.tile_begin) - part.offset;
        if (part.extent <= 0) continue;
        Index const horizon = detail::attention_horizon(attrs, range);
        bool const unseen = range.begin('j') >= horizon && range.whole('j') > 0;
        if (unseen && range.begin('i') + part.extent < end) continue;  // later queries may see it
        if (unseen) part.extent = 0;                                   // the sum of nothing
        bool const last_key =
            range.begin('j') + range.extent('j') >= horizon || key + 1 == range.tiles(j);
        range.firsts =
            (key == 0 ? over_keys : OperandSet{}) | (first ? over_queries : OperandSet{});
        range.lasts = last_key ? over_keys : OperandSet{};
        sink.task(range);
        first = false;
      }
      sink.end_group(range);
    }
  }
  static constexpr Hooks<Attrs> hooks{
      .check =
          [](Attrs const& attrs, AxisTable const& axes) {
            if (attrs.cached) throw ValueError(concat(name, ": `cached`, but ", detail::of_cache));
            detail::check_attention(name, attrs, axes);
          },
      .overwrites = &overwrites,
      .tiles = &tiles,
      .grouped = "i",
      .ungrouped = "j",
      .flops =
          [](Attrs const& attrs, TileRange const& range) {
            return saturated_product({5, range.extent('d'), range.extent('h'), range.extent('b'),
                                      detail::attention_pairs_twice(attrs, range)});
          }};

  template <Element T>
  requires(is_float(dtype_of<T>))
  static void reference(Args const& args, Buffers<AttentionBackward> buffers) {
    using V = compute_t<T>;
    Index const d = args.d;
    auto const dot = [&](T const* x, T const* y) {
      V sum = 0;
      for (Index e = 0; e < d; ++e) sum = std::fma(V(x[e]), V(y[e]), sum);
      return sum;
    };
    V const* const max = buffers.at<V>(Operand::max);  // [i, h, b]
    V const* const sum = buffers.at<V>(Operand::sum);  // [i, h, b]
    ChainResult<T> const dq{buffers.at<T>(Operand::dq), buffers.at<V>(Operand::carry_dq),
                            args.beta_dq, args.keys};
    ChainResult<T> const dk{buffers.at<T>(Operand::dk), buffers.at<V>(Operand::carry_dk),
                            args.beta_dk, args.queries, args.finishing};
    ChainResult<T> const dv{buffers.at<T>(Operand::dv), buffers.at<V>(Operand::carry_dv),
                            args.beta_dv, args.queries, args.finishing};
    std::vector<V> p(static_cast<std::size_t>(args.i * args.j)), ds(p.size());
    for (Index b = 0; b < args.b; ++b)
      for (Index h = 0; h < args.h; ++h) {
        auto const query = [&](Index i) {
          return d * (h + args.h * (args.skipped + i + (args.i + args.rest) * b));
        };
        auto const key = [&](Index j) { return d * (h + args.h * (j + args.j * b)); };
        auto const q = [&](Index i) { return buffers.at<T const>(Operand::q) + query(i); };
        auto const k = [&](Index j) { return buffers.at<T const>(Operand::k) + key(j); };
        auto const v = [&](Index j) { return buffers.at<T const>(Operand::v) + key(j); };
        auto const out = [&](Index i) { return buffers.at<T const>(Operand::out) + query(i); };
        auto const dout = [&](Index i) { return buffers.at<T const>(Operand::dout) + query(i); };
        auto const sees = [&](Index i, Index j) { return j <= i + args.diagonal; };
        auto const pair = [&](Index i, Index j) {
          return static_cast<std::size_t>(i + args.i * j);
        };
        for (Index i = 0; i < args.i; ++i) {
          Index const row = args.skipped + i + (args.i + args.rest) * (h + args.h * b);
          V const rowsum = dot(dout(i), out(i));
          for (Index j = 0; j < args.j; ++j) {
            if (!sees(i, j)) continue;
            V score = 0;
            for (Index e = 0; e < d; ++e)
              score = std::fma(V(args.scale) * V(q(i)[e]), V(k(j)[e]), score);
            p[pair(i, j)] = std::exp(score - max[row]) / sum[row];
            ds[pair(i, j)] = p[pair(i, j)] * (dot(dout(i), v(j)) - rowsum) * V(args.scale);
          }
        }
        for (Index i = 0; i < args.i; ++i)
          for (Index e = 0; e < d; ++e) {
            V value = dq.start(query(i) + e);
            for (Index j = 0; j < args.j; ++j)
              if (sees(i, j)) value = std::fma(ds[pair(i, j)], V(k(j)[e]), value);
            dq.put(query(i) + e, value);
          }
        for (Index j = 0; j < args.j; ++j)
          for (Index e = 0; e < d; ++e) {
            V of_k = dk.start(key(j) + e), of_v = dv.start(key(j) + e);
            for (Index i = 0; i < args.i; ++i) {
              if (!sees(i, j)) continue;
              of_k = std::fma(ds[pair(i, j)], V(q(i)[e]), of_k);
              of_v = std::fma(p[pair(i, j)], V(dout(i)[e]), of_v);
            }
            dk.put(key(j) + e, of_k);
            dv.put(key(j) + e, of_v);
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
/// times 1 / sum. A NaN or +inf score makes its row NaN, max and sum too; a row of nothing but -inf
/// gives NaN, as in PyTorch; without any key, out = 0, max = -inf and sum = 0. `cached`: k and v
/// have the slots of a cache, as kv_cache_append fills it, and query i, with or without `causal`,
/// sees slot j where j <= start + i; the bits are those of the whole sequence, whatever else the
/// slots hold. dtypes {every float}; statistics and sums fp32 (fp64 for fp64); start int64. Cost:
/// 4 d flops a pair that is not masked, of a cache counted for all slots. Throws ShapeError where
/// `causal` or `cached` and Tk < Tq, ValueError for a scale that is not finite; fails where start
/// is outside [0, Tk - Tq]. No gradient of a cache. Source: Rabe and Staats 2021; Dao et al. 2022.
struct Attention {
  static constexpr char const* name = "attention";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  enum class Operand : std::uint8_t { q, k, v, start, out, max, sum, carry };
  static constexpr Operands operands{
      {"q", "d! h i b..."},
      {"k", "d! h j b..."},
      {"v", "d! h j b..."},
      {"start", "", Access::read, Kind::int64},
      {"out", "d! h i b...", Access::write},
      {"max", "i h b...", Access::write, Kind::accumulator},
      {"sum", "i h b...", Access::write, Kind::accumulator},
      {"carry", "d! h i b...", Access::update, Kind::accumulator, Carry::narrow}};

  using Attrs = AttentionAttrs;
  using Args = AttentionArgs;
  static constexpr Fields fields = attention_fields;

  static Args args(Attrs const& attrs, TileRange const& range) {
    Args args = detail::attention_args(attrs, range);
    args.keys = range.chain(Operand::out);
    return args;
  }

  /// A chain over key tiles, upwards, for each tile of queries; key tiles that it does not see are
  /// left out.
  static void tiles(Attrs const& attrs, TileRange const& all, TileSink& sink) {
    std::size_t const i = all.axis_of('i'), j = all.axis_of('j');
    detail::each_attention_head(all, sink, [&](TileRange range) {
      for (Index query = 0; query < range.tiles(i); ++query) {
        range.take(i, query);
        Index const horizon = detail::attention_horizon(attrs, range);
        bool last = false;
        for (Index key = 0; !last; ++key) {
          range.take(j, key);
          last = range.begin('j') + range.extent('j') >= horizon || key + 1 == range.tiles(j);
          range.firsts = key == 0 ? OperandSet::all() : OperandSet{};
          range.lasts = last ? OperandSet::all() : OperandSet{};
          sink.task(range);
        }
      }
    });
  }
  static constexpr Hooks<Attrs> hooks{
      .present = [](Attrs const& attrs,
                    OperandIndex operand) { return operand != Operand::start || attrs.cached; },
      .check = [](Attrs const& attrs,
                  AxisTable const& axes) { detail::check_attention(name, attrs, axes); },
      .tiles = &tiles,
      .blocked = [](Attrs const&) { return "j"; },
      .ungrouped = "j",
      .flops =
          [](Attrs const& attrs, TileRange const& range) {
            return saturated_product({2, range.extent('d'), range.extent('h'), range.extent('b'),
                                      detail::attention_pairs_twice(attrs, range)});
          }};

  template <Element T>
  requires(is_float(dtype_of<T>))
  static Status reference(Args const& args, Buffers<Attention> buffers) {
    using V = compute_t<T>;
    Index const* const start = buffers.at<Index const>(Operand::start);
    if (start != nullptr && (*start < 0 || *start > args.last_start))
      return {detail::start_outside};
    Index const diagonal = args.diagonal + (start == nullptr ? 0 : *start);
    constexpr V infinity = std::numeric_limits<V>::infinity();
    Index const d = args.d;
    Chain const chain = args.keys;
    ChainResult<T> const results{buffers.at<T>(Operand::out), buffers.at<V>(Operand::carry), 0,
                                 args.keys};
    std::vector<V> p(static_cast<std::size_t>(args.j)), sums(static_cast<std::size_t>(d));
    for (Index b = 0; b < args.b; ++b)
      for (Index h = 0; h < args.h; ++h)
        for (Index i = 0; i < args.i; ++i) {
          Index const at = d * (h + args.h * (i + args.i * b));
          Index const row = i + args.i * (h + args.h * b);
          T const* const q = buffers.at<T>(Operand::q) + at;
          auto const out = results.at(at);
          V& max = buffers.at<V>(Operand::max)[row];
          V& sum = buffers.at<V>(Operand::sum)[row];
          Index const keys = std::max<Index>(0, std::min(args.j, i + diagonal + 1));
          V const before = chain.start(&max, 0, -infinity);
          V top = before;
          for (Index j = 0; j < keys; ++j) {
            T const* const k = buffers.at<T>(Operand::k) + d * (h + args.h * (j + args.j * b));
            V score = 0;
            for (Index e = 0; e < d; ++e) score = std::fma(V(args.scale) * V(q[e]), V(k[e]), score);
            p[static_cast<std::size_t>(j)] = score;
            top = maximum(top, score);
          }
          V const base = top == -infinity ? V(0) : top;
          V const kept = chain.first ? V(0) : std::exp(before - base);
          V total = chain.start(&sum, 0) * kept;
          for (Index e = 0; e < d; ++e) sums[static_cast<std::size_t>(e)] = kept * out.start(e);
          for (Index j = 0; j < keys; ++j) {
            T const* const v = buffers.at<T>(Operand::v) + d * (h + args.h * (j + args.j * b));
            V const weight = std::exp(p[static_cast<std::size_t>(j)] - base);
            total += weight;
            for (Index e = 0; e < d; ++e) {
              V& value = sums[static_cast<std::size_t>(e)];
              value = std::fma(weight, V(v[e]), value);
            }
          }
          max = total == total ? top : total;
          sum = total;
          for (Index e = 0; e < d; ++e) {
            V const value = sums[static_cast<std::size_t>(e)];
            out.put(e, !chain.last ? value : args.j == 0 ? V(0) : value * (V(1) / total));
          }
        }
    return {};
  }

  template <class Builder> static void gradient(Builder& b) {
    if (!b.wants(Operand::q) && !b.wants(Operand::k) && !b.wants(Operand::v)) return;
    if (b.template attrs<Attention>().cached) b.fail(detail::of_cache);
    auto const dout = b.grad(Operand::out);
    // An operand that meets an earlier one: its gradient is added to that one's afterwards.
    auto const apart = [&](Operand operand) {
      bool meets = false;
      for (Operand const earlier : {Operand::q, Operand::k})
        meets |= earlier < operand && b.meet(operand, earlier);
      return meets;
    };
    auto const place = [&](Operand operand) {
      return target_or_temporary(b, operand, b.wants(operand) && !apart(operand), b.shape(operand),
                                 dout.dtype(), apart(operand) ? ".grad.part" : ".grad.unused");
    };
    auto const dq = place(Operand::q), dk = place(Operand::k), dv = place(Operand::v);
    Attrs attrs = b.template attrs<Attention>();
    attrs.beta_dq = dq.beta;
    attrs.beta_dk = dk.beta;
    attrs.beta_dv = dv.beta;
    b.template op<AttentionBackward>(attrs, b.operand(Operand::q), b.operand(Operand::k),
                                     b.operand(Operand::v), b.operand(Operand::out),
                                     b.operand(Operand::max), b.operand(Operand::sum), dout,
                                     dq.node, dk.node, dv.node);
    if (b.wants(Operand::k) && apart(Operand::k)) b.sum_trailing(dk.node, Operand::k);
    if (b.wants(Operand::v) && apart(Operand::v)) b.sum_trailing(dv.node, Operand::v);
  }
};

}  // namespace ops

inline constexpr Call<ops::Attention> attention{};
inline constexpr Call<ops::AttentionBackward> attention_backward{};
using attention_ops = OpList<ops::Attention, ops::AttentionBackward>;

}  // namespace nntile
