#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// What files say of a plan, and how a plan is read from it.

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
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
      for (Index const border : tensor.tiling.axis(d).borders()) number(border);
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
  if (plan.data().hints.empty()) return hash.digest();
  for (Hints const& hints : plan.data().hints)
    number(hints.worker), number(hints.node), number(hints.prefetch), number(hints.offload);
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
inline void add_location(Json& object, Location const& location) {
  if (!(location == Location{})) object["location"] = json_of(location);
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
  return Json::object({{"worker", hints.worker},
                       {"node", hints.node},
                       {"prefetch", hints.prefetch},
                       {"offload", hints.offload}});
}

/// Reads a plan; what is wrong is a FormatError that names file and place.
class PlanReader {
 public:
  PlanReader(JsonView root, std::string_view source, LogicalGraph const& graph)
      : root_(root), source_(source), graph_(graph) {}

  Plan read() const {
    std::string const graph = to_hex(hash64(graph_text(graph_)));
    if (get<std::string>(root_, "graph") != graph)
      fail("the plan is one of another graph than '", graph_.name(), "'");
    RangeRecorder recorder(get<JsonView>(root_, "tasks").elements().size());
    PlanData plan = passes::lower(passes::add_buffers(cut()), graph_, &recorder);
    read_buffers(plan);
    order(plan, recorder.ranges);
    if (root_.find("by_phase") && get<bool>(root_, "by_phase"))
      plan = passes::list_phases(std::move(plan), graph_);
    read_memory(plan);
    read_hints(plan);
    passes::check(plan);
    Plan result(std::move(plan));
    if (get<std::string>(root_, "digest") != to_hex(digest(result)))
      fail(
          "tasks of this version have other arguments, uses or costs than those of the plan that "
          "was saved; plan anew");
    return result;
  }

 private:
  template <class... Text> [[noreturn]] void fail(Text const&... text) const {
    throw FormatError(concat(path_in_quotes(source_), ": ", text...));
  }
  template <class T> T get(JsonView object, std::string_view key) const {
    return json_field<T>(object, key, source_);
  }

  /// Nodes and tilings, which the pass that cuts has checked.
  PlanData cut() const {
    PlanData plan;
    plan.name = graph_.name();
    plan.tile = get<Index>(root_, "tile");
    plan.numerics = graph_.numerics();
    plan.nodes.assign(get<std::vector<std::size_t>>(root_, "nodes"));
    std::vector<bool> seen(graph_.op_count());
    for (std::size_t const node : plan.nodes) {
      if (node >= seen.size() || seen[node])
        fail("node ", node, " is not one of ", seen.size(), ", or comes twice");
      seen[node] = true;
    }
    PlanOptions options{.tile = 0};
    for (JsonView const tensor : get<JsonView>(root_, "tensors").elements()) {
      std::vector<AxisTiling> axes;
      for (JsonView const sizes : get<JsonView>(tensor, "tiles").elements())
        axes.push_back(axis(sizes));
      options.keep.push_back({get<std::string>(tensor, "name"), Tiling(std::move(axes)),
                              tensor.find("storage") ? storage(tensor) : Storage::stored,
                              tensor.find("columns") ? get<Index>(tensor, "columns") : 1});
    }
    if (auto const dims = root_.find("dims"))
      for (JsonMember const& dim : dims->members()) {
        std::string const name = dim.key.text();
        options.dims.push_back({name, get<Index>(*dims, name)});
      }
    plan = passes::tile(std::move(plan), graph_, options, BoundDims(graph_, options.dims));
    plan = passes::pad(std::move(plan), graph_, options);
    check_tilings(plan, options.keep);
    return plan;
  }
  /// Of an input that is not simply stored.
  Storage storage(JsonView tensor) const {
    auto const name = get<std::string>(tensor, "storage");
    for (Storage const storage : {Storage::adopted, Storage::double_buffered})
      if (name == nntile::name_of(storage)) return storage;
    fail("storage ", in_quotes(name), " of '", get<std::string>(tensor, "name"),
         "' is neither adopted nor double_buffered");
  }
  AxisTiling axis(JsonView sizes) const {
    auto const given = sizes.as<std::vector<Index>>();
    if (!given) fail("tile sizes are ", sizes.shown());
    Index sum = 0;
    for (Index const size : *given)
      if (size < 0 || __builtin_add_overflow(sum, size, &sum)) fail("a tile of ", size);
    if (given->size() == 1) return AxisTiling::whole(sum);
    return AxisTiling::sizes(*given);
  }
  void check_tilings(PlanData const& plan, std::vector<KeptTiling> const& kept) const {
    std::size_t at = 0;
    for (PlannedTensor const& tensor : plan.tensors) {
      if (!tensor.used) continue;
      if (at == kept.size() || kept[at].tensor != tensor.name ||
          !(kept[at].tiling == tensor.tiling))
        fail("the tiles of '", tensor.name, "' are not those of its shape, or it has none");
      if (kept[at].column_unit != tensor.column_unit)
        fail("columns of '", tensor.name, "' at multiples of ", kept[at].column_unit,
             ", where those of what it is a view of are at ", tensor.column_unit);
      ++at;
    }
    if (at != kept.size()) fail("there are tiles of '", kept[at].tensor, "', which no node uses");
    auto const listed = static_cast<Index>(get<JsonView>(root_, "buffers").elements().size());
    Index tiles = 0;
    for (PlannedTensor const& tensor : plan.tensors)
      if (tensor.used && tensor.storage != Storage::view &&
          (tiles += tensor.tiling.tile_count()) > listed)
        fail("its tensors have more than the ", listed, " tiles that are listed as buffers");
  }

  /// Puts the tasks into the file's order: each of them once.
  void order(PlanData& plan, std::vector<std::string> const& ranges) const {
    std::unordered_map<std::string, std::vector<std::uint32_t>> walked;  // the last one first
    for (std::size_t t = plan.tasks.size(); t-- > 0;)
      walked[concat(plan.tasks[t].node, " ", ranges[t])].push_back(static_cast<std::uint32_t>(t));
    if (auto const copied = root_.find("copied"))
      for (JsonView const name : copied->elements()) (void)plan.kernel(copy_of(dtype(name)));
    DynamicArray<PlannedTask> tasks;
    std::size_t copies = 0;
    for (JsonView const given : get<JsonView>(root_, "tasks").elements()) {
      if (given.find("copy")) {
        tasks.push_back(copy(plan, given));
        ++copies;
        continue;
      }
      auto const tiles = get<std::vector<Index>>(given, "tiles");
      auto const offsets =
          given.find("offsets") ? get<std::vector<Index>>(given, "offsets") : std::vector<Index>();
      TaskKind kind;
      kind.combines = given.find("combines").has_value();
      if (kind.combines || given.find("group"))
        kind.group = get<int>(given, kind.combines ? "combines" : "group");
      kind.finishing = given.find("finishing") && get<bool>(given, "finishing");
      std::string const range = range_text(get<int>(given, "phase"), tiles, offsets, kind);
      auto const at = walked.find(concat(get<std::uint32_t>(given, "node"), " ", range));
      if (at == walked.end() || at->second.empty())
        fail("task ", tasks.size(), " {\"node\":", get<std::uint32_t>(given, "node"), ",", range,
             "} is none of its node, or comes twice");
      tasks.push_back(plan.tasks[at->second.back()]);
      at->second.pop_back();
      if (given.find("priority")) tasks.back().priority = get<std::int32_t>(given, "priority");
      tasks.back().location = location(given);
      if (given.find("uses")) replace_uses(plan, tasks.back(), given);
      if (given.find("hints")) tasks.back().hints = get<std::uint16_t>(given, "hints");
    }
    if (tasks.size() - copies != plan.tasks.size())
      fail("there are ", tasks.size() - copies, " tasks where its nodes have ", plan.tasks.size());
    plan.tasks = std::move(tasks);
  }

  static PlannedKernel copy_of(DType dtype) {
    return {KernelKind::copy, "copy", dtype, DType::fp32, Mode::exact};
  }
  DType dtype(JsonView name) const {
    auto const text = name.as<std::string>();
    for (int i = 0; text && i < dtype_count; ++i)
      if (*text == nntile::name_of(static_cast<DType>(i))) return static_cast<DType>(i);
    fail("dtype ", name.shown(), " is unknown");
  }
  /// A buffer of the list.
  PlannedBuffer const& buffer(PlanData const& plan, Index number) const {
    if (number < 0 || number >= std::ssize(plan.buffers))
      fail("buffer ", number, " of ", plan.buffers.size());
    return plan.buffers[static_cast<std::size_t>(number)];
  }
  /// A task that copies a tile from one place to another.
  PlannedTask copy(PlanData& plan, JsonView given) const {
    auto const ends = get<std::vector<Index>>(given, "copy");
    if (ends.size() != 2) fail("a copy has ", ends.size(), " buffers; two are needed");
    PlannedBuffer const &from = buffer(plan, ends[0]), &to = buffer(plan, ends[1]);
    std::int64_t const bytes = from.payload();
    PlannedTask task;
    task.node = get<std::uint32_t>(given, "node");
    if (std::find(plan.nodes.begin(), plan.nodes.end(), task.node) == plan.nodes.end())
      fail("a copy belongs to node ", task.node, ", which is none of the plan's");
    task.kernel = plan.kernel(copy_of(plan.tensors[to.tensor].dtype));
    task.first_use = static_cast<std::uint32_t>(plan.uses.size());
    task.use_count = 2;
    task.tensor = to.tensor;
    task.tile = to.tile;
    task.location = location(given);
    task.cost.bytes = bytes;
    task.args = static_cast<std::uint32_t>(plan.args.size());
    task.args_bytes = sizeof bytes;
    plan.args.resize(plan.args.size() + sizeof bytes);
    std::memcpy(plan.args.data() + task.args, &bytes, sizeof bytes);
    plan.uses.push_back({static_cast<BufferId>(ends[0]), Access::read});
    plan.uses.push_back({static_cast<BufferId>(ends[1]), Access::write});
    return task;
  }
  /// The task uses the same tiles in other buffers.
  void replace_uses(PlanData& plan, PlannedTask const& task, JsonView given) const {
    auto const uses = get<std::vector<Index>>(given, "uses");
    if (uses.size() != task.use_count)
      fail("a task has ", uses.size(), " buffers where it uses ", int{task.use_count});
    for (std::size_t i = 0; i < uses.size(); ++i) {
      BufferId& own = plan.uses[task.first_use + i].handle;
      PlannedBuffer const &before = plan.buffers[own], &now = buffer(plan, uses[i]);
      if (before.tensor != now.tensor || before.tile != now.tile)
        fail("buffer ", uses[i], " holds tile ", now.tile, " of '", plan.tensors[now.tensor].name,
             "' where a task uses tile ", before.tile, " of '", plan.tensors[before.tensor].name,
             "'");
      own = static_cast<BufferId>(uses[i]);
    }
  }

  void read_buffers(PlanData& plan) const {
    for (JsonView const slot : get<JsonView>(root_, "slots").elements())
      plan.slots.push_back({get<Index>(slot, "bytes"), location(slot)});
    std::size_t b = 0;
    for (JsonView const slot : get<JsonView>(root_, "buffers").elements()) {
      bool const located = slot.is_object();  // not where all buffers of one process are
      std::optional<std::int64_t> const number =
          located ? get<std::int64_t>(slot, "slot") : slot.as<std::int64_t>();
      if (b == plan.buffers.size() && located && slot.find("copy")) add_copy(plan, slot);
      if (b == plan.buffers.size() || !number || *number < -1 || *number >= no_id)
        fail("buffer ", b, " of ", plan.buffers.size(), " has slot ", slot.shown());
      if (located) plan.buffers[b].location = location(slot);
      plan.buffers[b++].slot = *number < 0 ? no_id : static_cast<std::uint32_t>(*number);
    }
    if (b != plan.buffers.size())
      fail("there are ", b, " buffers where its tensors have ", plan.buffers.size());
  }
  /// One more buffer, of a tile that has one elsewhere.
  void add_copy(PlanData& plan, JsonView given) const {
    auto const of = get<std::vector<Index>>(given, "copy");
    bool const there = of.size() == 2 && of[0] >= 0 && of[0] < std::ssize(plan.tensors);
    PlannedTensor const* const tensor =
        there ? &plan.tensors[static_cast<std::size_t>(of[0])] : nullptr;
    if (!there || !tensor->used || tensor->storage == Storage::view || of[1] < 0 ||
        of[1] >= tensor->tiling.tile_count())
      fail("buffer ", plan.buffers.size(), " is a copy of no tile");
    PlannedBuffer more = plan.buffers[plan.buffer_of(static_cast<std::uint32_t>(of[0]), of[1])];
    more.copy = true;
    plan.buffers.push_back(more);
  }

  void read_memory(PlanData& plan) const {
    for (JsonView const report : get<JsonView>(root_, "memory").elements())
      plan.memory.push_back({location(report), get<Index>(report, "stored"),
                             get<Index>(report, "arena"), get<Index>(report, "arena_lower_bound"),
                             report.find("adopted") ? get<Index>(report, "adopted") : 0});
  }

  void read_hints(PlanData& plan) const {
    if (!root_.find("hints")) return;
    for (JsonView const hints : get<JsonView>(root_, "hints").elements())
      plan.hints.push_back({.worker = get<int>(hints, "worker"),
                            .node = get<int>(hints, "node"),
                            .prefetch = get<bool>(hints, "prefetch"),
                            .offload = get<bool>(hints, "offload")});
  }

  Location location(JsonView object) const {
    auto const given = object.find("location");
    if (!given) return {};
    using Kind = Place::Kind;
    auto const name = get<std::string>(*given, "place");
    for (Kind const kind : {Kind::host, Kind::pinned, Kind::device, Kind::disk})
      if (name == nntile::name_of(kind))
        return {get<int>(*given, "rank"), {kind, get<int>(*given, "device")}};
    fail("place ", in_quotes(name), " is unknown");
  }

  JsonView root_;
  std::string_view source_;
  LogicalGraph const& graph_;
};

}  // namespace detail

}  // namespace nntile::io
