// SPDX-License-Identifier: BSD-3-Clause
// The cosine of schedules. Compiled once, without contraction, so that every machine computes the
// same bits.
#include "nntile/ops/kernel.hh"

namespace nntile::kernels {

/// Reduces to [-pi/4, pi/4] by quarter turns, then sums the Taylor series of sin or cos to x^16:
/// error below 2e-15.
double cosine(double x) noexcept {
  constexpr double half_pi = 1.5707963267948966;
  constexpr double half_pi_low = 6.123233995736766e-17;  // pi/2 minus its double
  if (x < 0) x = -x;
  auto const quarter = static_cast<int>(x / half_pi + 0.5);
  double const r = (x - quarter * half_pi) - quarter * half_pi_low;
  double const square = r * r;
  bool const odd = quarter % 2 != 0;
  double term = odd ? r : 1.0;
  double sum = term;
  for (int n = odd ? 2 : 1; n <= 16; n += 2) {
    term = -term * square / (n * (n + 1.0));
    sum = sum + term;
  }
  // cos(r + q pi/2) = cos r, -sin r, -cos r, sin r
  return quarter % 4 == 1 || quarter % 4 == 2 ? -sum : sum;
}

}  // namespace nntile::kernels
