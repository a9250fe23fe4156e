#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The pass that puts tensors and tasks at the places of a rank.

#include <cstddef>
#include <cstdint>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/logical.hh"
#include "nntile/graph/plan.hh"

namespace nntile::passes {

/// Places of tensors, by the rules of the options, and of the tasks of each node: on the device
/// that a result of it lives on, the first of them, or else on the host; but what adds to a
/// transient, which lives where it is used, on the device of most operands.
class Homes {
 public:
  Homes(PlanData& plan, LogicalGraph const& graph, PlanOptions const& options) : plan_(plan) {
    DynamicArray<bool> used(options.place.size());
    for (std::uint32_t t = 0; t < graph.tensor_count(); ++t)
      if (PlannedTensor& tensor = plan.tensors[t]; tensor.used && tensor.storage != Storage::view)
        tensor.place = find(options, tensor, used);
    for (std::size_t k = options.keep.size(); k-- > 0;) {  // the first that fits comes last
      KeptTiling const& kept = options.keep[k];
      std::uint32_t const t = graph.id_of(kept.tensor);
      if (t != no_id && places_kept(plan.tensors[t]) &&
          kept.is_of(kept.tensor, plan.tensors[t].tiling))
        plan.tensors[t].place = kept.place;
    }
    for (std::size_t r = 0; r < used.size(); ++r)
      if (PlaceRule const& rule = options.place[r];
          !used[r] && !rule.optional && rule.tensors != "*")
        throw PlanError(concat("plan '", plan.name, "': place rule ", r, " (tensors '",
                               rule.tensors, "', role ", name_of(rule.role), ", place ",
                               to_string(rule.place), ") fits no tensor, or none that no rule ",
                               "before it fits"));
    of_node_.resize(graph.op_count());
    DynamicArray<bool> known(graph.op_count());
    for (PlannedTask const& task : plan.tasks)
      if (plan.kernels[task.kernel].kind == KernelKind::op && !known[task.node])
        known[task.node] = on_device(task, graph.tensor_count());
  }

  /// The place of a task: transfers among ranks move values of the host.
  Place of(PlannedTask const& task) const {
    return plan_.kernels[task.kernel].kind == KernelKind::op ? of_node_[task.node] : host;
  }

 private:
  static Place find(PlanOptions const& options, PlannedTensor const& tensor,
                    DynamicArray<bool>& used) {
    Place place = host;
    bool found = false;
    for (std::size_t r = 0; r < used.size() && !found; ++r) {
      PlaceRule const& rule = options.place[r];
      found = matches(rule.tensors, tensor.name) &&
              (rule.role == Role::any || rule.role == role_of(tensor.attributes));
      if (found) place = rule.place, used[r] = true;
    }
    return tensor.storage == Storage::adopted ? host : place;  // the caller's memory
  }
  static bool places_kept(PlannedTensor const& tensor) {
    return tensor.used &&
           (tensor.storage == Storage::stored || tensor.storage == Storage::double_buffered);
  }
  bool on_device(PlannedTask const& task, std::size_t tensors) {
    for (Use<BufferId> const& use : plan_.uses_of(task)) {
      std::uint32_t const t = plan_.buffers[use.handle].tensor;
      if (!writes(use.access) || t >= tensors) continue;
      if (plan_.tensors[t].place.kind != Place::Kind::device) continue;
      bool const moves = reads(use.access) && plan_.in_arena(use.handle);
      of_node_[task.node] = moves ? most_operands(task, tensors, t) : plan_.tensors[t].place;
      return true;
    }
    return false;
  }
  /// The device that has most operands of a task; of several that of tensor `result`.
  Place most_operands(PlannedTask const& task, std::size_t tensors, std::uint32_t result) const {
    auto const count = [&](Place const& place) {
      std::size_t sum = 0;
      for (Use<BufferId> const& use : plan_.uses_of(task)) {
        std::uint32_t const t = plan_.buffers[use.handle].tensor;
        sum += t < tensors && plan_.tensors[t].place == place ? 1U : 0U;
      }
      return sum;
    };
    Place best = plan_.tensors[result].place;
    for (Use<BufferId> const& use : plan_.uses_of(task)) {
      std::uint32_t const t = plan_.buffers[use.handle].tensor;
      if (t >= tensors || plan_.tensors[t].place.kind != Place::Kind::device) continue;
      if (count(plan_.tensors[t].place) > count(best)) best = plan_.tensors[t].place;
    }
    return best;
  }

  PlanData& plan_;
  DynamicArray<Place> of_node_;
};

}  // namespace nntile::passes
