#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Time of submissions and memory of scopes, by source, as text.

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/runtime/ring/trace.hh"

namespace nntile {

/// Sums over all submissions of a trace, in ns.
struct SubmitTimes {
  std::size_t tasks = 0;
  std::int64_t total = 0;
  std::int64_t steps[submit_steps] = {};
  std::int64_t helping = 0;  // of `room`: bodies that began in it, run by worker 0
};

/// Cost: linear in submissions and in the bodies of worker 0. `helping` counts where one thread
/// submits and is worker 0.
inline SubmitTimes submit_times(RingTrace const& trace) {
  SubmitTimes times;
  std::span<TracedBody const> const bodies = trace.bodies(0);
  std::size_t at = 0;
  for (TracedSubmission const& task : trace.submissions()) {
    ++times.tasks;
    std::int64_t before = task.begin;
    for (int step = 0; step < submit_steps; ++step) {
      times.steps[step] += task.ended[step] - before;
      before = task.ended[step];
    }
    times.total += before - task.begin;
    std::int64_t const room = task.ended[static_cast<int>(SubmitStep::bind)];
    std::int64_t const until = task.ended[static_cast<int>(SubmitStep::room)];
    while (at < bodies.size() && bodies[at].begin < room) ++at;
    for (; at < bodies.size() && bodies[at].begin < until; ++at)
      if (bodies[at].end != 0 && bodies[at].end <= until)
        times.helping += bodies[at].end - bodies[at].begin;
  }
  return times;
}

/// A line for each step of a submission: its time a task and its share of the whole.
inline std::string submit_report(RingTrace const& trace) {
  struct Line {
    char const* name;
    char const* what;
  };
  constexpr Line lines[submit_steps] = {
      {"bind", "operands are looked up and checked"},
      {"room", "a slot is waited for, finished tasks are collected"},
      {"lookup", "producers are listed"},
      {"payload", "the slot is filled"},
      {"publish", "edges are made, a ready task is queued"},
  };
  SubmitTimes const times = submit_times(trace);
  if (times.tasks == 0) return "no task was submitted\n";
  auto const count = static_cast<double>(times.tasks);
  char text[160];
  std::string report;
  auto const print = [&](char const* name, std::int64_t sum, char const* what) {
    std::snprintf(
        text, sizeof text, "%-9s %10.1f ns %5.1f %%  %s\n", name, static_cast<double>(sum) / count,
        times.total == 0 ? 0.0 : 100 * static_cast<double>(sum) / static_cast<double>(times.total),
        what);
    report += text;
  };
  std::snprintf(text, sizeof text, "%zu tasks, %.2f edges each; a submission took:\n", times.tasks,
                static_cast<double>(trace.edges().size()) / count);
  report += text;
  for (int step = 0; step < submit_steps; ++step) {
    print(lines[step].name, times.steps[step], lines[step].what);
    if (step == static_cast<int>(SubmitStep::room) && times.helping != 0)
      print("  helping", times.helping, "of it: bodies that the submitter ran");
  }
  print("total", times.total, "with the cost of tracing");
  if (trace.dropped() != 0) {
    std::snprintf(text, sizeof text, "%llu records were dropped: memory lacked\n",
                  static_cast<unsigned long long>(trace.dropped()));
    report += text;
  }
  return report;
}

/// Memory that the scopes opened at one line held together.
struct ScopeMemory {
  CallSite site;
  Lifetime lifetime;
  std::uint64_t opened = 0;
  std::uint64_t buffers = 0;
  std::size_t bytes = 0;  // of these
  std::size_t peak = 0;   // of its heap, while one of them was open
};

namespace detail {

/// The file of a line that opens scopes; "?" where that is not known.
inline std::string_view file_of(CallSite const& site) {
  return site.file != nullptr ? site.file : "?";
}

}  // namespace detail

/// In the order of their first scopes. Cost: scopes by lines.
inline std::vector<ScopeMemory> scope_memory(RingTrace const& trace) {
  std::vector<ScopeMemory> sites;
  for (TracedScope const& scope : trace.scopes()) {
    auto const same = [&](ScopeMemory const& site) {
      return site.lifetime == scope.lifetime && site.site.line == scope.site.line &&
             detail::file_of(site.site) == detail::file_of(scope.site);
    };
    auto at = std::find_if(sites.begin(), sites.end(), same);
    if (at == sites.end()) at = sites.insert(at, ScopeMemory{scope.site, scope.lifetime});
    ++at->opened;
    at->buffers += scope.buffers;
    at->bytes += scope.bytes;
    at->peak = std::max(at->peak, scope.peak);
  }
  return sites;
}

/// A line for each line of a program that opens scopes, whose buffers heaps hold.
inline std::string scope_report(RingTrace const& trace) {
  std::vector<ScopeMemory> const sites = scope_memory(trace);
  if (sites.empty()) return "no scope was opened\n";
  std::string report = "lifetime     opened    buffers          bytes   peak of heap  at\n";
  char text[96];
  for (ScopeMemory const& site : sites) {
    std::snprintf(text, sizeof text, "%-9s %9llu %10llu %14zu %14zu  ", name_of(site.lifetime),
                  static_cast<unsigned long long>(site.opened),
                  static_cast<unsigned long long>(site.buffers), site.bytes, site.peak);
    report += concat(text, detail::file_of(site.site), ":", site.site.line, "\n");
  }
  return report;
}

}  // namespace nntile
