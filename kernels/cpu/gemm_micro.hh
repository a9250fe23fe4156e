#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The register tile of matrix products: C[MR,NR] += A[MR,k] B[k,NR], every element a chain of FMAs
// in ascending k, lanes over rows. The rate of all products but those of one column is its.

#include <utility>

#include "kernels/cpu/gemm_walk.hh"

namespace nntile::kernels::NNTILE_ISA {

/// Rows and columns of the largest tile: 24 accumulators of 32 registers, 12 of 16.
#if defined(__AVX512F__)
template <class T> inline constexpr int tile_vectors = 3;
inline constexpr int tile_columns = 8;
#else
template <class T> inline constexpr int tile_vectors = 2;
inline constexpr int tile_columns = 6;
#endif
template <class T> inline constexpr int tile_rows = tile_vectors<T> * Vec<T>::lanes;

/// c = a*b + c. The assembly fixes the form of the instruction: g++ 12 mixes forms and moves
/// accumulators about, which costs up to a third of the rate.
NNTILE_ALWAYS_INLINE void fma_into(Vec<float>& c, Vec<float> a, Vec<float> b) {
#if defined(__AVX512F__)
  asm("vfmadd231ps %2, %1, %0" : "+v"(c.v) : "v"(a.v), "v"(b.v));
#elif defined(__AVX2__)
  asm("vfmadd231ps %2, %1, %0" : "+x"(c.v) : "x"(a.v), "x"(b.v));
#else
  c = fma(a, b, c);
#endif
}
NNTILE_ALWAYS_INLINE void fma_into(Vec<double>& c, Vec<double> a, Vec<double> b) {
#if defined(__AVX512F__)
  asm("vfmadd231pd %2, %1, %0" : "+v"(c.v) : "v"(a.v), "v"(b.v));
#elif defined(__AVX2__)
  asm("vfmadd231pd %2, %1, %0" : "+x"(c.v) : "x"(a.v), "x"(b.v));
#else
  c = fma(a, b, c);
#endif
}

/// fma_into, of which the upper half of the lanes is not wanted: of 512 bits they become 0. A CPU
/// that takes 512 bits in two passes then takes one.
template <class T> NNTILE_ALWAYS_INLINE void fma_into_half(Vec<T>& c, Vec<T> a, Vec<T> b) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<T, float>)
    asm("vfmadd231ps %t2, %t1, %t0" : "+v"(c.v) : "v"(a.v), "v"(b.v));
  else
    asm("vfmadd231pd %t2, %t1, %t0" : "+v"(c.v) : "v"(a.v), "v"(b.v));
#else
  fma_into(c, a, b);
#endif
}

/// Start of a chain: 0, C, or beta C; `added`: 0, and C is added to its end.
enum class Start : std::uint8_t { zero, stored, scaled, added };

/// The place of A's element (i, p) of a tile: in a panel, a[p*tile_rows + i], or in place, a[p*lda
/// + i].
enum class Rows : std::uint8_t { panel, in_place };

/// The place of B's element (p, j) of a tile.
enum class Layout : std::uint8_t {
  packed,   // b[p*tile_columns + j]
  columns,  // b[p + j*ld]: k contiguous
  rows      // b[p*ld + j]: n contiguous
};

/// Cache lines that are wanted soon, in runs of `bytes` that are `stride` bytes apart. Tiles fetch
/// a few at a time while they multiply: more at once would hold up the loads of A and B, which come
/// from the second cache.
struct Ahead {
  char const* at = nullptr;
  Index bytes = 0, stride = 0;
  Index lines = 0;  // that are left
  Index into = 0;   // of the run, in bytes

  NNTILE_ALWAYS_INLINE void fetch(int count) {
    for (; count > 0 && lines > 0; --count, --lines) {
      __builtin_prefetch(at + into, 0, 2);
      into += 64;
      if (into >= bytes) into = 0, at += stride;
    }
  }
};

/// One tile; C is column-major. `next`, if not null, is where the following tile's C is, to be
/// fetched; `share` lines of `ahead` are fetched in each of the tile's stretches.
template <class T> struct TileCall {
  Index k;
  T const* a;
  Index lda;
  T const* b;
  Index ldb;
  T* c;
  Index ldc;
  T const* next;
  int rows;
  Start start;
  T beta;
  Ahead* ahead = nullptr;
  int share = 0;
  bool fetches_a = true;  // if A is in place; of no use to small products, whose A is near
};

namespace detail {

/// Visits c[j][i] with the pointer and the part of C it belongs to.
template <int vectors, int columns, class T, class Visit>
NNTILE_ALWAYS_INLINE void for_each_accumulator(TileCall<T> const& call, Visit visit) {
  constexpr int lanes = Vec<T>::lanes;
  if (call.rows == vectors * lanes) {
#pragma GCC unroll 16
    for (int j = 0; j < columns; ++j)
#pragma GCC unroll 16
      for (int i = 0; i < vectors; ++i) visit(j, i, call.c + j * call.ldc + i * lanes, All{});
  } else {
    First const rest{call.rows - (vectors - 1) * lanes};
#pragma GCC unroll 16
    for (int j = 0; j < columns; ++j) {
#pragma GCC unroll 16
      for (int i = 0; i < vectors - 1; ++i) visit(j, i, call.c + j * call.ldc + i * lanes, All{});
      visit(j, vectors - 1, call.c + j * call.ldc + (vectors - 1) * lanes, rest);
    }
  }
}

template <class T> NNTILE_ALWAYS_INLINE void fetch_column(T const* c, int rows) {
  for (int i = 0; i < rows; i += 64 / static_cast<int>(sizeof(T))) __builtin_prefetch(c + i, 1, 3);
}

}  // namespace detail

/// Computes a tile of `vectors` registers by `columns`; the last register may be partial in C.
template <class T, int vectors, int columns, Layout layout, Rows rows>
void compute_tile(TileCall<T> const& call) {
  using V = Vec<T>;
  constexpr int lanes = V::lanes;
  V c[columns][vectors];
  if (call.start == Start::zero || call.start == Start::added) {
#pragma GCC unroll 16
    for (int j = 0; j < columns; ++j)
#pragma GCC unroll 16
      for (int i = 0; i < vectors; ++i) c[j][i] = V(0);
  } else {
    detail::for_each_accumulator<vectors, columns>(
        call, [&](int j, int i, T* at, auto part) __attribute__((always_inline)) {
          c[j][i] = load(static_cast<T const*>(at), part);
        });
    if (call.start == Start::scaled) {
      V const beta(static_cast<double>(call.beta));
#pragma GCC unroll 16
      for (int j = 0; j < columns; ++j)
#pragma GCC unroll 16
        for (int i = 0; i < vectors; ++i) c[j][i] = beta * c[j][i];
    }
  }

  // `part` is of A's last register, `half`: its lower half holds all of it.
  auto const chains = [&](auto part, auto half) __attribute__((always_inline)) {
    // Fetched `ahead` steps before their use. The tile is multiplied in as many stretches as the
    // next one has columns, so that what that needs arrives evenly.
    constexpr int a_ahead = 16, b_ahead = 32;
    constexpr int stretches = tile_columns;
    detail::Walk<T, rows == Rows::panel ? tile_rows<T> : 0> a(call.a, call.lda);
    detail::Walk<T, layout == Layout::packed ? tile_columns : 0> b(
        call.b, layout == Layout::columns ? 1 : call.ldb);
    detail::Multiples<T, columns> const apart(call.ldb);
    Index soon = a_ahead * tile_rows<T>;
    if constexpr (rows == Rows::in_place) soon = a_ahead * call.lda, detail::hide(soon);
    auto const step = [&](int u) __attribute__((always_inline)) {
      T const* const row = a.at(u);
      V x[vectors];
#pragma GCC unroll 16
      for (int i = 0; i < vectors - 1; ++i) x[i] = load(row + i * lanes);
      x[vectors - 1] = load(row + (vectors - 1) * lanes, part);
#pragma GCC unroll 16
      for (int j = 0; j < columns; ++j) {
        T const* const y = layout == Layout::columns ? apart.from(b.at(u), j) : b.at(u) + j;
        V const broadcast(static_cast<double>(*y));
#pragma GCC unroll 16
        for (int i = 0; i < vectors - 1; ++i) fma_into(c[j][i], x[i], broadcast);
        if constexpr (decltype(half)::value)
          fma_into_half(c[j][vectors - 1], x[vectors - 1], broadcast);
        else
          fma_into(c[j][vectors - 1], x[vectors - 1], broadcast);
      }
    };
    Index left = call.k;
    T const* next = call.next;
    Index stretch = left;
    if (next != nullptr || call.ahead != nullptr)
      stretch = (left + 4 * stretches - 1) / (4 * stretches) * 4;
    do {
      if (next != nullptr) detail::fetch_column(next, vectors * lanes), next += call.ldc;
      if (call.ahead != nullptr) call.ahead->fetch(call.share);
      Index now = stretch < left ? stretch : left;
      left -= now;
      for (; now >= 4; now -= 4) {
        if constexpr (layout == Layout::packed)
          detail::fetch<4 * tile_columns>(b.at(0) + b_ahead * tile_columns);
        if constexpr (rows == Rows::in_place)
          if (call.fetches_a) {
            T const* row = a.at(0) + soon;
#pragma GCC unroll 4
            for (int u = 0; u < 4; ++u, row += call.lda) detail::fetch<vectors * lanes>(row);
          }
#pragma GCC unroll 4
        for (int u = 0; u < 4; ++u) {
          if constexpr (rows == Rows::panel) detail::fetch<vectors * lanes>(a.at(u) + soon);
          step(u);
          a.next(), b.next();
        }
        a.skip(4), b.skip(4);
      }
      for (; now > 0; --now) {
        step(0);
        a.next(), b.next(), a.skip(1), b.skip(1);
      }
    } while (left > 0);
  };
  // Masked loads cost nothing with 512 bits; with 256 they do.
  First const rest{call.rows - (vectors - 1) * lanes};
  constexpr std::false_type whole;
  constexpr bool wide = lanes * sizeof(T) == 64;
  if constexpr (rows == Rows::panel)
    chains(All{}, whole);
  else if (!wide && rest.count == lanes)
    chains(All{}, whole);
  else if (wide && 2 * rest.count <= lanes)
    chains(rest, std::bool_constant<wide>{});
  else
    chains(rest, whole);

  if (call.start == Start::added)
    detail::for_each_accumulator<vectors, columns>(
        call, [&](int j, int i, T* at, auto part) __attribute__((always_inline)) {
          c[j][i] = load(static_cast<T const*>(at), part) + c[j][i];
        });
  detail::for_each_accumulator<vectors, columns>(
      call, [&](int j, int i, T* at, auto part)
                __attribute__((always_inline)) { store(at, c[j][i], part); });
}

/// The tallest tile, in registers; those beyond `tile_vectors` are for operands in place.
#if defined(__AVX512F__)
inline constexpr int tallest_tile = 5;
#else
inline constexpr int tallest_tile = 2;
#endif

/// The most columns of a tile that is `vectors` registers high: 24 accumulators or more.
constexpr int most_columns(int vectors) {
  return vectors <= 3 ? tile_columns : vectors == 4 ? 6 : 5;
}

/// compute_tile by the numbers of its registers and columns.
template <class T> class Tiles {
 public:
  NNTILE_ALWAYS_INLINE void operator()(int columns, TileCall<T> const& call) const {
    int const vectors = (call.rows + Vec<T>::lanes - 1) / Vec<T>::lanes;
    tile_[(vectors - 1) * tile_columns + columns - 1](call);
  }
  template <Layout layout, Rows rows> static consteval Tiles make() {
    Tiles result;
    result.template fill<layout, rows>(std::make_integer_sequence<int, count>{});
    return result;
  }

 private:
  static constexpr int count = tallest_tile * tile_columns;

  template <Layout layout, Rows rows, int... i>
  consteval void fill(std::integer_sequence<int, i...>) {
    ((tile_[i] = entry<layout, rows, i / tile_columns + 1, i % tile_columns + 1>()), ...);
  }
  /// Null where there is no such tile.
  template <Layout layout, Rows rows, int vectors, int columns> static consteval auto entry() {
    constexpr bool in_place = rows == Rows::in_place && layout != Layout::packed;
    if constexpr (columns <= most_columns(vectors) && (vectors <= tile_vectors<T> || in_place))
      return &compute_tile<T, vectors, columns, layout, rows>;
    else
      return nullptr;
  }

  void (*tile_[count])(TileCall<T> const&) = {};
};

}  // namespace nntile::kernels::NNTILE_ISA
