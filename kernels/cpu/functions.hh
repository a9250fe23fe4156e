#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// clang-format off
// exp, log, tanh and erf of Vec and Group, float and double: own minimax polynomials (fpminimax of
// Sollya 8), explicit FMA, no libm, no estimates. One sequence of IEEE operations for every vector
// type, so equal bits wherever there is FMA.
//
//          float, max ulp   double (sampled)   method
//   exp    1.08             1.0                n ln2 + r, degree 6 (12), two powers of two
//   log    0.87             0.8                mantissa in [sqrt 1/2, sqrt 2), degree 11 (odd, in
//                                              f/(2+f))
//   tanh   1.34             1.3                odd polynomial below 0.625, else 1 - 2/(exp(2x)+1)
//   erf    1.10             1.2                odd polynomial below 1, else 1 - exp(-p(x))
//
// Errors of floats are the largest over all 2^32 (test_ops "[exhaustive]"); without FMA they are
// within 3.
// clang-format on

#include "kernels/cpu/group.hh"

namespace nntile::kernels::NNTILE_ISA {

/// c0 + c1 x + c2 x^2 + ..., by Horner's rule.
template <Lanewise V> NNTILE_ALWAYS_INLINE V horner(V, double c) { return V(c); }
template <Lanewise V, class... Rest> NNTILE_ALWAYS_INLINE V horner(V x, double c, Rest... rest) {
  return fma(horner(x, rest...), x, V(c));
}

namespace detail {

/// Layout of the IEEE format.
template <class T> inline constexpr int mantissa_bits = sizeof(T) == 4 ? 23 : 52;
template <class T> inline constexpr int exponent_bias = sizeof(T) == 4 ? 127 : 1023;
/// Adding it rounds to an integer, which the low bits then hold: 1.5 * 2^23 or 2^52.
template <class T> inline constexpr double magic = sizeof(T) == 4 ? 0x1.8p23 : 0x1.8p52;

/// 2^n from n + magic, n within the exponents of normal numbers.
template <Lanewise V> NNTILE_ALWAYS_INLINE V power_of_two(V n_and_magic) {
  using T = element_t<V>;
  Bits<T> const one(static_cast<bits_t<T>>(exponent_bias<T>) << mantissa_bits<T>);
  return from_bits(shl<mantissa_bits<T>>(bits(n_and_magic)) + one);
}

/// e^x = result * 2^n, result in [0.7, 1.42], n an integer, given as n + magic. x within the range
/// of normal results.
template <Lanewise V> NNTILE_ALWAYS_INLINE V exp_parts(V x, V& n_and_magic) {
  using T = element_t<V>;
  constexpr bool single = sizeof(T) == 4;
  n_and_magic = fma(x, V(0x1.71547652b82fep0), V(magic<T>));
  V const n = n_and_magic - V(magic<T>);
  // ln 2 in two parts, the first one short: its product with n is exact even without FMA.
  V r = fma(n, V(single ? -0x1.62ep-1 : -0x1.62e42fefa38p-1), x);
  r = fma(n, V(single ? -0x1.0bfbe8p-15 : -0x1.ef35793c76730p-45), r);
  V q;
  if constexpr (single)
    q = horner(r, 0x1p-1, 0x1.5554dep-3, 0x1.55556cp-5, 0x1.120ac2p-7, 0x1.6ca998p-10);
  else
    q = horner(r, 0x1p-1, 0x1.5555555555557p-3, 0x1.5555555555552p-5, 0x1.1111111110055p-7,
               0x1.6c16c16c18932p-10, 0x1.a01a01ac1b399p-13, 0x1.a01a0197bcc57p-16,
               0x1.71de01b5a8f2fp-19, 0x1.27e500e02d3b1p-22, 0x1.af4eb929639c7p-26,
               0x1.1f32edc5d5271p-29);
  return V(1) + fma(r * r, q, r);
}

}  // namespace detail

/// A constant of the elements' precision.
template <Lanewise V> NNTILE_ALWAYS_INLINE V by_precision(V, double single, double twice) {
  return V(sizeof(element_t<V>) == 4 ? single : twice);
}

/// e^x for x in [-104, 90] ([-746, 711] in double), whose ends give 0 and infinity, or NaN.
template <Lanewise V> NNTILE_ALWAYS_INLINE V exp_in_range(V x) {
  V const magic(detail::magic<element_t<V>>);
  V whole;
  V const mantissa = detail::exp_parts(x, whole);
  V const n = whole - magic;
  // 2^n in two factors, each in range; the last multiplication alone may round.
  V const half = fma(n, V(0.5), magic);
  V const rest = (n - (half - magic)) + magic;
  return mantissa * detail::power_of_two(half) * detail::power_of_two(rest);
}

/// e^x. Exact limits: 0 and infinity beyond the range, subnormals rounded once, NaN kept.
template <Lanewise V> NNTILE_ALWAYS_INLINE V exp(V x) {
  return exp_in_range(min(by_precision(x, 90, 711), max(by_precision(x, -104, -746), x)));
}

/// e^x for x <= 0, as softmax takes it of shifted scores: 0 below e^-87 (e^-708 in double), NaN
/// kept; else exp's bits.
template <Lanewise V> NNTILE_ALWAYS_INLINE V exp_of_shifted(V x) {
  using T = element_t<V>;
  V const least(sizeof(T) == 4 ? -87 : -708);  // results and 2^n are normal numbers from here on
  V whole;
  V const mantissa = detail::exp_parts(max(least, x), whole);
  return select(x < least, V(0), mantissa * detail::power_of_two(whole));
}

/// Natural logarithm. -infinity at 0, NaN below, subnormals too.
template <Lanewise V> NNTILE_ALWAYS_INLINE V log(V x) {
  using T = element_t<V>;
  constexpr bool single = sizeof(T) == 4;
  constexpr int m = detail::mantissa_bits<T>;
  using Word = bits_t<T>;
  auto const subnormal = x < V(single ? 0x1p-126 : 0x1p-1022);
  V const scaled = select(subnormal, x * V(single ? 0x1p23 : 0x1p52), x);
  // x = 2^k (1 + f), 1 + f in [sqrt 1/2, sqrt 2).
  Word const one = static_cast<Word>(detail::exponent_bias<T>) << m;
  Word const root = static_cast<Word>(single ? 0x3f3504f3u : 0x3fe6a09e667f3bcdu);
  auto const shifted = bits(scaled) + Bits<T>(one - root);
  Word const float_of_zero = static_cast<Word>(detail::exponent_bias<T> + m)
                             << m;  // 2^m: its low bits count in ones
  V k = from_bits(shr<m>(shifted) | Bits<T>(float_of_zero)) -
        V((single ? 0x1p23 : 0x1p52) + detail::exponent_bias<T>);
  k = k - select(subnormal, V(m), V(0));
  V const f = from_bits((shifted & Bits<T>((Word(1) << m) - 1)) + Bits<T>(root)) - V(1);
  // k ln2 + f exactly, as sum + error: ln2's upper part leaves room for k.
  V const whole = k * V(single ? 0x1.62ep-1 : 0x1.62e42fefa38p-1);
  V const sum = whole + f;
  V const error = fma(k, V(single ? 0x1.0bfbe8p-15 : 0x1.ef35793c76730p-45), f - (sum - whole));
  V const square = f * f;
  V tail;
  if constexpr (single) {
    V const p = horner(f, 0x1.555554p-2, -0x1.fffff8p-3, 0x1.999d44p-3, -0x1.555c8cp-3,
                       0x1.23d54ep-3, -0x1.fcbfeap-4, 0x1.de32ecp-4, -0x1.d778e8p-4, 0x1.20456cp-4);
    tail = fma(square * f, p, fma(V(-0.5), square, error));
  } else {  // log(1+f) = f - f^2/2 + s (f^2/2 + R(s^2)), s = f/(2+f)
    V const s = f / (V(2) + f);
    V const z = s * s;
    V const p = horner(z, 0x1.5555555555555p-1, 0x1.9999999999d59p-2, 0x1.249249242ee2bp-2,
                       0x1.c71c725c5bef7p-3, 0x1.745cdb76b5db4p-3, 0x1.3b2158d078d58p-3,
                       0x1.0f4a20b8deadp-3, 0x1.102337ece343cp-3);
    V const half = V(0.5) * square;
    tail = fma(s, fma(z, p, half), error) - half;
  }
  V const result = sum + tail;
  V const infinity(__builtin_inf());
  V const edge =
      select(x == V(0), -infinity, select(x == infinity, infinity, V(__builtin_nan(""))));
  return select((x > V(0)) & (x < infinity), result, select(x != x, x, edge));
}

/// Hyperbolic tangent; the sign of zero is kept.
template <Lanewise V> NNTILE_ALWAYS_INLINE V tanh(V x) {
  using T = element_t<V>;
  V const a = abs(x);
  V const z = x * x;
  V p;
  if constexpr (sizeof(T) == 4)
    p = horner(z, -0x1.555552p-2, 0x1.110e04p-3, -0x1.b92222p-5, 0x1.57eddap-6, -0x1.8f2868p-8);
  else
    p = horner(z, -0x1.5555555555555p-2, 0x1.1111111111033p-3, -0x1.ba1ba1ba07897p-5,
               0x1.664f487c3f235p-6, -0x1.226e34370a9bcp-7, 0x1.d6d3910a5e877p-9,
               -0x1.7d9eebf7fe0fep-10, 0x1.3522701b523dp-11, -0x1.f21080aca844cp-13,
               0x1.838ef7ebc57c1p-14, -0x1.0447468016786p-15, 0x1.ae0b6d892cd1ep-18);
  V const near = fma(a * z, p, a);
  V const far = V(1) - V(2) / (exp(a + a) + V(1));
  return copysign(select(a < V(0.625), near, far), x);
}

/// Error function; the sign of zero is kept.
template <Lanewise V> NNTILE_ALWAYS_INLINE V erf(V x) {
  using T = element_t<V>;
  V const a = abs(x);
  V const z = x * x;
  V p;
  V q;
  if constexpr (sizeof(T) == 4) {
    p = horner(z, 0x1.06eba8p-3, -0x1.81274p-2, 0x1.ce2d52p-4, -0x1.b7fec4p-6, 0x1.542fecp-8,
               -0x1.a5197ap-11, 0x1.4c5cb4p-14);
    q = horner(min(V(4), a), -0x1.4fbffep-12, 0x1.215722p0, 0x1.437db4p-1, 0x1.c2ee5ep-4,
               -0x1.b10304p-6, 0x1.38251cp-8, -0x1.395674p-11, 0x1.834f3ap-15, -0x1.b92af4p-20);
  } else {
    p = horner(z, 0x1.06eba8214db68p-3, -0x1.812746b0379b5p-2, 0x1.ce2f21a040b02p-4,
               -0x1.b82ce311f7069p-6, 0x1.565bccf908894p-8, -0x1.c02db03ff6859p-11,
               0x1.f9a2bb4bba0e5p-14, -0x1.f4ca5bb28570cp-17, 0x1.b9807f2338cccp-20,
               -0x1.5c0bc31310e51p-23, 0x1.d73d744d725f6p-27, -0x1.ac1a419750f6dp-31);
    V const low = horner(a - V(2), 0x1.575b329b1f516p2, 0x1.1ac3258a8dc2cp2, 0x1.d8f5dece922c5p-1,
                         0x1.0dc3b5fb0e952p-6, -0x1.d406b372986fp-9, 0x1.7ffcfb4c3dee5p-11,
                         -0x1.1bc3a69e239c4p-13, 0x1.5b65698cf85f1p-16, -0x1.0603a2aff9ae4p-19,
                         -0x1.b53bb6ba90baap-23, 0x1.73c6f8fc964e8p-23, -0x1.f148b5193167ap-25,
                         0x1.e37b78f6bb673p-27, -0x1.4a6d9a80c2732p-29, 0x1.6a4790a29c359p-33,
                         -0x1.4c67c7f235ea6p-34, 0x1.478d448edc506p-36, 0x1.2f227c6789222p-34,
                         -0x1.d0f1752cc4a87p-37, -0x1.b7eebda0cd5cfp-37);
    V const high = horner(min(V(6), a) - V(4.5), 0x1.6598a6a606f4cp4, 0x1.26cbfdc25f721p3,
                          0x1.f4ebfb0d6a36dp-1, 0x1.725005f075f17p-9, -0x1.a2d634a119a35p-12,
                          0x1.e6656f2e03a38p-15, -0x1.1aee99c6e3e56p-17, 0x1.44e2b40f270bcp-20,
                          -0x1.6bfb06ae65bb8p-23, 0x1.89153c3085449p-26, -0x1.92b56bf51d7b9p-29,
                          0x1.80f79b009f433p-32, -0x1.48eae5b14ca22p-35, 0x1.2d26f3cc43baap-39,
                          0x1.12b26569cb54ep-42);
    q = select(a < V(3), low, high);
  }
  V const near = fma(a, p, a);
  V const far = V(1) - exp(-q);
  return copysign(select(a < V(1), near, far), x);
}

}  // namespace nntile::kernels::NNTILE_ISA
