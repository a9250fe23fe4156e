#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The time of a task on a machine that is described by a few numbers.

#include <cfloat>
#include <cstdint>
#include <string>

#include "nntile/core/cost.hh"
#include "nntile/core/error.hh"

namespace nntile {

/// Machine parameters of the tile-size search and of performance models. They never affect results;
/// the number of workers and the ratios matter, so that defaults suffice.
struct MachineModel {
  int workers = 2;
  std::int64_t cache = std::int64_t{1} << 20;  // bytes of a core's own cache, the L2
  double peak = 100e9;                         // flop/s of a core
  double bandwidth = 20e9;                     // bytes/s of a core, out of cache
  double task_overhead = 0.5e-6;               // seconds
};

/// Says what no machine has, in one line; nothing of a machine that can be.
inline std::string fault_of(MachineModel const& machine) {
  if (machine.workers < 1) return concat(machine.workers, " workers; at least 1");
  if (machine.cache < 1) return concat("a cache of ", machine.cache, " bytes; at least 1");
  if (!(machine.peak > 0)) return concat("a peak of ", machine.peak, " flop/s; above 0");
  if (!(machine.bandwidth > 0))
    return concat("a bandwidth of memory of ", machine.bandwidth, " bytes/s; above 0");
  if (!(machine.task_overhead >= 0 && machine.task_overhead <= DBL_MAX))
    return concat("an overhead of a task of ", machine.task_overhead, " s; at least 0");
  return {};
}

/// Seconds of a task's body. Products run at the peak, plus the time to pack operands and to read
/// and write the result, which falls as 1 / tile; anything else at the bandwidth.
inline double task_seconds(Cost const& cost, MachineModel const& machine) {
  auto const flops = static_cast<double>(cost.flops);
  auto const bytes = static_cast<double>(cost.bytes);
  if (cost.flops == 0) return machine.task_overhead + bytes / machine.bandwidth;
  return machine.task_overhead + flops / machine.peak + 2 * bytes / machine.peak;
}

}  // namespace nntile
