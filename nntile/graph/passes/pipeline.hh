#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The passes in turn: from a graph to flat arrays of tile tasks, buffers and slots.

#include <utility>

#include "nntile/graph/passes/by_tile.hh"
#include "nntile/graph/passes/locate.hh"
#include "nntile/graph/passes/lower.hh"
#include "nntile/graph/passes/order.hh"
#include "nntile/graph/passes/pad.hh"
#include "nntile/graph/passes/phases.hh"
#include "nntile/graph/passes/place.hh"
#include "nntile/graph/passes/prune.hh"
#include "nntile/graph/passes/tile.hh"

namespace nntile::passes {

/// The passes up to tilings and the buffers of the graph's tensors, for the tile of the options,
/// which is not automatic. Throws PlanError.
inline PlanData to_buffers(LogicalGraph const& graph, PlanOptions const& options) {
  PlanData plan;
  plan.name = graph.name();
  plan.tile = options.tile;
  plan.numerics = graph.numerics();
  BoundDims const dims(graph, options.dims);
  plan.nodes = order(graph, prune(graph), dims);
  if (options.by_phase) plan.nodes = order_by_phase(graph, std::move(plan.nodes));
  if (plan.nodes.empty())
    throw PlanError(
        concat("plan '", graph.name(), "': none of its ", graph.op_count(),
               " ops leads to an output or a kept tensor; mark one with mark_output()"));
  plan = tile(std::move(plan), graph, options, dims);
  return add_buffers(pad(std::move(plan), graph, options));
}

/// Those from there to ordered tile tasks, without memory; of a thin job those that it has. Throws
/// PlanError, NotThin.
inline PlanData to_tasks(PlanData plan, LogicalGraph const& graph, PlanOptions const& options,
                         ThinJob* thin = nullptr) {
  plan = lower(std::move(plan), graph, nullptr, thin);
  plan = by_tile(std::move(plan), thin);
  if (options.by_phase) plan = list_phases(std::move(plan), graph, thin);
  return plan;
}

/// All of them. Throws PlanError.
inline PlanData run_all(LogicalGraph const& graph, PlanOptions const& options) {
  return place(locate(to_tasks(to_buffers(graph, options), graph, options), graph, options), graph,
               options);
}

}  // namespace nntile::passes
