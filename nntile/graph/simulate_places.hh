#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Simulated time of a plan for several places: what copies cost, and what hides them.

#include <algorithm>
#include <cstdint>
#include <queue>
#include <vector>

#include "nntile/core/copy.hh"
#include "nntile/core/link_model.hh"
#include "nntile/graph/simulate.hh"

namespace nntile {

/// The host's workers, a device, of which there may be several alike, and the link between them;
/// and that between the host and the disk. `device.workers` kernels run at a time, and one copy of
/// each device, and one of the disk; of links latency and bandwidth count. `readers_wait`: the
/// readers of a tile run in turn, as on Serial.
struct PlacesModel {
  MachineModel host = {};
  MachineModel device = {.workers = 1, .peak = 50e12, .bandwidth = 3e12, .task_overhead = 3e-6};
  LinkModel link = {.latency = 5e-6, .bandwidth = 50e9};
  LinkModel disk = {.latency = 100e-6, .bandwidth = 2e9};
  bool readers_wait = false;
};

/// The place whose workers, or stream, run a task of a plan: of a copy to or from the disk that.
inline Place place_that_runs(Plan const& plan, PlannedTask const& task) {
  if (plan.kernels()[task.kernel].kind == KernelKind::copy)
    for (Use<BufferId> const& use : plan.uses(task))
      if (plan.buffers()[use.handle].location.place == disk) return disk;
  return task.location.place;
}

/// Seconds of a task of a plan: a copy takes latency + bytes / bandwidth of its link, a transfer
/// among ranks nothing.
inline double task_seconds(Plan const& plan, PlannedTask const& task, PlacesModel const& model) {
  KernelKind const kind = plan.kernels()[task.kernel].kind;
  if (is_transfer(kind)) return 0;
  if (kind == KernelKind::copy) {
    LinkModel const& link = place_that_runs(plan, task) == disk ? model.disk : model.link;
    return link.latency + static_cast<double>(task.cost.bytes) / link.bandwidth;
  }
  bool const there = task.location.place.kind == Place::Kind::device;
  return task_seconds(task.cost, there ? model.device : model.host);
}

/// One place's work in a simulated run, in seconds.
struct PlaceSimulation {
  Place place = {};
  double computing = 0;
  double copying = 0;  // to it and from it, counted at the device, or at the disk
};
struct PlacesSimulation {
  double elapsed = 0;
  std::vector<PlaceSimulation> places;
};

/// Runs the plan's tasks: those of the host on its workers, those of a device in a stream for
/// kernels, its copies in one for copies, and those of the disk in one of its own. What is free
/// takes the task that has been ready longest, as a stream does that is given tasks when they are
/// ready; copies in flight are few, and the next is the earliest in the plan that is ready.
/// Transfers among ranks take no time. Throws ValueError (a negative peak, no bandwidth ...).
/// Cost: n log n in the number of tasks.
inline PlacesSimulation simulate(Plan const& plan, PlacesModel const& model) {
  detail::check_model(plan, "a host", fault_of(model.host));
  detail::check_model(plan, "devices", fault_of(model.device));
  detail::check_model(plan, "a link", fault_of(model.link));
  detail::check_model(plan, "a disk", fault_of(model.disk));
  TaskOrder order = order_of(plan, model.readers_wait);
  PlacesSimulation result;
  struct Ready {
    double since;
    std::uint32_t task;
    bool operator>(Ready const& other) const {
      return since != other.since ? since > other.since : task > other.task;
    }
  };
  using Queue = std::priority_queue<Ready, std::vector<Ready>, std::greater<>>;
  struct Lane {
    std::size_t place;
    bool copies;
    int free;
    Queue waiting;
    double until = 0;  // of a stream of copies: when those in flight have ended
  };
  std::vector<Lane> lanes;
  std::vector<std::size_t> lane_of(plan.tasks().size());
  for (std::size_t t = 0; t < lane_of.size(); ++t) {
    PlannedTask const& task = plan.tasks()[t];
    Place const at = place_that_runs(plan, task);
    std::size_t place = 0;
    while (place < result.places.size() && !(result.places[place].place == at)) ++place;
    if (place == result.places.size()) result.places.push_back({at});
    bool const there = at.kind == Place::Kind::device;
    bool const copies =
        at == disk || (there && plan.kernels()[task.kernel].kind == KernelKind::copy);
    std::size_t lane = 0;
    while (lane < lanes.size() && (lanes[lane].place != place || lanes[lane].copies != copies))
      ++lane;
    if (lane == lanes.size())
      lanes.push_back({place,
                       copies,
                       copies ? copies_in_flight : (there ? model.device : model.host).workers,
                       {}});
    lane_of[t] = lane;
  }
  Queue ended;
  std::vector<double> since(lane_of.size());  // a task is ready
  auto const make_ready = [&](std::uint32_t t) {
    Lane& lane = lanes[lane_of[t]];
    lane.waiting.push({lane.copies ? 0 : since[t], t});
  };
  auto const begin = [&](Lane& lane, double now) {
    for (; lane.free > 0 && !lane.waiting.empty(); --lane.free) {
      std::uint32_t const t = lane.waiting.top().task;
      lane.waiting.pop();
      double const seconds = task_seconds(plan, plan.tasks()[t], model);
      (lane.copies ? result.places[lane.place].copying : result.places[lane.place].computing) +=
          seconds;
      double const end = (lane.copies ? std::max(now, lane.until) : now) + seconds;
      ended.push({lane.until = end, t});
    }
  };
  for (std::uint32_t t = 0; t < lane_of.size(); ++t)
    if (order.earlier[t] == 0) make_ready(t);
  for (double now = 0;;) {
    for (Lane& lane : lanes) begin(lane, now);
    if (ended.empty()) return result;
    now = result.elapsed = ended.top().since;
    while (!ended.empty() && ended.top().since == now) {
      std::uint32_t const t = ended.top().task;
      ended.pop();
      Lane& lane = lanes[lane_of[t]];
      ++lane.free;
      begin(lane, now);  // before what this end makes ready
      for (std::uint32_t const follower : order.followers[t]) {
        since[follower] = now;
        if (--order.earlier[follower] == 0) make_ready(follower);
      }
    }
  }
}

}  // namespace nntile
