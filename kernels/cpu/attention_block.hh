#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Blocks of attention: bringing rows into the layout and type that products want, and the softmax of one block.

#include "kernels/cpu/attention_product.hh"
#include "kernels/cpu/functions.hh"
#include "nntile/ops/attention.hh"

namespace nntile::kernels::NNTILE_ISA {

/// Elements of a head that scratch has room for: 64 KiB a block of 64 rows. Wider heads are walked in such pieces.
template <class V>
inline constexpr Index attention_depth = 64 * 1024 / (attention_block * static_cast<Index>(sizeof(V)));

/// Room for a block of 64 rows of a head.
template <class V>
struct RowBlock {
  alignas(64) V at[attention_block * attention_depth<V>];
};

/// Rows of a block: `ld` elements from one to the next, each followed by zeros up to whole registers.
template <class V>
struct Rows {
  V const* at;
  Index ld;
};

template <class V>
constexpr Index padded(Index d) {
  return (d + Vec<V>::lanes - 1) / Vec<V>::lanes * Vec<V>::lanes;
}

/// Rows in place where type and width allow, else a copy in `room`.
template <class T, class V = compute_t<T>>
NNTILE_ALWAYS_INLINE Rows<V> rows_of(T const* from, Index ld, Index count, Index d, RowBlock<V>& room) {
  if constexpr (std::is_same_v<T, V>)
    if (d % Vec<V>::lanes == 0) return {from, ld};
  Index const width = padded<V>(d);
  for (Index r = 0; r < count; ++r)
    for_each_vec<V>(d, [&](Index e, auto part) { store(room.at + r * width + e, load(from + r * ld + e, part), All{}); });
  return {room.at, width};
}

/// to[e*64 + r] = factor * from[r*ld + e], for 64 rows; those from `count` on are zero.
template <class T, class V = compute_t<T>>
NNTILE_ALWAYS_INLINE void transpose_rows(T const* from, Index ld, Index count, Index d, V factor, V* to) {
  for (Index r = 0; r < attention_block; ++r)
    for (Index e = 0; e < d; ++e)
      to[e * attention_block + r] = r < count ? factor * static_cast<V>(from[r * ld + e]) : V(0);
}

/// Lanes of a register of queries, the first at `query`, that see key `key`: key <= query + diagonal.
template <class V>
NNTILE_ALWAYS_INLINE Mask<V> seen_by(Index query, Index key, Index diagonal) {
  alignas(64) static constexpr V numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return load(numbers) >= Vec<V>(static_cast<double>(key - query - diagonal));
}

/// For a register of queries: keys before `all` are seen by every lane, keys from `some` on by none.
struct SeenKeys {
  Index all, some;
};
NNTILE_ALWAYS_INLINE SeenKeys seen_keys(Index query, int lanes, Index diagonal, Index keys) {
  auto const clamp = [=](Index n) { return n < 0 ? 0 : n < keys ? n : keys; };
  return {clamp(query + diagonal + 1), clamp(query + lanes + diagonal)};
}

/// Positions of one head in the tiles.
struct HeadLayout {
  Index q, k;          // of its first element in tiles of queries and of keys
  Index q_ld, k_ld;    // from one query, one key to the next
  Index statistics;    // of its first query in max and sum
};
NNTILE_ALWAYS_INLINE HeadLayout head_layout(ops::AttentionArgs const& args, Index head, Index batch) {
  Index const ld = args.d * args.h;
  return {args.d * head + ld * args.i * batch, args.d * head + ld * args.j * batch, ld, ld,
          args.i * (head + args.h * batch)};
}

}  // namespace nntile::kernels::NNTILE_ISA
