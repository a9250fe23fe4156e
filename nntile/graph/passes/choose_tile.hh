#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The choice of the tile: the candidate with the shortest simulated makespan.

#include <utility>

#include "nntile/graph/passes/critical_path.hh"
#include "nntile/graph/passes/pipeline.hh"
#include "nntile/graph/simulate.hh"

namespace nntile::passes {

/// Plans with each candidate and keeps the one whose simulated makespan is shortest; among equals
/// the largest tile. Candidates that do not fit into the capacities are passed over; where none
/// fits, the error is that of the smallest tiles.
inline Plan choose_tile(LogicalGraph const& graph, PlanOptions const& options) {
  Plan best{PlanData()};
  double least = 0;
  for (Index const side : {1024, 768, 512, 384, 256, 192, 128, 64}) {
    if (side > 64 && side * side * static_cast<Index>(sizeof(float)) > options.machine.cache)
      continue;
    PlanOptions candidate = options;
    candidate.tile = side;
    candidate.even = true;
    bool const first = best.tensors().empty();
    bool const last = side == 64 && first;
    Plan plan{PlanData()};
    try {
      plan = Plan(run_all(graph, candidate, !last));
    } catch (PlanError const&) {
      if (options.capacity.empty() || last) throw;
      continue;
    }
    if (!first && plan.tasks().size() == best.tasks().size()) continue;  // nothing more was cut
    double const seconds = simulate(plan, options.machine).elapsed;
    // Smaller tiles only add overhead from here on.
    if (!first && seconds > 1.5 * least) break;
    if (!first && seconds >= least) continue;
    least = seconds;
    best = std::move(plan);
  }
  return raise_critical_path(std::move(best), options.machine, least);
}

}  // namespace nntile::passes
