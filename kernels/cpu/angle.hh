#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// sin, cos and pow of Vec<double>; polynomials by fpminimax of Sollya 8. Error: sin and cos of a
// turn 1.2 ulp of 1, pow (1 + |y log x|) ulp.

#include "kernels/cpu/functions.hh"

namespace nntile::kernels::NNTILE_ISA {

/// Sine and cosine of 2 pi u, 0 <= u <= 1. The reduction to [-1/8, 1/8] is exact.
NNTILE_ALWAYS_INLINE void sin_cos_turn(Vec<double> u, Vec<double>& sine, Vec<double>& cosine) {
  using V = Vec<double>;
  V const magic(detail::magic<double>);
  V const shifted = fma(u, V(4), magic);
  V const r = fma(shifted - magic, V(-0.25), u);
  V const z = r * r;
  V const s = r * horner(z, 0x1.921fb54442d18p2, -0x1.4abbce625be01p5, 0x1.466bc67753d55p6,
                         -0x1.32d2ccde1222cp6, 0x1.50782aae65ef4p5, -0x1.e2fa787f26903p3,
                         0x1.e06afd55421dep1, 0x1.add9d45a012b6p-2);
  V const c = fma(
      z,
      horner(z, -0x1.3bd3cc9be45dep4, 0x1.03c1f081b5a24p6, -0x1.55d3c7e3b7b01p6,
             0x1.e1f506654c60ap5, -0x1.a6d1d35595887p4, 0x1.f9b8188b0a491p2, -0x1.ac2eafc933f1bp0),
      V(1));
  // Quarter turns: sine and cosine change places in odd ones; signs follow from two bits.
  Bits<double> const quarter = bits(shifted);
  Bits<double> const one(1);
  Mask<double> const odd = from_bits(shl<62>(quarter & one)) != V(0);
  V const sine_sign = from_bits(shl<62>(quarter & Bits<double>(2)));
  V const cosine_sign = from_bits(shl<62>((quarter + one) & Bits<double>(2)));
  sine = from_bits(bits(select(odd, c, s)) ^ bits(sine_sign));
  cosine = from_bits(bits(select(odd, s, c)) ^ bits(cosine_sign));
}

/// x^y for x > 0.
NNTILE_ALWAYS_INLINE Vec<double> pow(Vec<double> x, Vec<double> y) {
  Vec<double> const logarithm = log(x);
  Vec<double> const power = y * logarithm;
  Vec<double> const rest = fma(y, logarithm, -power);
  Vec<double> const result = exp(power);
  return select(result < Vec<double>(__builtin_inf()), fma(result, rest, result), result);
}

}  // namespace nntile::kernels::NNTILE_ISA
