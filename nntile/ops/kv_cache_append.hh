#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Keys or values of new tokens into their slots of a cache.

#include <algorithm>

#include "nntile/ops/attention_tiles.hh"
#include "nntile/ops/call.hh"

namespace nntile {
namespace ops {

struct KvCacheAppendAttrs {};

/// cache[d,h,start+i,b] = x[d,h,i,b]; other slots stay as they are. start: the number of tokens
/// that the cache holds. dtypes {every float}; start int64. Cost: 3|x| * size bytes, counted in
/// every tile of slots. Throws ShapeError where x has more tokens than the cache has slots; fails
/// where start is outside [0, slots - tokens].
struct KvCacheAppend {
  static constexpr char const* name = "kv_cache_append";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  enum class Operand : std::uint8_t { x, start, cache };
  static constexpr Operands operands{
      {"x", "d h i b..."},
      {"start", "", Access::read, Kind::int64},
      {"cache", "d h j b...", Access::update, Kind::element, Carry::none, Combine::select}};

  using Attrs = KvCacheAppendAttrs;
  struct Args {
    Index row;         // elements of a token's slot in the tiles
    Index i, j, b;     // tokens and slots of the tiles, and batch elements
    Index first;       // slot of the tile of the tile's first token, less start
    Index last_start;  // the largest that leaves room for all tokens of the call
  };
  static constexpr Fields fields{};
  static constexpr char const* no_gradient = detail::of_cache;
  static constexpr Hooks<Attrs> hooks{
      .check = [](Attrs const&, AxisTable const& axes) { detail::check_cache(name, axes); },
      .elements = [](Attrs const&, TileRange const& range, OperandIndex operand) -> Index {
        if (operand == Operand::start) return range.elements(operand);
        return range.extent('d') * range.extent('h') * range.extent('b') *
               std::min(range.extent('i'), range.extent('j'));
      }};

  static Args args(Attrs const&, TileRange const& range) {
    return {range.extent('d') * range.extent('h'),
            range.extent('i'),
            range.extent('j'),
            range.extent('b'),
            range.begin('i') - range.begin('j'),
            range.whole('j') - range.whole('i')};
  }

  template <Element T>
  requires(is_float(dtype_of<T>))
  static Status reference(Args const& args, Buffers<KvCacheAppend> buffers) {
    T const* const x = buffers.at<T const>(Operand::x);  // [row, i, b]
    T* const cache = buffers.at<T>(Operand::cache);      // [row, j, b]
    Index const start = *buffers.at<Index const>(Operand::start);
    if (start < 0 || start > args.last_start) return {detail::start_outside};
    for (Index b = 0; b < args.b; ++b)
      for (Index i = 0; i < args.i; ++i)
        if (Index const j = args.first + start + i; j >= 0 && j < args.j)
          std::copy_n(x + args.row * (i + args.i * b), args.row,
                      cache + args.row * (j + args.j * b));
    return {};
  }
};

}  // namespace ops

inline constexpr Call<ops::KvCacheAppend> kv_cache_append{};
using kv_cache_append_ops = OpList<ops::KvCacheAppend>;

}  // namespace nntile
