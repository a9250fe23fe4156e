#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The passes in turn: from a graph to flat arrays of tile tasks, buffers and slots.

#include <string>
#include <string_view>
#include <utility>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/passes/by_tile.hh"
#include "nntile/graph/passes/inputs.hh"
#include "nntile/graph/passes/locate.hh"
#include "nntile/graph/passes/lower.hh"
#include "nntile/graph/passes/option_values.hh"
#include "nntile/graph/passes/order.hh"
#include "nntile/graph/passes/pad.hh"
#include "nntile/graph/passes/phases.hh"
#include "nntile/graph/passes/place.hh"
#include "nntile/graph/passes/prune.hh"
#include "nntile/graph/passes/tile.hh"

namespace nntile::passes {

/// Throws PlanError where two ops have one name, by which the library, files and drawings know
/// them.
inline void check_names(LogicalGraph const& graph) {
  DynamicArray<OpInfo const*> const ops = graph.ops();
  for (std::size_t a = 0; a < ops.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      if (std::string_view(ops[a]->name) == ops[b]->name)
        throw PlanError(concat("plan '", graph.name(), "': two of its ops are named '",
                               ops[a]->name, "', by which kernels are found; give one another ",
                               "name"));
}

/// Fills in the tensors of the plan's nodes and their tilings. Throws PlanError on cuts that
/// contradict.
inline PlanData tile(PlanData plan, LogicalGraph const& graph, PlanOptions const& options,
                     BoundDims const& dims) {
  DynamicArray<bool> used(graph.tensor_count());
  for (std::size_t const op : plan.nodes)
    for (std::uint32_t const t : graph.op_at(op).operands) used[t] = used[root_of(graph, t)] = true;
  DynamicArray<Storage> storages = StoragePass(graph, options, dims).run();
  for (std::uint32_t t = 0; t < graph.tensor_count(); ++t)  // nothing binds what no op reads
    if (!used[t] && graph.tensor_at(t).attributes.external) storages[t] = Storage::stored;
  TilePass pass(graph, options, dims, used, storages);
  std::vector<Tiling> tilings = pass.run(plan.nodes);
  for (std::uint32_t t = 0; t < graph.tensor_count(); ++t) {
    TensorNode const& node = graph.tensor_at(t);
    plan.tensors.push_back({.name = node.name,
                            .dtype = node.spec.dtype,
                            .tiling = std::move(tilings[t]),
                            .file_shape = node.spec.file_shape,
                            .attributes = node.attributes,
                            .open = node.spec.shape.open(),
                            .storage = storages[t],
                            .used = used[t],
                            .base = node.base,
                            .view_axis = node.view_axis,
                            .view_index = node.view_index,
                            .groups = pass.groups(t)});
  }
  return plan;
}

/// The passes up to tilings of the graph's tensors, for the tile of the options, which is not
/// automatic. Throws PlanError.
inline PlanData to_tilings(LogicalGraph const& graph, PlanOptions const& options) {
  if (std::string const fault = fault_of(options.machine); !fault.empty())
    throw PlanError(concat("plan '", graph.name(), "': PlanOptions::machine has ", fault));
  check_names(graph);
  check_values(graph.name(), options);
  if (options.tile < 0)
    throw PlanError(concat("plan '", graph.name(), "': a tile of ", options.tile,
                           "; 0 leaves tensors whole, PlanOptions::automatic chooses"));
  PlanData plan;
  plan.name = graph.name();
  plan.tile = options.tile;
  plan.numerics = graph.numerics();
  BoundDims const dims(graph, options.dims);
  plan.nodes = order(graph, prune(graph), dims);
  if (options.by_phase)
    plan.nodes = order_by_phase(graph, std::move(plan.nodes));
  else if (graph.phases_apart())
    throw PlanError(concat("plan '", graph.name(), "': its phases are run one by one, as those of ",
                           "several micro-batches; plan with PlanOptions::by_phase"));
  if (plan.nodes.empty())
    throw PlanError(
        graph.op_count() == 0
            ? concat("plan '", graph.name(), "': it has no ops; add one, such as scale(x)")
            : concat("plan '", graph.name(), "': none of its ", graph.op_count(),
                     " ops leads to an output or a kept tensor; mark one with mark_output()"));
  plan = tile(std::move(plan), graph, options, dims);
  return pad(std::move(plan), graph, options);
}

/// Those from there to ordered tile tasks and their buffers, without memory; of a thin job those
/// that it has, with the tiles of one rank without arguments of those that are others'. Throws
/// PlanError, NotThin.
inline PlanData to_tasks(PlanData plan, LogicalGraph const& graph, PlanOptions const& options,
                         ThinJob* thin = nullptr, OwnTiles const* own = nullptr) {
  plan = lower(add_buffers(std::move(plan), thin), graph, nullptr, thin, own);
  plan = by_tile(std::move(plan), thin);
  if (options.by_phase) plan = list_phases(std::move(plan), graph, thin);
  return plan;
}

/// All of them. Throws PlanError; whether the tile is one of several that are `tried`.
inline PlanData run_all(LogicalGraph const& graph, PlanOptions const& options, bool tried = false) {
  PlanData plan = to_tasks(to_tilings(graph, options), graph, options);
  return place(locate(std::move(plan), graph, options, tried), graph, options);
}

}  // namespace nntile::passes
