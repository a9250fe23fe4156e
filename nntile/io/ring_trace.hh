#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// What a ring has traced as a Chrome trace, the JSON that Perfetto and chrome://tracing open.

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "nntile/io/directory.hh"
#include "nntile/io/json_text.hh"
#include "nntile/runtime/ring/trace.hh"

namespace nntile::io {

namespace detail {

/// Finds the bodies of a trace, and the producers of its tasks behind joins.
class TracedTasks {
 public:
  explicit TracedTasks(RingTrace const& trace) {
    for (int worker = 0; worker < trace.workers(); ++worker)
      for (TracedBody const& body : trace.bodies(worker))
        if (body.end != 0) bodies_.emplace(body.sequence, &body);
    for (TracedEdge const& edge : trace.edges())
      if ((edge.to & traced_join) != 0) joined_[edge.to].push_back(edge.from);
  }

  /// Null for a task that has not run, a replay among them.
  TracedBody const* body(std::uint64_t sequence) const {
    auto const at = bodies_.find(sequence);
    return at == bodies_.end() ? nullptr : at->second;
  }

  /// Calls f(task) for each task that the first end of an edge stands for.
  template <class F> void each_producer(std::uint64_t from, F f) const {
    if ((from & traced_join) == 0) return f(from);
    auto const at = joined_.find(from);
    if (at == joined_.end()) return;
    for (std::uint64_t const producer : at->second) each_producer(producer, f);
  }

 private:
  std::unordered_map<std::uint64_t, TracedBody const*> bodies_;
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> joined_;
};

}  // namespace detail

/// A row per worker with an event per body, named by its codelet; an arrow per edge between two
/// bodies, joins left out; a counter of the slots in use. Times begin at 0, in microseconds. Read
/// it behind `wait_all`. Cost: linear in bodies and edges. Source: Trace Event Format, 2016.
inline std::string ring_trace_text(RingTrace const& trace) {
  detail::TracedTasks const tasks(trace);
  std::int64_t origin = INT64_MAX;
  for (TracedSubmission const& task : trace.submissions()) origin = std::min(origin, task.begin);
  for (int worker = 0; worker < trace.workers(); ++worker)
    if (!trace.bodies(worker).empty())
      origin = std::min(origin, trace.bodies(worker).front().begin);
  auto const us = [&](std::int64_t time) { return static_cast<double>(time - origin) * 1e-3; };
  auto const sequence = [](std::uint64_t number) { return static_cast<std::int64_t>(number); };
  Json events = Json::array();
  for (int worker = 0; worker < trace.workers(); ++worker) {
    events.push_back(Json::object({{"ph", "M"},
                                   {"name", "thread_name"},
                                   {"pid", 1},
                                   {"tid", worker},
                                   {"args", Json::object({{"name", concat("worker ", worker)}})}}));
    for (TracedBody const& body : trace.bodies(worker)) {
      if (body.end == 0) continue;
      events.push_back(
          Json::object({{"ph", "X"},
                        {"name", body.codelet->name},
                        {"cat", "task"},
                        {"pid", 1},
                        {"tid", worker},
                        {"ts", us(body.begin)},
                        {"dur", static_cast<double>(body.end - body.begin) * 1e-3},
                        {"args", Json::object({{"sequence", sequence(body.sequence)}})}}));
    }
  }
  std::int64_t arrow = 0;
  for (TracedEdge const& edge : trace.edges()) {
    TracedBody const* const to = tasks.body(edge.to);
    if (to == nullptr) continue;
    tasks.each_producer(edge.from, [&](std::uint64_t producer) {
      TracedBody const* const from = tasks.body(producer);
      if (from == nullptr) return;
      auto const end = [&](char const* phase, TracedBody const& at, std::int64_t time) {
        return Json::object({{"ph", phase},
                             {"name", "waits"},
                             {"cat", "edge"},
                             {"id", arrow},
                             {"pid", 1},
                             {"tid", at.worker},
                             {"ts", us(time)},
                             {"bp", "e"}});
      };
      events.push_back(end("s", *from, std::max(from->begin, from->end - 1)));
      events.push_back(end("f", *to, to->begin));
      ++arrow;
    });
  }
  for (TracedSubmission const& task : trace.submissions())
    events.push_back(Json::object(
        {{"ph", "C"},
         {"name", "window"},
         {"pid", 1},
         {"ts", us(task.ended[submit_steps - 1])},
         {"args", Json::object({{"slots in use", static_cast<std::int64_t>(task.in_window)}})}}));
  return to_text(Json::object({{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}}), 0);
}

/// Writes it. Throws Error with path, step and reason.
inline void write_ring_trace(std::string const& path, RingTrace const& trace) {
  write_file(path, ring_trace_text(trace));
}

}  // namespace nntile::io
