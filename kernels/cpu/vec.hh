#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// clang-format off
// Vec<float> and Vec<double>: one register of the instruction set that the file is compiled for, a
// single value for v2 and plain. The same expression gives the same bits in every lane of every one
// of them, as long as the CPU has FMA.
//
//   Vec<T>::lanes, Vec<T>(double)     broadcast; float constants round from double
//   + - * / unary-, fma(a, b, c)      IEEE; a*b+c rounded twice where there is no FMA
//   sqrt, abs, copysign(a, sign)
//   max(a, b), min(a, b)              a > b ? a : b, a < b ? a : b: b where either is NaN. Constant
//                                     first.
//   < <= > >= == !=                   Mask<T>; & | ! all any; select(mask, yes, no)
//   load(p, part), store(p, v, part)  T, bf16_t, fp16_t; part is All{} or First{count}, count <
//                                     lanes: the others read as 0 and are neither read nor written
//                                     in memory
//   load_halves, load_twice           as load, for streams: a Zen 4 that reads whole lines at once
//                                     from memory writes slower (nntile/DECISIONS.md, 2026-12-01)
//   load_as<double>(p, part)          lanes elements of float, bf16_t or fp16_t, widened
//   keep(v, part)                     0 in the lanes outside the part
//   bits(v), from_bits(i), Bits<T>    the IEEE patterns: + - & | ^, shl<n>, shr<n> (logical)
// clang-format on

#include "kernels/cpu/kernel.hh"

namespace nntile::kernels::NNTILE_ISA {

template <class T> struct Vec;
template <class T> struct Mask;
template <class T> struct Bits;

/// Every lane of a register, or the first few.
struct All {};
struct First {
  int count;
};

template <class T> struct bits_type;
template <> struct bits_type<float> {
  using type = std::uint32_t;
};
template <> struct bits_type<double> {
  using type = std::uint64_t;
};
/// Unsigned integer of the same size.
template <class T> using bits_t = typename bits_type<T>::type;

}  // namespace nntile::kernels::NNTILE_ISA

#if defined(__AVX512F__) && defined(__AVX512VL__) && defined(__AVX512DQ__) && defined(__AVX512BW__)
#include "kernels/cpu/vec_avx512.hh"
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "kernels/cpu/vec_avx2.hh"
#else
#include "kernels/cpu/vec_scalar.hh"
#endif

namespace nntile::kernels::NNTILE_ISA {

// Operations that follow from the above, for all instruction sets.
template <class T> NNTILE_ALWAYS_INLINE Vec<T>& operator+=(Vec<T>& a, Vec<T> b) {
  return a = a + b;
}
template <class T> NNTILE_ALWAYS_INLINE Vec<T>& operator-=(Vec<T>& a, Vec<T> b) {
  return a = a - b;
}
template <class T> NNTILE_ALWAYS_INLINE Vec<T>& operator*=(Vec<T>& a, Vec<T> b) {
  return a = a * b;
}

template <class T> NNTILE_ALWAYS_INLINE Vec<compute_t<T>> load(T const* p) {
  return load(p, All{});
}
template <class T> NNTILE_ALWAYS_INLINE void store(T* p, Vec<compute_t<T>> v) {
  store(p, v, All{});
}

/// load(p, part), where registers are as wide as lines by two halves.
template <class T, class Part> NNTILE_ALWAYS_INLINE auto load_halves(T const* p, Part part) {
  return load(p, part);
}
/// load(p, part), where registers are as wide as lines behind a fetch of the same lines.
template <class T, class Part> NNTILE_ALWAYS_INLINE auto load_twice(T const* p, Part part) {
  constexpr int lanes = Vec<compute_t<T>>::lanes;
  if constexpr (lanes * sizeof(T) == 64 && std::is_same_v<Part, All>)
    __builtin_prefetch(p + lanes / 2);
  return load(p, part);
}

template <class T> NNTILE_ALWAYS_INLINE Vec<T> copysign(Vec<T> magnitude, Vec<T> sign) {
  Bits<T> const mask(bits_t<T>(1) << (8 * sizeof(T) - 1));
  return from_bits((bits(magnitude) & (mask ^ Bits<T>(~bits_t<T>(0)))) | (bits(sign) & mask));
}

/// All but the last register of a range whole, then the rest: body(i, part) with part All or First.
template <class T, class Body> NNTILE_ALWAYS_INLINE void for_each_vec(Index n, Body body) {
  constexpr int lanes = Vec<T>::lanes;
  Index i = 0;
  for (; i + lanes <= n; i += lanes) body(i, All{});
  if constexpr (lanes > 1)
    if (i < n) body(i, First{static_cast<int>(n - i)});
}

}  // namespace nntile::kernels::NNTILE_ISA
