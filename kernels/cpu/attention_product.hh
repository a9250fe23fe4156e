#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Products of blocks of up to 64 for attention: C[m,n] += A[m,p] B[p,n], every element a chain of
// FMAs in ascending p, lanes over m. Columns may begin or end one p after another, as a causal mask
// has it, so that masked pairs take no part.

#include "kernels/cpu/attention_layout.hh"
#include "kernels/cpu/gemm_micro.hh"

namespace nntile::kernels::NNTILE_ISA::sdpa {

enum class Rhs : std::uint8_t {
  columns,  // b[p + n*ldb]; staggered columns begin one after another: column n takes p >= begin +
            // n
  rows  // b[p*ldb + n]; staggered columns end one after another: column n takes p < first_end + n
};

/// C is column-major, whole registers high. `begin` and `first_end` may be outside [0, end).
template <class T> struct Product {
  Index begin, end;
  T const* a;
  Index lda;
  T const* b;
  Index ldb;
  T* c;
  Index ldc;
  T const* scale = nullptr;  // of each column, before it is added to
  Index first_end = 0;
  bool zero = false;  // C is overwritten
  bool staggered = false;
};

#if defined(__AVX512F__)
inline constexpr int product_vectors = 4;
#else
inline constexpr int product_vectors = 2;
#endif

/// `vectors` registers by `columns`.
template <class T, int vectors, int columns, Rhs rhs>
[[gnu::noinline]] void multiply_panel(Product<T> const& call) {
  using V = Vec<T>;
  constexpr int lanes = V::lanes;
  V c[columns][vectors];
#pragma GCC unroll 8
  for (int j = 0; j < columns; ++j)
#pragma GCC unroll 8
    for (int i = 0; i < vectors; ++i)
      c[j][i] = call.zero ? V(0) : load(static_cast<T const*>(call.c) + j * call.ldc + i * lanes);
  if (call.scale != nullptr)
#pragma GCC unroll 8
    for (int j = 0; j < columns; ++j)
#pragma GCC unroll 8
      for (int i = 0; i < vectors; ++i) c[j][i] = c[j][i] * V(static_cast<double>(call.scale[j]));

  if (!call.zero)  // the next panel's C
#pragma GCC unroll 8
    for (int j = 0; j < columns; ++j)
#pragma GCC unroll 8
      for (int i = 0; i < vectors * lanes; i += 64 / static_cast<int>(sizeof(T)))
        __builtin_prefetch(call.c + (j + columns) * call.ldc + i, 1);

  Index const lda = call.lda, ldb = call.ldb;
  auto const step = [&](Index p, int from, int to) __attribute__((always_inline)) {
    // Of scalars, GCC 12 makes vectors over p that load rows past the last.
    if constexpr (lanes == 1) asm("");
    T const* const row = call.a + p * lda;
    T const* const column = call.b + (rhs == Rhs::rows ? p * ldb : p);
    V x[vectors];
#pragma GCC unroll 8
    for (int i = 0; i < vectors; ++i) x[i] = load(row + i * lanes);
#pragma GCC unroll 8
    for (int j = 0; j < columns; ++j) {
      if (j < from || j >= to) continue;
      V const y(static_cast<double>(rhs == Rhs::rows ? column[j] : column[j * ldb]));
#pragma GCC unroll 8
      for (int i = 0; i < vectors; ++i) fma_into(c[j][i], x[i], y);
    }
  };
  Index p = call.begin;
  Index end = call.end;
  if (rhs == Rhs::columns && call.staggered) {
#pragma GCC unroll 8
    for (int t = 0; t + 1 < columns; ++t)
      if (p + t >= 0 && p + t < end) step(p + t, 0, t + 1);
    p = p + columns - 1 > 0 ? p + columns - 1 : 0;
  }
  if (rhs == Rhs::rows && call.staggered && call.first_end < end) end = call.first_end;
  for (; p + 4 <= end; p += 4)
#pragma GCC unroll 4
    for (int u = 0; u < 4; ++u) step(p + u, 0, columns);
  for (; p < end; ++p) step(p, 0, columns);
  if (rhs == Rhs::rows && call.staggered)
#pragma GCC unroll 8
    for (int t = 1; t < columns; ++t)
      if (Index const at = call.first_end + t - 1; at >= 0 && at < call.end) step(at, t, columns);

#pragma GCC unroll 8
  for (int j = 0; j < columns; ++j)
#pragma GCC unroll 8
    for (int i = 0; i < vectors; ++i) store(call.c + j * call.ldc + i * lanes, c[j][i]);
}

namespace detail {

template <class T, int columns, Rhs rhs>
NNTILE_ALWAYS_INLINE void multiply_columns(Index registers, Product<T> call) {
  constexpr Index lanes = Vec<T>::lanes;
  auto const advance = [&](Index count) {
    call.a += count * lanes;
    call.c += count * lanes;
    registers -= count;
  };
  for (; registers >= product_vectors; advance(product_vectors))
    multiply_panel<T, product_vectors, columns, rhs>(call);
  if constexpr (product_vectors > 2)
    if (registers >= 2) {
      multiply_panel<T, 2, columns, rhs>(call);
      advance(2);
    }
  if (registers > 0) multiply_panel<T, 1, columns, rhs>(call);
}

}  // namespace detail

/// C[rows,n] as `call` says, `rows` rounded up to whole registers. With `triangle`, C's column j is
/// wanted from row j - triangle on only, and rows that no column of a panel wants are left out.
template <class T, Rhs rhs>
NNTILE_ALWAYS_INLINE void multiply(Index rows, Index n, Product<T> const& call,
                                   Index triangle = Index(1) << 40) {
  constexpr Index lanes = Vec<T>::lanes;
  Index const registers = (rows + lanes - 1) / lanes;
  for (Index j = 0; j < n;) {
    Index const skipped = j > triangle ? (j - triangle) / lanes : 0;
    Index const left = n - j;
    Index const columns = left >= 6 ? 6 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
    if (skipped < registers) {
      Product<T> panel = call;
      panel.a += skipped * lanes;
      panel.b += rhs == Rhs::rows ? j : j * call.ldb;
      panel.c += j * call.ldc + skipped * lanes;
      panel.begin += call.staggered && rhs == Rhs::columns ? j : 0;
      panel.first_end += j;
      if (panel.scale != nullptr) panel.scale += j;
      switch (columns) {
        case 6:
          detail::multiply_columns<T, 6, rhs>(registers - skipped, panel);
          break;
        case 4:
          detail::multiply_columns<T, 4, rhs>(registers - skipped, panel);
          break;
        case 2:
          detail::multiply_columns<T, 2, rhs>(registers - skipped, panel);
          break;
        default:
          detail::multiply_columns<T, 1, rhs>(registers - skipped, panel);
      }
    }
    j += columns;
  }
}

}  // namespace nntile::kernels::NNTILE_ISA::sdpa
