#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A run as a Chrome trace, the JSON that Perfetto and chrome://tracing open.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "nntile/graph/plan.hh"
#include "nntile/graph/trace.hh"
#include "nntile/io/directory.hh"
#include "nntile/io/trace_events.hh"
#include "nntile/io/trace_time.hh"

namespace nntile::io {

namespace detail {

/// The name of a row whose first task is this: of a worker, or of a stream.
inline std::string row_name(Plan const& plan, PlannedTask const& task, std::int64_t number) {
  if (plan.kernels()[task.kernel].kind == KernelKind::copy)
    for (std::size_t const use : {std::size_t{1}, std::size_t{0}})
      if (Place const at = plan.buffers()[plan.uses(task)[use].handle].location.place;
          !host_reaches(at))
        return concat("copies of ", to_string(at));
  Place const place = task.location.place;
  return is_on_device(place) ? concat("stream of ", to_string(place)) : concat("worker ", number);
}

/// Of each place a counter of the bytes of its arena that tiles take: from the beginning of the
/// first task of theirs that was timed to the end of the last.
inline void add_memory(TraceEvents& events, Plan const& plan, std::span<TaskTime const> times,
                       std::int64_t origin) {
  struct Life {
    std::int64_t begin = 0, end = 0;
  };
  std::vector<Life> lives(plan.buffers().size());
  for (std::size_t t = 0; t < times.size(); ++t) {
    if (times[t].end == 0) continue;
    for (Use<BufferId> const& use : plan.uses(plan.tasks()[t])) {
      Life& life = lives[use.handle];
      life.begin = life.end == 0 ? times[t].begin : std::min(life.begin, times[t].begin);
      life.end = std::max(life.end, times[t].end);
    }
  }
  std::vector<BufferId> order;
  for (BufferId b = 0; b < lives.size(); ++b)
    if (plan.buffers()[b].slot != no_id && lives[b].end != 0) order.push_back(b);
  std::sort(order.begin(), order.end(), [&](BufferId a, BufferId b) {
    return lives[a].begin != lives[b].begin ? lives[a].begin < lives[b].begin : a < b;
  });
  std::vector<BufferId> tenants(plan.slots().size(), no_id);
  for (BufferId const b : order) {  // a task may write over an operand
    BufferId& tenant = tenants[plan.buffers()[b].slot];
    if (tenant != no_id) lives[tenant].end = std::min(lives[tenant].end, lives[b].begin);
    tenant = b;
  }
  for (MemoryReport const& report : plan.memories()) {
    std::map<std::int64_t, Index> changes;
    for (BufferId const b : order) {
      PlannedBuffer const& buffer = plan.buffers()[b];
      if (!(buffer.location == report.location)) continue;
      changes[lives[b].begin] += buffer.bytes;
      changes[lives[b].end] -= buffer.bytes;
    }
    Index bytes = 0;
    for (auto const& [time, change] : changes)
      events.push_back(
          Json::object({{"ph", "C"},
                        {"name", concat("arena of ", to_string(report.location.place))},
                        {"pid", 1},
                        {"ts", microseconds(time - origin)},
                        {"args", Json::object({{"bytes", bytes += change}})}}));
  }
}

}  // namespace detail

/// The trace of one run: a row per thread or stream, an event per task, named by op and result,
/// with its flops and bytes, of a copy the bytes that it moves, and between which places; and the
/// memory that tiles take at each place. with_device_times() has the times of streams. Times begin
/// at 0, in microseconds. Throws ValueError for times of another plan, or where nothing was timed.
/// Source: Trace Event Format, 2016.
inline std::string trace_text(Plan const& plan, std::span<TaskTime const> times) {
  nntile::detail::check_times("trace", plan, times);
  if (!plan.tasks().empty() &&
      std::all_of(times.begin(), times.end(), [](TaskTime const& time) { return time.end == 0; }))
    throw ValueError(concat("trace: plan '", plan.name(), "': no task was timed; bind it with ",
                            "BindOptions{.trace = true}, and let a run end first"));
  std::int64_t origin = INT64_MAX;
  std::map<std::uint64_t, std::int64_t> threads;
  detail::TraceEvents events("ms");
  for (std::size_t t = 0; t < times.size(); ++t) {
    if (times[t].end == 0) continue;
    origin = std::min(origin, times[t].begin);
    auto const number = static_cast<std::int64_t>(threads.size());
    if (!threads.emplace(times[t].thread, number).second) continue;
    std::string const name = detail::row_name(plan, plan.tasks()[t], number);
    events.push_back(Json::object({{"ph", "M"},
                                   {"name", "thread_name"},
                                   {"pid", 1},
                                   {"tid", number},
                                   {"args", Json::object({{"name", name}})}}));
  }
  for (std::size_t t = 0; t < times.size(); ++t) {
    if (times[t].end == 0) continue;
    PlannedTask const& task = plan.tasks()[t];
    std::string const& op = plan.kernels()[task.kernel].name;
    Json arguments =
        Json::object({{"result", concat(plan.tensors()[task.tensor].name, "[", task.tile, "]")},
                      {"task", static_cast<std::int64_t>(t)}});
    if (plan.kernels()[task.kernel].kind == KernelKind::copy) {
      PlannedBuffer const& source = plan.buffers()[plan.uses(task)[0].handle];
      arguments["from"] = to_string(source.location.place);
      arguments["to"] = to_string(plan.buffers()[plan.uses(task)[1].handle].location.place);
      arguments["bytes"] = source.payload();
    } else {
      arguments["flops"] = task.cost.flops;
      arguments["bytes"] = task.cost.bytes;
    }
    events.push_back(Json::object({{"ph", "X"},
                                   {"name", op},
                                   {"cat", op},
                                   {"pid", 1},
                                   {"tid", threads.at(times[t].thread)},
                                   {"ts", detail::microseconds(times[t].begin - origin)},
                                   {"dur", detail::microseconds(times[t].end - times[t].begin)},
                                   {"args", std::move(arguments)}}));
  }
  detail::add_memory(events, plan, times, origin);
  return std::move(events).text();
}

/// Writes it. Throws what trace_text does, Error with path, step and reason.
inline void write_trace(std::string const& path, Plan const& plan,
                        std::span<TaskTime const> times) {
  write_file(path, trace_text(plan, times));
}

}  // namespace nntile::io
