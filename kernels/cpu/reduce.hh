#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Canonical reductions along dimension 0 (nntile/NUMERICS.md): blocks of 64, element i in lane i
// mod 16, four ascending terms a lane, lanes added by the tree 16-8-4-2-1, block results added
// upwards. The same bits with 1, 4, 8 or 16 lanes.

#include "kernels/cpu/group.hh"

namespace nntile::kernels::NNTILE_ISA {

inline constexpr int canonical_block = 64;
inline constexpr int canonical_lanes = 16;

/// The 16 lanes of a block, in as many registers as it takes.
template <class T> struct Lanes {
  static constexpr int registers = canonical_lanes / Vec<T>::lanes;
  Vec<T> v[registers];
};

#if defined(__AVX2__)
namespace detail {
// 8-4-2-1: lane i takes lane i + half. Lanes beyond the half hold nothing of use.
NNTILE_ALWAYS_INLINE float tree4(__m128 a) {
  a = _mm_add_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)));
}
NNTILE_ALWAYS_INLINE float tree8(__m256 a) {
  return tree4(_mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1)));
}
NNTILE_ALWAYS_INLINE double tree4(__m256d a) {
  __m128d const half = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
  return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
}
}  // namespace detail
#endif

/// Adds the lanes of a block: lane i + lane i + 8, then + 4, + 2, + 1.
NNTILE_ALWAYS_INLINE float tree_sum(Lanes<float> const& a) {
#if defined(__AVX512F__)
  return detail::tree8(
      _mm256_add_ps(_mm512_castps512_ps256(a.v[0].v), _mm512_extractf32x8_ps(a.v[0].v, 1)));
#elif defined(__AVX2__)
  return detail::tree8(_mm256_add_ps(a.v[0].v, a.v[1].v));
#else
  float lane[canonical_lanes];
  for (int i = 0; i < canonical_lanes; ++i) lane[i] = a.v[i].v;
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
#endif
}
NNTILE_ALWAYS_INLINE double tree_sum(Lanes<double> const& a) {
#if defined(__AVX512F__)
  __m512d const eight = _mm512_add_pd(a.v[0].v, a.v[1].v);
  return detail::tree4(
      _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1)));
#elif defined(__AVX2__)
  return detail::tree4(
      _mm256_add_pd(_mm256_add_pd(a.v[0].v, a.v[2].v), _mm256_add_pd(a.v[1].v, a.v[3].v)));
#else
  double lane[canonical_lanes];
  for (int i = 0; i < canonical_lanes; ++i) lane[i] = a.v[i].v;
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
#endif
}

namespace detail {

/// The lanes of a whole block that begins at i.
template <class T, class Term> NNTILE_ALWAYS_INLINE Lanes<T> block_lanes(Index i, Term term) {
  constexpr int lanes = Vec<T>::lanes;
  constexpr int registers = Lanes<T>::registers;
  Lanes<T> block;
  if constexpr (lanes == 1) {
    for (int r = 0; r < registers; ++r) block.v[r] = term(i + r, All{});
    for (int t = 1; t < 4; ++t)
      for (int r = 0; r < registers; ++r) block.v[r] += term(i + t * canonical_lanes + r, All{});
  } else {
    Group<T> const x = term(i, Four{});
    if constexpr (registers == 1) {
      block.v[0] = x.a + x.b + x.c + x.d;
    } else {
      static_assert(registers == 2 || registers == 4);
      Group<T> const y = term(i + 4 * lanes, Four{});
      if constexpr (registers == 2) {
        block.v[0] = x.a + x.c + y.a + y.c;
        block.v[1] = x.b + x.d + y.b + y.d;
      } else {
        Group<T> const z = x + y + term(i + 8 * lanes, Four{}) + term(i + 12 * lanes, Four{});
        block.v[0] = z.a, block.v[1] = z.b, block.v[2] = z.c, block.v[3] = z.d;
      }
    }
  }
  return block;
}

}  // namespace detail

/// start + sum over i < n of term, in canonical order; the range begins at a canonical border.
/// `term(i, part)` is elements i and following, a Vec<T> or, for Four, a Group; lanes outside
/// the part are ignored. The chain over tiles passes what it has so far as `start`, +0 at first.
template <class T, class Term> NNTILE_ALWAYS_INLINE T canonical_sum(Index n, T start, Term term) {
  constexpr int lanes = Vec<T>::lanes;
  constexpr int registers = Lanes<T>::registers;
  T sum = start;
  Index i = 0;
  for (; i + canonical_block <= n; i += canonical_block)
    sum += tree_sum(detail::block_lanes<T>(i, term));
  if (i < n) {  // absent terms are +0, which changes no sum that ends up beside +0
    Lanes<T> block;
    for (int r = 0; r < registers; ++r) block.v[r] = Vec<T>(0);
    for (int t = 0; t < 4; ++t)
      for (int r = 0; r < registers; ++r) {
        Index const at = i + t * canonical_lanes + r * lanes;
        if (at + lanes <= n)
          block.v[r] += term(at, All{});
        else if (at < n)
          block.v[r] +=
              keep(term(at, First{static_cast<int>(n - at)}), First{static_cast<int>(n - at)});
      }
    sum += tree_sum(block);
  }
  return sum;
}

/// max(start, term over i < n): exact, so its order is free; NaN if any element is, and never -0.
template <class T, class Term> NNTILE_ALWAYS_INLINE T canonical_max(Index n, T start, Term term) {
  constexpr int lanes = Vec<T>::lanes;
  Vec<T> const first(static_cast<double>(start));
  Vec<T> best = first;
  Mask<T> nan = first != first;
  Index i = 0;
  if constexpr (lanes > 1) {  // chains that hide each other's latency; a NaN stays in `odd`
    Group<T> tops(first), odd(first);
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      Group<T> const value = term(i, Four{});
      tops = max(value, tops);
      odd = select(value != value, value, odd);
    }
    best = max(max(tops.a, tops.b), max(tops.c, tops.d));
    GroupMask<T> const found = odd != odd;
    nan = found.a | found.b | found.c | found.d;
  }
  for (; i + lanes <= n; i += lanes) {
    Vec<T> const value = term(i, All{});
    best = max(value, best);
    nan = nan | (value != value);
  }
  if constexpr (lanes > 1)
    if (i < n) {
      First const part{static_cast<int>(n - i)};
      Vec<T> const seen = term(i, part);
      Vec<T> const value = select(keep(Vec<T>(1), part) != Vec<T>(0), seen, first);
      best = max(value, best);
      nan = nan | (value != value);
    }
  T lane[lanes];
  store(lane, select(nan, Vec<T>(__builtin_nan("")), best));
  T result = lane[0];
  for (int l = 1; l < lanes; ++l)
    result = lane[l] > result || lane[l] != lane[l] ? lane[l] : result;
  return result + T(0);
}

}  // namespace nntile::kernels::NNTILE_ISA
