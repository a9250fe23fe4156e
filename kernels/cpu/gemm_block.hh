#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Matrix products from register tiles: blocks packed on the stack, or operands in place where they are small.
//
// The workspace is at most 640 KiB of stack, and nothing is allocated. Chains of FMAs ascend in k: blocks along k follow
// one another, and C holds what the chain has so far.

#include "kernels/cpu/functions.hh"
#include "kernels/cpu/gemm_micro.hh"
#include "kernels/cpu/gemm_pack.hh"
#include "nntile/ops/gemm.hh"

namespace nntile::kernels::NNTILE_ISA {

/// What is done to a finished sum.
template <class S>
struct Finish {
  S const* bias = nullptr;
  Activation activation = Activation::none;
  bool any = false;

  Finish at_row(Index row) const { return {bias == nullptr ? nullptr : bias + row, activation, any}; }
};

/// One matrix product: S in memory, T in registers.
template <class S, class T>
struct Product {
  Index m, n, k;
  S const* a;
  S const* b;
  S const* bias;  // [m], null: none
  S* c;
  T* carry;       // [m, n] as C, null: none; holds unfinished sums instead of C
  Index lda, ldb, ldc;
  bool trans_a, trans_b, first, last;
  T alpha, beta;
  Activation activation;

  Start start() const {
    if (!first || beta == T(1)) return Start::stored;
    return beta == T(0) ? Start::zero : Start::scaled;
  }
  Finish<S> finish() const {
    if (!last) return {};
    return {bias, activation, bias != nullptr || activation != Activation::none};
  }
};

/// Cuts `total` elements into pieces of whole registers, all but one at most one register apart.
struct EvenSplit {
  Index total, unit, pieces;

  NNTILE_ALWAYS_INLINE static EvenSplit of(Index total, Index unit, Index largest) {
    Index const units = (total + unit - 1) / unit;
    Index const most = largest / unit;
    return {total, unit, (units + most - 1) / most};
  }
  NNTILE_ALWAYS_INLINE Index operator()(Index piece) const {
    Index const at = piece * ((total + unit - 1) / unit) / pieces * unit;
    return at < total ? at : total;
  }
};

/// act(sum + bias) from one block to another, which may be the same.
template <class S, class T, class To>
NNTILE_ALWAYS_INLINE void finish_block(Finish<S> finish, Index rows, Index columns, T const* from, Index ld, To* to, Index ldc) {
  using V = compute_t<T>;
  for (Index j = 0; j < columns; ++j)
    for_each_vec<V>(rows, [&](Index i, auto part) __attribute__((always_inline)) {
      Vec<V> value = load(from + j * ld + i, part);
      if (finish.bias != nullptr) value = value + load(finish.bias + i, part);
      if (finish.activation == Activation::gelu_tanh) value = ops::Gelutanh::apply({}, value);
      store(to + j * ldc + i, value, part);
    });
}

namespace detail {

template <class T> inline constexpr auto packed_tiles = make_tiles<T, Layout::packed, false>();

/// Largest blocks, in KiB: kc by mc of A, kc by nc of B, mc by nc of C where that is not C itself. 640 KiB together.
template <class T, int a_kib, int b_kib, int c_kib>
struct Blocking {
  static constexpr Index kc = 256;
  static constexpr Index a_elements = a_kib * 1024 / static_cast<Index>(sizeof(T));
  static constexpr Index b_elements = b_kib * 1024 / static_cast<Index>(sizeof(T));
  static constexpr Index c_elements = c_kib * 1024 / static_cast<Index>(sizeof(T));

  EvenSplit depth, heights, widths;

  Blocking(Index m, Index n, Index k) {
    constexpr Index mr = tile_rows<T>, nr = tile_columns;
    depth = EvenSplit::of(k, 1, kc);
    Index const deepest = k > 0 ? (k + depth.pieces - 1) / depth.pieces : 1;
    Index highest = a_elements / deepest / mr * mr;
    if (c_kib > 0 && highest > a_elements / kc) highest = a_elements / kc / mr * mr;
    Index widest = b_elements / deepest / nr * nr;
    if (c_kib > 0 && widest > b_elements / kc) widest = b_elements / kc / nr * nr;
    heights = EvenSplit::of(m, Vec<T>::lanes, highest);
    widths = EvenSplit::of(n, nr, widest);
  }
};

/// C[m,n] += A[m,k] B[k,n] from packed panels. B's panel stays in the first cache while A's stream past.
template <class S, class T>
void multiply_packed(EvenSplit rows, Index n, Index k, T const* a, T const* b, T* c, Index ldc, Start start, T beta,
                     Finish<S> finish) {
  constexpr Index mr = tile_rows<T>, nr = tile_columns;
  for (Index j = 0; j < n; j += nr) {
    int const columns = static_cast<int>(n - j < nr ? n - j : nr);
    for (Index i = 0; i < rows.pieces; ++i) {
      Index const row = rows(i);
      Index const count = rows(i + 1) - row;
      T* const tile = c + row + j * ldc;
      T const* const next = i + 1 < rows.pieces ? tile + count : c + (j + nr) * ldc;
      packed_tiles<T>(columns, {k, a + i * k * mr, mr, b + j * k, nr, tile, ldc, next, static_cast<int>(count), start, beta});
      if (finish.any) finish_block(finish.at_row(row), count, columns, static_cast<T const*>(tile), ldc, tile, ldc);
    }
  }
}

/// A[i : i+m, p : p+k] to panels of even heights, which are returned.
template <class S, class T>
EvenSplit pack_a(Product<S, T> const& x, Index i, Index p, Index m, Index k, T* to) {
  EvenSplit const rows = EvenSplit::of(m, Vec<T>::lanes, tile_rows<T>);
  S const* const a = x.a + (x.trans_a ? p + i * x.lda : i + p * x.lda);
  pack<tile_rows<T>>(PanelSource<S, T>{a, x.lda, x.alpha}, x.trans_a, rows.pieces, rows, k, to);
  return rows;
}

/// B[p : p+k, j : j+n] to panels of `tile_columns`.
template <class S, class T>
void pack_b(Product<S, T> const& x, Index p, Index j, Index k, Index n, T* to) {
  constexpr Index nr = tile_columns;
  S const* const b = x.b + (x.trans_b ? j + p * x.ldb : p + j * x.ldb);
  auto const split = [=](Index panel) { return panel * nr < n ? panel * nr : n; };
  pack<tile_columns>(PanelSource<S, T>{b, x.ldb, T(1)}, !x.trans_b, (n + nr - 1) / nr, split, k, to);
}

}  // namespace detail

/// Packed blocks, C in place: for S = T.
template <class T>
void multiply_blocked(Product<T, T> const& x) {
  using Blocking = detail::Blocking<T, 240, 396, 0>;
  alignas(64) T a_block[Blocking::a_elements];
  alignas(64) T b_block[Blocking::b_elements];
  auto const [depth, heights, widths] = Blocking(x.m, x.n, x.k);
  for (Index jc = 0; jc < widths.pieces; ++jc) {
    Index const j = widths(jc), n = widths(jc + 1) - j;
    for (Index pc = 0; pc < depth.pieces; ++pc) {
      Index const p = depth(pc), k = depth(pc + 1) - p;
      detail::pack_b(x, p, j, k, n, b_block);
      Start const start = pc > 0 ? Start::stored : x.start();
      Finish<T> finish;
      if (pc + 1 == depth.pieces) finish = x.finish();
      for (Index ic = 0; ic < heights.pieces; ++ic) {
        Index const i = heights(ic), m = heights(ic + 1) - i;
        EvenSplit const rows = detail::pack_a(x, i, p, m, k, a_block);
        detail::multiply_packed(rows, n, k, a_block, b_block, x.c + i + j * x.ldc, x.ldc, start, x.beta,
                                finish.at_row(i));
      }
    }
  }
}

/// Packed blocks where C is narrower than the sums: they stay in a block of their own until k is through, and are rounded
/// once. Operands are widened while they are packed.
template <class S, class T>
void multiply_narrow(Product<S, T> const& x) {
  using Blocking = detail::Blocking<T, 192, 224, 168>;
  alignas(64) T a_block[Blocking::a_elements];
  alignas(64) T b_block[Blocking::b_elements];
  alignas(64) T c_block[Blocking::c_elements];
  auto const [depth, heights, widths] = Blocking(x.m, x.n, x.k);
  for (Index jc = 0; jc < widths.pieces; ++jc)
    for (Index ic = 0; ic < heights.pieces; ++ic) {
      Index const j = widths(jc), n = widths(jc + 1) - j;
      Index const i = heights(ic), m = heights(ic + 1) - i;
      S* const c = x.c + i + j * x.ldc;
      T* const carry = x.carry == nullptr ? nullptr : x.carry + i + j * x.ldc;
      Start start = x.start();
      if (!x.first && carry != nullptr) finish_block(Finish<S>{}, m, n, static_cast<T const*>(carry), x.ldc, c_block, m);
      else if (start != Start::zero) finish_block(Finish<S>{}, m, n, static_cast<S const*>(c), x.ldc, c_block, m);
      for (Index pc = 0; pc < depth.pieces; ++pc) {
        Index const p = depth(pc), k = depth(pc + 1) - p;
        detail::pack_b(x, p, j, k, n, b_block);
        EvenSplit const rows = detail::pack_a(x, i, p, m, k, a_block);
        detail::multiply_packed(rows, n, k, a_block, b_block, c_block, m, start, x.beta, Finish<T>{});
        start = Start::stored;
      }
      T const* const sums = c_block;
      if (carry != nullptr && !x.last) finish_block(Finish<S>{}, m, n, sums, m, carry, x.ldc);
      else finish_block(x.finish().at_row(i), m, n, sums, m, c, x.ldc);
    }
}

}  // namespace nntile::kernels::NNTILE_ISA
