#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// 256-bit registers: AVX2, FMA, F16C (x86-64-v3). Included by vec.hh alone.

#include <immintrin.h>

namespace nntile::kernels::NNTILE_ISA {

inline constexpr bool has_fma = true;

template <> struct Mask<float> {
  __m256 m;
  NNTILE_ALWAYS_INLINE friend Mask operator&(Mask a, Mask b) { return {_mm256_and_ps(a.m, b.m)}; }
  NNTILE_ALWAYS_INLINE friend Mask operator|(Mask a, Mask b) { return {_mm256_or_ps(a.m, b.m)}; }
  NNTILE_ALWAYS_INLINE friend Mask operator!(Mask a) {
    return {_mm256_xor_ps(a.m, _mm256_castsi256_ps(_mm256_set1_epi32(-1)))};
  }
  NNTILE_ALWAYS_INLINE friend bool all(Mask a) { return _mm256_movemask_ps(a.m) == 0xff; }
  NNTILE_ALWAYS_INLINE friend bool any(Mask a) { return _mm256_movemask_ps(a.m) != 0; }
};

template <> struct Mask<double> {
  __m256d m;
  NNTILE_ALWAYS_INLINE friend Mask operator&(Mask a, Mask b) { return {_mm256_and_pd(a.m, b.m)}; }
  NNTILE_ALWAYS_INLINE friend Mask operator|(Mask a, Mask b) { return {_mm256_or_pd(a.m, b.m)}; }
  NNTILE_ALWAYS_INLINE friend Mask operator!(Mask a) {
    return {_mm256_xor_pd(a.m, _mm256_castsi256_pd(_mm256_set1_epi64x(-1)))};
  }
  NNTILE_ALWAYS_INLINE friend bool all(Mask a) { return _mm256_movemask_pd(a.m) == 0xf; }
  NNTILE_ALWAYS_INLINE friend bool any(Mask a) { return _mm256_movemask_pd(a.m) != 0; }
};

template <> struct Vec<float> {
  static constexpr int lanes = 8;
  __m256 v;

  Vec() = default;
  NNTILE_ALWAYS_INLINE explicit Vec(double value) : v(_mm256_set1_ps(static_cast<float>(value))) {}
  NNTILE_ALWAYS_INLINE static Vec raw(__m256 value) {
    Vec result;
    result.v = value;
    return result;
  }
  NNTILE_ALWAYS_INLINE friend Vec operator+(Vec a, Vec b) { return raw(_mm256_add_ps(a.v, b.v)); }
  NNTILE_ALWAYS_INLINE friend Vec operator-(Vec a, Vec b) { return raw(_mm256_sub_ps(a.v, b.v)); }
  NNTILE_ALWAYS_INLINE friend Vec operator*(Vec a, Vec b) { return raw(_mm256_mul_ps(a.v, b.v)); }
  NNTILE_ALWAYS_INLINE friend Vec operator/(Vec a, Vec b) { return raw(_mm256_div_ps(a.v, b.v)); }
  NNTILE_ALWAYS_INLINE friend Vec operator-(Vec a) {
    return raw(_mm256_xor_ps(a.v, _mm256_set1_ps(-0.0f)));
  }
  NNTILE_ALWAYS_INLINE friend Mask<float> operator<(Vec a, Vec b) {
    return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)};
  }
  NNTILE_ALWAYS_INLINE friend Mask<float> operator<=(Vec a, Vec b) {
    return {_mm256_cmp_ps(a.v, b.v, _CMP_LE_OQ)};
  }
  NNTILE_ALWAYS_INLINE friend Mask<float> operator>(Vec a, Vec b) {
    return {_mm256_cmp_ps(a.v, b.v, _CMP_GT_OQ)};
  }
  NNTILE_ALWAYS_INLINE friend Mask<float> operator>=(Vec a, Vec b) {
    return {_mm256_cmp_ps(a.v, b.v, _CMP_GE_OQ)};
  }
  NNTILE_ALWAYS_INLINE friend Mask<float> operator==(Vec a, Vec b) {
    return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)};
  }
  NNTILE_ALWAYS_INLINE friend Mask<float> operator!=(Vec a, Vec b) {
    return {_mm256_cmp_ps(a.v, b.v, _CMP_NEQ_UQ)};
  }
  NNTILE_ALWAYS_INLINE friend Vec fma(Vec a, Vec b, Vec c) {
    return raw(_mm256_fmadd_ps(a.v, b.v, c.v));
  }
  NNTILE_ALWAYS_INLINE friend Vec max(Vec a, Vec b) { return raw(_mm256_max_ps(a.v, b.v)); }
  NNTILE_ALWAYS_INLINE friend Vec min(Vec a, Vec b) { return raw(_mm256_min_ps(a.v, b.v)); }
  NNTILE_ALWAYS_INLINE friend Vec sqrt(Vec a) { return raw(_mm256_sqrt_ps(a.v)); }
  NNTILE_ALWAYS_INLINE friend Vec abs(Vec a) {
    return raw(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v));
  }
  NNTILE_ALWAYS_INLINE friend Vec select(Mask<float> m, Vec yes, Vec no) {
    return raw(_mm256_blendv_ps(no.v, yes.v, m.m));
  }
};

template <> struct Vec<double> {
  static constexpr int lanes = 4;
  __m256d v;

  Vec() = default;
  NNTILE_ALWAYS_INLINE explicit Vec(double value) : v(_mm256_set1_pd(value)) {}
  NNTILE_ALWAYS_INLINE static Vec raw(__m256d value) {
    Vec result;
    result.v = value;
    return result;
  }
  NNTILE_ALWAYS_INLINE friend Vec operator+(Vec a, Vec b) { return raw(_mm256_add_pd(a.v, b.v)); }
  NNTILE_ALWAYS_INLINE friend Vec operator-(Vec a, Vec b) { return raw(_mm256_sub_pd(a.v, b.v)); }
  NNTILE_ALWAYS_INLINE friend Vec operator*(Vec a, Vec b) { return raw(_mm256_mul_pd(a.v, b.v)); }
  NNTILE_ALWAYS_INLINE friend Vec operator/(Vec a, Vec b) { return raw(_mm256_div_pd(a.v, b.v)); }
  NNTILE_ALWAYS_INLINE friend Vec operator-(Vec a) {
    return raw(_mm256_xor_pd(a.v, _mm256_set1_pd(-0.0)));
  }
  NNTILE_ALWAYS_INLINE friend Mask<double> operator<(Vec a, Vec b) {
    return {_mm256_cmp_pd(a.v, b.v, _CMP_LT_OQ)};
  }
  NNTILE_ALWAYS_INLINE friend Mask<double> operator<=(Vec a, Vec b) {
    return {_mm256_cmp_pd(a.v, b.v, _CMP_LE_OQ)};
  }
  NNTILE_ALWAYS_INLINE friend Mask<double> operator>(Vec a, Vec b) {
    return {_mm256_cmp_pd(a.v, b.v, _CMP_GT_OQ)};
  }
  NNTILE_ALWAYS_INLINE friend Mask<double> operator>=(Vec a, Vec b) {
    return {_mm256_cmp_pd(a.v, b.v, _CMP_GE_OQ)};
  }
  NNTILE_ALWAYS_INLINE friend Mask<double> operator==(Vec a, Vec b) {
    return {_mm256_cmp_pd(a.v, b.v, _CMP_EQ_OQ)};
  }
  NNTILE_ALWAYS_INLINE friend Mask<double> operator!=(Vec a, Vec b) {
    return {_mm256_cmp_pd(a.v, b.v, _CMP_NEQ_UQ)};
  }
  NNTILE_ALWAYS_INLINE friend Vec fma(Vec a, Vec b, Vec c) {
    return raw(_mm256_fmadd_pd(a.v, b.v, c.v));
  }
  NNTILE_ALWAYS_INLINE friend Vec max(Vec a, Vec b) { return raw(_mm256_max_pd(a.v, b.v)); }
  NNTILE_ALWAYS_INLINE friend Vec min(Vec a, Vec b) { return raw(_mm256_min_pd(a.v, b.v)); }
  NNTILE_ALWAYS_INLINE friend Vec sqrt(Vec a) { return raw(_mm256_sqrt_pd(a.v)); }
  NNTILE_ALWAYS_INLINE friend Vec abs(Vec a) {
    return raw(_mm256_andnot_pd(_mm256_set1_pd(-0.0), a.v));
  }
  NNTILE_ALWAYS_INLINE friend Vec select(Mask<double> m, Vec yes, Vec no) {
    return raw(_mm256_blendv_pd(no.v, yes.v, m.m));
  }
};

template <class T> struct Bits {
  __m256i v;
  Bits() = default;
  NNTILE_ALWAYS_INLINE explicit Bits(bits_t<T> word) {
    if constexpr (sizeof(T) == 4)
      v = _mm256_set1_epi32(static_cast<int>(word));
    else
      v = _mm256_set1_epi64x(static_cast<long long>(word));
  }
  NNTILE_ALWAYS_INLINE static Bits raw(__m256i value) {
    Bits result;
    result.v = value;
    return result;
  }
  NNTILE_ALWAYS_INLINE friend Bits operator+(Bits a, Bits b) {
    return raw(sizeof(T) == 4 ? _mm256_add_epi32(a.v, b.v) : _mm256_add_epi64(a.v, b.v));
  }
  NNTILE_ALWAYS_INLINE friend Bits operator-(Bits a, Bits b) {
    return raw(sizeof(T) == 4 ? _mm256_sub_epi32(a.v, b.v) : _mm256_sub_epi64(a.v, b.v));
  }
  NNTILE_ALWAYS_INLINE friend Bits operator&(Bits a, Bits b) {
    return raw(_mm256_and_si256(a.v, b.v));
  }
  NNTILE_ALWAYS_INLINE friend Bits operator|(Bits a, Bits b) {
    return raw(_mm256_or_si256(a.v, b.v));
  }
  NNTILE_ALWAYS_INLINE friend Bits operator^(Bits a, Bits b) {
    return raw(_mm256_xor_si256(a.v, b.v));
  }
};
template <int n, class T> NNTILE_ALWAYS_INLINE Bits<T> shl(Bits<T> a) {
  return Bits<T>::raw(sizeof(T) == 4 ? _mm256_slli_epi32(a.v, n) : _mm256_slli_epi64(a.v, n));
}
template <int n, class T> NNTILE_ALWAYS_INLINE Bits<T> shr(Bits<T> a) {
  return Bits<T>::raw(sizeof(T) == 4 ? _mm256_srli_epi32(a.v, n) : _mm256_srli_epi64(a.v, n));
}
NNTILE_ALWAYS_INLINE Bits<float> bits(Vec<float> a) {
  return Bits<float>::raw(_mm256_castps_si256(a.v));
}
NNTILE_ALWAYS_INLINE Bits<double> bits(Vec<double> a) {
  return Bits<double>::raw(_mm256_castpd_si256(a.v));
}
NNTILE_ALWAYS_INLINE Vec<float> from_bits(Bits<float> a) {
  return Vec<float>::raw(_mm256_castsi256_ps(a.v));
}
NNTILE_ALWAYS_INLINE Vec<double> from_bits(Bits<double> a) {
  return Vec<double>::raw(_mm256_castsi256_pd(a.v));
}

namespace detail {

/// All ones in the first `count` lanes.
NNTILE_ALWAYS_INLINE __m256i first32(int count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
NNTILE_ALWAYS_INLINE __m256i first64(int count) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
}

NNTILE_ALWAYS_INLINE __m256 widen(__m128i words, bf16_t) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16));
}
NNTILE_ALWAYS_INLINE __m256 widen(__m128i words, fp16_t) { return _mm256_cvtph_ps(words); }

/// Round to nearest even by integers, as core does: the CPU's own instruction flushes subnormals.
NNTILE_ALWAYS_INLINE __m128i narrow(__m256 a, bf16_t) {
  __m256i const word = _mm256_castps_si256(a);
  __m256i const odd = _mm256_and_si256(_mm256_srli_epi32(word, 16), _mm256_set1_epi32(1));
  __m256i const rounded = _mm256_srli_epi32(
      _mm256_add_epi32(_mm256_add_epi32(word, _mm256_set1_epi32(0x7fff)), odd), 16);
  __m256i const quiet = _mm256_or_si256(_mm256_srli_epi32(word, 16), _mm256_set1_epi32(0x40));
  __m256i const nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  __m256i const result = _mm256_blendv_epi8(rounded, quiet, nan);
  return _mm_packus_epi32(_mm256_castsi256_si128(result), _mm256_extracti128_si256(result, 1));
}
NNTILE_ALWAYS_INLINE __m128i narrow(__m256 a, fp16_t) {
  return _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT);
}

template <class T> NNTILE_ALWAYS_INLINE __m128i load_words(T const* p, int count) {
  alignas(16) std::uint16_t words[8] = {};
  for (int i = 0; i < count; ++i) words[i] = p[i].bits;
  return _mm_load_si128(reinterpret_cast<__m128i const*>(words));
}

}  // namespace detail

NNTILE_ALWAYS_INLINE Vec<float> load(float const* p, All) {
  return Vec<float>::raw(_mm256_loadu_ps(p));
}
NNTILE_ALWAYS_INLINE Vec<float> load(float const* p, First part) {
  return Vec<float>::raw(_mm256_maskload_ps(p, detail::first32(part.count)));
}
NNTILE_ALWAYS_INLINE Vec<double> load(double const* p, All) {
  return Vec<double>::raw(_mm256_loadu_pd(p));
}
NNTILE_ALWAYS_INLINE Vec<double> load(double const* p, First part) {
  return Vec<double>::raw(_mm256_maskload_pd(p, detail::first64(part.count)));
}
template <class T>
requires(sizeof(T) == 2)
NNTILE_ALWAYS_INLINE Vec<float> load(T const* p, All) {
  return Vec<float>::raw(detail::widen(_mm_loadu_si128(reinterpret_cast<__m128i const*>(p)), T{}));
}
template <class T>
requires(sizeof(T) == 2)
NNTILE_ALWAYS_INLINE Vec<float> load(T const* p, First part) {
  return Vec<float>::raw(detail::widen(detail::load_words(p, part.count), T{}));
}

NNTILE_ALWAYS_INLINE void store(float* p, Vec<float> a, All) { _mm256_storeu_ps(p, a.v); }
NNTILE_ALWAYS_INLINE void store(float* p, Vec<float> a, First part) {
  _mm256_maskstore_ps(p, detail::first32(part.count), a.v);
}
NNTILE_ALWAYS_INLINE void store(double* p, Vec<double> a, All) { _mm256_storeu_pd(p, a.v); }
NNTILE_ALWAYS_INLINE void store(double* p, Vec<double> a, First part) {
  _mm256_maskstore_pd(p, detail::first64(part.count), a.v);
}
template <class T>
requires(sizeof(T) == 2)
NNTILE_ALWAYS_INLINE void store(T* p, Vec<float> a, All) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), detail::narrow(a.v, T{}));
}
template <class T>
requires(sizeof(T) == 2)
NNTILE_ALWAYS_INLINE void store(T* p, Vec<float> a, First part) {
  alignas(16) std::uint16_t words[8];
  _mm_store_si128(reinterpret_cast<__m128i*>(words), detail::narrow(a.v, T{}));
  for (int i = 0; i < part.count; ++i) p[i].bits = words[i];
}

/// V is double here; lanes of Vec<double>.
template <class V> NNTILE_ALWAYS_INLINE Vec<V> load_as(float const* p, All) {
  return Vec<V>::raw(_mm256_cvtps_pd(_mm_loadu_ps(p)));
}
template <class V> NNTILE_ALWAYS_INLINE Vec<V> load_as(float const* p, First part) {
  return Vec<V>::raw(
      _mm256_cvtps_pd(_mm_maskload_ps(p, _mm256_castsi256_si128(detail::first32(part.count)))));
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
  __m128i const words = _mm_loadl_epi64(reinterpret_cast<__m128i const*>(p));
  return Vec<V>::raw(_mm256_cvtps_pd(_mm256_castps256_ps128(detail::widen(words, T{}))));
}
template <class V, class T>
requires(sizeof(T) == 2)
NNTILE_ALWAYS_INLINE Vec<V> load_as(T const* p, First part) {
  return Vec<V>::raw(_mm256_cvtps_pd(
      _mm256_castps256_ps128(detail::widen(detail::load_words(p, part.count), T{}))));
}

template <class T> NNTILE_ALWAYS_INLINE Vec<T> keep(Vec<T> a, All) { return a; }
NNTILE_ALWAYS_INLINE Vec<float> keep(Vec<float> a, First part) {
  return Vec<float>::raw(_mm256_and_ps(a.v, _mm256_castsi256_ps(detail::first32(part.count))));
}
NNTILE_ALWAYS_INLINE Vec<double> keep(Vec<double> a, First part) {
  return Vec<double>::raw(_mm256_and_pd(a.v, _mm256_castsi256_pd(detail::first64(part.count))));
}

}  // namespace nntile::kernels::NNTILE_ISA
