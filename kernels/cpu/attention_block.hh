#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Blocks of attention: bringing rows into the layout and type that products want, and the mask.

#include "kernels/cpu/attention_layout.hh"
#include "kernels/cpu/attention_product.hh"
#include "kernels/cpu/functions.hh"
#include "kernels/cpu/transpose.hh"
#include "nntile/ops/attention.hh"

namespace nntile::kernels::NNTILE_ISA::sdpa {

/// Workspace of one task: 640 KiB, of which it touches what its heads need.
inline constexpr Index scratch_bytes = 640 * 1024;

/// Elements of a head that are walked at once, 1 KiB a row; wider heads are walked in such pieces,
/// scores anew for each.
template <class V> inline constexpr Index attention_depth = 1024 / static_cast<Index>(sizeof(V));

/// Workspace that is handed out piece by piece.
template <class V> struct Room {
  V* at;
  Index used = 0;

  NNTILE_ALWAYS_INLINE V* take(Index count) {
    V* const begin = at + used;
    used += count;
    return begin;
  }
  NNTILE_ALWAYS_INLINE Index left() const {
    return scratch_bytes / static_cast<Index>(sizeof(V)) - used;
  }
};

/// Rows of a block, `ld` elements from one to the next, each whole registers wide.
template <class V> struct RowsAt {
  V const* at;
  Index ld;
};

template <class V> constexpr Index padded(Index d) {
  return (d + Vec<V>::lanes - 1) / Vec<V>::lanes * Vec<V>::lanes;
}
NNTILE_ALWAYS_INLINE Index at_most(Index left, Index room) { return left < room ? left : room; }

/// to[r*padded(d) + e] = from[r*ld + e], zeros up to whole registers.
template <class T, class V = compute_t<T>>
NNTILE_ALWAYS_INLINE RowsAt<V> copy_rows(T const* from, Index ld, Index count, Index d, V* to) {
  Index const width = padded<V>(d);
  for (Index r = 0; r < count; ++r)
    for_each_vec<V>(d, [&](Index e, auto part) {
      store(to + r * width + e, load(from + r * ld + e, part), All{});
    });
  return {to, width};
}

/// Rows of the keys or values of one head. They are copied side by side when they are first used:
/// rows of a tile are a power of two apart, or near it, and would push each other out of L1. Where
/// they are used once, or there is no room, they are used in place if type and width allow it, and
/// else share the last block of the room.
template <class T> class HeldRows {
  using V = compute_t<T>;

 public:
  HeldRows(T const* from, Index ld, Index keys, Index d, bool once, V* room, Index slots)
      : from_(from),
        ld_(ld),
        keys_(keys),
        d_(d),
        room_(room),
        slots_(slots),
        own_(once                                                     ? 0
             : (keys + attention_block - 1) / attention_block > slots ? slots - 1
                                                                      : slots),
        in_place_(std::is_same_v<T, V> && d % Vec<V>::lanes == 0) {}

  RowsAt<V> block(Index key) {
    T const* const rows = from_ + key * ld_;
    Index const number = key / attention_block;
    if constexpr (std::is_same_v<T, V>)
      if (number >= own_ && in_place_) return {rows, ld_};
    V* const to = room_ + at_most(number, slots_ - 1) * attention_block * padded<V>(d_);
    if (number < own_ && number < copied_) return {to, padded<V>(d_)};
    if (number < own_) copied_ = number + 1;
    return copy_rows(rows, ld_, at_most(keys_ - key, attention_block), d_, to);
  }

 private:
  T const* from_;
  Index ld_, keys_, d_;
  V* room_;
  Index slots_;
  Index own_;         // blocks that have a slot of their own
  Index copied_ = 0;  // of those
  bool in_place_;
};

/// to[e*64 + r] = factor * from[r*ld + e] for rows below `count`, 0 for others up to whole
/// registers.
template <class T, class V = compute_t<T>>
NNTILE_ALWAYS_INLINE void transpose_rows(T const* from, Index ld, Index count, Index d, V factor,
                                         V* to) {
  constexpr int lanes = Vec<V>::lanes;
  Vec<V> const scale(static_cast<double>(factor));
  for (Index r = 0; r < count; r += lanes)
    for_each_vec<V>(d, [&](Index e, auto part) __attribute__((always_inline)) {
      Vec<V> square[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i)
        square[i] = r + i < count ? scale * load(from + (r + i) * ld + e, part) : Vec<V>(0);
      transpose(square);
      int columns = lanes;
      if constexpr (std::is_same_v<decltype(part), First>) columns = part.count;
#pragma GCC unroll 16
      for (int c = 0; c < lanes; ++c)
        if (c < columns) store(to + (e + c) * attention_block + r, square[c]);
    });
}

/// Lanes of a register of queries, the first at `query`, that see key `key`: key <= query +
/// diagonal.
template <class V> NNTILE_ALWAYS_INLINE Mask<V> seen_by(Index query, Index key, Index diagonal) {
  alignas(64) static constexpr V numbers[16] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                8, 9, 10, 11, 12, 13, 14, 15};
  return load(numbers) >= Vec<V>(static_cast<double>(key - query - diagonal));
}

/// For a register of queries: keys before `all` are seen by every lane, keys from `some` on by
/// none.
struct SeenKeys {
  Index all, some;
};
NNTILE_ALWAYS_INLINE SeenKeys seen_keys(Index query, int lanes, Index diagonal, Index keys) {
  auto const clamp = [=](Index n) { return n < 0 ? 0 : n < keys ? n : keys; };
  return {clamp(query + diagonal + 1), clamp(query + lanes + diagonal)};
}

}  // namespace nntile::kernels::NNTILE_ISA::sdpa
