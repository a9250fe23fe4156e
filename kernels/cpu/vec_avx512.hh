#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// 512-bit registers: AVX-512 F, VL, DQ, BW (x86-64-v4). Included by vec.hh alone.

// g++ 12 takes the undefined operand of its own intrinsics for a mistake (fixed in 13).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#else
#include <immintrin.h>
#endif

namespace nntile::kernels::NNTILE_ISA {

inline constexpr bool has_fma = true;

template <> struct Mask<float> {
  __mmask16 m;
  NNTILE_ALWAYS_INLINE friend Mask operator&(Mask a, Mask b) { return {_kand_mask16(a.m, b.m)}; }
  NNTILE_ALWAYS_INLINE friend Mask operator|(Mask a, Mask b) { return {_kor_mask16(a.m, b.m)}; }
  NNTILE_ALWAYS_INLINE friend Mask operator!(Mask a) { return {_knot_mask16(a.m)}; }
  NNTILE_ALWAYS_INLINE friend bool all(Mask a) { return a.m == 0xffff; }
  NNTILE_ALWAYS_INLINE friend bool any(Mask a) { return a.m != 0; }
};

template <> struct Mask<double> {
  __mmask8 m;
  NNTILE_ALWAYS_INLINE friend Mask operator&(Mask a, Mask b) { return {_kand_mask8(a.m, b.m)}; }
  NNTILE_ALWAYS_INLINE friend Mask operator|(Mask a, Mask b) { return {_kor_mask8(a.m, b.m)}; }
  NNTILE_ALWAYS_INLINE friend Mask operator!(Mask a) { return {_knot_mask8(a.m)}; }
  NNTILE_ALWAYS_INLINE friend bool all(Mask a) { return a.m == 0xff; }
  NNTILE_ALWAYS_INLINE friend bool any(Mask a) { return a.m != 0; }
};

template <> struct Vec<float> {
  static constexpr int lanes = 16;
  __m512 v;

  Vec() = default;
  NNTILE_ALWAYS_INLINE explicit Vec(double value) : v(_mm512_set1_ps(static_cast<float>(value))) {}
  NNTILE_ALWAYS_INLINE static Vec raw(__m512 value) {
    Vec result;
    result.v = value;
    return result;
  }
  NNTILE_ALWAYS_INLINE friend Vec operator+(Vec a, Vec b) { return raw(_mm512_add_ps(a.v, b.v)); }
  NNTILE_ALWAYS_INLINE friend Vec operator-(Vec a, Vec b) { return raw(_mm512_sub_ps(a.v, b.v)); }
  NNTILE_ALWAYS_INLINE friend Vec operator*(Vec a, Vec b) { return raw(_mm512_mul_ps(a.v, b.v)); }
  NNTILE_ALWAYS_INLINE friend Vec operator/(Vec a, Vec b) { return raw(_mm512_div_ps(a.v, b.v)); }
  NNTILE_ALWAYS_INLINE friend Vec operator-(Vec a) {
    return raw(_mm512_xor_ps(a.v, _mm512_set1_ps(-0.0f)));
  }
  NNTILE_ALWAYS_INLINE friend Mask<float> operator<(Vec a, Vec b) {
    return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)};
  }
  NNTILE_ALWAYS_INLINE friend Mask<float> operator<=(Vec a, Vec b) {
    return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)};
  }
  NNTILE_ALWAYS_INLINE friend Mask<float> operator>(Vec a, Vec b) {
    return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)};
  }
  NNTILE_ALWAYS_INLINE friend Mask<float> operator>=(Vec a, Vec b) {
    return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ)};
  }
  NNTILE_ALWAYS_INLINE friend Mask<float> operator==(Vec a, Vec b) {
    return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)};
  }
  NNTILE_ALWAYS_INLINE friend Mask<float> operator!=(Vec a, Vec b) {
    return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_NEQ_UQ)};
  }
  NNTILE_ALWAYS_INLINE friend Vec fma(Vec a, Vec b, Vec c) {
    return raw(_mm512_fmadd_ps(a.v, b.v, c.v));
  }
  NNTILE_ALWAYS_INLINE friend Vec max(Vec a, Vec b) { return raw(_mm512_max_ps(a.v, b.v)); }
  NNTILE_ALWAYS_INLINE friend Vec min(Vec a, Vec b) { return raw(_mm512_min_ps(a.v, b.v)); }
  NNTILE_ALWAYS_INLINE friend Vec sqrt(Vec a) { return raw(_mm512_sqrt_ps(a.v)); }
  NNTILE_ALWAYS_INLINE friend Vec abs(Vec a) { return raw(_mm512_abs_ps(a.v)); }
  NNTILE_ALWAYS_INLINE friend Vec select(Mask<float> m, Vec yes, Vec no) {
    return raw(_mm512_mask_blend_ps(m.m, no.v, yes.v));
  }
};

template <> struct Vec<double> {
  static constexpr int lanes = 8;
  __m512d v;

  Vec() = default;
  NNTILE_ALWAYS_INLINE explicit Vec(double value) : v(_mm512_set1_pd(value)) {}
  NNTILE_ALWAYS_INLINE static Vec raw(__m512d value) {
    Vec result;
    result.v = value;
    return result;
  }
  NNTILE_ALWAYS_INLINE friend Vec operator+(Vec a, Vec b) { return raw(_mm512_add_pd(a.v, b.v)); }
  NNTILE_ALWAYS_INLINE friend Vec operator-(Vec a, Vec b) { return raw(_mm512_sub_pd(a.v, b.v)); }
  NNTILE_ALWAYS_INLINE friend Vec operator*(Vec a, Vec b) { return raw(_mm512_mul_pd(a.v, b.v)); }
  NNTILE_ALWAYS_INLINE friend Vec operator/(Vec a, Vec b) { return raw(_mm512_div_pd(a.v, b.v)); }
  NNTILE_ALWAYS_INLINE friend Vec operator-(Vec a) {
    return raw(_mm512_xor_pd(a.v, _mm512_set1_pd(-0.0)));
  }
  NNTILE_ALWAYS_INLINE friend Mask<double> operator<(Vec a, Vec b) {
    return {_mm512_cmp_pd_mask(a.v, b.v, _CMP_LT_OQ)};
  }
  NNTILE_ALWAYS_INLINE friend Mask<double> operator<=(Vec a, Vec b) {
    return {_mm512_cmp_pd_mask(a.v, b.v, _CMP_LE_OQ)};
  }
  NNTILE_ALWAYS_INLINE friend Mask<double> operator>(Vec a, Vec b) {
    return {_mm512_cmp_pd_mask(a.v, b.v, _CMP_GT_OQ)};
  }
  NNTILE_ALWAYS_INLINE friend Mask<double> operator>=(Vec a, Vec b) {
    return {_mm512_cmp_pd_mask(a.v, b.v, _CMP_GE_OQ)};
  }
  NNTILE_ALWAYS_INLINE friend Mask<double> operator==(Vec a, Vec b) {
    return {_mm512_cmp_pd_mask(a.v, b.v, _CMP_EQ_OQ)};
  }
  NNTILE_ALWAYS_INLINE friend Mask<double> operator!=(Vec a, Vec b) {
    return {_mm512_cmp_pd_mask(a.v, b.v, _CMP_NEQ_UQ)};
  }
  NNTILE_ALWAYS_INLINE friend Vec fma(Vec a, Vec b, Vec c) {
    return raw(_mm512_fmadd_pd(a.v, b.v, c.v));
  }
  NNTILE_ALWAYS_INLINE friend Vec max(Vec a, Vec b) { return raw(_mm512_max_pd(a.v, b.v)); }
  NNTILE_ALWAYS_INLINE friend Vec min(Vec a, Vec b) { return raw(_mm512_min_pd(a.v, b.v)); }
  NNTILE_ALWAYS_INLINE friend Vec sqrt(Vec a) { return raw(_mm512_sqrt_pd(a.v)); }
  NNTILE_ALWAYS_INLINE friend Vec abs(Vec a) { return raw(_mm512_abs_pd(a.v)); }
  NNTILE_ALWAYS_INLINE friend Vec select(Mask<double> m, Vec yes, Vec no) {
    return raw(_mm512_mask_blend_pd(m.m, no.v, yes.v));
  }
};

template <class T> struct Bits {
  __m512i v;
  Bits() = default;
  NNTILE_ALWAYS_INLINE explicit Bits(bits_t<T> word) {
    if constexpr (sizeof(T) == 4)
      v = _mm512_set1_epi32(static_cast<int>(word));
    else
      v = _mm512_set1_epi64(static_cast<long long>(word));
  }
  NNTILE_ALWAYS_INLINE static Bits raw(__m512i value) {
    Bits result;
    result.v = value;
    return result;
  }
  NNTILE_ALWAYS_INLINE friend Bits operator+(Bits a, Bits b) {
    return raw(sizeof(T) == 4 ? _mm512_add_epi32(a.v, b.v) : _mm512_add_epi64(a.v, b.v));
  }
  NNTILE_ALWAYS_INLINE friend Bits operator-(Bits a, Bits b) {
    return raw(sizeof(T) == 4 ? _mm512_sub_epi32(a.v, b.v) : _mm512_sub_epi64(a.v, b.v));
  }
  NNTILE_ALWAYS_INLINE friend Bits operator&(Bits a, Bits b) {
    return raw(_mm512_and_si512(a.v, b.v));
  }
  NNTILE_ALWAYS_INLINE friend Bits operator|(Bits a, Bits b) {
    return raw(_mm512_or_si512(a.v, b.v));
  }
  NNTILE_ALWAYS_INLINE friend Bits operator^(Bits a, Bits b) {
    return raw(_mm512_xor_si512(a.v, b.v));
  }
};
template <int n, class T> NNTILE_ALWAYS_INLINE Bits<T> shl(Bits<T> a) {
  return Bits<T>::raw(sizeof(T) == 4 ? _mm512_slli_epi32(a.v, n) : _mm512_slli_epi64(a.v, n));
}
template <int n, class T> NNTILE_ALWAYS_INLINE Bits<T> shr(Bits<T> a) {
  return Bits<T>::raw(sizeof(T) == 4 ? _mm512_srli_epi32(a.v, n) : _mm512_srli_epi64(a.v, n));
}
NNTILE_ALWAYS_INLINE Bits<float> bits(Vec<float> a) {
  return Bits<float>::raw(_mm512_castps_si512(a.v));
}
NNTILE_ALWAYS_INLINE Bits<double> bits(Vec<double> a) {
  return Bits<double>::raw(_mm512_castpd_si512(a.v));
}
NNTILE_ALWAYS_INLINE Vec<float> from_bits(Bits<float> a) {
  return Vec<float>::raw(_mm512_castsi512_ps(a.v));
}
NNTILE_ALWAYS_INLINE Vec<double> from_bits(Bits<double> a) {
  return Vec<double>::raw(_mm512_castsi512_pd(a.v));
}

namespace detail {

NNTILE_ALWAYS_INLINE __mmask16 first16(int count) {
  return static_cast<__mmask16>((1u << count) - 1u);
}
NNTILE_ALWAYS_INLINE __mmask8 first8(int count) {
  return static_cast<__mmask8>((1u << count) - 1u);
}

NNTILE_ALWAYS_INLINE __m512 widen(__m256i words, bf16_t) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16));
}
NNTILE_ALWAYS_INLINE __m512 widen(__m256i words, fp16_t) { return _mm512_cvtph_ps(words); }

/// Round to nearest even by integers, as core does: the CPU's own instruction flushes subnormals.
NNTILE_ALWAYS_INLINE __m256i narrow(__m512 a, bf16_t) {
  __m512i const word = _mm512_castps_si512(a);
  __m512i const high = _mm512_srli_epi32(word, 16);
  __m512i const odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
  __m512i const rounded = _mm512_srli_epi32(
      _mm512_add_epi32(_mm512_add_epi32(word, _mm512_set1_epi32(0x7fff)), odd), 16);
  __mmask16 const nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(rounded, nan, high, _mm512_set1_epi32(0x40)));
}
NNTILE_ALWAYS_INLINE __m256i narrow(__m512 a, fp16_t) {
  return _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT);
}

}  // namespace detail

NNTILE_ALWAYS_INLINE Vec<float> load(float const* p, All) {
  return Vec<float>::raw(_mm512_loadu_ps(p));
}
NNTILE_ALWAYS_INLINE Vec<float> load(float const* p, First part) {
  return Vec<float>::raw(_mm512_maskz_loadu_ps(detail::first16(part.count), p));
}
NNTILE_ALWAYS_INLINE Vec<double> load(double const* p, All) {
  return Vec<double>::raw(_mm512_loadu_pd(p));
}
NNTILE_ALWAYS_INLINE Vec<double> load(double const* p, First part) {
  return Vec<double>::raw(_mm512_maskz_loadu_pd(detail::first8(part.count), p));
}
NNTILE_ALWAYS_INLINE Vec<float> load_halves(float const* p, All) {
  __m512 const low = _mm512_castps256_ps512(_mm256_loadu_ps(p));
  return Vec<float>::raw(_mm512_insertf32x8(low, _mm256_loadu_ps(p + 8), 1));
}
NNTILE_ALWAYS_INLINE Vec<double> load_halves(double const* p, All) {
  __m512d const low = _mm512_castpd256_pd512(_mm256_loadu_pd(p));
  return Vec<double>::raw(_mm512_insertf64x4(low, _mm256_loadu_pd(p + 4), 1));
}
template <class T>
requires(sizeof(T) == 2)
NNTILE_ALWAYS_INLINE Vec<float> load(T const* p, All) {
  return Vec<float>::raw(
      detail::widen(_mm256_loadu_si256(reinterpret_cast<__m256i const*>(p)), T{}));
}
template <class T>
requires(sizeof(T) == 2)
NNTILE_ALWAYS_INLINE Vec<float> load(T const* p, First part) {
  return Vec<float>::raw(
      detail::widen(_mm256_maskz_loadu_epi16(detail::first16(part.count), p), T{}));
}

NNTILE_ALWAYS_INLINE void store(float* p, Vec<float> a, All) { _mm512_storeu_ps(p, a.v); }
NNTILE_ALWAYS_INLINE void store(float* p, Vec<float> a, First part) {
  _mm512_mask_storeu_ps(p, detail::first16(part.count), a.v);
}
NNTILE_ALWAYS_INLINE void store(double* p, Vec<double> a, All) { _mm512_storeu_pd(p, a.v); }
NNTILE_ALWAYS_INLINE void store(double* p, Vec<double> a, First part) {
  _mm512_mask_storeu_pd(p, detail::first8(part.count), a.v);
}
template <class T>
requires(sizeof(T) == 2)
NNTILE_ALWAYS_INLINE void store(T* p, Vec<float> a, All) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), detail::narrow(a.v, T{}));
}
template <class T>
requires(sizeof(T) == 2)
NNTILE_ALWAYS_INLINE void store(T* p, Vec<float> a, First part) {
  _mm256_mask_storeu_epi16(p, detail::first16(part.count), detail::narrow(a.v, T{}));
}

/// V is double here; lanes of Vec<double>.
template <class V> NNTILE_ALWAYS_INLINE Vec<V> load_as(float const* p, All) {
  return Vec<V>::raw(_mm512_cvtps_pd(_mm256_loadu_ps(p)));
}
template <class V> NNTILE_ALWAYS_INLINE Vec<V> load_as(float const* p, First part) {
  return Vec<V>::raw(_mm512_cvtps_pd(_mm256_maskz_loadu_ps(detail::first8(part.count), p)));
}
template <class V> NNTILE_ALWAYS_INLINE Vec<V> load_as(double const* p, All) {
  return load(p, All{});
}
template <class V> NNTILE_ALWAYS_INLINE Vec<V> load_as(double const* p, First part) {
  return load(p, part);
}
template <class V, class T>
requires(sizeof(T) == 2)
NNTILE_ALWAYS_INLINE Vec<V> load_as(T const* p, All) {
  __m128i const words = _mm_loadu_si128(reinterpret_cast<__m128i const*>(p));
  return Vec<V>::raw(
      _mm512_cvtps_pd(_mm512_castps512_ps256(detail::widen(_mm256_castsi128_si256(words), T{}))));
}
template <class V, class T>
requires(sizeof(T) == 2)
NNTILE_ALWAYS_INLINE Vec<V> load_as(T const* p, First part) {
  __m128i const words = _mm_maskz_loadu_epi16(detail::first8(part.count), p);
  return Vec<V>::raw(
      _mm512_cvtps_pd(_mm512_castps512_ps256(detail::widen(_mm256_castsi128_si256(words), T{}))));
}

template <class T> NNTILE_ALWAYS_INLINE Vec<T> keep(Vec<T> a, All) { return a; }
NNTILE_ALWAYS_INLINE Vec<float> keep(Vec<float> a, First part) {
  return Vec<float>::raw(_mm512_maskz_mov_ps(detail::first16(part.count), a.v));
}
NNTILE_ALWAYS_INLINE Vec<double> keep(Vec<double> a, First part) {
  return Vec<double>::raw(_mm512_maskz_mov_pd(detail::first8(part.count), a.v));
}

}  // namespace nntile::kernels::NNTILE_ISA
