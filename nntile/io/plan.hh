#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Plans in files: per task its node, phase and tile range; what follows from these is computed
// anew.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nntile/io/plan_reader.hh"

namespace nntile::io {

namespace detail {

/// Finds a plan's tasks among those of its graph, as they are walked.
class WalkedTasks {
 public:
  WalkedTasks(Plan const& plan, LogicalGraph const& graph)
      : plan_(plan),
        walked_(passes::lower(passes::add_buffers(unlowered(plan, graph)), graph, &recorder_)) {
    if (plan.ranks() != 1 &&
        walked_.tasks.size() > most_job_tasks(plan.tasks().size(), walked_.buffers.size()))
      throw PlanError(concat("plan '", plan.name(), "': the part of rank ", plan.rank(), " has ",
                             plan.tasks().size(), " of the job's ", walked_.tasks.size(),
                             " tasks; so small a part of a job is planned anew, not saved"));
    auto more = static_cast<std::uint32_t>(walked_.buffers.size());
    for (std::uint32_t b = 0; b < plan.buffers().size(); ++b) {
      PlannedBuffer const& buffer = plan.buffers()[b];
      bool const own = plan.buffer_of(buffer.tensor, buffer.tile) == b;
      listed_.push_back(own ? walked_.buffer_of(buffer.tensor, buffer.tile) : more++);
    }
    for (std::size_t t = walked_.tasks.size(); t-- > 0;)
      found_[key(walked_, walked_.tasks[t])].push_back(t);
    if (plan.ranks() == 1) return;
    std::unordered_map<std::string, std::uint32_t> alike;
    for (std::size_t t = 0; t < walked_.tasks.size(); ++t)
      number_.push_back(alike[concat(walked_.tasks[t].node, " ", range(t))]++);
  }
  /// The position of the next one that is the same. Throws PlanError where there is none.
  std::size_t take(std::size_t task) {
    PlannedTask const& own = plan_.tasks()[task];
    auto const at = found_.find(key(plan_.data(), own));
    if (at == found_.end() || at->second.empty() ||
        walked_.tasks[at->second.back()].node != own.node)
      throw PlanError(concat("plan '", plan_.name(), "': task ", task, " is none of graph '",
                             walked_.name, "'"));
    std::size_t const found = at->second.back();
    at->second.pop_back();
    return found;
  }
  std::string const& range(std::size_t at) const { return recorder_.ranges[at]; }
  /// Of a part, how many before it are alike: the sums of a tree are, at some levels.
  std::uint32_t number(std::size_t at) const { return number_.empty() ? 0 : number_[at]; }
  std::span<Use<BufferId> const> uses(std::size_t at) const {
    return walked_.uses_of(walked_.tasks[at]);
  }
  /// The buffers of all tiles of the job: files number those of a part behind them.
  std::span<PlannedBuffer const> buffers() const { return walked_.buffers; }
  /// The number of a buffer of the plan in its file.
  std::uint32_t listed(BufferId buffer) const { return listed_[buffer]; }

 private:
  /// A part has arguments of its own.
  std::uint64_t key(PlanData const& plan, PlannedTask const& task) const {
    return plan_.ranks() == 1 ? task.args : identity(plan, task);
  }

  Plan const& plan_;
  RangeRecorder recorder_;
  PlanData const walked_;
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> found_;  // the last one first
  std::vector<std::uint32_t> number_;
  std::vector<std::uint32_t> listed_;
};

/// A buffer of a part, or, for a tile that its rank never has, that at another rank.
inline Json json_of_buffer(Plan const& plan, PlannedBuffer const& buffer) {
  Json json = buffer.slot == no_id ? std::int64_t{-1} : std::int64_t{buffer.slot};
  if (!(buffer.location == Location{plan.rank(), host}) || buffer.copy)
    json = Json::object({{"slot", json}, {"location", json_of(buffer.location)}});
  if (buffer.copy) json["copy"] = std::vector<Index>{buffer.tensor, buffer.tile};
  return json;
}
inline Json json_of_other(Plan const& plan, PlannedBuffer buffer) {
  PlannedTensor const& tensor = plan.tensors()[buffer.tensor];
  buffer.location.rank = tensor.storage != Storage::arena ? tensor.homes[buffer.tile].first
                         : plan.rank() == 0               ? 1
                                                          : 0;
  return json_of_buffer(plan, buffer);
}

}  // namespace detail

/// A plan as JSON, or one rank's part of a job, for which io/part.hh gives a digest of the options:
/// equal plans have equal texts. Throws PlanError where it is not one of the graph.
inline std::string plan_text(Plan const& plan, LogicalGraph const& graph,
                             std::optional<std::uint64_t> options = {}) {
  detail::WalkedTasks walked(plan, graph);
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
    detail::add_location(json, {plan.rank(), tensor.place}, plan.rank());
    if (!tensor.homes.empty()) {
      Json homes = Json::array();
      for (TileHome const& home : tensor.homes) homes.push_back(detail::json_of(home));
      json["homes"] = std::move(homes);
    }
    tensors.push_back(std::move(json));
  }
  for (PlannedSlot const& slot : plan.slots()) {
    Json json = Json::object({{"bytes", slot.bytes}});
    detail::add_location(json, slot.location, plan.rank());
    slots.push_back(std::move(json));
  }
  for (MemoryReport const& report : plan.memories()) {
    Json json = Json::object({{"stored", report.stored},
                              {"arena", report.arena},
                              {"arena_lower_bound", report.arena_lower_bound}});
    if (report.adopted != 0) json["adopted"] = report.adopted;
    detail::add_location(json, report.location, plan.rank());
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
  Json copied = Json::array(), moved = Json::array(), phases = Json::array();
  for (PlannedKernel const& kernel : plan.kernels()) {
    if (kernel.kind == KernelKind::copy) copied.push_back(name_of(kernel.element));
    if (is_transfer(kernel.kind))
      moved.push_back(Json::object({{"kind", kernel.name}, {"dtype", name_of(kernel.element)}}));
  }
  if (plan.ranks() != 1) {
    if (options) head["options"] = to_hex(*options);
    head["rank"] = plan.rank();
    head["ranks"] = plan.ranks();
    head["messages"] = plan.data().messages;
    head["moved"] = std::move(moved);
    for (PlannedPhase const& phase : plan.phases())  // some may be empty
      phases.push_back(Json::object({{"name", phase.name}, {"end", phase.end}}));
    if (!phases.elements().empty()) head["phases"] = std::move(phases);
  } else if (!plan.phases().empty()) {
    head["by_phase"] = true;
  }
  if (!copied.elements().empty()) head["copied"] = std::move(copied);
  std::string text = concat("{\"format\": \"nntile plan\",\n\"version\": ", plan_version);
  for (auto const& [key, value] : head.members())
    text += concat(",\n\"", key, "\": ", to_text(value, -1));
  if (!plan.data().hints.empty()) {
    Json hints = Json::array();
    for (Hints const& given : plan.data().hints) hints.push_back(detail::json_of(given));
    text += concat(",\n\"hints\": ", to_text(hints, -1));
  }
  Location const here{plan.rank(), host};
  text += ",\n\"buffers\": [";
  for (std::size_t i = 0; i < walked.buffers().size(); ++i) {
    PlannedBuffer const& tile = walked.buffers()[i];
    BufferId const b = plan.buffer_of(tile.tensor, tile.tile);
    text += concat(i == 0 ? "" : ",",
                   to_text(b == no_id ? detail::json_of_other(plan, tile)
                                      : detail::json_of_buffer(plan, plan.buffers()[b]),
                           -1));
  }
  for (BufferId b = 0; b < plan.buffers().size(); ++b)
    if (walked.listed(b) >= walked.buffers().size())
      text += concat(",", to_text(detail::json_of_buffer(plan, plan.buffers()[b]), -1));
  text += "],\n\"tasks\": [";
  for (std::size_t t = 0; t < plan.tasks().size(); ++t) {
    PlannedTask const& task = plan.tasks()[t];
    std::span<Use<BufferId> const> const uses = plan.uses(task);
    if (plan.kernels()[task.kernel].kind == KernelKind::copy) {
      text += concat(t == 0 ? "\n" : ",\n", "{\"copy\":[", walked.listed(uses[0].handle), ",",
                     walked.listed(uses[1].handle), "],\"node\":", task.node);
      if (task.priority != 0) text += concat(",\"priority\":", task.priority);
      if (task.hints != 0) text += concat(",\"hints\":", task.hints);
      text += concat(",\"location\":", to_text(detail::json_of(task.location), -1), "}");
      continue;
    }
    bool const moves = is_transfer(plan.kernels()[task.kernel].kind);
    std::size_t const at = moves ? 0 : walked.take(t);
    text += t == 0 ? "\n" : ",\n";
    if (moves) {
      TransferArgs args;
      std::memcpy(&args, plan.args(task).data(), sizeof args);
      text += concat("{\"", plan.kernels()[task.kernel].name, "\":[", walked.listed(uses[0].handle),
                     ",", args.peer, ",", args.number, "],\"node\":", task.node);
    } else {
      text += concat("{\"node\":", task.node, ",", walked.range(at));
      if (walked.number(at) != 0) text += concat(",\"number\":", walked.number(at));
    }
    if (task.priority != 0) text += concat(",\"priority\":", task.priority);
    if (task.hints != 0) text += concat(",\"hints\":", task.hints);
    if (!(task.location == here))
      text += concat(",\"location\":", to_text(detail::json_of(task.location), -1));
    std::vector<Index> handles, own;
    for (Use<BufferId> const& use : uses) handles.push_back(walked.listed(use.handle));
    if (!moves)
      for (Use<BufferId> const& use : walked.uses(at)) own.push_back(use.handle);
    if (!moves && handles != own) {
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

/// Throws what plan_text() does, and ValueError where load_plan() would not read so much.
inline void save_plan(std::string const& path, Plan const& plan, LogicalGraph const& graph) {
  detail::write_graph_file(path, plan_text(plan, graph));
}
inline Plan load_plan(std::string const& path, LogicalGraph const& graph) {
  std::string const text = read_file(path, largest_graph_file);
  return plan_of(text, path, graph);
}

}  // namespace nntile::io
