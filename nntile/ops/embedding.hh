#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Rows of a table by index, and the derivative that adds them up.

#include <cmath>

#include "nntile/ops/concept.hh"

namespace nntile {
namespace ops {

namespace detail {

/// Of the tokens in the range, those whose rows a tile of the table holds, were tokens spread
/// evenly.
inline Index tokens_of_tile(TileRange const& range) {
  Index const rows = range.whole('v');
  return rows == 0 ? 0 : (range.extent('i') * range.extent('v') + rows - 1) / rows;
}

}  // namespace detail

struct EmbeddingBackwardAttrs {
  double beta = 0;
};

/// dtable[e,v] = beta dtable[e,v] + sum over tokens i with index[i] = v of dy[e,i], added in
/// ascending token position, inner token axes first; without tokens, beta dtable. dtypes {every float}; accumulates in fp32
/// (fp64 for fp64); index int64. Cost: (2|dtable| + 3|dy|) * size bytes, of dy what is added
/// to the tile. Fails where an index is outside [0, V).
struct EmbeddingBackward {
  static constexpr char const* name = "embedding_backward";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  static constexpr Operands operands{
      {"index", "i...", Access::read, Kind::int64},
      {"dy", "e i..."},
      {"dtable", "e v", Access::update},
      {"carry", "e v", Access::update, Kind::accumulator, Carry::narrow}};

  using Attrs = EmbeddingBackwardAttrs;
  struct Args {
    Index e, v, n, v_begin, whole_v, index_offset, dy_offset;
    double beta;
    bool first, last, carried;
  };

  static bool overwrites(Attrs const& attrs, int) { return attrs.beta == 0; }
  static Args args(Attrs const& attrs, TileRange const& range) {
    Args args{};
    args.e = range.extent('e');
    args.v = range.extent('v');
    args.n = range.extent('i');
    args.v_begin = range.begin('v');
    args.whole_v = range.whole('v');
    args.index_offset = range.offset(0);
    args.dy_offset = range.offset(1);
    args.beta = attrs.beta;
    args.first = range.first(2);
    args.last = range.last(2);
    args.carried = range.carried(3);
    return args;
  }
  static Cost cost(Attrs const&, TileRange const& range) {
    return {0, static_cast<Index>(sizeof(float)) *
                   (3 * range.extent('e') * detail::tokens_of_tile(range) +
                    (range.first(2) ? 2 : 0) * range.elements(2))};
  }

  template <Element T>
  requires(is_float(dtype_of<T>)) static Status reference(Args const& args, Buffers buffers) {
    using V = compute_t<T>;
    Index const* const index = buffers.at<Index>(0) + args.index_offset;  // [i]
    T const* const dy = buffers.at<T>(1) + args.dy_offset;                // [e, i]
    T* const dtable = buffers.at<T>(2);                                   // [e, v]
    V* const carry = args.carried ? buffers.at<V>(3) : nullptr;           // [e, v]
    for (Index i = 0; i < args.n; ++i)
      if (index[i] < 0 || index[i] >= args.whole_v) return {"an index is outside the table"};
    for (Index v = 0; v < args.v; ++v)
      for (Index e = 0; e < args.e; ++e) {
        Index const at = e + args.e * v;
        V sum = !args.first      ? (args.carried ? carry[at] : V(dtable[at]))
                : args.beta == 0 ? V(0)
                                 : V(args.beta) * V(dtable[at]);
        for (Index i = 0; i < args.n; ++i)
          if (index[i] == args.v_begin + v) sum += V(dy[e + args.e * i]);
        if (args.carried && !args.last)
          carry[at] = sum;
        else
          dtable[at] = T(sum);
      }
    return {};
  }
};

struct EmbeddingAttrs {};

/// out[e,i] = table[e, index[i]]. A cut table is a chain: the first tile zeroes what it lacks,
/// later ones fill it in. dtypes {every float}; index int64. Cost: 2|out| * size bytes. Fails where
/// an index is outside [0, V).
struct Embedding {
  static constexpr char const* name = "embedding";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  static constexpr Operands operands{{"index", "i...", Access::read, Kind::int64},
                                     {"table", "e v"},
                                     {"out", "e i...", Access::write}};

  using Attrs = EmbeddingAttrs;
  struct Args {
    Index e, v, n, v_begin, whole_v;
    bool first;
  };

  static Args args(Attrs const&, TileRange const& range) {
    return {range.extent('e'), range.extent('v'), range.extent('i'),
            range.begin('v'),  range.whole('v'),  range.first(2)};
  }
  static Cost cost(Attrs const&, TileRange const& range) {
    Index const tokens = detail::tokens_of_tile(range);
    return {0, static_cast<Index>(sizeof(float)) * range.extent('e') *
                   (tokens + (range.first(2) ? range.extent('i') : tokens))};
  }

  template <Element T>
  requires(is_float(dtype_of<T>)) static Status reference(Args const& args, Buffers buffers) {
    Index const* const index = buffers.at<Index>(0);  // [i]
    T const* const table = buffers.at<T>(1);          // [e, v]
    T* const out = buffers.at<T>(2);                  // [e, i]
    for (Index i = 0; i < args.n; ++i) {
      if (index[i] < 0 || index[i] >= args.whole_v) return {"an index is outside the table"};
      Index const v = index[i] - args.v_begin;
      bool const here = v >= 0 && v < args.v;
      for (Index e = 0; e < args.e; ++e)
        if (here || args.first) out[e + args.e * i] = here ? table[e + args.e * v] : T(0);
    }
    return {};
  }

  template <class Builder> static void gradient(Builder& b) {
    if (!b.wants(1)) return;
    auto const dtable = b.target(1);
    b.template op<EmbeddingBackward>({.beta = dtable.beta}, b.operand(0), b.grad(2), dtable.node);
  }
};

}  // namespace ops

inline constexpr Call<ops::Embedding> embedding{};
inline constexpr Call<ops::EmbeddingBackward> embedding_backward{};
using embedding_ops = OpList<ops::Embedding, ops::EmbeddingBackward>;

}  // namespace nntile
