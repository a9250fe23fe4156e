#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The pass that raises the priority of the critical path.

#include <utility>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/plan.hh"
#include "nntile/graph/simulate.hh"

namespace nntile::passes {

/// Puts the tasks of the critical path first where the simulated makespan is shorter for it:
/// workers then share one queue. `elapsed` is the makespan without. Priorities of a policy stay.
inline Plan raise_critical_path(Plan plan, MachineModel const& machine, double elapsed) {
  constexpr double no_slack = 0.01;  // of the makespan
  constexpr double gain = 0.01;      // of the makespan, below which one queue costs more
  if (machine.workers < 2) return plan;
  TaskOrder const order = order_of(plan);
  DynamicArray<double> const slack = slack_of(plan, order, machine);
  for (PlannedTask const& task : plan.tasks())
    if (task.priority != 0) return plan;
  PlanData data = std::move(plan).data();
  for (std::size_t t = 0; t < data.tasks.size(); ++t)
    data.tasks[t].priority = slack[t] < no_slack * elapsed ? 1 : 0;
  Plan raised(std::move(data));
  if (simulate(raised, machine, order).elapsed < (1 - gain) * elapsed) return raised;
  data = std::move(raised).data();
  for (PlannedTask& task : data.tasks) task.priority = 0;
  return Plan(std::move(data));
}

}  // namespace nntile::passes
