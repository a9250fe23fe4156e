#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Text about a plan in files: names of its tasks, and a digest.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/compile.hh"
#include "nntile/io/graph.hh"
#include "nntile/io/hash.hh"

namespace nntile::io {

inline constexpr int plan_version = 1;

/// A hash of all that a plan says, argument bytes of its tasks included.
inline std::uint64_t digest(Plan const& plan) {
  Hash64 hash;
  auto const number = [&](auto value) { hash.update(static_cast<std::uint64_t>(value)); };
  auto const text = [&](std::string const& value) {
    number(value.size());
    hash.update(std::string_view(value));
  };
  auto const location = [&](Location const& at) {
    number(at.rank), number(at.place.kind), number(at.place.device);
  };
  text(plan.name()), text(plan.uncanonical());
  number(plan.tile()), number(plan.flops()), number(plan.numerics().mode);
  for (AxisGroups const& each : plan.numerics().groups)
    text("groups"), text(each.axis), number(each.groups);
  for (PlannedTensor const& tensor : plan.tensors()) {
    text(tensor.name);
    number(tensor.dtype), number(tensor.storage), number(tensor.used), number(tensor.base);
    number(tensor.tiling.rank());
    for (std::size_t d = 0; d < tensor.tiling.rank(); ++d)
      for (Index tile = 0; tile <= tensor.tiling.axis(d).count(); ++tile)
        number(tensor.tiling.axis(d).begin(tile));
    if (tensor.column_unit != 1) text("columns"), number(tensor.column_unit);
  }
  for (PlannedBuffer const& buffer : plan.buffers()) {
    number(buffer.tensor), number(buffer.tile), number(buffer.slot), number(buffer.bytes);
    location(buffer.location);
  }
  for (PlannedSlot const& slot : plan.slots()) number(slot.bytes), location(slot.location);
  for (MemoryReport const& report : plan.memories()) {
    number(report.stored), number(report.arena), number(report.arena_lower_bound);
    if (report.adopted != 0) number(report.adopted);
    location(report.location);
  }
  for (PlannedPhase const& phase : plan.phases()) text(phase.name), number(phase.end);
  for (PlannedKernel const& kernel : plan.kernels()) {
    text(kernel.name);
    number(kernel.kind), number(kernel.element), number(kernel.second), number(kernel.mode);
  }
  for (PlannedTask const& task : plan.tasks()) {
    number(task.node), number(task.kernel), number(task.replaces), number(task.priority);
    number(task.tensor), number(task.tile), number(task.cost.flops), number(task.cost.bytes);
    location(task.location);
    for (Use<BufferId> const& use : plan.uses(task)) number(use.handle), number(use.access);
    hash.update(plan.args(task));
  }
  if (plan.ranks() != 1) {
    number(plan.rank()), number(plan.ranks()), number(plan.data().messages);
    for (PlannedTensor const& tensor : plan.tensors())
      for (TileHome const& home : tensor.homes) {
        for (std::int16_t const at : home.box.at) number(at);
        number(home.cut), number(home.first);
      }
  }
  if (plan.data().hints.empty()) return hash.digest();
  for (Hints const& hints : plan.data().hints) {
    number(hints.worker), number(hints.node), number(hints.prefetch), number(hints.offload);
    if (hints.device >= 0) number(hints.device);  // files from before have none
  }
  for (PlannedTask const& task : plan.tasks()) number(task.hints);
  return hash.digest();
}

namespace detail {

/// The part of its node that a task computes, as it stands in a file: "phase": 0, "tiles": [1, 0],
/// and offsets where a contracted axis is walked by index, or a canonical group begins within the
/// tile; "group": 2 of what adds to its sum, "combines" of what adds up that of it and others, and
/// "finishing".
struct TaskKind {
  int group = TileRange::no_group;
  bool combines = false;
  bool finishing = false;
};
inline std::string range_text(int phase, std::span<Index const> tiles,
                              std::span<Index const> offsets, TaskKind kind) {
  auto const list = [](std::span<Index const> values) {
    std::string text = "[";
    for (std::size_t i = 0; i < values.size(); ++i) text += concat(i == 0 ? "" : ",", values[i]);
    return text + "]";
  };
  std::string text = concat("\"phase\":", phase, ",\"tiles\":", list(tiles));
  if (std::any_of(offsets.begin(), offsets.end(), [](Index offset) { return offset != 0; }))
    text += concat(",\"offsets\":", list(offsets));
  if (kind.group != TileRange::no_group)
    text += concat(",\"", kind.combines ? "combines" : "group", "\":", kind.group);
  if (kind.finishing) text += ",\"finishing\":true";
  return text;
}

/// The ranges of tasks, in the order in which nodes are walked. Throws PlanError beyond `most`: a
/// small file may cut axes into many tiles, and products have tasks for each triple of them.
class RangeRecorder final : public TileVisitor {
 public:
  explicit RangeRecorder(std::size_t most = ~std::size_t{0}) : most_(most) {}

  void visit(TileTask const& task) override {
    if (ranges.size() == most_)
      throw PlanError(concat("its tiles make more than the ", most_, " tasks that are listed"));
    std::vector<Index> tiles, offsets;
    for (std::size_t id = 0; id < task.range.table().axes.size(); ++id) {
      tiles.push_back(task.range.axis(id).tile);
      offsets.push_back(task.range.axis(id).offset);
    }
    ranges.push_back(range_text(task.range.phase, tiles, offsets,
                                {task.range.canonical_group, task.combines, task.range.finishing}));
  }
  std::vector<std::string> ranges;

 private:
  std::size_t most_;
};

/// The plan before it was lowered: nodes and tilings of the graph's own tensors.
inline PlanData unlowered(Plan const& plan, LogicalGraph const& graph) {
  PlanData const& data = plan.data();
  PlanData result;
  result.name = data.name;
  result.tile = data.tile;
  result.numerics = data.numerics;
  result.nodes = data.nodes;
  if (data.tensors.size() < graph.tensor_count() ||
      std::any_of(data.nodes.begin(), data.nodes.end(),
                  [&](std::size_t node) { return node >= graph.op_count(); }))
    throw PlanError(concat("plan '", data.name, "' is not one of graph '", graph.name(), "'"));
  result.tensors.assign(std::span(data.tensors.data(), graph.tensor_count()));
  return result;
}

inline Json json_of(Location const& location) {
  return Json::object({{"rank", location.rank},
                       {"place", nntile::name_of(location.place.kind)},
                       {"device", location.place.device}});
}
/// Of the host of a plan's rank nothing.
inline void add_location(Json& object, Location const& location, int rank) {
  if (!(location == Location{rank, host})) object["location"] = json_of(location);
}

/// The most tasks of all ranks of a job, of which a part is a file: it lists the tiles of all, and
/// what is read takes no more memory than follows from the file's size.
constexpr std::size_t most_job_tasks(std::size_t tasks, std::size_t buffers) {
  return 64 * (tasks + buffers);
}

/// Identifies a task among a job's: a hash of its node, its tiles and its arguments.
inline std::uint64_t identity(PlanData const& plan, PlannedTask const& task) {
  Hash64 hash;
  hash.update(task.node);
  for (Use<BufferId> const& use : plan.uses_of(task)) {
    hash.update(plan.buffers[use.handle].tensor);
    hash.update(plan.buffers[use.handle].tile);
    hash.update(static_cast<std::uint64_t>(use.access));
  }
  hash.update(std::span<std::byte const>(plan.args.data() + task.args, task.args_bytes));
  return hash.digest();
}

inline Json json_of(TileHome const& home) {
  return std::vector<Index>{home.box.at[0], home.box.at[1], home.box.at[2],
                            home.box.at[3], home.cut,       home.first};
}

/// The numbers that a plan has for the open dimensions of its graph.
inline Json json_of_dims(Plan const& plan, LogicalGraph const& graph) {
  Json result = Json::object();
  for (std::uint32_t t = 0; t < graph.tensor_count(); ++t) {
    Dims const& dims = graph.tensor_at(t).spec.shape;
    for (std::size_t d = 0; d < dims.size(); ++d)
      if (dims[d].open()) result[dims[d].name()] = plan.tensors()[t].tiling.axis(d).extent();
  }
  return result;
}

inline Json json_of(Hints const& hints) {
  Json json = Json::object({{"worker", hints.worker},
                            {"node", hints.node},
                            {"prefetch", hints.prefetch},
                            {"offload", hints.offload}});
  if (hints.device >= 0) json["device"] = hints.device;
  return json;
}

}  // namespace detail

}  // namespace nntile::io
