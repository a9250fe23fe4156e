#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Writes a ring's trace as a Chrome trace, the JSON that Perfetto and chrome://tracing open.

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nntile/core/utf8.hh"
#include "nntile/io/directory.hh"
#include "nntile/io/trace_events.hh"
#include "nntile/io/trace_time.hh"
#include "nntile/runtime/device_log.hh"
#include "nntile/runtime/ring/trace.hh"

namespace nntile::io {

namespace detail {

/// A slice that arrows begin and end at.
struct TracedSlice {
  int row;
  std::int64_t begin, end;
};

/// The slices of a trace that its edges are drawn between: of bodies, and of the joins that several
/// wait for, so that arrows are no more than edges. A join that one waits for is left out: that has
/// the arrows of all that it stands for.
class TracedEdges {
 public:
  /// Slices of joins are in a row of their own, of 1 ns, from the end of the last task that each
  /// stands for on, or behind another's.
  TracedEdges(RingTrace const& trace, int row_of_joins) : trace_(trace) {
    for (int worker = 0; worker < trace.workers(); ++worker)
      for (TracedBody const& body : trace.bodies(worker))
        if (body.end != 0) slices_[body.sequence] = {body.worker, body.begin, body.end};
    struct Join {
      std::int64_t end = INT64_MIN;
      int waiting = 0;
    };
    std::map<std::uint64_t, Join> joins;
    for (auto const& [from, to] : trace.edges()) {  // those to a join before those from it
      if (is_join(from)) ++joins[from].waiting;
      if (!is_join(to)) continue;
      producers_[to].push_back(from);
      auto const body = slices_.find(from);
      Join& join = joins[to];
      join.end = std::max(join.end, is_join(from)           ? joins[from].end
                                    : body != slices_.end() ? body->second.end
                                                            : INT64_MIN);
    }
    for (auto const& [number, join] : joins) {
      if (join.waiting < 2) continue;
      if (join.end == INT64_MIN)
        producers_.erase(number);  // none of which has a body
      else
        joins_.emplace_back(join.end, number);
    }
    std::sort(joins_.begin(), joins_.end());
    std::int64_t next = INT64_MIN;
    for (auto& [begin, number] : joins_) {
      begin = std::max(begin, next);
      next = begin + 1;
      slices_[number] = {row_of_joins, begin, next};
    }
  }

  /// Begins of the joins that have slices, and their numbers.
  std::vector<std::pair<std::int64_t, std::uint64_t>> const& joins() const { return joins_; }

  /// Calls f(from, to) for each arrow.
  template <class F> void each_arrow(F f) const {
    std::vector<std::uint64_t> sources;
    for (auto const& [from, to] : trace_.edges()) {
      auto const end = slices_.find(to);
      if (end == slices_.end()) continue;  // not run, a replay or a join that is left out
      sources.assign(1, from);
      while (!sources.empty()) {
        std::uint64_t const source = sources.back();
        sources.pop_back();
        auto const begin = slices_.find(source);
        auto const behind = producers_.find(source);
        if (begin != slices_.end())
          f(begin->second, end->second);
        else if (behind != producers_.end())
          sources.insert(sources.end(), behind->second.begin(), behind->second.end());
      }
    }
  }

 private:
  static bool is_join(std::uint64_t number) { return (number & traced_join) != 0; }

  RingTrace const& trace_;
  std::unordered_map<std::uint64_t, TracedSlice> slices_;  // by sequence, or number of a join
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> producers_;  // of joins
  std::vector<std::pair<std::int64_t, std::uint64_t>> joins_;
};

/// The name of a codelet, or of the file of a scope; `other` where it has none.
inline std::string traced_name(char const* name, char const* other) {
  return nntile::detail::as_utf8(name != nullptr ? name : other);
}

}  // namespace detail

/// A row per worker with an event per body, named by its codelet; an arrow per edge between two
/// bodies, and a row of joins through which the arrows of those go that several tasks wait for, the
/// others being left out; a row of scopes, named by their lines; counters of the slots in use and
/// of the bytes that heaps hold. With a log of the ring's devices also a row per stream with its
/// kernels and its copies, which say from where to where and how many bytes, and a counter of what
/// is allocated at each place. Names that are not UTF-8 have U+FFFD where they are not. Times begin
/// at 0, in microseconds. Read it behind `wait_all`. Cost: linear in bodies and edges, but for a
/// sort of joins. Source: Trace Event Format, 2016.
inline std::string ring_trace_text(RingTrace const& trace, DeviceLog const* log = nullptr) {
  std::int64_t origin = INT64_MAX;
  for (TracedSubmission const& task : trace.submissions()) origin = std::min(origin, task.begin);
  for (int worker = 0; worker < trace.workers(); ++worker)
    if (!trace.bodies(worker).empty())
      origin = std::min(origin, trace.bodies(worker).front().begin);
  if (!trace.heaps().empty()) origin = std::min(origin, trace.heaps().front().time);
  std::vector<LoggedJob> const jobs = log == nullptr ? std::vector<LoggedJob>() : log->jobs();
  std::vector<LoggedBytes> const held = log == nullptr ? std::vector<LoggedBytes>() : log->memory();
  for (LoggedJob const& job : jobs) origin = std::min(origin, job.begin);
  for (LoggedBytes const& of : held) origin = std::min(origin, of.time);
  auto const us = [&](std::int64_t time) { return detail::microseconds(time - origin); };
  auto const sequence = [](std::uint64_t number) { return static_cast<std::int64_t>(number); };
  detail::TraceEvents events("ns");
  auto const name_row = [&](int row, std::string const& name) {
    events.push_back(Json::object({{"ph", "M"},
                                   {"name", "thread_name"},
                                   {"pid", 1},
                                   {"tid", row},
                                   {"args", Json::object({{"name", name}})}}));
  };
  auto const add = [&](std::string const& name, char const* category, int row, std::int64_t begin,
                       std::int64_t end, Json&& arguments) {
    events.push_back(Json::object({{"ph", "X"},
                                   {"name", name},
                                   {"cat", category},
                                   {"pid", 1},
                                   {"tid", row},
                                   {"ts", us(begin)},
                                   {"dur", detail::microseconds(end - begin)},
                                   {"args", std::move(arguments)}}));
  };
  auto const count = [&](std::string const& name, std::int64_t time, char const* what,
                         std::int64_t value) {
    events.push_back(Json::object({{"ph", "C"},
                                   {"name", name},
                                   {"pid", 1},
                                   {"ts", us(time)},
                                   {"args", Json::object({{what, value}})}}));
  };
  for (int worker = 0; worker < trace.workers(); ++worker) {
    name_row(worker, concat("worker ", worker));
    for (TracedBody const& body : trace.bodies(worker))
      if (body.end != 0)
        add(detail::traced_name(body.codelet->name, "task"), "task", worker, body.begin, body.end,
            Json::object({{"sequence", sequence(body.sequence)}}));
  }
  if (!trace.scopes().empty()) name_row(trace.workers(), "scopes");
  for (TracedScope const& scope : trace.scopes()) {
    if (scope.closed == 0) continue;
    std::string const file = detail::traced_name(scope.site.file, "");
    add(concat(file.substr(file.rfind('/') + 1), ":", scope.site.line), "scope", trace.workers(),
        scope.opened, scope.closed,
        Json::object({{"lifetime", name_of(scope.lifetime)},
                      {"buffers", sequence(scope.buffers)},
                      {"bytes", sequence(scope.bytes)},
                      {"peak of heap", sequence(scope.peak)}}));
  }
  std::map<std::pair<int, int>, int> streams;
  for (LoggedJob const& job : jobs) {
    auto const [at, fresh] =
        streams.try_emplace({job.stream.device, job.stream.lane},
                            trace.workers() + 1 + static_cast<int>(streams.size()));
    if (fresh)
      name_row(at->second,
               job.from == disk || job.to == disk
                   ? "disk"
                   : concat("device ", job.stream.device, ", stream ", job.stream.lane));
    Json arguments =
        Json::object({{"tensor", nntile::detail::as_utf8(job.tensor)}, {"tile", job.tile}});
    if (job.copied) {
      arguments["from"] = to_string(job.from);
      arguments["to"] = to_string(job.to);
      arguments["bytes"] = *job.copied;
    }
    add(detail::traced_name(job.codelet, "task"), job.copied ? "copy" : "kernel", at->second,
        job.begin, job.end, std::move(arguments));
  }
  int const row_of_joins = trace.workers() + 1 + static_cast<int>(streams.size());
  detail::TracedEdges const edges(trace, row_of_joins);
  if (!edges.joins().empty()) name_row(row_of_joins, "joins");
  for (auto const& [begin, number] : edges.joins())
    add("join", "join", row_of_joins, begin, begin + 1, Json::object());
  std::int64_t arrow = 0;
  edges.each_arrow([&](detail::TracedSlice const& from, detail::TracedSlice const& to) {
    auto const end = [&](char const* phase, int row, std::int64_t time) {
      events.push_back(Json::object({{"ph", phase},
                                     {"name", "waits"},
                                     {"cat", "edge"},
                                     {"id", arrow},
                                     {"pid", 1},
                                     {"tid", row},
                                     {"ts", us(time)},
                                     {"bp", "e"}}));
    };
    end("s", from.row, detail::last_ns(from.begin, from.end));
    end("f", to.row, to.begin);
    ++arrow;
  });
  for (TracedSubmission const& task : trace.submissions())
    count("window", task.ended[submit_steps - 1], "slots in use", task.in_window);
  for (TracedHeap const& heap : trace.heaps())
    count(concat("heap ", name_of(heap.lifetime)), heap.time, "bytes", sequence(heap.used));
  for (LoggedBytes const& of : held)
    count(concat("memory of ", to_string(of.place)), of.time, "bytes", of.bytes);
  return std::move(events).text();
}

/// Writes it. Throws Error with path, step and reason.
inline void write_ring_trace(std::string const& path, RingTrace const& trace,
                             DeviceLog const* log = nullptr) {
  write_file(path, ring_trace_text(trace, log));
}

}  // namespace nntile::io
