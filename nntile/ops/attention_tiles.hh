#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Parts that attention and its derivative share: positions, the mask, and which pairs of tiles see
// each other.

#include <algorithm>
#include <cmath>

#include "nntile/core/cost.hh"
#include "nntile/ops/concept.hh"

namespace nntile {
namespace ops {

/// Query i sees key j where j <= i + (Tk - Tq), positions in the whole sequences: aligned at their
/// ends. `cached`: keys and values are slots of a cache, and j <= start + i, the operand `start`
/// being the number of tokens that it held before these.
struct AttentionAttrs {
  bool causal = false;
  bool cached = false;
  double scale = 0;                              // of the scores; 0 stands for 1 / sqrt(d)
  double beta_dq = 0, beta_dk = 0, beta_dv = 0;  // of the derivative's results
};

/// Extents of a task's tiles. Local query i sees local key j where j <= i + diagonal, or i + start
/// + diagonal of a cache.
struct AttentionArgs {
  Index d;
  std::uint32_t h, skipped;  // queries of the tile before the task's
  Index i, j;
  std::uint32_t b, rest;  // queries of the tile beside the task's
  Index diagonal;
  Index last_start;  // of a cache: the largest that leaves room for the whole call's tokens
  double scale;
  double beta_dq, beta_dk, beta_dv;
  Chain keys;     // the chain over keys, of out or dq
  Chain queries;  // the chain over queries, of dk and dv
  bool finishing;
};

inline constexpr Fields attention_fields{
    field<&AttentionAttrs::causal>("causal"),   field<&AttentionAttrs::cached>("cached"),
    field<&AttentionAttrs::scale>("scale"),     field<&AttentionAttrs::beta_dq>("beta_dq"),
    field<&AttentionAttrs::beta_dk>("beta_dk"), field<&AttentionAttrs::beta_dv>("beta_dv")};

namespace detail {

/// Keys before `position + attention_shift` are seen by the query at `position` and those after it.
inline Index attention_shift(TileRange const& range) { return range.whole('j') - range.whole('i'); }

inline AttentionArgs attention_args(AttentionAttrs const& attrs, TileRange const& range) {
  AttentionArgs args{};
  args.d = range.extent('d');
  args.h = range.extent32('h');
  args.i = range.extent('i');
  args.j = range.extent('j');
  args.b = range.extent32('b');
  args.skipped = range.skipped32('i');
  args.rest = range.rest32('i');
  args.diagonal = attrs.cached   ? range.begin('i') - range.begin('j')
                  : attrs.causal ? range.begin('i') + attention_shift(range) - range.begin('j')
                                 : args.j;
  args.last_start = attention_shift(range);
  args.scale = attrs.scale != 0 ? attrs.scale : 1 / std::sqrt(static_cast<double>(args.d));
  args.beta_dq = attrs.beta_dq;
  args.beta_dk = attrs.beta_dk;
  args.beta_dv = attrs.beta_dv;
  return args;
}

/// Twice the number of (query, key) pairs of a task, those on the diagonal at half: T^2 for a
/// causal square. All pairs with slots of a cache, whose use no plan knows.
inline Index attention_pairs_twice(AttentionAttrs const& attrs, TileRange const& range) {
  Index const queries = range.extent('i'), keys = range.extent('j');
  if (!attrs.causal || attrs.cached) return saturated_product({2, queries, keys});
  Index const diagonal = range.begin('i') + attention_shift(range) - range.begin('j');
  // Query i sees diagonal + i + 1 keys from query `begin` on, and all of them from `end` on.
  Index const begin = std::clamp<Index>(-diagonal, 0, queries),
              end = std::clamp<Index>(keys - diagonal, begin, queries);
  return saturated_sum(saturated_product({end - begin, 2 * diagonal + begin + end}),
                       saturated_product({2, queries - end, keys}));
}

/// Steps the heads and batch tiles that a sink wants, heads fastest, body(range) at each.
template <class Body> void each_attention_head(TileRange range, TileSink const& sink, Body body) {
  inplace_vector<std::size_t, max_axes> ids;
  for (std::size_t id = 0; id < range.table().axes.size(); ++id)
    if (char const group = range.table().axes[id].group; group == 'h' || group == 'b')
      ids.push_back(id);
  for (bool more = true; more;) {
    body(range);
    more = false;
    for (std::size_t const id : ids) {
      Index const next = sink.next(range, id);
      more = next >= 0;
      range.take(id, more ? next : 0);
      if (more) break;
    }
  }
}

/// The last position of the queries that the range takes sees keys before this one, in a cache with
/// the largest start that there may be.
inline Index attention_horizon(AttentionAttrs const& attrs, TileRange const& range) {
  return attrs.causal || attrs.cached
             ? range.begin('i') + range.extent('i') + attention_shift(range)
             : range.whole('j');
}

/// The reason why there is no gradient of a cache.
inline constexpr char const* of_cache = "keys and values of a cache are of inference";
/// The reference's text where tokens do not fit behind those that a cache holds.
inline constexpr char const* start_outside = "start is outside the cache";

/// Throws ShapeError where a cache has fewer slots than a call has tokens.
inline void check_cache(char const* op, AxisTable const& axes) {
  Index const tokens = axes.whole('i'), slots = axes.whole('j');
  if (slots < tokens)
    throw ShapeError(concat(op, ": ", tokens, " tokens [i], but the cache has ", slots,
                            " slots [j]; give it as many at least, or fewer tokens at once"));
}

/// Throws ValueError for a scale that is not finite, ShapeError where the mask would leave some
/// query no key.
inline void check_attention(char const* op, AttentionAttrs const& attrs, AxisTable const& axes) {
  if (!std::isfinite(attrs.scale))
    throw ValueError(
        concat(op, ": scale=", attrs.scale, "; it is finite, and 0 stands for 1 / sqrt(d)"));
  Index const queries = axes.whole('i'), keys = axes.whole('j');
  if (attrs.cached) return check_cache(op, axes);
  if (attrs.causal && keys < queries)
    throw ShapeError(concat(
        op, ": causal with q[i]=", queries, " queries but k[j]=", keys,
        " keys; sequences are aligned at their ends, so there must be as many keys as queries"));
}

}  // namespace detail
}  // namespace ops
}  // namespace nntile
