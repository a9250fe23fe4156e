#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Copies blocks of A and B into panels of W rows or columns, [panel][k][W], widened to the type
// that products are computed in. A and B are alike: of either, some store k contiguously and some
// the other index.

#include "kernels/cpu/vec.hh"

namespace nntile::kernels::NNTILE_ISA {

/// Source elements of one panel: element (i, p) is at p*ld + i, or p + i*ld where k is contiguous.
template <class S, class T> struct PanelSource {
  S const* at;
  Index ld;
  T factor;  // one rounding; 1 changes nothing
};

namespace detail {

/// Elements of k between a fetch and its use.
inline constexpr Index fetched_ahead = 64;

template <class S, class T>
NNTILE_ALWAYS_INLINE T packed_value(PanelSource<S, T> const& source, S value) {
  return static_cast<T>(value) * source.factor;
}

#if defined(__AVX2__)

/// As many registers as each has elements, to be transposed.
template <class T, int side> struct Square;

template <> struct Square<float, 8> {
  using Register = __m256;
  NNTILE_ALWAYS_INLINE static __m256 load(float const* p) { return _mm256_loadu_ps(p); }
  NNTILE_ALWAYS_INLINE static __m256 load(bf16_t const* p) {
    __m128i const words = _mm_loadu_si128(reinterpret_cast<__m128i const*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16));
  }
  NNTILE_ALWAYS_INLINE static __m256 load(fp16_t const* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<__m128i const*>(p)));
  }
  NNTILE_ALWAYS_INLINE static __m256 multiply(__m256 a, float factor) {
    return _mm256_mul_ps(a, _mm256_set1_ps(factor));
  }
  /// The first `count` elements: all, or six, as panels of six columns need.
  template <int count> NNTILE_ALWAYS_INLINE static void store(float* p, __m256 a) {
    static_assert(count == 8 || count == 6);
    if constexpr (count == 8) return _mm256_storeu_ps(p, a);
    _mm_storeu_ps(p, _mm256_castps256_ps128(a));
    _mm_storel_pi(reinterpret_cast<__m64*>(p + 4), _mm256_extractf128_ps(a, 1));
  }
  NNTILE_ALWAYS_INLINE static void transpose(__m256 (&r)[8]) {
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
};

template <> struct Square<double, 4> {
  using Register = __m256d;
  NNTILE_ALWAYS_INLINE static __m256d load(double const* p) { return _mm256_loadu_pd(p); }
  NNTILE_ALWAYS_INLINE static __m256d multiply(__m256d a, double factor) {
    return _mm256_mul_pd(a, _mm256_set1_pd(factor));
  }
  template <int count> NNTILE_ALWAYS_INLINE static void store(double* p, __m256d a) {
    static_assert(count == 4 || count == 2);
    if constexpr (count == 4) return _mm256_storeu_pd(p, a);
    _mm_storeu_pd(p, _mm256_castpd256_pd128(a));
  }
  NNTILE_ALWAYS_INLINE static void transpose(__m256d (&r)[4]) {
    __m256d const a = _mm256_unpacklo_pd(r[0], r[1]), b = _mm256_unpackhi_pd(r[0], r[1]);
    __m256d const c = _mm256_unpacklo_pd(r[2], r[3]), d = _mm256_unpackhi_pd(r[2], r[3]);
    r[0] = _mm256_permute2f128_pd(a, c, 0x20);
    r[1] = _mm256_permute2f128_pd(b, d, 0x20);
    r[2] = _mm256_permute2f128_pd(a, c, 0x31);
    r[3] = _mm256_permute2f128_pd(b, d, 0x31);
  }
};

#if defined(__AVX512F__)

/// Step of both squares of 512-bit registers: quarters of registers change places, q[r][c] with
/// q[c][r].
NNTILE_ALWAYS_INLINE void transpose_quarters(__m512& a, __m512& b, __m512& c, __m512& d) {
  __m512 const ab_even = _mm512_shuffle_f32x4(a, b, 0x88),
               ab_odd = _mm512_shuffle_f32x4(a, b, 0xdd);
  __m512 const cd_even = _mm512_shuffle_f32x4(c, d, 0x88),
               cd_odd = _mm512_shuffle_f32x4(c, d, 0xdd);
  a = _mm512_shuffle_f32x4(ab_even, cd_even, 0x88);
  b = _mm512_shuffle_f32x4(ab_odd, cd_odd, 0x88);
  c = _mm512_shuffle_f32x4(ab_even, cd_even, 0xdd);
  d = _mm512_shuffle_f32x4(ab_odd, cd_odd, 0xdd);
}

template <> struct Square<float, 16> {
  using Register = __m512;
  template <class S> NNTILE_ALWAYS_INLINE static __m512 load(S const* p) {
    return NNTILE_ISA::load(p).v;
  }
  NNTILE_ALWAYS_INLINE static __m512 multiply(__m512 a, float factor) {
    return _mm512_mul_ps(a, _mm512_set1_ps(factor));
  }
  template <int count> NNTILE_ALWAYS_INLINE static void store(float* p, __m512 a) {
    static_assert(count == 16);
    _mm512_storeu_ps(p, a);
  }
  NNTILE_ALWAYS_INLINE static void transpose(__m512 (&r)[16]) {
    __m512 pair[16];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
      pair[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
      pair[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
      r[i] = _mm512_shuffle_ps(pair[i], pair[i + 2], 0x44);
      r[i + 1] = _mm512_shuffle_ps(pair[i], pair[i + 2], 0xee);
      r[i + 2] = _mm512_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
      r[i + 3] = _mm512_shuffle_ps(pair[i + 1], pair[i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) transpose_quarters(r[i], r[i + 4], r[i + 8], r[i + 12]);
  }
};

template <> struct Square<double, 8> {
  using Register = __m512d;
  NNTILE_ALWAYS_INLINE static __m512d load(double const* p) { return _mm512_loadu_pd(p); }
  NNTILE_ALWAYS_INLINE static __m512d multiply(__m512d a, double factor) {
    return _mm512_mul_pd(a, _mm512_set1_pd(factor));
  }
  template <int count> NNTILE_ALWAYS_INLINE static void store(double* p, __m512d a) {
    static_assert(count == 8);
    _mm512_storeu_pd(p, a);
  }
  NNTILE_ALWAYS_INLINE static void transpose(__m512d (&r)[8]) {
    __m512 half[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
      half[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(r[i], r[i + 1]));
      half[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(r[i], r[i + 1]));
    }
    transpose_quarters(half[0], half[2], half[4], half[6]);
    transpose_quarters(half[1], half[3], half[5], half[7]);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) r[i] = _mm512_castps_pd(half[i]);
  }
};

/// The largest square of which panels of W are made.
template <class T, int W>
inline constexpr int square_side =
    W * sizeof(T) % 64 == 0 ? 64 / static_cast<int>(sizeof(T)) : 32 / static_cast<int>(sizeof(T));

#else

template <class T, int W> inline constexpr int square_side = 32 / static_cast<int>(sizeof(T));

#endif

/// One panel whose source has k contiguous: squares of registers are transposed. Rows beyond `rows`
/// repeat the last one. Along k first, so that no more rows are read at a time than a square has.
template <int W, class S, class T>
NNTILE_ALWAYS_INLINE void pack_transposed(PanelSource<S, T> const& source, Index rows, Index k,
                                          T* panel) {
  constexpr int side = square_side<T, W>;
  using Side = Square<T, side>;
  Index const squares = k / side * side;
  for (int i = 0; i < W && i < rows; i += side)
    for (Index p = 0; p < squares; p += side) {
      typename Side::Register square[side];
#pragma GCC unroll 16
      for (int r = 0; r < side; ++r) {
        S const* const row = source.at + (i + r < rows ? i + r : rows - 1) * source.ld + p;
        square[r] = Side::load(row);
        if (source.factor != T(1)) square[r] = Side::multiply(square[r], source.factor);
        __builtin_prefetch(row + fetched_ahead, 0, 3);
      }
      Side::transpose(square);
#pragma GCC unroll 16
      for (int r = 0; r < side; ++r) {
        T* const to = panel + (p + r) * W + i;
        if (i + side <= W)
          Side::template store<side>(to, square[r]);
        else
          Side::template store<W % side == 0 ? side : W % side>(to, square[r]);
      }
    }
  for (Index p = squares; p < k; ++p)
    for (Index i = 0; i < rows; ++i)
      panel[p * W + i] = packed_value(source, source.at[i * source.ld + p]);
}

#else

template <int W, class S, class T>
NNTILE_ALWAYS_INLINE void pack_transposed(PanelSource<S, T> const& source, Index rows, Index k,
                                          T* panel) {
  for (Index p = 0; p < k; ++p)
    for (Index i = 0; i < rows; ++i)
      panel[p * W + i] = packed_value(source, source.at[i * source.ld + p]);
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

/// Number of k written at once where rows are contiguous, so that whole cache lines are written.
inline constexpr int k_at_once = 8;

/// Packs `count` rows (or columns) of k elements. Panel i holds rows [split(i), split(i + 1)), at
/// most W of them.
template <int W, class S, class T, class Split>
NNTILE_ALWAYS_INLINE void pack(PanelSource<S, T> source, bool k_contiguous, Index panels,
                               Split split, Index k, T* to) {
  if (k_contiguous) {
    for (Index panel = 0; panel < panels; ++panel) {
      PanelSource<S, T> const part{source.at + split(panel) * source.ld, source.ld, source.factor};
      detail::pack_transposed<W>(part, split(panel + 1) - split(panel), k, to + panel * k * W);
    }
    return;
  }
  for (Index first = 0; first < k; first += k_at_once) {
    Index const end = first + k_at_once < k ? first + k_at_once : k;
    for (Index panel = 0; panel < panels; ++panel) {
      Index const begin = split(panel), rows = split(panel + 1) - begin;
      for (Index p = first; p < end; ++p)
        detail::copy_row<W>(source.at + p * source.ld + begin, source.factor, rows,
                            to + (panel * k + p) * W);
    }
  }
}

}  // namespace nntile::kernels::NNTILE_ISA
