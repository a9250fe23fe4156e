#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Products of one column, as of a token behind a cache: bound by the bytes of A, which is read
// where it is, in runs that a CPU fetches ahead.

#include <type_traits>

#include "kernels/cpu/gemm_block.hh"
#include "kernels/cpu/transpose.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace detail {

/// C[m] += A[m,count] b[count]: columns of A from top to bottom, all at once, while C is near. A
/// register tile would walk across them, a few lines of each, which no CPU fetches ahead.
template <int count, class T>
NNTILE_ALWAYS_INLINE void add_columns(Index m, T const* a, Index lda, T const* b, Index ldb, T* c,
                                      Start start, T beta) {
  Vec<T> factors[count];
#pragma GCC unroll 8
  for (int p = 0; p < count; ++p) factors[p] = Vec<T>(static_cast<double>(b[p * ldb]));
  auto const add = [&](auto first) __attribute__((always_inline)) {
    for_each_vec<T>(m, [&](Index i, auto part) __attribute__((always_inline)) {
      Vec<T> sum = first(i, part);
#pragma GCC unroll 8
      for (int p = 0; p < count; ++p) fma_into(sum, load(a + i + p * lda, part), factors[p]);
      store(c + i, sum, part);
    });
  };
  auto const stored = [&](Index i, auto part) __attribute__((always_inline)) {
    return load(static_cast<T const*>(c) + i, part);
  };
  Vec<T> const scale(static_cast<double>(beta));
  if (start == Start::zero)
    add([](Index, auto) __attribute__((always_inline)) { return Vec<T>(0); });
  else if (start == Start::scaled)
    add([&](Index i, auto part) __attribute__((always_inline)) { return scale * stored(i, part); });
  else
    add(stored);
}

template <class T> constexpr int count_of(All) { return Vec<T>::lanes; }
template <class T> constexpr int count_of(First part) { return part.count; }

/// The same of one register of C, whose rows of A have k contiguous: squares of A are turned in
/// registers, not by way of a panel. `part` is that of C.
template <class T, class Part>
void add_rows(Index k, T const* a, Index lda, T const* b, Index ldb, T* c, Start start, T beta,
              Part part) {
  constexpr int lanes = Vec<T>::lanes;
  int const last = count_of<T>(part) - 1;  // rows beyond it are not there
  Vec<T> sum(0);
  if (start != Start::zero) sum = load(static_cast<T const*>(c), part);
  if (start == Start::scaled) sum = Vec<T>(static_cast<double>(beta)) * sum;
  for (Index p = 0; p < k; p += lanes) {
    auto const take = [&](auto columns) __attribute__((always_inline)) {
      Vec<T> square[lanes];
#pragma GCC unroll 16
      for (int r = 0; r < lanes; ++r)
        square[r] = load(a + (r < last ? r : last) * lda + p, columns);
      transpose(square);
#pragma GCC unroll 16
      for (int l = 0; l < lanes; ++l)
        if (l < count_of<T>(columns))
          fma_into(sum, square[l], Vec<T>(static_cast<double>(b[(p + l) * ldb])));
    };
    if (k - p >= lanes)
      take(All{});
    else
      take(First{static_cast<int>(k - p)});
  }
  store(c, sum, part);
}

}  // namespace detail

/// Whether multiply_vector takes a product.
template <class T> bool is_vector(Product<T, T> const& x) {
  bool const turns = sizeof(T) == 4 && Vec<T>::lanes > 1;
  return x.n == 1 && x.k > 0 && x.left == 0 && x.alpha == T(1) && (!x.trans_a || turns);
}

/// A product of one column and one chain.
template <class T> void multiply_vector(Product<T, T> const& x) {
  constexpr Index rows = 16384 / static_cast<Index>(sizeof(T));
  Index const ldb = x.trans_b ? x.ldb : 1;
  Start start = x.start();
  if (x.trans_a)
    for_each_vec<T>(x.m, [&](Index i, auto part) {
      detail::add_rows(x.k, x.a + i * x.lda, x.lda, x.b, ldb, x.c + i, start, x.beta, part);
    });
  else
    for (Index i = 0; i < x.m; i += rows, start = x.start()) {
      Index p = 0;
      auto const add = [&](auto count) __attribute__((always_inline)) {
        detail::add_columns<count.value>(x.m - i < rows ? x.m - i : rows, x.a + i + p * x.lda,
                                         x.lda, x.b + p * ldb, ldb, x.c + i, start, x.beta);
        p += count.value;
        start = Start::stored;
      };
      while (p + 8 <= x.k) add(std::integral_constant<int, 8>{});
      if (p + 4 <= x.k) add(std::integral_constant<int, 4>{});
      if (p + 2 <= x.k) add(std::integral_constant<int, 2>{});
      if (p < x.k) add(std::integral_constant<int, 1>{});
    }
  if (Finish<T> const finish = x.finish(); finish.any)
    finish_block(finish, x.m, 1, static_cast<T const*>(x.c), x.ldc, x.c, x.ldc);
}

}  // namespace nntile::kernels::NNTILE_ISA
