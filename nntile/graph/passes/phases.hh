#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The passes that keep phases apart, so that each can be run by its name.

#include <algorithm>
#include <cstdint>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/logical.hh"
#include "nntile/graph/passes/counting_sort.hh"
#include "nntile/graph/passes/prune.hh"
#include "nntile/graph/passes/thin.hh"
#include "nntile/graph/plan.hh"

namespace nntile::passes {

/// Sorts ops by phase, in the order in which the phases were first set, and leaves the order within
/// a phase. Throws PlanError where an op must follow one of a later phase.
inline DynamicArray<std::size_t> order_by_phase(LogicalGraph const& graph,
                                                DynamicArray<std::size_t> ops) {
  struct Latest {
    std::uint32_t touched = 0, written = 0;  // phases
  };
  DynamicArray<Latest> latest(graph.tensor_count());
  for (std::size_t const position : ops) {
    OpNode const& op = graph.op_at(position);
    Operands const declared = op.info->operands(op.attrs.data());
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      std::uint32_t const root = root_of(graph, op.operands[o]);
      Latest& before = latest[root];
      std::uint32_t const limit = writes(declared[o].access) ? before.touched : before.written;
      if (op.phase < limit)
        throw PlanError(concat("plan '", graph.name(), "': ", op.info->name, " of phase '",
                               graph.phase_name(op.phase), "' ", name_of(declared[o].access), "s '",
                               graph.tensor_at(root).name, "' behind an op of phase '",
                               graph.phase_name(limit), "'; set its phase to that one, or plan ",
                               "without PlanOptions::by_phase"));
    }
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      Latest& before = latest[root_of(graph, op.operands[o])];
      before.touched = std::max(before.touched, op.phase);
      if (writes(declared[o].access)) before.written = std::max(before.written, op.phase);
    }
  }
  DynamicArray<std::uint32_t> phases(ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) phases[i] = graph.op_at(ops[i]).phase;
  reorder(ops, 0, counting_sort(phases, graph.phases().size()));
  return ops;
}

/// Sorts tasks by the phases of their nodes, which are sorted, and lists the phases. Throws NotThin
/// where that parts windows of a thin job.
inline PlanData list_phases(PlanData plan, LogicalGraph const& graph,
                            ThinJob const* thin = nullptr) {
  DynamicArray<std::uint32_t> phases(plan.tasks.size());
  for (std::size_t t = 0; t < plan.tasks.size(); ++t)
    phases[t] = graph.op_at(plan.tasks[t].node).phase;
  DynamicArray<std::uint32_t> const order = counting_sort(phases, graph.phases().size());
  if (thin != nullptr && !std::is_sorted(order.begin(), order.end()))
    throw NotThin{"phases share a window"};
  reorder(plan.tasks, 0, order);
  for (std::uint32_t t = 0; t < plan.tasks.size(); ++t) {
    std::uint32_t const of = phases[order[t]];
    if (t == 0 || of != phases[order[t - 1]]) plan.phases.push_back({graph.phase_name(of), t, t});
    plan.phases.back().end = t + 1;
  }
  return plan;
}

}  // namespace nntile::passes
