#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// One value: the definition of the other vector types, and what CPUs without AVX2 run. Included by
// vec.hh alone.

namespace nntile::kernels::NNTILE_ISA {

// NNTILE_SCALAR_FMA: a test that wants the definition, at libm's speed.
#if (defined(__FP_FAST_FMA) && defined(__FP_FAST_FMAF)) || defined(NNTILE_SCALAR_FMA)
inline constexpr bool has_fma = true;
#else
inline constexpr bool has_fma = false;
#endif

template <class T> struct Mask {
  bool m;
  NNTILE_ALWAYS_INLINE friend Mask operator&(Mask a, Mask b) { return {a.m && b.m}; }
  NNTILE_ALWAYS_INLINE friend Mask operator|(Mask a, Mask b) { return {a.m || b.m}; }
  NNTILE_ALWAYS_INLINE friend Mask operator!(Mask a) { return {!a.m}; }
};
template <class T> NNTILE_ALWAYS_INLINE bool all(Mask<T> a) { return a.m; }
template <class T> NNTILE_ALWAYS_INLINE bool any(Mask<T> a) { return a.m; }

template <class T> struct Vec {
  static constexpr int lanes = 1;
  T v;

  Vec() = default;
  NNTILE_ALWAYS_INLINE explicit Vec(double value) : v(static_cast<T>(value)) {}

  NNTILE_ALWAYS_INLINE friend Vec operator+(Vec a, Vec b) { return raw(a.v + b.v); }
  NNTILE_ALWAYS_INLINE friend Vec operator-(Vec a, Vec b) { return raw(a.v - b.v); }
  NNTILE_ALWAYS_INLINE friend Vec operator*(Vec a, Vec b) { return raw(a.v * b.v); }
  NNTILE_ALWAYS_INLINE friend Vec operator/(Vec a, Vec b) { return raw(a.v / b.v); }
  NNTILE_ALWAYS_INLINE friend Vec operator-(Vec a) { return raw(-a.v); }
  NNTILE_ALWAYS_INLINE friend Mask<T> operator<(Vec a, Vec b) { return {a.v < b.v}; }
  NNTILE_ALWAYS_INLINE friend Mask<T> operator<=(Vec a, Vec b) { return {a.v <= b.v}; }
  NNTILE_ALWAYS_INLINE friend Mask<T> operator>(Vec a, Vec b) { return {a.v > b.v}; }
  NNTILE_ALWAYS_INLINE friend Mask<T> operator>=(Vec a, Vec b) { return {a.v >= b.v}; }
  NNTILE_ALWAYS_INLINE friend Mask<T> operator==(Vec a, Vec b) { return {a.v == b.v}; }
  NNTILE_ALWAYS_INLINE friend Mask<T> operator!=(Vec a, Vec b) { return {a.v != b.v}; }
  NNTILE_ALWAYS_INLINE friend Vec fma(Vec a, Vec b, Vec c) {
    if constexpr (!has_fma)
      return raw(a.v * b.v + c.v);
    else if constexpr (sizeof(T) == 4)
      return raw(__builtin_fmaf(a.v, b.v, c.v));
    else
      return raw(__builtin_fma(a.v, b.v, c.v));
  }
  NNTILE_ALWAYS_INLINE friend Vec max(Vec a, Vec b) { return raw(a.v > b.v ? a.v : b.v); }
  NNTILE_ALWAYS_INLINE friend Vec min(Vec a, Vec b) { return raw(a.v < b.v ? a.v : b.v); }
  NNTILE_ALWAYS_INLINE friend Vec sqrt(Vec a) {
    if constexpr (sizeof(T) == 4)
      return raw(__builtin_sqrtf(a.v));
    else
      return raw(__builtin_sqrt(a.v));
  }
  NNTILE_ALWAYS_INLINE friend Vec abs(Vec a) {
    if constexpr (sizeof(T) == 4)
      return raw(__builtin_fabsf(a.v));
    else
      return raw(__builtin_fabs(a.v));
  }
  NNTILE_ALWAYS_INLINE static Vec raw(T value) {
    Vec result;
    result.v = value;
    return result;
  }
};

template <class T> NNTILE_ALWAYS_INLINE Vec<T> select(Mask<T> m, Vec<T> yes, Vec<T> no) {
  return m.m ? yes : no;
}

template <class T> struct Bits {
  using Word = bits_t<T>;
  Word v;
  Bits() = default;
  NNTILE_ALWAYS_INLINE explicit Bits(Word word) : v(word) {}
  NNTILE_ALWAYS_INLINE friend Bits operator+(Bits a, Bits b) { return Bits(a.v + b.v); }
  NNTILE_ALWAYS_INLINE friend Bits operator-(Bits a, Bits b) { return Bits(a.v - b.v); }
  NNTILE_ALWAYS_INLINE friend Bits operator&(Bits a, Bits b) { return Bits(a.v & b.v); }
  NNTILE_ALWAYS_INLINE friend Bits operator|(Bits a, Bits b) { return Bits(a.v | b.v); }
  NNTILE_ALWAYS_INLINE friend Bits operator^(Bits a, Bits b) { return Bits(a.v ^ b.v); }
};
template <int n, class T> NNTILE_ALWAYS_INLINE Bits<T> shl(Bits<T> a) { return Bits<T>(a.v << n); }
template <int n, class T> NNTILE_ALWAYS_INLINE Bits<T> shr(Bits<T> a) { return Bits<T>(a.v >> n); }
template <class T> NNTILE_ALWAYS_INLINE Bits<T> bits(Vec<T> a) {
  return Bits<T>(__builtin_bit_cast(bits_t<T>, a.v));
}
template <class T> NNTILE_ALWAYS_INLINE Vec<T> from_bits(Bits<T> a) {
  return Vec<T>::raw(__builtin_bit_cast(T, a.v));
}

// A part of one lane that is not all of it has none.
template <class T> NNTILE_ALWAYS_INLINE Vec<compute_t<T>> load(T const* p, All) {
  return Vec<compute_t<T>>::raw(static_cast<compute_t<T>>(*p));
}
template <class T> NNTILE_ALWAYS_INLINE Vec<compute_t<T>> load(T const*, First) {
  return Vec<compute_t<T>>(0);
}
template <class T> NNTILE_ALWAYS_INLINE void store(T* p, Vec<compute_t<T>> a, All) { *p = T(a.v); }
template <class T> NNTILE_ALWAYS_INLINE void store(T*, Vec<compute_t<T>>, First) {}
template <class V, class T> NNTILE_ALWAYS_INLINE Vec<V> load_as(T const* p, All) {
  return Vec<V>::raw(static_cast<V>(static_cast<compute_t<T>>(*p)));
}
template <class V, class T> NNTILE_ALWAYS_INLINE Vec<V> load_as(T const*, First) {
  return Vec<V>(0);
}
template <class T> NNTILE_ALWAYS_INLINE Vec<T> keep(Vec<T> a, All) { return a; }
template <class T> NNTILE_ALWAYS_INLINE Vec<T> keep(Vec<T>, First) { return Vec<T>(0); }

}  // namespace nntile::kernels::NNTILE_ISA
