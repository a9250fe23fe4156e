#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The learning rate over a run.

#include <cmath>
#include <cstdint>

#include "nntile/core/error.hh"
#include "nntile/ops/kernel.hh"

namespace nntile::nn {

/// Rises linearly to `peak` over `warmup` steps, then falls along a half cosine to `floor * peak`
/// at step `steps`.
struct WarmupCosine {
  double peak = 3e-3;
  std::int64_t warmup = 50;
  std::int64_t steps = 1000;
  double floor = 0.1;

  /// Learning rate of a step, counted from 1. Part of the bits of a run, so its cosine is the
  /// kernel library's. Throws ValueError for a member out of range, and a step below 0.
  double at(std::int64_t step) const {
    check();
    if (step < 0) throw ValueError(concat("schedule: step ", step, "; steps count from 1"));
    if (step <= warmup)
      return warmup > 0 ? peak * static_cast<double>(step) / static_cast<double>(warmup) : peak;
    if (step >= steps) return peak * floor;
    double const done = static_cast<double>(step - warmup) / static_cast<double>(steps - warmup);
    double const half = 0.5 + 0.5 * kernels::cosine(3.141592653589793 * done);
    return peak * (floor + (1 - floor) * half);
  }

 private:
  void check() const {
    if (!(peak >= 0 && std::isfinite(peak)))
      throw ValueError(concat("schedule: a peak of ", peak, "; 0 or more, such as 3e-3"));
    if (!(floor >= 0 && floor <= 1))
      throw ValueError(
          concat("schedule: a floor of ", floor, "; from 0 to 1, a share of the peak"));
    if (warmup < 0)
      throw ValueError(concat("schedule: a warm-up of ", warmup, " steps; 0 (none) or more"));
    if (steps < warmup)
      throw ValueError(
          concat("schedule: its end at step ", steps, " is before that of its warm-up at ", warmup,
                 "; give a later end",
                 steps < 0 ? "" : concat(", or a warm-up of ", steps, " steps or less")));
  }
};

}  // namespace nntile::nn
