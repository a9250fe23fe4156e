#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The pass that asks the execution policy for the hints of each task.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/execution.hh"
#include "nntile/graph/logical.hh"
#include "nntile/graph/plan.hh"
#include "nntile/ops/combine.hh"

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

/// Whether a rule that names no task of a rank's part may name one of another's: it is of an op of
/// the job, or of a transfer, a copy or a sum of groups, and of a tile that there is.
inline bool names_elsewhere(PlanData const& plan, LogicalGraph const& graph,
                            ExecutionRule const& rule) {
  auto const is = [](std::string const& asked, std::string_view name) {
    return asked.empty() || asked == name;
  };
  bool of_any = false;  // tasks of the kind belong to all ops
  for (char const* const name : {"send", "receive", "copy", combine_op->name})
    of_any |= is(rule.op, name);
  auto const is_of_op = [&](std::size_t node) {
    OpNode const& op = graph.op_at(node);
    return (of_any || is(rule.op, op.info->name)) && is(rule.phase, graph.phase_name(op.phase));
  };
  auto const has_tile = [&](PlannedTensor const& tensor) {
    return tensor.used && tensor.name.starts_with(rule.tensor) && rule.tile >= -1 &&
           rule.tile < tensor.tiling.tile_count();
  };
  return plan.ranks > 1 && std::any_of(plan.nodes.begin(), plan.nodes.end(), is_of_op) &&
         std::any_of(plan.tensors.begin(), plan.tensors.end(), has_tile);
}

}  // namespace detail

/// Fills in hints and priorities. Throws PlanError where the policy contradicts itself, and for a
/// rule that names no task; of a part, none of any rank's.
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
    if (ExecutionRule const& rule = policy.rules[r];
        !used[r] && !detail::names_elsewhere(plan, graph, rule))
      fail("execution rule ", r, " (tensor '", rule.tensor, "', op '", rule.op, "', phase '",
           rule.phase, "', tile ", rule.tile, ") names none of its tasks");
  return plan;
}

}  // namespace nntile::passes
