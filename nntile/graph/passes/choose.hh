#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The choices that a simulation of the plan decides: the size of tiles, and what goes first.

#include <vector>

#include "nntile/graph/plan.hh"
#include "nntile/graph/simulate.hh"

namespace nntile {

/// Plans with each candidate and keeps the one that a simulation ends first; among equals the
/// largest tile.
template <std::same_as<LogicalGraph> Graph>
Plan Plan::choose(Graph const& graph, PlanOptions const& options) {
  Plan best;
  double least = 0;
  for (Index const side : {1024, 768, 512, 384, 256, 192, 128, 64}) {
    if (side > 64 && side * side * static_cast<Index>(sizeof(float)) > options.machine.cache)
      continue;
    PlanOptions candidate = options;
    candidate.tile = side;
    candidate.even = true;
    Plan plan(graph, candidate);
    bool const first = best.tensors().empty();
    if (!first && plan.tasks().size() == best.tasks().size()) continue;  // nothing more was cut
    double const seconds = simulate(plan, options.machine).elapsed;
    // Ever more and smaller tasks: what is lost by then is not won back.
    if (!first && seconds > 1.5 * least) break;
    if (!first && seconds >= least) continue;
    least = seconds;
    best = std::move(plan);
  }
  best.hurry(options.machine, least);
  return best;
}

/// Puts the critical path first where a simulation says that it pays: workers then share one queue.
template <std::same_as<MachineModel> M> void Plan::hurry(M const& machine, double elapsed) {
  if (machine.workers < 2) return;
  TaskOrder const order = order_of(*this);
  std::vector<double> const slack = slack_of(*this, order, machine);
  for (std::size_t t = 0; t < tasks_.size(); ++t)
    tasks_[t].priority = slack[t] < 0.01 * elapsed ? 1 : 0;
  if (simulate(*this, machine, order).elapsed < 0.99 * elapsed) return;
  for (PlannedTask& task : tasks_) task.priority = 0;
}

}  // namespace nntile
