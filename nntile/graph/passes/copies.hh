#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The pass that copies tiles from one place to another.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "nntile/core/cost.hh"
#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/passes/counting_sort.hh"
#include "nntile/graph/passes/device_homes.hh"
#include "nntile/graph/plan.hh"

namespace nntile::passes {

/// Gives each task the tiles of its place. A tile is valid at some places; what a task reads is
/// copied to its place where it is not there, and stays until its last use there, or until another
/// place writes it. A kept tensor is at its home when the phase, or the run, ends. Where a place
/// has a limit, what is needed latest leaves it (Belady, 1966), for its home or for slower memory,
/// behind its last use; and what the next tasks read is fetched ahead into room that is left over.
/// Cost: linear in the uses, times log n where there is a limit.
class CopyPass {
 public:
  static constexpr std::uint32_t ahead = 4;  // tasks
  static constexpr Index unlimited = INT64_MAX;
  static constexpr std::size_t most_places = 255;  // counted in 8 bits

  /// `limits`: of what a place holds besides kept tensors; `rooms`: the same in errors.
  CopyPass(PlanData plan, Homes const& homes, std::vector<PlaceCapacity> const& limits,
           std::vector<PlaceCapacity> const& rooms)
      : plan_(std::move(plan)), homes_(homes), rooms_(rooms) {
    (void)index(host);
    for (PlannedTensor const& tensor : plan_.tensors) (void)index(tensor.place);
    for (PlaceCapacity const& limit : limits) state_[index(limit.place)].limit = limit.bytes;
    for (PlaceCapacity const& limit : limits) (void)index(behind(limit.place));
    at_.resize(plan_.tasks.size());
    for (std::size_t t = 0; t < at_.size(); ++t) at_[t] = index(homes_.of(plan_.tasks[t]));
    begin();
  }

  /// The least limit of a place with which each task has room there, or for what it needs by way of
  /// there.
  Index least_limit(Place const& place) {
    std::uint8_t const at = index(place);
    Index most = 0;
    for (std::size_t t = 0; t < at_.size(); ++t)
      if (at_[t] == at || at == 0) most = std::max(most, tiles_of(plan_.tasks[t], at).bytes);
    return most;
  }

  PlanData run() {
    std::size_t phase = 0;
    for (std::uint32_t t = 0; t < at_.size(); ++t) {
      for (; ends(phase, t); ++phase) end_phase();
      bool const last = phase == plan_.phases.size();
      fetch_ahead(t, last ? static_cast<std::uint32_t>(at_.size()) : plan_.phases[phase].end);
      task(t);
    }
    merge();
    return std::move(plan_);
  }

 private:
  static constexpr std::uint32_t never = ~0u;

  /// A place: by tile the buffer that holds its value there, the task that uses it there next, and
  /// the one that used it last.
  struct AtPlace {
    Place place;
    Index limit = unlimited, live = 0, lacking = 0;  // lacking: of the next tasks
    DynamicArray<BufferId> buffer = {};
    DynamicArray<std::uint32_t> next = {}, last = {};
    DynamicArray<std::pair<std::uint32_t, BufferId>> heap = {};  // by when they are needed
  };

  std::uint8_t index(Place const& place) {
    for (std::size_t i = 0; i < state_.size(); ++i)
      if (state_[i].place == place) return static_cast<std::uint8_t>(i);
    if (state_.size() == most_places)
      throw PlanError(concat("plan '", plan_.name, "': its tensors live at more than ", most_places,
                             " places; use fewer"));
    state_.push_back({place});
    return static_cast<std::uint8_t>(state_.size() - 1);
  }
  /// The memory behind a place: of a device the host's, of the host the disk.
  static Place behind(Place const& place) {
    return place.kind == Place::Kind::device ? host : disk;
  }

  /// Whether a phase ends before task t, as several do where a rank has nothing to do in some.
  bool ends(std::size_t phase, std::uint32_t t) const {
    return phase < plan_.phases.size() && plan_.phases[phase].end == t;
  }
  bool kept(BufferId b) const {
    return !plan_.in_arena(b) && plan_.buffers[b].location.rank == plan_.rank;
  }
  std::uint8_t home(BufferId b) { return index(plan_.tensors[plan_.buffers[b].tensor].place); }
  /// Whether the place keeps the tile, so that it needs no room.
  bool fixed(BufferId b, std::uint8_t at) const {
    return kept(b) && plan_.tensors[plan_.buffers[b].tensor].place == state_[at].place;
  }
  /// Bytes of the place's limit that the tile takes there.
  Index bytes_at(BufferId b, std::uint8_t at) const {
    return fixed(b, at) ? 0 : plan_.buffers[b].bytes;
  }

  /// Notes the places of values before a run, and the next use of each tile.
  void begin() {
    tiles_ = plan_.buffers.size();
    for (AtPlace& place : state_) {
      place.buffer.assign(tiles_, no_id);
      place.next.assign(tiles_, never);
      place.last.assign(tiles_, 0);
    }
    placed_.resize(tiles_);
    for (BufferId b = 0; b < tiles_; ++b) {
      if (!kept(b)) continue;
      placed_[b] = true;
      AtPlace& place = state_[home(b)];
      plan_.buffers[b].location.place = place.place;
      TensorAttributes const& attributes = plan_.tensors[plan_.buffers[b].tensor].attributes;
      if (attributes.persistent || attributes.external) place.buffer[b] = b;
    }
    next_.resize(plan_.uses.size());
    written_again_.resize(plan_.uses.size());
    DynamicArray<std::uint32_t> written(tiles_, never);  // in which phase
    std::size_t phase = plan_.phases.size();
    for (std::uint32_t t = static_cast<std::uint32_t>(at_.size()); t-- > 0;) {
      while (phase != 0 && t < plan_.phases[phase - 1].begin) --phase;
      AtPlace& place = state_[at_[t]];
      PlannedTask const& task = plan_.tasks[t];
      for (std::uint32_t u = task.first_use; u < task.first_use + task.use_count; ++u) {
        next_[u] = place.next[plan_.uses[u].handle];
        written_again_[u] = written[plan_.uses[u].handle] == phase;
      }
      for (Use<BufferId> const& use : plan_.uses_of(task)) {
        place.next[use.handle] = t;
        if (writes(use.access)) written[use.handle] = static_cast<std::uint32_t>(phase);
      }
    }
  }

  /// The first task from now on that needs a tile, at any place.
  std::uint32_t needed(BufferId b) const {
    std::uint32_t next = never;
    for (AtPlace const& place : state_) next = std::min(next, place.next[b]);
    return next;
  }
  bool elsewhere(BufferId b, std::uint8_t at) const {
    for (std::size_t i = 0; i < state_.size(); ++i)
      if (i != at && state_[i].buffer[b] != no_id) return true;
    return false;
  }

  void task(std::uint32_t t) {
    PlannedTask& task = plan_.tasks[t];
    std::uint8_t const at = at_[t];
    task.location.place = state_[at].place;
    std::uint32_t const end = task.first_use + task.use_count;
    for (std::uint32_t u = task.first_use; u < end; ++u) bring(plan_.uses[u], at, t);
    tiles_of_task_.clear();
    for (std::uint32_t u = task.first_use; u < end; ++u) {
      tiles_of_task_.push_back(plan_.uses[u].handle);
      plan_.uses[u].handle = state_[at].buffer[plan_.uses[u].handle];
    }
    for (std::uint32_t u = task.first_use; u < end; ++u) {
      BufferId const b = tiles_of_task_[u - task.first_use];
      state_[at].next[b] = next_[u];
      state_[at].last[b] = t;
      if (writes(plan_.uses[u].access)) wrote(b, at, t, written_again_[u]);
    }
    for (BufferId const b : tiles_of_task_) {
      drop_unneeded(b);
      for (std::uint8_t i = 0; i < state_.size(); ++i)
        if (state_[i].buffer[b] != no_id) remember(b, i);
    }
  }
  /// Has the task's place hold a tile.
  void bring(Use<BufferId> use, std::uint8_t at, std::uint32_t t) {
    BufferId const b = use.handle;
    if (state_[at].buffer[b] != no_id) return;
    if (!make_room_for(b, at, t)) fail(b, at, t);
    if (reads(use.access))
      fetch(b, at, 2 * t);
    else
      state_[at].buffer[b] = own(b, at);
  }
  /// A task wrote a tile: no other place has its value, but the home where it is the last to.
  void wrote(BufferId b, std::uint8_t at, std::uint32_t t, bool again) {
    for (std::uint8_t i = 0; i < state_.size(); ++i)
      if (i != at) drop(b, i);
    if (!kept(b) || again || home(b) == at) return;
    move(b, at, home(b), 2 * t + 1);
  }
  /// Drops copies of tiles that the driver may change between phases: they stay at their home
  /// alone.
  void end_phase() {
    for (BufferId b = 0; b < tiles_; ++b)
      for (std::uint8_t i = 0; kept(b) && i < state_.size(); ++i)
        if (i != home(b)) drop(b, i);
  }
  /// Fetches what tasks behind t read, where there is room for it beside all that the tasks from t
  /// up to its reader lack: nothing leaves a place for that. What is written before, or is brought
  /// home when its phase ends, would be fetched in vain.
  void fetch_ahead(std::uint32_t t, std::uint32_t phase_end) {
    for (AtPlace& place : state_) place.lacking = 0;
    for (std::uint32_t next = t; next < at_.size() && next <= t + ahead; ++next) {
      std::uint8_t const at = at_[next];
      if (state_[at].limit == unlimited) continue;
      PlannedTask const& task = plan_.tasks[next];
      for (Use<BufferId> const& use : plan_.uses_of(task))
        if (lacks(use.handle, at, next))
          add_saturated(state_[at].lacking, bytes_at(use.handle, at));
      for (std::uint32_t u = task.first_use; next != t && u < task.first_use + task.use_count;
           ++u) {
        Use<BufferId> const use = plan_.uses[u];  // copies add to the list
        BufferId const b = use.handle;
        if (!reads(use.access) || !lacks(b, at, next) || !elsewhere(b, at)) continue;
        if (kept(b) && home(b) != at && next >= phase_end) continue;
        if (!roomy(at, 0) || !roomy_on_the_way(b, at) || written(b, t, next)) continue;
        state_[at].lacking -= bytes_at(b, at);
        fetch(b, at, 2 * t);
      }
    }
  }
  /// Whether a tile is missing at a place where task `next` is the first to use it.
  bool lacks(BufferId b, std::uint8_t at, std::uint32_t next) const {
    return state_[at].buffer[b] == no_id && state_[at].next[b] == next;
  }
  bool roomy(std::uint8_t at, Index bytes) const {
    AtPlace const& place = state_[at];
    return place.lacking <= place.limit - place.live - bytes;
  }
  bool roomy_on_the_way(BufferId b, std::uint8_t at) {
    bool const direct = state_[source(b)].place != disk || at == 0 || state_[0].buffer[b] != no_id;
    return direct || roomy(0, bytes_at(b, 0));
  }
  bool written(BufferId b, std::uint32_t begin, std::uint32_t end) const {
    for (std::uint32_t t = needed(b); t >= begin && t < end; ++t)
      for (Use<BufferId> const& use : plan_.uses_of(plan_.tasks[t]))
        if (use.handle == b && writes(use.access)) return true;
    return false;
  }
  /// The buffer that a tile gets at a place: its own, or one more.
  BufferId own(BufferId b, std::uint8_t at) {
    AtPlace& place = state_[at];
    if (fixed(b, at)) return b;
    place.live += plan_.buffers[b].bytes;
    if (!placed_[b]) {
      placed_[b] = true;
      plan_.buffers[b].location.place = place.place;
      return b;
    }
    PlannedBuffer more = plan_.buffers[b];
    more.location = {plan_.rank, place.place};
    more.copy = true;
    plan_.buffers.push_back(more);
    return static_cast<BufferId>(plan_.buffers.size() - 1);
  }
  void drop(BufferId b, std::uint8_t at) {
    AtPlace& place = state_[at];
    if (std::exchange(place.buffer[b], no_id) != no_id) place.live -= bytes_at(b, at);
  }
  void drop_unneeded(BufferId b) {
    bool const over = needed(b) == never && !kept(b);
    for (std::uint8_t i = 0; i < state_.size(); ++i)
      if (over || (state_[i].next[b] == never && !fixed(b, i) && elsewhere(b, i))) drop(b, i);
  }

  /// Copies a tile to a place, from where it is.
  void fetch(BufferId b, std::uint8_t at, std::uint32_t when) {
    move(b, source(b), at, when);
    drop_unneeded(b);
  }
  std::uint8_t source(BufferId b) {
    std::uint8_t from = kept(b) ? home(b) : 0;
    if (state_[from].buffer[b] == no_id)
      for (from = 0; state_[from].buffer[b] == no_id;) ++from;
    return from;
  }
  /// Between the disk and a device by way of the host, which then keeps what it needs itself.
  void move(BufferId b, std::uint8_t from, std::uint8_t to, std::uint32_t when) {
    bool const far = state_[from].place == disk || state_[to].place == disk;
    if (!far || from == 0 || to == 0) return copy(b, from, to, when);
    bool const there = state_[0].buffer[b] != no_id;
    if (!there && !make_room_for(b, 0, when / 2)) fail(b, 0, when / 2);
    if (!there) copy(b, from, 0, when);
    copy(b, 0, to, when);
    if (state_[0].next[b] == never && !fixed(b, 0)) drop(b, 0);
  }
  /// A task that copies: before task t where `when` is 2 t, behind it where it is 2 t + 1.
  void copy(BufferId b, std::uint8_t from, std::uint8_t to, std::uint32_t when) {
    BufferId const source = state_[from].buffer[b], target = own(b, to);
    state_[to].buffer[b] = target;
    state_[to].last[b] = state_[from].last[b] = when / 2;
    PlannedTask task;
    PlannedTask const& beside = plan_.tasks[when / 2];
    task.node = beside.node;
    task.kernel =
        plan_.kernel({KernelKind::copy, "copy", plan_.tensors[plan_.buffers[b].tensor].dtype,
                      DType::fp32, Mode::exact});
    task.first_use = static_cast<std::uint32_t>(plan_.uses.size());
    task.use_count = 2;
    task.tensor = plan_.buffers[b].tensor;
    task.tile = plan_.buffers[b].tile;
    bool const device = state_[to].place.kind == Place::Kind::device;
    task.location = {plan_.rank, state_[device ? to : from].place};
    std::int64_t const bytes = plan_.buffers[b].payload();
    task.cost.bytes = bytes;
    task.args = static_cast<std::uint32_t>(plan_.args.size());
    task.args_bytes = sizeof bytes;
    plan_.args.resize(plan_.args.size() + sizeof bytes);
    std::memcpy(plan_.args.data() + task.args, &bytes, sizeof bytes);
    plan_.uses.push_back({source, Access::read});
    plan_.uses.push_back({target, Access::write});
    copies_.push_back(task);
    when_.push_back(when);
    remember(b, to);
  }

  void remember(BufferId b, std::uint8_t at) {
    AtPlace& place = state_[at];
    if (place.limit == unlimited || fixed(b, at)) return;
    place.heap.emplace_back(needed(b), b);
    std::push_heap(place.heap.begin(), place.heap.end());
  }
  /// Moves out what is needed behind task t, latest first. False where that is not enough.
  bool make_room_for(BufferId tile, std::uint8_t at, std::uint32_t t) {
    Index const bytes = bytes_at(tile, at);
    while (bytes != 0 && state_[at].limit - bytes < state_[at].live) {
      AtPlace& place = state_[at];
      if (place.heap.empty()) return false;
      auto const [when, b] = place.heap.front();
      bool const there = place.buffer[b] != no_id && needed(b) == when;
      if (there && when <= t) return false;
      std::pop_heap(place.heap.begin(), place.heap.end());
      place.heap.pop_back();
      if (there && !elsewhere(b, at)) move_out(b, at, t);
      if (there) drop(b, at);
    }
    return true;
  }
  void move_out(BufferId b, std::uint8_t at, std::uint32_t t) {
    std::uint8_t const to = kept(b) ? home(b) : index(behind(state_[at].place));
    if (to == at || !make_room_for(b, to, t)) fail(b, to, t);
    move(b, at, to, 2 * state_[at].last[b] + 1);
  }

  /// Bytes that the tiles of a task take of a place's limit, and the largest of them.
  struct TilesOfTask {
    Index bytes = 0;
    BufferId largest = no_id;
  };
  TilesOfTask tiles_of(PlannedTask const& task, std::uint8_t at) const {
    TilesOfTask result;
    auto const uses = plan_.uses_of(task);
    for (std::size_t u = 0; u < uses.size(); ++u) {
      BufferId const b = uses[u].handle;
      bool known = fixed(b, at);
      for (std::size_t v = 0; v < u; ++v) known = known || uses[v].handle == b;
      if (known) continue;
      result.bytes += plan_.buffers[b].bytes;
      if (result.largest == no_id || plan_.buffers[b].bytes > plan_.buffers[result.largest].bytes)
        result.largest = b;
    }
    return result;
  }
  /// A place has no room for a tile amid task t, beside what cannot leave it.
  [[noreturn]] void fail(BufferId tile, std::uint8_t at, std::uint32_t t) const {
    PlannedTask const& task = plan_.tasks[t];
    AtPlace const& place = state_[at];
    Index bytes = place.live + plan_.buffers[tile].bytes;
    BufferId largest = tile;
    if (at == at_[t]) {
      TilesOfTask const own = tiles_of(task, at);
      bytes = std::max(bytes, own.bytes);
      if (own.largest != no_id && plan_.buffers[own.largest].bytes >= plan_.buffers[tile].bytes)
        largest = own.largest;
    }
    Index room = place.limit;
    for (PlaceCapacity const& of : rooms_)
      if (of.place == place.place) room = of.bytes;
    std::string const lost =
        room == place.limit ? "" : concat(", ", room - place.limit, " of them between slots,");
    throw PlaceFull(
        concat("plan '", plan_.name, "': ", to_string(place.place), " has ", room,
               " bytes besides the tensors that it keeps", lost.empty() ? "," : lost, " and ",
               at == at_[t] ? "" : "what is copied by way of it beside ",
               plan_.kernels[task.kernel].name, " of '", plan_.tensors[task.tensor].name,
               "', tile ", task.tile, ", uses ", bytes, " at once, a tile of '",
               plan_.tensors[plan_.buffers[largest].tensor].name, "' the most, ",
               plan_.buffers[largest].bytes,
               "; give it more, smaller tiles, or keep fewer tensors there"),
        place.place);
  }

  /// Puts the copies among the tasks.
  void merge() {
    auto const order = counting_sort(when_, 2 * plan_.tasks.size());
    DynamicArray<PlannedTask> tasks;
    tasks.reserve(plan_.tasks.size() + copies_.size());
    std::size_t c = 0, phase = 0;
    auto const add_copies = [&](std::uint32_t when) {
      for (; c < order.size() && when_[order[c]] == when; ++c) tasks.push_back(copies_[order[c]]);
    };
    for (std::uint32_t t = 0; t <= plan_.tasks.size(); ++t) {
      for (; ends(phase, t); ++phase) {
        plan_.phases[phase].begin = phase == 0 ? 0 : plan_.phases[phase - 1].end;
        plan_.phases[phase].end = static_cast<std::uint32_t>(tasks.size());
      }
      if (t == plan_.tasks.size()) break;
      add_copies(2 * t);
      tasks.push_back(plan_.tasks[t]);
      add_copies(2 * t + 1);
    }
    plan_.tasks = std::move(tasks);
  }

  PlanData plan_;
  Homes const& homes_;
  std::vector<PlaceCapacity> const& rooms_;
  DynamicArray<AtPlace> state_;
  DynamicArray<std::uint8_t> at_;     // of a task
  DynamicArray<std::uint32_t> next_;  // of a use: the task that uses the tile next at its place
  DynamicArray<bool> written_again_;  // of a use: by a later task of its phase
  std::size_t tiles_ = 0;
  DynamicArray<bool> placed_;  // of a tile: whether its own buffer is at a place
  DynamicArray<PlannedTask> copies_;
  DynamicArray<std::uint32_t> when_;  // of a copy
  DynamicArray<BufferId> tiles_of_task_;
};

}  // namespace nntile::passes
