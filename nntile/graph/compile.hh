#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// From a graph to a plan, and to a compiled graph: the one header that includes the passes.

#include <memory>
#include <new>

#include "nntile/graph/compiled.hh"
#include "nntile/graph/passes/check.hh"
#include "nntile/graph/passes/choose_tile.hh"

namespace nntile {

namespace detail {

inline Plan plan_of(LogicalGraph const& graph, PlanOptions const& options) {
  if (options.tile == PlanOptions::automatic) return passes::choose_tile(graph, options);
  if (options.tile < 0)
    throw PlanError(concat("plan '", graph.name(), "': a tile of ", options.tile,
                           "; 0 leaves tensors whole, PlanOptions::automatic chooses"));
  return Plan(passes::run_all(graph, options));
}

}  // namespace detail

inline Plan::Plan(LogicalGraph const& graph, PlanOptions const& options) {
  try {
    *this = detail::plan_of(graph, options);
    if (options.check) passes::check(data_);
  } catch (std::bad_alloc const&) {
    throw OutOfMemory(concat("plan '", graph.name(), "': the plan of its ", graph.op_count(),
                             " ops on ", graph.tensor_count(),
                             " tensors does not fit into memory; use larger tiles or a smaller "
                             "model"));
  }
}

/// Plans a graph around what the store holds, and binds it: compile(graph, store).execute(), or
/// kept in a variable for many runs.
template <Runtime R>
CompiledGraph<R> compile(LogicalGraph const& graph, TensorStore<R>& store, PlanOptions options = {},
                         BindOptions bind = {}) {
  auto const kept = store.tilings();
  options.keep.insert(options.keep.end(), kept.begin(), kept.end());
  if (by_owner(options.policy) && options.policy.workers.empty())
    for (int worker = 0; worker < store.runtime().workers().cpu; ++worker)
      options.policy.workers.push_back(worker);
  auto const ops = graph.ops();
  if (bind.ops.empty()) bind.ops = ops;
  return CompiledGraph<R>(std::make_shared<Plan const>(graph, options), store, bind);
}

}  // namespace nntile
