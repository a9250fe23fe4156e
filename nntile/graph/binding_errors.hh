#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Errors of a plan that cannot be bound, or has no such tensor.

#include <cstddef>
#include <string>
#include <string_view>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/error.hh"
#include "nntile/graph/plan.hh"
#include "nntile/graph/spelling.hh"

namespace nntile::detail {

/// Throws PlanError: there is no plan, or one that was moved from.
[[noreturn]] inline void fail_without_plan(Plan const* plan) {
  if (plan != nullptr)
    throw PlanError("compile: the plan was moved from; use the one that it was moved to");
  throw PlanError(
      "compile: the plan is an empty shared_ptr; make one of the graph by "
      "std::make_shared<Plan const>(graph), or call compile(graph, store)");
}

/// Throws LifetimeError: a phase is run behind another one than the plan has before it. `next`: the
/// one behind the last that ran.
[[noreturn]] inline void fail_out_of_turn(Plan const& plan, char const* call, std::size_t phase,
                                          std::size_t next) {
  auto const phases = plan.phases();
  throw LifetimeError(
      concat(call, ": phase '", phases[phase].name, "' of graph '", plan.name(), "' runs behind '",
             phases[phase - 1].name, "', and the last that ran was ",
             next == 0 ? "none" : phases[next - 1].name, ": run the phases in turn"));
}

/// Throws GraphError: a plan keeps no tensor of that name.
[[noreturn]] inline void fail_unknown(Plan const& plan, char const* call, std::string const& name) {
  std::string const at = concat(call, ": ", "graph '", plan.name(), "' ");
  DynamicArray<std::string_view> names;
  for (std::size_t t = 0; t < plan.tensors().size(); ++t) {
    PlannedTensor const& tensor = plan.tensors()[t];
    bool const sums = tensor.storage == Storage::arena && tensor.base != no_id;
    if (!sums) names.push_back(tensor.name);
    if (tensor.name != name) continue;
    if (sums)
      throw GraphError(concat(at, "has '", name, "' for sums of groups of '",
                              plan.tensors()[tensor.base].name,
                              "', which no run keeps; use that one"));
    if (!plan.used(t))
      throw GraphError(
          concat(at, "does not need '", name,
                 "': no op on the way to an output or a kept tensor uses it; to read ",
                 "what an op computes, call mark_output() of its node before planning"));
    if (tensor.storage == Storage::view)
      throw GraphError(concat(at, "has '", name, "' as a view of '",
                              plan.tensors()[tensor.base].name, "'; use that one"));
    throw GraphError(concat(at, "computes '", name, "' and does not keep it; call mark_output() ",
                            "of its node before planning to read it after a run"));
  }
  throw GraphError(concat(at, "has no tensor '", name, "'", did_you_mean(name, names)));
}

/// Throws LifetimeError: a run would read a kept tensor that nothing has written.
[[noreturn]] inline void fail_without_value(Plan const& plan, PlannedTensor const& tensor) {
  std::string const of = concat(tensor.name, "' of graph '", plan.name(), "' ");
  if (tensor.attributes.external)
    throw LifetimeError(concat("execute: input '", of, "was never bound: call bind_input(\"",
                               tensor.name,
                               "\", values) first, or, of a Graph, run[node] = values"));
  throw LifetimeError(concat(
      "execute: ", tensor.attributes.requires_grad ? "parameter '" : "state '", of,
      "has no value yet: load it, run a graph on the same store that fills it, or call write(\"",
      tensor.name, "\", values) of the store first"));
}

/// Throws OutOfMemory: a place has too little left for the plan.
[[noreturn]] inline void fail_memory(Plan const& plan, Place const& place,
                                     OutOfMemory const& error) {
  Index const bytes = plan.memory({plan.rank(), place}).total();
  throw OutOfMemory(concat("compile: plan '", plan.name(), "' needs ", bytes, " bytes at ",
                           to_string(place), ": ", std::string_view(error.what()),
                           "; or keep the plan within what there is by PlanOptions::capacity, or ",
                           "by PlanOptions::place"));
}

/// Throws PlanError: the runtime lacks a place of the plan.
[[noreturn]] inline void fail_places(Plan const& plan, ValueError const& error) {
  std::string places;
  for (MemoryReport const& report : plan.memories())
    places += concat(places.empty() ? "" : ", ", to_string(report.location.place));
  throw PlanError(concat("compile: plan '", plan.name(), "' has tensors at ", places, ": ",
                         std::string_view(error.what())));
}

}  // namespace nntile::detail
