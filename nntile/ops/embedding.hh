#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Rows of a table by index, and the derivative that adds them up.

#include <cmath>

#include "nntile/ops/call.hh"

namespace nntile {
namespace ops {

namespace detail {

/// Of the tokens in the range, those whose rows a tile of the table holds, were tokens spread
/// evenly.
inline Index tokens_of_tile(TileRange const& range) {
  Index const rows = range.whole('v'), here = range.extent('v'), tokens = range.extent('i');
  if (rows == 0) return 0;
  // The product of both extents is no tensor's, and 63 bits may be too few.
  __extension__ typedef __int128 Wide;
  return static_cast<Index>((Wide{tokens} * here + rows - 1) / rows);
}

}  // namespace detail

struct EmbeddingBackwardAttrs {
  double beta = 0;
};

/// dtable[e,v] = beta dtable[e,v] + sum over tokens i with index[i] = v of dy[e,i], added in
/// ascending token position, inner token axes first; without tokens, beta dtable. Canonical groups
/// of tokens are chains from +0; where the root of their tree is 0, beta dtable, else fma(beta,
/// dtable, root); one task sums a pair of groups of at most 256 tokens each. dtypes {every float};
/// accumulates in fp32 (fp64 for fp64); index int64 or int32. Cost: (2|dtable| + 3|dy|) * size
/// bytes, of dy what is added to the tile. Fails where an index is outside [0, V).
struct EmbeddingBackward {
  static constexpr char const* name = "embedding_backward";
  static constexpr TypeTable types = indexed_types;
  enum class Operand : std::uint8_t { index, dy, dtable, carry };
  static constexpr Operands operands{
      {"index", "i...", Access::read, Kind::second},
      {"dy", "e i..."},
      {"dtable", "e v", Access::update},
      {"carry", "e v", Access::update, Kind::accumulator, Carry::narrow}};

  using Attrs = EmbeddingBackwardAttrs;
  struct Args {
    Index e, v, n, v_begin, whole_v, index_offset, dy_offset;
    double beta;
    Index left_terms;  // tokens of the left of a pair of canonical groups; 0: one chain
    Chain chain;
    bool finishing;
    Index lddy, ld_table;
  };
  static constexpr Fields fields{field<&Attrs::beta>("beta")};
  static constexpr Hooks<Attrs> hooks{
      .grouped = "i",
      .paired_terms = 256,
      .elements = [](Attrs const&, TileRange const& range, OperandIndex operand) -> Index {
        if (range.finishing) return range.elements(operand);
        Index const rows = range.extent('e') * detail::tokens_of_tile(range);
        return operand == Operand::dy ||
                       (operand != Operand::index && !range.first(Operand::dtable))
                   ? rows
                   : range.elements(operand);
      },
      .padding = Padding::columns};
  static constexpr char const* no_gradient = no_second_derivative;

  static Args args(Attrs const& attrs, TileRange const& range) {
    return {range.extent('e'),
            range.extent('v'),
            range.extent('i'),
            range.begin('v'),
            range.whole('v'),
            range.offset(Operand::index),
            range.offset(Operand::dy),
            range.beta(attrs.beta),
            range.left_terms,
            range.chain(Operand::dtable),
            range.finishing,
            range.leading(Operand::dy),
            range.leading(Operand::dtable)};
  }

  /// The result of canonical groups, by their sum.
  template <class T, class V> static constexpr V finished(double beta, T const* before, V sum) {
    if (beta == 0) return sum;
    return sum == 0 ? static_cast<V>(beta) * static_cast<V>(*before) : updated(beta, *before, sum);
  }

  template <Element T, Element Position = std::int64_t>
  requires(is_float(dtype_of<T>))
  static Status reference(Args const& args, Buffers<EmbeddingBackward> buffers) {
    using V = compute_t<T>;
    Position const* const index = buffers.at<Position>(Operand::index) + args.index_offset;  // [i]
    T const* const dy = buffers.at<T>(Operand::dy) + args.dy_offset;  // [e, i]
    ChainResult<T> const dtable{buffers.at<T>(Operand::dtable), buffers.at<V>(Operand::carry),
                                args.beta, args.chain, args.finishing};  // [e, v]
    for (Index i = 0; i < args.n; ++i)
      if (index[i] < 0 || index[i] >= args.whole_v) return {"an index is outside the table"};
    for (Index v = 0; v < args.v; ++v)
      for (Index e = 0; e < args.e; ++e) {
        Index const at = e + args.ld_table * v;
        bool const pair = args.left_terms > 0;
        V sum = args.finishing ? dtable.carry[at] : pair ? V(0) : dtable.start(at), left = 0;
        for (Index i = 0; i < args.n; ++i) {
          if (pair && i == args.left_terms) left = sum, sum = 0;
          if (index[i] == args.v_begin + v) sum += V(dy[e + args.lddy * i]);
        }
        if (pair) sum = left + sum;
        if (pair || args.finishing) sum = finished(args.beta, dtable.out + at, sum);
        dtable.put(at, sum);
      }
    return {};
  }
};

struct EmbeddingAttrs {};

/// out[e,i] = table[e, index[i]]. A cut table is a chain: the first tile zeroes what it lacks,
/// later ones fill it in. dtypes {every float}; index int64 or int32. Cost: 2|out| * size bytes.
/// Fails where an index is outside [0, V).
struct Embedding {
  static constexpr char const* name = "embedding";
  static constexpr TypeTable types = indexed_types;
  enum class Operand : std::uint8_t { index, table, out };
  static constexpr Operands operands{
      {"index", "i...", Access::read, Kind::second},
      {"table", "e v"},
      {"out", "e i...", Access::write, Kind::element, Carry::none, Combine::select}};

  using Attrs = EmbeddingAttrs;
  struct Args {
    Index e, v, n, v_begin, whole_v;
    bool first;
    Index ld_table, ld_out;
  };
  static constexpr Fields fields{};
  static constexpr Hooks<Attrs> hooks{
      .elements = [](Attrs const&, TileRange const& range, OperandIndex operand) -> Index {
        bool const all =
            operand == Operand::index || (operand == Operand::out && range.first(Operand::out));
        return all ? range.elements(operand) : range.extent('e') * detail::tokens_of_tile(range);
      },
      .padding = Padding::columns};

  static Args args(Attrs const&, TileRange const& range) {
    return {range.extent('e'),
            range.extent('v'),
            range.extent('i'),
            range.begin('v'),
            range.whole('v'),
            range.first(Operand::out),
            range.leading(Operand::table),
            range.leading(Operand::out)};
  }

  template <Element T, Element Position = std::int64_t>
  requires(is_float(dtype_of<T>))
  static Status reference(Args const& args, Buffers<Embedding> buffers) {
    Position const* const index = buffers.at<Position>(Operand::index);  // [i]
    T const* const table = buffers.at<T>(Operand::table);                // [e, v]
    T* const out = buffers.at<T>(Operand::out);                          // [e, i]
    for (Index i = 0; i < args.n; ++i) {
      if (index[i] < 0 || index[i] >= args.whole_v) return {"an index is outside the table"};
      Index const v = index[i] - args.v_begin;
      bool const here = v >= 0 && v < args.v;
      for (Index e = 0; e < args.e; ++e)
        if (here || args.first)
          out[e + args.ld_out * i] = here ? table[e + args.ld_table * v] : T(0);
    }
    return {};
  }

  template <class Builder> static void gradient(Builder& b) {
    if (!b.wants(Operand::table)) return;
    auto const dtable = b.target(Operand::table);
    b.template op<EmbeddingBackward>({.beta = dtable.beta}, b.operand(Operand::index),
                                     b.grad(Operand::out), dtable.node);
  }
};

}  // namespace ops

inline constexpr Call<ops::Embedding> embedding{};
inline constexpr Call<ops::EmbeddingBackward> embedding_backward{};
using embedding_ops = OpList<ops::Embedding, ops::EmbeddingBackward>;

}  // namespace nntile
