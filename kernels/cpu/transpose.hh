#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A square of registers, rows to columns.

#include "kernels/cpu/vec.hh"

namespace nntile::kernels::NNTILE_ISA {

/// Row r of the square, lane l, becomes row l, lane r.
template <class T> NNTILE_ALWAYS_INLINE void transpose(Vec<T> (&rows)[Vec<T>::lanes]) {
  constexpr int lanes = Vec<T>::lanes;
  T square[lanes][lanes];
  for (int r = 0; r < lanes; ++r) store(square[r], rows[r], All{});
  T column[lanes];
  for (int c = 0; c < lanes; ++c) {
    for (int r = 0; r < lanes; ++r) column[r] = square[r][c];
    rows[c] = load(static_cast<T const*>(column), All{});
  }
}

#if defined(__AVX512F__)
// Pairs, then fours within 128-bit parts; then parts of rows 4 apart, then 8 apart.
NNTILE_ALWAYS_INLINE void transpose(Vec<float> (&rows)[16]) {
  __m512 a[16];
#pragma GCC unroll 8
  for (int r = 0; r < 16; r += 2) {
    a[r] = _mm512_unpacklo_ps(rows[r].v, rows[r + 1].v);
    a[r + 1] = _mm512_unpackhi_ps(rows[r].v, rows[r + 1].v);
  }
  __m512 b[16];
#pragma GCC unroll 4
  for (int r = 0; r < 16; r += 4)
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      __m512d const even = _mm512_castps_pd(a[r + h]);
      __m512d const odd = _mm512_castps_pd(a[r + 2 + h]);
      b[r + 2 * h] = _mm512_castpd_ps(_mm512_unpacklo_pd(even, odd));
      b[r + 2 * h + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(even, odd));
    }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    __m512 const low02 = _mm512_shuffle_f32x4(b[c], b[4 + c], 0x88);
    __m512 const low13 = _mm512_shuffle_f32x4(b[c], b[4 + c], 0xdd);
    __m512 const high02 = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0x88);
    __m512 const high13 = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0xdd);
    rows[c].v = _mm512_shuffle_f32x4(low02, high02, 0x88);
    rows[4 + c].v = _mm512_shuffle_f32x4(low13, high13, 0x88);
    rows[8 + c].v = _mm512_shuffle_f32x4(low02, high02, 0xdd);
    rows[12 + c].v = _mm512_shuffle_f32x4(low13, high13, 0xdd);
  }
}
#elif defined(__AVX2__)
NNTILE_ALWAYS_INLINE void transpose(Vec<float> (&rows)[8]) {
  __m256 a[8];
#pragma GCC unroll 4
  for (int r = 0; r < 8; r += 2) {
    a[r] = _mm256_unpacklo_ps(rows[r].v, rows[r + 1].v);
    a[r + 1] = _mm256_unpackhi_ps(rows[r].v, rows[r + 1].v);
  }
  __m256 b[8];
#pragma GCC unroll 2
  for (int r = 0; r < 8; r += 4)
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      __m256d const even = _mm256_castps_pd(a[r + h]);
      __m256d const odd = _mm256_castps_pd(a[r + 2 + h]);
      b[r + 2 * h] = _mm256_castpd_ps(_mm256_unpacklo_pd(even, odd));
      b[r + 2 * h + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(even, odd));
    }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    rows[c].v = _mm256_permute2f128_ps(b[c], b[4 + c], 0x20);
    rows[4 + c].v = _mm256_permute2f128_ps(b[c], b[4 + c], 0x31);
  }
}
#endif

}  // namespace nntile::kernels::NNTILE_ISA
