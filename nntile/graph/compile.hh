#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// From a graph to a plan, and to a compiled graph: the one header that includes the passes.

#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "nntile/graph/compiled.hh"
#include "nntile/graph/passes/check.hh"
#include "nntile/graph/passes/choose_tile.hh"
#include "nntile/graph/passes/keep.hh"

namespace nntile {

namespace detail {

inline Plan plan_of(LogicalGraph const& graph, PlanOptions const& options) {
  if (!options.mesh.empty())
    throw PlanError(concat("plan '", graph.name(), "': a mesh has ranks, which plan a part each: ",
                           "Plan(graph, options, rank) or compile_part(), graph/parts.hh"));
  if (!options.rules.empty() || options.owners)
    throw PlanError(concat("plan '", graph.name(),
                           "': PlanOptions::", options.owners ? "owners give" : "rules give",
                           " tiles to ranks of a mesh, and there is none: leave them out, or give ",
                           "one as .mesh and plan a part for each of its ranks, Plan(graph, ",
                           "options, rank) or compile_part(), graph/parts.hh"));
  if (options.tile == PlanOptions::automatic) return passes::choose_tile(graph, options);
  return Plan(passes::run_all(graph, options));
}

/// The result of make(), which plans a graph. Throws OutOfMemory where there is no memory for it.
template <class Make> auto planned(LogicalGraph const& graph, Make&& make) {
  try {
    return make();
  } catch (std::bad_alloc const&) {
    throw OutOfMemory(concat("plan '", graph.name(), "': the plan of its ", graph.op_count(),
                             " ops on ", graph.tensor_count(),
                             " tensors does not fit into memory; use larger tiles or a smaller "
                             "model"));
  }
}

}  // namespace detail

inline Plan::Plan(LogicalGraph const& graph, PlanOptions const& options)
    : Plan(detail::planned(graph, [&] {
        Plan plan = detail::plan_of(graph, options);
        if (options.check) passes::check(plan.data_);
        return plan;
      })) {}

namespace detail {

/// Options around what the store holds of a graph, and its runtime's workers.
template <Runtime R>
PlanOptions around(LogicalGraph const& graph, TensorStore<R> const& store, PlanOptions options) {
  std::vector<KeptTiling> tilings = store.tilings();
  for (std::uint32_t t = 0; t < graph.tensor_count(); ++t)  // a transient may share a name
    if (TensorNode const& node = graph.tensor_at(t);
        !passes::is_kept(node) && store.contains(node.name))
      std::erase_if(tilings, [&](KeptTiling const& kept) { return kept.tensor == node.name; });
  for (KeptTiling const& kept : tilings) options.keep.push_back(kept);
  if constexpr (CoherentRuntime<R>) options.places_are_hints = true;
  if (by_owner(options.policy) && options.policy.workers.empty())
    for (int worker = 0; worker < store.runtime().workers().cpu; ++worker)
      options.policy.workers.push_back(worker);
  return options;
}
template <Runtime R>
CompiledGraph<R> bind(LogicalGraph const& graph, std::shared_ptr<Plan const> plan,
                      TensorStore<R>& store, BindOptions options) {
  auto ops = graph.ops();
  ops.append(options.ops);
  options.ops = ops;
  return CompiledGraph<R>(std::move(plan), store, options);
}

}  // namespace detail

/// The plan of a graph around what the store holds; a transient that has a stored tensor's name is
/// planned as any other. Throws PlanError.
template <Runtime R>
std::shared_ptr<Plan const> plan_around(LogicalGraph const& graph, TensorStore<R> const& store,
                                        PlanOptions const& options = {}) {
  return std::make_shared<Plan const>(graph, detail::around(graph, store, options));
}

/// Plans a graph around what the store holds, and binds it: compile(graph, store).execute(), or
/// kept in a variable for many runs.
template <Runtime R>
CompiledGraph<R> compile(LogicalGraph const& graph, TensorStore<R>& store,
                         PlanOptions const& options = {}, BindOptions const& bind = {}) {
  return detail::bind(graph, plan_around(graph, store, options), store, bind);
}

}  // namespace nntile
