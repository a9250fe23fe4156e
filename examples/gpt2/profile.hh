#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A breakdown of the time of training steps, and a trace of one.

#include <cstdio>
#include <string>
#include <vector>

#include "machine.hh"
#include "nntile/core/error.hh"
#include "nntile/graph/profile.hh"
#include "nntile/io/trace.hh"
#include "settings.hh"

namespace gpt2 {

/// Prints a line per op: time, share of the time of all workers or devices, and rates, on the host
/// beside one core's peak and triad; then what was spent outside of bodies. Copies beside kernels
/// count, too.
inline void show_profile(nntile::Profile const& profile, Machine const& machine, int workers,
                         double core_peak, double core_triad) {
  if (profile.runs() == 0) return;
  bool const on_host = machine.place == "host";
  double const runs = static_cast<double>(profile.runs());
  double const all = profile.elapsed() * (on_host ? workers : machine.devices);
  std::printf("\nprofile of %lld steps, %.3f ms each; ", static_cast<long long>(profile.runs()),
              profile.elapsed() / runs * 1e3);
  if (on_host)
    std::printf("a core's peak %.0f Gflop/s, triad %.1f GB/s\n", core_peak * 1e-9,
                core_triad * 1e-9);
  else
    std::printf("shares of the time of %d device%s\n", machine.devices,
                machine.devices == 1 ? "" : "s");
  auto const beside = [&](char const* title) {  // a column of the host alone
    if (on_host) std::printf(" %7s", title);
  };
  auto const share = [&](double value, double most) {
    if (on_host) std::printf(" %6.1f%%", 100 * value / most);
  };
  std::printf("%-27s %6s %10s %7s %9s", "op", "tasks", "ms", "share", "Gflop/s");
  beside("peak");
  std::printf(" %8s", "GB/s");
  beside("triad");
  std::printf("\n");
  for (auto const& row : profile.rows()) {
    double const flops = static_cast<double>(row.cost.flops) / row.seconds;
    double const bytes = static_cast<double>(row.cost.bytes) / row.seconds;
    std::printf("%-27s %6.0f %10.3f %6.1f%%", row.op.c_str(), static_cast<double>(row.tasks) / runs,
                row.seconds / runs * 1e3, 100 * row.seconds / all);
    if (row.cost.flops > 0 && core_peak > 0) {
      std::printf(" %9.1f", flops * 1e-9);
      share(flops, core_peak);
    } else {
      std::printf(" %9s", "");
      beside("");
    }
    std::printf(" %8.1f", bytes * 1e-9);
    share(bytes, core_triad);
    std::printf("\n");
  }
  std::printf("%-27s %6s %10.3f %6.1f%%\n", "waiting and overhead", "",
              (all - profile.busy()) / runs * 1e3, 100 * (all - profile.busy()) / all);
}

/// Writes the last step to a file that Perfetto opens. One that cannot be written is a warning: a
/// trace is never worth a run.
inline void write_last_step(std::string const& path, nntile::Plan const& plan,
                            std::vector<nntile::TaskTime> const& times) {
  if (times.empty()) {
    std::printf("no step was run, so '%s' is not written\n", path.c_str());
    return;
  }
  try {
    nntile::io::write_trace(path, plan, times);
    std::printf("the last step is in '%s'; open it at ui.perfetto.dev\n", path.c_str());
  } catch (nntile::Error const& error) {
    std::fprintf(stderr, "warning: no trace: %s\n", error.what());
  }
}

}  // namespace gpt2
