#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Copies blocks of A and B into panels of W rows or columns, [panel][k][W], widened to the type that products are
// computed in. A and B are alike: of either, some store k contiguously and some the other index.

#include "kernels/cpu/vec.hh"

namespace nntile::kernels::NNTILE_ISA {

/// Source elements of one panel: element (i, p) is at p*ld + i, or p + i*ld where k is contiguous.
template <class S, class T>
struct PanelSource {
  S const* at;
  Index ld;
  T factor;  // one rounding; 1 changes nothing
};

namespace detail {

template <class S, class T>
NNTILE_ALWAYS_INLINE T packed_value(PanelSource<S, T> const& source, S value) {
  return static_cast<T>(value) * source.factor;
}

#if defined(__AVX2__)

/// As many elements as a square of registers has rows: eight floats, four doubles.
NNTILE_ALWAYS_INLINE __m256 load_square(float const* p) { return _mm256_loadu_ps(p); }
NNTILE_ALWAYS_INLINE __m256d load_square(double const* p) { return _mm256_loadu_pd(p); }
NNTILE_ALWAYS_INLINE __m256 load_square(bf16_t const* p) {
  __m128i const words = _mm_loadu_si128(reinterpret_cast<__m128i const*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16));
}
NNTILE_ALWAYS_INLINE __m256 load_square(fp16_t const* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<__m128i const*>(p)));
}
NNTILE_ALWAYS_INLINE __m256 multiply(__m256 a, float factor) { return _mm256_mul_ps(a, _mm256_set1_ps(factor)); }
NNTILE_ALWAYS_INLINE __m256d multiply(__m256d a, double factor) { return _mm256_mul_pd(a, _mm256_set1_pd(factor)); }
/// The first `count` elements: all, or six floats, or two doubles, as panels of six columns need.
template <int count>
NNTILE_ALWAYS_INLINE void store_square(float* p, __m256 a) {
  static_assert(count == 8 || count == 6);
  if constexpr (count == 8) return _mm256_storeu_ps(p, a);
  _mm_storeu_ps(p, _mm256_castps256_ps128(a));
  _mm_storel_pi(reinterpret_cast<__m64*>(p + 4), _mm256_extractf128_ps(a, 1));
}
template <int count>
NNTILE_ALWAYS_INLINE void store_square(double* p, __m256d a) {
  static_assert(count == 4 || count == 2);
  if constexpr (count == 4) return _mm256_storeu_pd(p, a);
  _mm_storeu_pd(p, _mm256_castpd256_pd128(a));
}

NNTILE_ALWAYS_INLINE void transpose_square(__m256 (&r)[8]) {
  __m256 pair[8], quad[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    pair[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    pair[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    quad[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
    quad[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xee);
    quad[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
    quad[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x20);
    r[i + 4] = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x31);
  }
}
NNTILE_ALWAYS_INLINE void transpose_square(__m256d (&r)[4]) {
  __m256d const a = _mm256_unpacklo_pd(r[0], r[1]), b = _mm256_unpackhi_pd(r[0], r[1]);
  __m256d const c = _mm256_unpacklo_pd(r[2], r[3]), d = _mm256_unpackhi_pd(r[2], r[3]);
  r[0] = _mm256_permute2f128_pd(a, c, 0x20);
  r[1] = _mm256_permute2f128_pd(b, d, 0x20);
  r[2] = _mm256_permute2f128_pd(a, c, 0x31);
  r[3] = _mm256_permute2f128_pd(b, d, 0x31);
}

/// One panel whose source has k contiguous: squares of registers are transposed. Rows beyond `rows` repeat the last one.
template <int W, class S, class T>
NNTILE_ALWAYS_INLINE void pack_transposed(PanelSource<S, T> const& source, Index rows, Index k, T* panel) {
  constexpr int side = 32 / static_cast<int>(sizeof(T));
  Index p = 0;
  for (; p + side <= k; p += side) {
    for (int i = 0; i < W && i < rows; i += side) {
      decltype(load_square(source.at)) square[side];
#pragma GCC unroll 8
      for (int r = 0; r < side; ++r) {
        Index const row = i + r < rows ? i + r : rows - 1;
        square[r] = load_square(source.at + row * source.ld + p);
        if (source.factor != T(1)) square[r] = multiply(square[r], source.factor);
      }
      transpose_square(square);
#pragma GCC unroll 8
      for (int r = 0; r < side; ++r) {
        T* const to = panel + (p + r) * W + i;
        if (i + side <= W) store_square<side>(to, square[r]);
        else store_square<W % side == 0 ? side : W % side>(to, square[r]);
      }
    }
  }
  for (; p < k; ++p)
    for (Index i = 0; i < rows; ++i) panel[p * W + i] = packed_value(source, source.at[i * source.ld + p]);
}

#else

template <int W, class S, class T>
NNTILE_ALWAYS_INLINE void pack_transposed(PanelSource<S, T> const& source, Index rows, Index k, T* panel) {
  for (Index p = 0; p < k; ++p)
    for (Index i = 0; i < rows; ++i) panel[p * W + i] = packed_value(source, source.at[i * source.ld + p]);
}

#endif

/// Row p of one panel whose source has rows contiguous.
template <int W, class S, class T>
NNTILE_ALWAYS_INLINE void copy_row(S const* from, T factor, Index rows, T* to) {
  using V = Vec<T>;
  if constexpr (std::same_as<S, T>)
    if (rows == W && factor == T(1)) {
      __builtin_memcpy(to, from, W * sizeof(T));
      return;
    }
  for_each_vec<T>(rows, [&](Index i, auto part) {
    V const value = load(from + i, part);
    store(to + i, factor != T(1) ? value * V(static_cast<double>(factor)) : value, part);
  });
}

}  // namespace detail

/// How many panels are written at once where rows are contiguous, so that whole cache lines are read.
inline constexpr int panels_at_once = 8;

/// Packs `count` rows (or columns) of k elements. Panel i holds rows [split(i), split(i + 1)), at most W of them.
template <int W, class S, class T, class Split>
NNTILE_ALWAYS_INLINE void pack(PanelSource<S, T> source, bool k_contiguous, Index panels, Split split, Index k, T* to) {
  if (k_contiguous) {
    for (Index panel = 0; panel < panels; ++panel) {
      PanelSource<S, T> const part{source.at + split(panel) * source.ld, source.ld, source.factor};
      detail::pack_transposed<W>(part, split(panel + 1) - split(panel), k, to + panel * k * W);
    }
    return;
  }
  for (Index first = 0; first < panels; first += panels_at_once) {
    Index const end = first + panels_at_once < panels ? first + panels_at_once : panels;
    Index begin[panels_at_once + 1];
    for (Index panel = first; panel <= end; ++panel) begin[panel - first] = split(panel);
    for (Index p = 0; p < k; ++p)
      for (Index i = 0; i < end - first; ++i)
        detail::copy_row<W>(source.at + p * source.ld + begin[i], source.factor, begin[i + 1] - begin[i],
                            to + ((first + i) * k + p) * W);
  }
}

}  // namespace nntile::kernels::NNTILE_ISA
