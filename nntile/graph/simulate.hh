#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// How long a plan would take on a machine that is described by a few numbers.

#include <algorithm>
#include <vector>

#include "nntile/graph/plan.hh"

namespace nntile {

/// What a simulation found, in seconds: the run, and the work in it.
struct Simulation {
  double elapsed = 0;
  double busy = 0;
};

/// Seconds of a task's body. Products run at the peak, plus the time to pack operands and to read
/// and write the result, which falls as 1 / tile; anything else at the bandwidth.
inline double task_seconds(Cost const& cost, MachineModel const& machine) {
  auto const flops = static_cast<double>(cost.flops);
  auto const bytes = static_cast<double>(cost.bytes);
  if (cost.flops == 0) return machine.task_overhead + bytes / machine.bandwidth;
  return machine.task_overhead + flops / machine.peak + 2 * bytes / machine.peak;
}

/// Runs the plan's tasks in the order in which they become ready, each on the worker that is free
/// first. Cost: n log n in the number of tasks.
template <std::same_as<Plan> P> Simulation simulate(P const& plan, MachineModel const& machine) {
  struct Place {  // a slot, or a stored buffer
    std::uint32_t writer = no_id;
    std::vector<std::uint32_t> readers;
  };
  std::size_t const slots = plan.slots().size();
  std::vector<Place> places(slots + plan.buffers().size());
  std::size_t const count = plan.tasks().size();
  std::vector<std::vector<std::uint32_t>> followers(count);
  std::vector<std::uint32_t> missing(count);
  auto const follows = [&](std::uint32_t task, std::uint32_t earlier) {
    if (earlier == no_id || earlier == task) return;
    followers[earlier].push_back(task);
    ++missing[task];
  };
  for (std::uint32_t t = 0; t < count; ++t)
    for (PlannedUse const& use : plan.uses(plan.tasks()[t])) {
      std::uint32_t const slot = plan.buffers()[use.buffer].slot;
      Place& place = places[slot != no_id ? slot : slots + use.buffer];
      follows(t, place.writer);
      if (!writes(use.access)) {
        place.readers.push_back(t);
        continue;
      }
      for (std::uint32_t const reader : place.readers) follows(t, reader);
      place.readers.clear();
      place.writer = t;
    }
  struct Ready {
    double since;
    std::uint32_t task;
    bool operator<(Ready const& other) const {  // the oldest first
      return since != other.since ? since > other.since : task > other.task;
    }
  };
  std::vector<Ready> ready;
  auto const push = [&](Ready item) {
    ready.push_back(item);
    std::push_heap(ready.begin(), ready.end());
  };
  for (std::uint32_t t = 0; t < count; ++t)
    if (missing[t] == 0) push({0, t});
  std::vector<double> free(static_cast<std::size_t>(std::max(1, machine.workers)), 0.0);
  std::vector<double> available(count);
  Simulation result;
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end());
    Ready const next = ready.back();
    ready.pop_back();
    double& worker = *std::min_element(free.begin(), free.end());
    double const seconds = task_seconds(plan.tasks()[next.task].cost, machine);
    worker = std::max(worker, next.since) + seconds;
    result.busy += seconds;
    result.elapsed = std::max(result.elapsed, worker);
    for (std::uint32_t const follower : followers[next.task]) {
      available[follower] = std::max(available[follower], worker);
      if (--missing[follower] == 0) push({available[follower], follower});
    }
  }
  return result;
}

}  // namespace nntile
