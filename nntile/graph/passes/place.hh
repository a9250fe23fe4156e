#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The pass that asks the execution policy for the hints of each task.

#include <algorithm>
#include <utility>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/execution.hh"
#include "nntile/graph/logical.hh"
#include "nntile/graph/plan.hh"

namespace nntile::passes {

namespace detail {

/// Number of the largest tile that a task touches, the graph's own tensors alone: an eager call
/// sees no hidden operands.
inline Index largest_tile(PlanData const& plan, LogicalGraph const& graph,
                          PlannedTask const& task) {
  Index bytes = -1, tile = 0;
  for (Use<std::uint32_t> const& use : plan.uses_of(task)) {
    PlannedBuffer const& buffer = plan.buffers[use.handle];
    if (buffer.tensor >= graph.tensor_count() || buffer.bytes <= bytes) continue;
    bytes = buffer.bytes, tile = buffer.tile;
  }
  return tile;
}

}  // namespace detail

/// Fills in hints and priorities. Throws PlanError where the policy contradicts itself, and for a
/// rule that names no task.
inline PlanData place(PlanData plan, LogicalGraph const& graph, PlanOptions const& options) {
  ExecutionPolicy const& policy = options.policy;
  if (policy == ExecutionPolicy{}) return plan;
  auto const fail = [&](auto const&... text) {
    throw PlanError(concat("plan '", plan.name, "': ", text...));
  };
  if (std::string const text = contradiction(policy); !text.empty()) fail(text);
  DynamicArray<bool> used(policy.rules.size());
  for (PlannedTask& task : plan.tasks) {
    PlacedTask const seen{
        plan.kernels[task.kernel].name, graph.phase_name(graph.op_at(task.node).phase),
        plan.tensors[task.tensor].name, task.tile, detail::largest_tile(plan, graph, task)};
    Hints hints = hints_of(policy, seen, options.machine.workers);
    for (std::size_t r = 0; r < used.size(); ++r) used[r] = used[r] || names(policy.rules[r], seen);
    task.priority = std::exchange(hints.priority, 0);
    if (task.hints != 0 && hints.device < 0) hints.device = plan.hints[task.hints - 1u].device;
    if (!(hints == Hints{})) task.hints = plan.hint(hints);
  }
  for (std::size_t r = 0; r < used.size(); ++r)
    if (ExecutionRule const& rule = policy.rules[r]; !used[r])
      fail("execution rule ", r, " (tensor '", rule.tensor, "', op '", rule.op, "', phase '",
           rule.phase, "', tile ", rule.tile, ") names none of its tasks");
  return plan;
}

}  // namespace nntile::passes
