#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Matrix products from register tiles: blocks packed into a workspace, or operands in place where
// they are small.
//
// The workspace is at most 728 KiB, which the caller lends; nothing is allocated. Chains of FMAs
// ascend in k: blocks along k follow one another, and C holds what the chain has so far.

#include "kernels/cpu/functions.hh"
#include "kernels/cpu/gemm_micro.hh"
#include "kernels/cpu/gemm_pack.hh"
#include "nntile/ops/gemm.hh"

namespace nntile::kernels::NNTILE_ISA {

/// The operation on a finished sum.
template <class S> struct Finish {
  S const* bias = nullptr;
  Activation activation = Activation::none;
  bool any = false;

  Finish at_row(Index row) const {
    return {bias == nullptr ? nullptr : bias + row, activation, any};
  }
};

/// One matrix product: S in memory, T in registers.
template <class S, class T> struct Product {
  Index m, n, k;
  S const* a;
  S const* b;
  S const* bias;  // [m], null: none
  S* c;
  T* carry;  // [m, n] as C, null: none; holds unfinished sums instead of C
  Index lda, ldb, ldc;
  bool trans_a, trans_b;
  bool reads_c;  // beta is not 0, though it may be in T
  Chain chain;
  T alpha, beta;
  Activation activation;
  Index left;  // terms of the left of a pair of canonical groups, of at most 256 each; 0: one chain

  Start start() const {
    if (left > 0) return Start::zero;
    if (!chain.first || beta == T(1)) return Start::stored;
    return reads_c ? Start::scaled : Start::zero;
  }
  Finish<S> finish() const {
    if (!chain.last) return {};
    return {bias, activation, bias != nullptr || activation != Activation::none};
  }
};

/// Cuts `total` elements into pieces of whole units, the first ones a unit larger than the others.
class EvenSplit {
 public:
  Index pieces = 1;

  /// As few pieces as it takes, none above `largest`.
  NNTILE_ALWAYS_INLINE static EvenSplit of(Index total, Index unit, Index largest) {
    Index const units = (total + unit - 1) / unit;
    Index const most = largest / unit;
    return EvenSplit(total, unit, units, units <= most ? 1 : (units + most - 1) / most);
  }
  /// Pieces of one unit.
  NNTILE_ALWAYS_INLINE static EvenSplit units(Index total, Index unit) {
    EvenSplit result(total, unit, 1, 1);
    result.pieces = (total + unit - 1) / unit;
    return result;
  }
  /// First index of a piece; that of piece number `pieces` is the end.
  NNTILE_ALWAYS_INLINE Index operator()(Index piece) const {
    Index const at = (piece * base_ + (piece < larger_ ? piece : larger_)) * unit_;
    return at < total_ ? at : total_;
  }

 private:
  NNTILE_ALWAYS_INLINE EvenSplit(Index total, Index unit, Index units, Index count)
      : pieces(count), total_(total), unit_(unit), base_(units), larger_(0) {
    if (count == 1) return;  // divisions are slow where products are small
    base_ = units / count;
    larger_ = units % count;
  }

  Index total_, unit_, base_, larger_;
};

/// act(sum + bias) from one block to another, which may be the same.
template <class S, class T, class To>
NNTILE_ALWAYS_INLINE void finish_block(Finish<S> finish, Index rows, Index columns, T const* from,
                                       Index ld, To* to, Index ldc) {
  using V = compute_t<T>;
  for (Index j = 0; j < columns; ++j)
    for_each_vec<V>(rows, [&](Index i, auto part) __attribute__((always_inline)) {
      Vec<V> value = load(from + j * ld + i, part);
      if (finish.bias != nullptr) value = value + load(finish.bias + i, part);
      if (finish.activation == Activation::gelu_tanh) value = ops::Gelutanh::apply({}, value);
      store(to + j * ldc + i, value, part);
    });
}

/// sums += beta C, in one fma.
template <class S, class T>
NNTILE_ALWAYS_INLINE void add_scaled(T beta, S const* c, Index ldc, Index rows, Index columns,
                                     T* sums, Index ld) {
  Vec<T> const factor(static_cast<double>(beta));
  for (Index j = 0; j < columns; ++j)
    for_each_vec<T>(rows, [&](Index i, auto part) __attribute__((always_inline)) {
      T* const sum = sums + i + j * ld;
      store(sum, fma(factor, load(c + i + j * ldc, part), load(static_cast<T const*>(sum), part)),
            part);
    });
}

namespace detail {

/// Extents of a product's blocks, which take at most a_kib, b_kib and c_kib KiB: kc by mc of A, kc
/// by nc of B, mc by nc of C where that is not C itself. 728 KiB together. Each block along k reads
/// and writes all of C: k is cut less often where few columns leave room.
template <class T, int a_kib, int b_kib, int c_kib> struct Blocking {
  static constexpr Index usual_kc = 256;
  static constexpr Index most_kc = Vec<T>::lanes * sizeof(T) == 64 ? 384 : usual_kc;
  static constexpr Index a_elements = a_kib * 1024 / static_cast<Index>(sizeof(T));
  static constexpr Index b_elements = b_kib * 1024 / static_cast<Index>(sizeof(T));
  static constexpr std::size_t bytes = static_cast<std::size_t>(a_kib + b_kib + c_kib) * 1024;

  EvenSplit depth, heights, widths;

  /// `left`: where a pair of canonical groups meets, or 0.
  Blocking(Index m, Index n, Index k, Index left) : Blocking(m, n, k, left, depth_for(n)) {}
  /// The start of the sums of the block along k of this number.
  template <class S> Start start(Product<S, T> const& x, Index piece) const {
    return piece == 0 ? x.start() : x.left > 0 ? Start::added : Start::stored;
  }

 private:
  Blocking(Index m, Index n, Index k, Index left, Index kc)
      : depth(left > 0 ? EvenSplit::units(k, left) : EvenSplit::of(k, 1, kc)),
        heights(split_rows(m, a_elements / kc / tile_rows<T> * tile_rows<T>)),
        widths(EvenSplit::of(n, tile_columns, b_elements / kc / tile_columns * tile_columns)) {}

  static Index depth_for(Index n) {
    Index const fits = b_elements / ((n + tile_columns - 1) / tile_columns * tile_columns);
    return fits < usual_kc ? usual_kc : fits > most_kc ? most_kc : fits;
  }
  static EvenSplit split_rows(Index m, Index mc) {
    return EvenSplit::of(m, m > mc ? tile_rows<T> : Vec<T>::lanes, mc);
  }
};

/// The operands of one block: panels or the tensors' own memory.
template <class T> struct BlockOperands {
  Rows rows;
  Layout layout;
  T const* a;
  T const* b;
  Index lda, ldb;
};

template <class T, Layout layout, Rows rows>
inline constexpr Tiles<T> tiles = Tiles<T>::template make<layout, rows>();

template <class T> Tiles<T> const& tiles_for(BlockOperands<T> const& x) {
  if constexpr (sizeof(T) == 4) {  // blocks of fp64 are always packed
    bool const panel = x.rows == Rows::panel;
    if (x.layout == Layout::columns)
      return panel ? tiles<T, Layout::columns, Rows::panel>
                   : tiles<T, Layout::columns, Rows::in_place>;
    if (x.layout == Layout::rows)
      return panel ? tiles<T, Layout::rows, Rows::panel> : tiles<T, Layout::rows, Rows::in_place>;
    if (!panel) return tiles<T, Layout::packed, Rows::in_place>;
  }
  return tiles<T, Layout::packed, Rows::panel>;
}

/// C[m,n] += A[m,k] B[k,n]. B's columns stay in the first cache while A's rows stream past.
template <class S, class T>
void multiply_block(BlockOperands<T> const& x, EvenSplit rows, EvenSplit columns, Index k, T* c,
                    Index ldc, Start start, T beta, Finish<S> finish, Ahead ahead = {}) {
  Tiles<T> const& tile = tiles_for(x);
  Ahead* const soon = ahead.lines > 0 ? &ahead : nullptr;
  int const share =
      soon == nullptr
          ? 0
          : static_cast<int>(ahead.lines / (rows.pieces * columns.pieces * tile_columns)) + 1;
  for (Index jr = 0; jr < columns.pieces; ++jr) {
    Index const j = columns(jr), n = columns(jr + 1) - j;
    T const* const b = x.b + (x.layout == Layout::packed ? jr * k * tile_columns
                              : x.layout == Layout::rows ? j
                                                         : j * x.ldb);
    for (Index ir = 0; ir < rows.pieces; ++ir) {
      Index const i = rows(ir), m = rows(ir + 1) - i;
      T const* const a = x.a + (x.rows == Rows::panel ? ir * k * tile_rows<T> : i);
      T* const at = c + i + j * ldc;
      T const* const next = ir + 1 < rows.pieces      ? at + m
                            : jr + 1 < columns.pieces ? c + (j + n) * ldc
                                                      : nullptr;
      tile(static_cast<int>(n),
           {k, a, x.lda, b, x.ldb, at, ldc, next, static_cast<int>(m), start, beta, soon, share});
      if (finish.any) finish_block(finish.at_row(i), m, n, static_cast<T const*>(at), ldc, at, ldc);
    }
  }
}

/// A[i : i+m, p : p+k] to panels of even heights.
template <class S, class T>
void pack_a(Product<S, T> const& x, EvenSplit rows, Index i, Index p, Index k, T* to) {
  S const* const a = x.a + (x.trans_a ? p + i * x.lda : i + p * x.lda);
  pack<tile_rows<T>>(PanelSource<S, T>{a, x.lda, x.alpha}, x.trans_a, rows.pieces, rows, k, to);
}

/// The memory that pack_a reads of A[i : i+m, p : p+k].
template <class S, class T>
Ahead read_by_pack_a(Product<S, T> const& x, Index i, Index m, Index p, Index k) {
  constexpr Index size = static_cast<Index>(sizeof(S));
  Index const runs = x.trans_a ? m : k, bytes = (x.trans_a ? k : m) * size;
  S const* const a = x.a + (x.trans_a ? p + i * x.lda : i + p * x.lda);
  return {reinterpret_cast<char const*>(a), bytes, x.lda * size, runs * ((bytes + 63) / 64)};
}

/// B[p : p+k, j : j+n] to panels.
template <class S, class T>
void pack_b(Product<S, T> const& x, EvenSplit columns, Index p, Index j, Index k, T* to) {
  S const* const b = x.b + (x.trans_b ? j + p * x.ldb : p + j * x.ldb);
  pack<tile_columns>(PanelSource<S, T>{b, x.ldb, T(1)}, !x.trans_b, columns.pieces, columns, k, to);
}

NNTILE_ALWAYS_INLINE EvenSplit panels_of(Index n) { return EvenSplit::units(n, tile_columns); }

}  // namespace detail

/// Operands that are used where they are, not packed.
struct InPlace {
  bool a, b;
};

/// Both operands in place and k in one piece, for products so small that each division shows.
template <class T> void multiply_in_place(Product<T, T> const& x) {
  constexpr Index lanes = Vec<T>::lanes;
  auto const& tile = x.trans_b ? detail::tiles<T, Layout::rows, Rows::in_place>
                               : detail::tiles<T, Layout::columns, Rows::in_place>;
  // One tile holds all rows, or two, or as many as it takes.
  Index const vectors = (x.m + lanes - 1) / lanes;
  Index const pieces = vectors <= tallest_tile ? 1
                       : tallest_tile > 4 && vectors <= 8
                           ? 2
                           : (vectors + tile_vectors<T> - 1) / tile_vectors<T>;
  Index const base = pieces == 1 ? vectors : vectors / pieces, taller = vectors - base * pieces;
  Index const width = most_columns(static_cast<int>(base + (taller > 0)));
  Index const strips = (x.n + width - 1) / width, narrow = x.n / strips, wider = x.n % strips;
  Finish<T> const finish = x.finish();
  TileCall<T> call{x.k, x.a, x.lda, x.b, x.ldb, x.c, x.ldc, nullptr, 0, x.start(), x.beta};
  call.fetches_a = false;
  for (Index jr = 0, j = 0, n; jr < strips; ++jr, j += n) {
    n = narrow + (jr < wider);
    call.b = x.b + (x.trans_b ? j : j * x.ldb);
    for (Index ir = 0, i = 0; ir < pieces; ++ir, i += call.rows) {
      call.a = x.a + i;
      call.c = x.c + i + j * x.ldc;
      call.rows = static_cast<int>(ir + 1 < pieces ? (base + (ir < taller)) * lanes : x.m - i);
      call.k = x.left > 0 ? x.left : x.k;
      tile(static_cast<int>(n), call);
      if (x.left > 0) {
        TileCall<T> right = call;
        right.k = x.k - x.left;
        right.a += x.left * x.lda, right.b += x.left * (x.trans_b ? x.ldb : 1);
        right.start = Start::added;
        tile(static_cast<int>(n), right);
      }
      if (finish.any)
        finish_block(finish.at_row(i), call.rows, n, static_cast<T const*>(call.c), x.ldc, call.c,
                     x.ldc);
    }
  }
}

/// Blockings of products: where C holds the sums, and where a narrower C takes them in the end.
template <class T> using WideBlocking = detail::Blocking<T, 216, 512, 0>;
template <class T> using NarrowBlocking = detail::Blocking<T, 192, 224, 168>;

/// Blocks of C where it is, for S = T. `workspace`: WideBlocking<T>::bytes, aligned to 64.
template <class T>
void multiply_blocked(Product<T, T> const& x, InPlace in_place, void* workspace) {
  using Blocking = WideBlocking<T>;
  T* const a_block = static_cast<T*>(workspace);
  T* const b_block = a_block + Blocking::a_elements;
  Blocking const blocking(x.m, x.n, x.k, x.left);
  auto const [depth, heights, widths] = blocking;
  detail::BlockOperands<T> block{
      in_place.a ? Rows::in_place : Rows::panel, Layout::packed, a_block, b_block, x.lda, x.ldb};
  if (in_place.b) block.layout = x.trans_b ? Layout::rows : Layout::columns;
  for (Index jc = 0; jc < widths.pieces; ++jc) {
    Index const j = widths(jc), n = widths(jc + 1) - j;
    EvenSplit const columns = in_place.b ? EvenSplit::of(n, 1, tile_columns) : detail::panels_of(n);
    for (Index pc = 0; pc < depth.pieces; ++pc) {
      Index const p = depth(pc), k = depth(pc + 1) - p;
      if (in_place.b)
        block.b = x.b + (x.trans_b ? j + p * x.ldb : p + j * x.ldb);
      else
        detail::pack_b(x, columns, p, j, k, b_block);
      Start const start = blocking.start(x, pc);
      Finish<T> finish;
      if (pc + 1 == depth.pieces) finish = x.finish();
      for (Index ic = 0; ic < heights.pieces; ++ic) {
        Index const i = heights(ic), m = heights(ic + 1) - i;
        EvenSplit const rows = EvenSplit::of(m, Vec<T>::lanes, tile_rows<T>);
        if (in_place.a)
          block.a = x.a + i + p * x.lda;
        else
          detail::pack_a(x, rows, i, p, k, a_block);
        // The block after this one is fetched meanwhile.
        Ahead ahead;
        if (!in_place.a) {
          bool const lower = ic + 1 < heights.pieces;
          Index const pn = lower ? pc : pc + 1 < depth.pieces ? pc + 1 : 0, in = lower ? ic + 1 : 0;
          if (lower || pn > 0 || jc + 1 < widths.pieces)
            ahead = detail::read_by_pack_a(x, heights(in), heights(in + 1) - heights(in), depth(pn),
                                           depth(pn + 1) - depth(pn));
        }
        detail::multiply_block(block, rows, columns, k, x.c + i + j * x.ldc, x.ldc, start, x.beta,
                               finish.at_row(i), ahead);
      }
    }
  }
}

/// Sums in blocks beside C, rounded into it once after the last k block. Operands are widened
/// while they are packed. `workspace`: NarrowBlocking<T>::bytes, aligned to 64.
template <class S, class T> void multiply_narrow(Product<S, T> const& x, void* workspace) {
  using Blocking = NarrowBlocking<T>;
  T* const a_block = static_cast<T*>(workspace);
  T* const b_block = a_block + Blocking::a_elements;
  T* const c_block = b_block + Blocking::b_elements;
  Blocking const blocking(x.m, x.n, x.k, x.left);
  auto const [depth, heights, widths] = blocking;
  detail::BlockOperands<T> const block{Rows::panel, Layout::packed, a_block, b_block, 0, 0};
  for (Index jc = 0; jc < widths.pieces; ++jc)
    for (Index ic = 0; ic < heights.pieces; ++ic) {
      Index const j = widths(jc), n = widths(jc + 1) - j;
      Index const i = heights(ic), m = heights(ic + 1) - i;
      EvenSplit const rows = EvenSplit::of(m, Vec<T>::lanes, tile_rows<T>);
      S* const c = x.c + i + j * x.ldc;
      T* const carry = x.carry == nullptr ? nullptr : x.carry + i + j * x.ldc;
      Start const begin = x.start();
      auto const copy = [&](auto const* from) __attribute__((always_inline)) {
        finish_block(Finish<S>{}, m, n, from, x.ldc, c_block, m);
      };
      if (begin != Start::zero && x.chain.first)
        copy(static_cast<S const*>(c));
      else if (begin != Start::zero)
        ChainResult<S>{c, carry, 0, x.chain}.with_left(copy);
      for (Index pc = 0; pc < depth.pieces; ++pc) {
        Index const p = depth(pc), k = depth(pc + 1) - p;
        detail::pack_b(x, detail::panels_of(n), p, j, k, b_block);
        detail::pack_a(x, rows, i, p, k, a_block);
        detail::multiply_block(block, rows, detail::panels_of(n), k, c_block, m,
                               blocking.start(x, pc), x.beta, Finish<T>{});
      }
      if (x.left > 0 && x.reads_c) add_scaled(x.beta, c, x.ldc, m, n, c_block, m);
      T const* const sums = c_block;
      if (x.chain.leaves_in(carry))
        finish_block(Finish<S>{}, m, n, sums, m, carry, x.ldc);
      else
        finish_block(x.finish().at_row(i), m, n, sums, m, c, x.ldc);
    }
}

}  // namespace nntile::kernels::NNTILE_ISA
