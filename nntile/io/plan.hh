#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Plans in files: per task its node, phase and tile range; what follows from these is computed
// anew.

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nntile/io/plan_reader.hh"

namespace nntile::io {

/// A plan as JSON: equal plans have equal texts. Throws PlanError where it is not one of the graph,
/// or one rank's part of several.
inline std::string plan_text(Plan const& plan, LogicalGraph const& graph) {
  if (plan.ranks() != 1)
    throw PlanError(concat("plan '", plan.name(), "': the part of rank ", plan.rank(), " of ",
                           plan.ranks(), " is not saved; plan it anew from graph and options"));
  detail::RangeRecorder recorder;
  PlanData const walked =
      passes::lower(passes::add_buffers(detail::unlowered(plan, graph)), graph, &recorder);
  std::unordered_map<std::uint32_t, std::size_t> by_args;
  for (std::size_t t = 0; t < walked.tasks.size(); ++t) by_args.emplace(walked.tasks[t].args, t);
  Json tensors = Json::array(), slots = Json::array(), memory = Json::array();
  for (std::size_t t = 0; t < graph.tensor_count(); ++t) {
    PlannedTensor const& tensor = plan.tensors()[t];
    if (!tensor.used) continue;
    Json axes = Json::array();
    for (std::size_t d = 0; d < tensor.tiling.rank(); ++d) {
      Json sizes = Json::array();
      for (Index i = 0; i < tensor.tiling.axis(d).count(); ++i)
        sizes.push_back(tensor.tiling.axis(d).size(i));
      axes.push_back(std::move(sizes));
    }
    Json json = Json::object({{"name", tensor.name}, {"tiles", std::move(axes)}});
    if (tensor.storage == Storage::adopted || tensor.storage == Storage::double_buffered)
      json["storage"] = name_of(tensor.storage);
    if (tensor.column_unit != 1) json["columns"] = tensor.column_unit;
    tensors.push_back(std::move(json));
  }
  for (PlannedSlot const& slot : plan.slots()) {
    Json json = Json::object({{"bytes", slot.bytes}});
    detail::add_location(json, slot.location);
    slots.push_back(std::move(json));
  }
  for (MemoryReport const& report : plan.memories()) {
    Json json = Json::object({{"stored", report.stored},
                              {"arena", report.arena},
                              {"arena_lower_bound", report.arena_lower_bound}});
    if (report.adopted != 0) json["adopted"] = report.adopted;
    detail::add_location(json, report.location);
    memory.push_back(std::move(json));
  }
  Json head =
      Json::object({{"name", plan.name()},
                    {"tile", plan.tile()},
                    {"graph", to_hex(hash64(graph_text(graph)))},
                    {"digest", to_hex(digest(plan))},
                    {"nodes", std::vector(plan.data().nodes.begin(), plan.data().nodes.end())},
                    {"tensors", std::move(tensors)},
                    {"slots", std::move(slots)},
                    {"memory", std::move(memory)}});
  if (Json dims = detail::json_of_dims(plan, graph); !dims.members().empty())
    head["dims"] = std::move(dims);
  if (!plan.phases().empty()) head["by_phase"] = true;
  Json copied = Json::array();
  for (PlannedKernel const& kernel : plan.kernels())
    if (kernel.kind == KernelKind::copy) copied.push_back(name_of(kernel.element));
  if (!copied.elements().empty()) head["copied"] = std::move(copied);
  std::string text = concat("{\"format\": \"nntile plan\",\n\"version\": ", plan_version);
  for (auto const& [key, value] : head.members())
    text += concat(",\n\"", key, "\": ", to_text(value, -1));
  if (!plan.data().hints.empty()) {
    Json hints = Json::array();
    for (Hints const& given : plan.data().hints) hints.push_back(detail::json_of(given));
    text += concat(",\n\"hints\": ", to_text(hints, -1));
  }
  text += ",\n\"buffers\": [";
  for (std::size_t b = 0; b < plan.buffers().size(); ++b) {
    PlannedBuffer const& buffer = plan.buffers()[b];
    Json json = buffer.slot == no_id ? std::int64_t{-1} : std::int64_t{buffer.slot};
    if (!(buffer.location == Location{}) || buffer.copy)
      json = Json::object({{"slot", json}, {"location", detail::json_of(buffer.location)}});
    if (buffer.copy) json["copy"] = std::vector<Index>{buffer.tensor, buffer.tile};
    text += concat(b == 0 ? "" : ",", to_text(json, -1));
  }
  text += "],\n\"tasks\": [";
  for (std::size_t t = 0; t < plan.tasks().size(); ++t) {
    PlannedTask const& task = plan.tasks()[t];
    std::span<Use<BufferId> const> const uses = plan.uses(task);
    if (plan.kernels()[task.kernel].kind == KernelKind::copy) {
      text += concat(t == 0 ? "\n" : ",\n", "{\"copy\":[", uses[0].handle, ",", uses[1].handle,
                     "],\"node\":", task.node,
                     ",\"location\":", to_text(detail::json_of(task.location), -1), "}");
      continue;
    }
    auto const at = by_args.find(task.args);
    if (at == by_args.end() || walked.tasks[at->second].node != task.node)
      throw PlanError(
          concat("plan '", plan.name(), "': task ", t, " is none of graph '", graph.name(), "'"));
    text +=
        concat(t == 0 ? "\n" : ",\n", "{\"node\":", task.node, ",", recorder.ranges[at->second]);
    if (task.priority != 0) text += concat(",\"priority\":", task.priority);
    if (task.hints != 0) text += concat(",\"hints\":", task.hints);
    if (!(task.location == Location{}))
      text += concat(",\"location\":", to_text(detail::json_of(task.location), -1));
    auto const own = walked.uses_of(walked.tasks[at->second]);
    if (!std::equal(uses.begin(), uses.end(), own.begin(), own.end())) {
      std::vector<Index> handles;
      for (Use<BufferId> const& use : uses) handles.push_back(use.handle);
      text += concat(",\"uses\":", to_text(Json(handles), -1));
    }
    text += "}";
  }
  return text + "\n]}\n";
}

/// The plan of such a text, of that graph; `source` is what errors call it. Arguments, uses and
/// costs are computed by this version's ops, and the plan is proved. Throws FormatError for another
/// version, a plan of another graph, one that is not right, or one whose tasks came out otherwise.
inline Plan plan_of(std::string_view text, std::string_view source, LogicalGraph const& graph) {
  JsonView const root = parse_json(text, source);
  detail::check_format(root, "nntile plan", plan_version, source);
  return detail::with_source(source,
                             [&] { return detail::PlanReader(root, source, graph).read(); });
}

inline void save_plan(std::string const& path, Plan const& plan, LogicalGraph const& graph) {
  write_file(path, plan_text(plan, graph));
}
inline Plan load_plan(std::string const& path, LogicalGraph const& graph) {
  std::string const text = read_file(path, largest_graph_file);
  return plan_of(text, path, graph);
}

}  // namespace nntile::io
