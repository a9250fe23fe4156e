#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Reads a plan from a file.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nntile/io/plan_names.hh"

namespace nntile::io::detail {

constexpr char const* name_of_transfer(KernelKind kind) {
  return kind == KernelKind::send ? "send" : "receive";
}

/// Reads a plan; what is wrong is a FormatError that names file and place.
class PlanReader {
 public:
  PlanReader(JsonView root, std::string_view source, LogicalGraph const& graph)
      : root_(root),
        source_(source),
        graph_(graph),
        is_part_(root.find("ranks").has_value()),
        rank_(is_part_ ? get<int>(root, "rank") : 0) {}

  Plan read() {
    std::string const graph = to_hex(hash64(graph_text(graph_)));
    if (auto const planned = get<std::string>(root_, "graph"); planned != graph)
      fail("the plan is one of another graph than '", graph_.name(), "': of one with hash ",
           in_quotes(planned), ", not '", graph,
           "'; load it with the graph that it was made of, or plan anew");
    std::size_t const tasks = list(root_, "tasks").size();
    std::size_t const buffers = list(root_, "buffers").size();
    RangeRecorder recorder(is_part_ ? most_job_tasks(tasks, buffers) : tasks);
    PlanData plan = passes::lower(passes::add_buffers(cut()), graph_, &recorder);
    if (is_part_) read_part(plan);
    read_tensors(plan);
    read_buffers(plan);
    order(plan, recorder.ranges);
    if (is_part_)
      finish_part(plan);
    else if (root_.find("by_phase") && get<bool>(root_, "by_phase"))
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
  JsonList<JsonView> list(JsonView object, std::string_view key) const {
    return json_field(object, key, source_, JsonKind::array).elements();
  }

  /// Nodes and tilings, which the pass that cuts has checked.
  PlanData cut() {
    PlanData plan;
    plan.name = graph_.name();
    plan.tile = get<Index>(root_, "tile");
    plan.numerics = graph_.numerics();
    plan.nodes.assign(get<std::vector<std::size_t>>(root_, "nodes"));
    planned_.resize(graph_.op_count());
    for (std::size_t const node : plan.nodes) {
      if (node >= planned_.size() || planned_[node])
        fail("node ", node, " is not one of ", planned_.size(), ", or comes twice");
      planned_[node] = true;
    }
    PlanOptions options{.tile = 0};
    for (JsonView const tensor : list(root_, "tensors")) {
      std::vector<AxisTiling> axes;
      for (JsonView const sizes : list(tensor, "tiles")) axes.push_back(axis(sizes));
      options.keep.push_back({get<std::string>(tensor, "name"), Tiling(std::move(axes)),
                              tensor.find("storage") ? storage(tensor) : Storage::stored,
                              tensor.find("columns") ? get<Index>(tensor, "columns") : 1});
    }
    if (root_.find("dims")) {
      JsonView const dims = json_field(root_, "dims", source_, JsonKind::object);
      for (JsonMember const& dim : dims.members()) {
        std::string const name = dim.key.text();
        options.dims.push_back({name, json_value<Index>(dim.value, name, source_)});
      }
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
    fail("storage ", in_quotes(name), " of ", in_quotes(get<std::string>(tensor, "name")),
         " is neither adopted nor double_buffered");
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
    if (at != kept.size())
      fail("there are tiles of ", in_quotes(kept[at].tensor), ", which no node uses");
    auto const listed = static_cast<Index>(list(root_, "buffers").size());
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
    if (root_.find("moved"))
      for (JsonView const each : list(root_, "moved"))
        (void)plan.kernel(
            transfer_of(get<std::string>(each, "kind"), dtype(get<JsonView>(each, "dtype"))));
    if (root_.find("copied"))
      for (JsonView const name : list(root_, "copied")) (void)plan.kernel(copy_of(dtype(name)));
    DynamicArray<PlannedTask> tasks;
    std::size_t copies = 0;
    for (JsonView const given : list(root_, "tasks")) {
      if (given.find("copy")) {
        tasks.push_back(copy(plan, given));
        ++copies;
        continue;
      }
      if (given.find("send") || given.find("receive")) {
        tasks.push_back(transfer(plan, given));
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
      std::size_t const number =
          given.find("number") ? get<std::uint32_t>(given, "number") : std::size_t{0};
      bool const there = at != walked.end() && number < at->second.size();
      std::uint32_t const found =
          there ? std::exchange(at->second.rbegin()[static_cast<std::ptrdiff_t>(number)], no_id)
                : no_id;
      if (found == no_id)
        fail("task ", tasks.size(), " {\"node\":", get<std::uint32_t>(given, "node"), ",", range,
             "} is none of its node, or comes twice");
      tasks.push_back(plan.tasks[found]);
      if (!is_part_) at->second.pop_back();  // those that are alike follow one another
      if (given.find("priority")) tasks.back().priority = get<std::int32_t>(given, "priority");
      tasks.back().location = location(given);
      if (given.find("uses")) replace_uses(plan, tasks.back(), given);
      if (given.find("hints")) tasks.back().hints = get<std::uint16_t>(given, "hints");
    }
    if (!is_part_ && tasks.size() - copies != plan.tasks.size())
      fail("there are ", tasks.size() - copies, " tasks where its nodes have ", plan.tasks.size());
    plan.tasks = std::move(tasks);
  }

  /// Reads the places of tensors, and the ranks that hold their tiles.
  void read_tensors(PlanData& plan) const {
    auto tensor = plan.tensors.begin();
    int const ranks = is_part_ ? get<int>(root_, "ranks") : 1;
    for (JsonView const given : list(root_, "tensors")) {
      while (!tensor->used) ++tensor;  // as cut() has checked
      PlannedTensor& its = *tensor++;
      its.place = location(given).place;
      if (!is_part_ || its.storage == Storage::arena || its.storage == Storage::view) continue;
      if (given.find("homes"))
        for (JsonView const home : list(given, "homes"))
          its.homes.push_back(tile_home(home, ranks));
      if (std::ssize(its.homes) != its.tiling.tile_count())
        fail("'", its.name, "' has homes of ", its.homes.size(), " tiles, and ",
             its.tiling.tile_count(), " tiles");
    }
  }
  /// Reads the rank whose part it is.
  void read_part(PlanData& plan) const {
    plan.rank = get<int>(root_, "rank");
    plan.ranks = get<int>(root_, "ranks");
    plan.messages = get<std::int64_t>(root_, "messages");
    if (plan.ranks < 2 || plan.rank < 0 || plan.rank >= plan.ranks)
      fail("the part of rank ", plan.rank, " of ", plan.ranks);
    if (plan.messages > INT64_MAX / 2)  // binding takes as many numbers again
      fail("there are ", plan.messages, " messages, more than can be numbered");
  }
  TileHome tile_home(JsonView given, int ranks) const {
    auto const at = given.as<std::vector<Index>>();
    bool right = at && at->size() == max_mesh_axes + 2;
    for (std::size_t a = 0; right && a < max_mesh_axes; ++a)
      right = (*at)[a] >= RankBox::all && (*at)[a] < ranks && (*at)[a] <= INT16_MAX;
    if (!right || (*at)[4] < 0 || (*at)[4] >= 1 << max_mesh_axes || (*at)[5] < 0 ||
        (*at)[5] >= ranks)
      fail("a tile's home is ", given.shown());
    TileHome home;
    for (std::size_t a = 0; a < max_mesh_axes; ++a)
      home.box.at[a] = static_cast<std::int16_t>((*at)[a]);
    home.cut = static_cast<std::uint8_t>((*at)[4]);
    home.first = static_cast<std::int32_t>((*at)[5]);
    return home;
  }
  /// Keeps the uses and arguments of its own tasks, in their order, and reads its phases.
  void finish_part(PlanData& plan) const {
    DynamicArray<Use<BufferId>> uses;
    DynamicArray<std::byte> args;
    plan.flops = 0;
    for (PlannedTask& task : plan.tasks) {
      auto const first = static_cast<std::uint32_t>(uses.size());
      uses.append(plan.uses_of(task));
      task.first_use = first;
      auto const at = static_cast<std::uint32_t>(args.size());
      args.append(std::span<std::byte const>(plan.args.data() + task.args, task.args_bytes));
      args.resize((args.size() + 7) / 8 * 8);
      task.args = at;
      add_saturated(plan.flops, task.cost.flops);
    }
    plan.uses = std::move(uses);
    plan.args = std::move(args);
    keep_buffers(plan);
    if (!root_.find("phases")) return;
    std::uint32_t begin = 0;
    for (JsonView const given : list(root_, "phases")) {
      auto const end = get<std::uint32_t>(given, "end");
      if (end < begin || end > plan.tasks.size())
        fail("a phase ends at task ", end, " of ", plan.tasks.size());
      plan.phases.push_back({get<std::string>(given, "name"), begin, end});
      begin = end;
    }
  }

  /// Leaves out buffers of tiles that the rank never has: the file lists those of all.
  void keep_buffers(PlanData& plan) const {
    std::size_t tiles = 0;
    for (PlannedTensor const& tensor : plan.tensors)
      tiles = std::max<std::size_t>(tiles, tensor.first_buffer + tensor.buffer_count);
    std::vector<bool> here(plan.buffers.size());
    for (BufferId b = 0; b < plan.buffers.size(); ++b)
      here[b] = plan.buffers[b].location.rank == plan.rank;
    for (Use<BufferId> const& use : plan.uses) here[use.handle] = true;
    plan = passes::keep(std::move(plan), here, tiles);
  }

  PlannedKernel transfer_of(std::string const& kind, DType dtype) const {
    for (KernelKind const each : {KernelKind::send, KernelKind::receive})
      if (kind == name_of_transfer(each)) return {each, kind, dtype, DType::fp32, Mode::exact};
    fail("what moves is ", in_quotes(kind), ", neither send nor receive");
  }
  /// The node of the plan that a task of no op belongs to.
  std::uint32_t node(JsonView given, std::string_view kind) const {
    auto const node = get<std::uint32_t>(given, "node");
    if (node >= planned_.size() || !planned_[node])
      fail("a ", kind, " belongs to node ", node, ", which is none of the plan's");
    return node;
  }
  /// A task that sends a tile to another rank, or receives it.
  PlannedTask transfer(PlanData& plan, JsonView given) const {
    bool const sends = given.find("send").has_value();
    std::string const kind = name_of_transfer(sends ? KernelKind::send : KernelKind::receive);
    auto const message = get<std::vector<Index>>(given, kind);
    if (message.size() != 3) fail("a ", kind, " has a buffer, a rank and a number");
    PlannedBuffer const& moved = buffer(plan, message[0]);
    if (message[1] < 0 || message[1] >= plan.ranks || message[1] == plan.rank)
      fail("a ", kind, " has rank ", message[1], ", one of the other ", plan.ranks - 1, " is due");
    if (message[2] < 0 || message[2] >= plan.messages)
      fail("message ", message[2], " of ", plan.messages);
    PlannedTask task;
    task.node = node(given, kind);
    task.kernel = plan.kernel(transfer_of(kind, plan.tensors[moved.tensor].dtype));
    task.first_use = static_cast<std::uint32_t>(plan.uses.size());
    task.use_count = 1;
    task.tensor = moved.tensor;
    task.tile = moved.tile;
    task.location = location(given);
    if (given.find("priority")) task.priority = get<std::int32_t>(given, "priority");
    if (given.find("hints")) task.hints = get<std::uint16_t>(given, "hints");
    TransferArgs const args{message[2], static_cast<std::int32_t>(message[1]), 0};
    task.args = static_cast<std::uint32_t>(plan.args.size());
    task.args_bytes = sizeof args;
    plan.args.append(std::as_bytes(std::span(&args, 1)));
    plan.uses.push_back({static_cast<BufferId>(message[0]), sends ? Access::read : Access::write});
    return task;
  }

  static PlannedKernel copy_of(DType dtype) {
    return {KernelKind::copy, "copy", dtype, DType::fp32, Mode::exact};
  }
  DType dtype(JsonView name) const {
    auto const text = name.as<std::string>();
    if (auto const dtype = text ? dtype_named(*text) : std::nullopt) return *dtype;
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
    task.node = node(given, "copy");
    task.kernel = plan.kernel(copy_of(plan.tensors[to.tensor].dtype));
    task.first_use = static_cast<std::uint32_t>(plan.uses.size());
    task.use_count = 2;
    task.tensor = to.tensor;
    task.tile = to.tile;
    task.location = location(given);
    if (given.find("priority")) task.priority = get<std::int32_t>(given, "priority");
    if (given.find("hints")) task.hints = get<std::uint16_t>(given, "hints");
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
    for (JsonView const slot : list(root_, "slots"))
      plan.slots.push_back({get<Index>(slot, "bytes"), location(slot)});
    std::size_t b = 0;
    for (JsonView const slot : list(root_, "buffers")) {
      bool const located = slot.is_object();  // not where all buffers of one process are
      std::optional<std::int64_t> const number =
          located ? get<std::int64_t>(slot, "slot") : slot.as<std::int64_t>();
      if (b == plan.buffers.size() && located && slot.find("copy")) add_copy(plan, slot);
      if (b == plan.buffers.size() || !number || *number < -1 || *number >= no_id)
        fail("buffer ", b, " of ", plan.buffers.size(), " has slot ", slot.shown());
      plan.buffers[b].location = located ? location(slot) : Location{rank_, host};
      if (located && slot.find("copy")) plan.buffers[b].copy = true;
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
    for (JsonView const report : list(root_, "memory")) {
      Location const at = location(report);
      for (MemoryReport const& other : plan.memory)
        if (other.location == at) fail("memory at ", to_string(at), " is listed twice");
      if (plan.memory.size() == passes::CopyPass::most_places)
        fail("memory of more than ", passes::CopyPass::most_places, " places");
      plan.memory.push_back({at, get<Index>(report, "stored"), get<Index>(report, "arena"),
                             get<Index>(report, "arena_lower_bound"),
                             report.find("adopted") ? get<Index>(report, "adopted") : 0});
    }
  }

  void read_hints(PlanData& plan) const {
    if (!root_.find("hints")) return;
    for (JsonView const hints : list(root_, "hints"))
      plan.hints.push_back({.worker = get<int>(hints, "worker"),
                            .node = get<int>(hints, "node"),
                            .prefetch = get<bool>(hints, "prefetch"),
                            .offload = get<bool>(hints, "offload"),
                            .device = hints.find("device") ? get<int>(hints, "device") : -1});
  }

  Location location(JsonView object) const {
    auto const given = object.find("location");
    if (!given) return {rank_, host};
    using Kind = Place::Kind;
    auto const name = get<std::string>(*given, "place");
    int const rank = get<int>(*given, "rank"), device = get<int>(*given, "device");
    if (rank < 0 || device < 0)
      fail("a place on rank ", rank, " and device ", device, "; both count from 0");
    for (Kind const kind : {Kind::host, Kind::pinned, Kind::device, Kind::disk})
      if (name == nntile::name_of(kind)) return {rank, {kind, device}};
    fail("place ", in_quotes(name), " is unknown");
  }

  JsonView root_;
  std::string_view source_;
  LogicalGraph const& graph_;
  bool is_part_;  // kept, as a search goes through the whole file
  int rank_;
  std::vector<bool> planned_;  // by node of the graph
};

}  // namespace nntile::io::detail
