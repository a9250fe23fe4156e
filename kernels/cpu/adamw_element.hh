#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// One element of an AdamW step, in the order of nntile/ops/adamw_step.hh.

#include "kernels/cpu/angle.hh"
#include "nntile/ops/adamw_step.hh"

namespace nntile::kernels::NNTILE_ISA {

/// 1 - beta^t; beta = 0 counts as it should.
NNTILE_ALWAYS_INLINE double bias_correction(double beta, double t) {
  if (!(beta > 0)) return 1;
  double lane[Vec<double>::lanes];
  store(lane, pow(Vec<double>(beta), Vec<double>(t)));
  return 1 - lane[0];
}
/// The factor of a parameter's change, and that of the root it is divided by, at step t.
NNTILE_ALWAYS_INLINE double adamw_c1(ops::AdamwStepArgs const& args, double lr, double t) {
  return -lr / bias_correction(args.beta1, t);
}
NNTILE_ALWAYS_INLINE double adamw_c2(ops::AdamwStepArgs const& args, double t) {
  return 1 / __builtin_sqrt(bias_correction(args.beta2, t));
}

/// Values that all elements of a step share.
template <class V> struct AdamwElement {
  V decay, c1, c2, one_less_beta1, one_less_beta2, beta2, eps;

  NNTILE_ALWAYS_INLINE AdamwElement(ops::AdamwStepArgs const& args, double lr, double of_change,
                                    double of_root)
      : decay(1 - lr * args.weight_decay),
        c1(of_change),
        c2(of_root),
        one_less_beta1(1 - args.beta1),
        one_less_beta2(1 - args.beta2),
        beta2(args.beta2),
        eps(args.eps) {}

  /// The parameter after the step; moments are updated.
  NNTILE_ALWAYS_INLINE V step(V parameter, V gradient, V& first, V& second) const {
    first = fma(one_less_beta1, gradient - first, first);
    second = fma(one_less_beta2, gradient * gradient, beta2 * second);
    V const change = first / fma(c2, sqrt(second), eps);
    return fma(c1, change, decay * parameter);
  }
};

}  // namespace nntile::kernels::NNTILE_ISA
