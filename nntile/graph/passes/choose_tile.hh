#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The choice of the tile: the candidate with the shortest simulated makespan.

#include <algorithm>
#include <new>
#include <utility>

#include "nntile/graph/passes/critical_path.hh"
#include "nntile/graph/passes/pipeline.hh"
#include "nntile/graph/simulate.hh"

namespace nntile::passes {

/// Whether tensors live on devices, whose kernels fill them with one task: tiles only add launches.
inline bool on_devices(PlanOptions const& options) {
  return std::any_of(options.place.begin(), options.place.end(),
                     [](PlaceRule const& rule) { return is_on_device(rule.place); });
}

/// The least of the candidates, whose tasks need the least memory at once.
inline constexpr int least_tile = 64;

/// Share of the makespan that smaller tiles must be able to save, or they are not tried.
inline constexpr double least_gain = 0.001;

/// Plans with each candidate and keeps the one whose simulated makespan is shortest; among equals
/// the largest tile. The search ends where all workers are busy throughout: smaller tiles are as
/// much work or more, and each halving makes up to eight times the tasks. Candidates that do not
/// fit into the capacities are passed over; where none fits, the error is that of the smallest
/// tiles. The search also ends where there is no memory for another plan. On devices tensors stay
/// whole where that fits, and tiles may be larger than a cache. `tried`: the error may lack how
/// much is enough.
inline Plan choose_tile(LogicalGraph const& graph, PlanOptions const& options, bool tried = false) {
  bool const devices = on_devices(options);
  Plan best{PlanData()};
  double least = 0;
  for (Index const side : {0, 4096, 2048, 1024, 768, 512, 384, 256, 192, 128, least_tile}) {
    if (!devices &&
        (side == 0 || (side > least_tile &&
                       side * side * static_cast<Index>(sizeof(float)) > options.machine.cache)))
      continue;
    PlanOptions candidate = options;
    candidate.tile = side;
    candidate.even = side > 0;
    bool const first = best.tensors().empty();
    bool const last = side == least_tile && first;
    Plan plan{PlanData()};
    Simulation simulated;
    try {
      plan = Plan(run_all(graph, candidate, tried || !last));
      if (!first && plan.tasks().size() == best.tasks().size()) continue;  // nothing more was cut
      simulated = simulate(plan, options.machine);
    } catch (PlanError const&) {
      if (last || (first && options.capacity.empty())) throw;
      continue;
    } catch (std::bad_alloc const&) {
      if (first) throw;
      break;
    }
    double const shared = simulated.busy / options.machine.workers;  // no makespan is shorter
    if (first || simulated.elapsed < least) {
      least = simulated.elapsed;
      best = std::move(plan);
    }
    // Smaller tiles are more work, and more of them take longer to plan than the run may gain.
    if (shared > (1 - least_gain) * least || simulated.elapsed > 1.5 * least) break;
    if (side == 0 && options.capacity.empty()) break;
  }
  return raise_critical_path(std::move(best), options.machine, least);
}

}  // namespace nntile::passes
