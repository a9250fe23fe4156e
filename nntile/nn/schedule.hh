#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The learning rate over a run.

#include <cstdint>

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
  /// kernel library's.
  double at(std::int64_t step) const {
    if (step <= warmup)
      return warmup > 0 ? peak * static_cast<double>(step) / static_cast<double>(warmup) : peak;
    if (step >= steps) return peak * floor;
    double const done = static_cast<double>(step - warmup) / static_cast<double>(steps - warmup);
    double const half = 0.5 + 0.5 * kernels::cosine(3.141592653589793 * done);
    return peak * (floor + (1 - floor) * half);
  }
};

}  // namespace nntile::nn
