#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A run as a Chrome trace, the JSON that Perfetto and chrome://tracing open.

#include <map>
#include <string>

#include "nntile/graph/plan.hh"
#include "nntile/graph/trace.hh"
#include "nntile/io/directory.hh"
#include "nntile/io/json_text.hh"

namespace nntile::io {

/// The trace of one run: a row per thread, an event per task, named by op and result, with its
/// flops and bytes. Times begin at 0, in microseconds. Source: Trace Event Format, 2016.
inline std::string trace_text(Plan const& plan, std::span<TaskTime const> times) {
  std::int64_t origin = 0;
  std::map<std::uint64_t, std::int64_t> threads;
  for (TaskTime const& time : times) {
    if (time.end == 0) continue;
    origin = origin == 0 ? time.begin : std::min(origin, time.begin);
    threads.emplace(time.thread, static_cast<std::int64_t>(threads.size()));
  }
  Json events = Json::array();
  for (auto const& [thread, number] : threads)
    events.push_back(Json::object({{"ph", "M"},
                                   {"name", "thread_name"},
                                   {"pid", 1},
                                   {"tid", number},
                                   {"args", Json::object({{"name", concat("worker ", number)}})}}));
  for (std::size_t t = 0; t < times.size(); ++t) {
    if (times[t].end == 0) continue;
    PlannedTask const& task = plan.tasks()[t];
    std::string const& op = plan.kernels()[task.kernel].name;
    events.push_back(Json::object(
        {{"ph", "X"},
         {"name", op},
         {"cat", op},
         {"pid", 1},
         {"tid", threads.at(times[t].thread)},
         {"ts", static_cast<double>(times[t].begin - origin) * 1e-3},
         {"dur", static_cast<double>(times[t].end - times[t].begin) * 1e-3},
         {"args",
          Json::object({{"result", concat(plan.tensors()[task.tensor].name, "[", task.tile, "]")},
                        {"task", static_cast<std::int64_t>(t)},
                        {"flops", task.cost.flops},
                        {"bytes", task.cost.bytes}})}}));
  }
  return to_text(Json::object({{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}), 0);
}

/// Writes it. Throws Error with path, step and reason.
inline void write_trace(std::string const& path, Plan const& plan,
                        std::span<TaskTime const> times) {
  write_file(path, trace_text(plan, times));
}

}  // namespace nntile::io
