#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A breakdown of the time of training steps.

#include <cstdio>

#include "machine.hh"
#include "nntile/graph/profile.hh"

namespace gpt2 {

/// Prints a line per op: time, share of all workers' time, and what it reaches of one core's peak
/// and triad; then what the workers spent outside of bodies.
inline void show_profile(nntile::Profile const& profile, int workers, double core_peak,
                         double core_triad) {
  if (profile.runs() == 0) return;
  double const runs = static_cast<double>(profile.runs());
  double const all = profile.elapsed() * workers;
  std::printf(
      "\nprofile of %lld steps, %.3f ms each; a core's peak %.0f Gflop/s, triad %.1f GB/s\n",
      static_cast<long long>(profile.runs()), profile.elapsed() / runs * 1e3, core_peak * 1e-9,
      core_triad * 1e-9);
  std::printf("%-24s %8s %10s %7s %9s %7s %8s %8s\n", "op", "tasks", "ms", "share", "Gflop/s",
              "peak", "GB/s", "triad");
  for (auto const& row : profile.rows()) {
    double const flops = static_cast<double>(row.cost.flops) / row.seconds;
    double const bytes = static_cast<double>(row.cost.bytes) / row.seconds;
    std::printf("%-24s %8.0f %10.3f %6.1f%%", row.op.c_str(), static_cast<double>(row.tasks) / runs,
                row.seconds / runs * 1e3, 100 * row.seconds / all);
    if (row.cost.flops > 0 && core_peak > 0)
      std::printf(" %9.1f %6.1f%%", flops * 1e-9, 100 * flops / core_peak);
    else
      std::printf(" %9s %7s", "", "");
    std::printf(" %8.1f %7.1f%%\n", bytes * 1e-9, 100 * bytes / core_triad);
  }
  std::printf("%-24s %8s %10.3f %6.1f%%\n", "waiting and overhead", "",
              (all - profile.busy()) / runs * 1e3, 100 * (all - profile.busy()) / all);
}

}  // namespace gpt2
