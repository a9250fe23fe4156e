#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A simulated run of a job as a Chrome trace, the JSON that Perfetto and chrome://tracing open.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "nntile/graph/simulate_job.hh"
#include "nntile/io/directory.hh"
#include "nntile/io/trace_events.hh"
#include "nntile/io/trace_time.hh"

namespace nntile::io {

/// The trace of a simulation with times: a process per rank, in it a row per worker and one for
/// each direction of its links, an event per task or transfer, named by op and result, and an arrow
/// per message. Of a link that ranks share, each has its own messages. Times in microseconds.
/// Throws ValueError where there are no times, or not those of these parts, or ns of one are beyond
/// 2^63. Source: Trace Event Format, 2016.
inline std::string job_trace_text(std::span<Plan const> parts, JobSimulation const& simulation) {
  std::size_t tasks = 0;
  for (Plan const& part : parts) tasks += part.tasks().size();
  if (simulation.times.size() != tasks)
    throw ValueError(concat("job_trace: times of ", simulation.times.size(), " tasks, but ",
                            parts.size(), " parts with ", tasks,
                            "; simulate these parts with `timed`"));
  detail::TraceEvents events("ms");
  auto const meta = [&](char const* what, std::size_t rank, std::size_t row, std::string name) {
    events.push_back(Json::object({{"ph", "M"},
                                   {"name", what},
                                   {"pid", static_cast<std::int64_t>(rank)},
                                   {"tid", static_cast<std::int64_t>(row)},
                                   {"args", Json::object({{"name", std::move(name)}})}}));
  };
  auto const ns = [](double seconds) { return std::llround(seconds * 1e9); };
  std::size_t first = 0;
  for (std::size_t r = 0; r < parts.size(); ++r) {
    Plan const& part = parts[r];
    meta("process_name", r, 0, concat("rank ", r));
    for (int w = 0; w < simulation.workers; ++w)
      meta("thread_name", r, static_cast<std::size_t>(w), concat("worker ", w));
    auto row = static_cast<std::size_t>(simulation.workers);
    for (char const* const link : {"link out", "link in", "node out", "node in"})
      meta("thread_name", r, row++, link);
    for (std::size_t t = 0; t < part.tasks().size(); ++t) {
      PlannedTask const& task = part.tasks()[t];
      SimulatedTask const& time = simulation.times[first + t];
      PlannedKernel const& kernel = part.kernels()[task.kernel];
      if (!(time.end * 1e9 < 0x1p63))
        throw ValueError(concat("job_trace: task ", t, " of rank ", r, " ends at ", time.end,
                                " s, and a trace has 9.2e9 s at most; simulate a faster cluster"));
      std::int64_t const begin = ns(time.begin), end = ns(time.end);
      auto const event = [&](char const* phase, std::int64_t at) {
        return Json::object({{"ph", phase},
                             {"name", kernel.name},
                             {"cat", kernel.name},
                             {"pid", static_cast<std::int64_t>(r)},
                             {"tid", static_cast<std::int64_t>(time.worker)},
                             {"ts", detail::microseconds(at)}});
      };
      Json body = event("X", begin);
      body["dur"] = detail::microseconds(end - begin);
      body["args"] =
          Json::object({{"result", concat(part.tensors()[task.tensor].name, "[", task.tile, "]")},
                        {"task", static_cast<std::int64_t>(t)},
                        {"flops", task.cost.flops},
                        {"bytes", task.cost.bytes}});
      events.push_back(std::move(body));
      if (!is_transfer(kernel.kind)) continue;
      bool const sends = kernel.kind == KernelKind::send;
      TransferArgs args;
      std::memcpy(&args, part.args(task).data(), sizeof args);
      auto const peer = static_cast<std::int64_t>(args.peer), rank = static_cast<std::int64_t>(r);
      Json arrow = event(sends ? "s" : "f", sends ? begin : detail::last_ns(begin, end));
      arrow["name"] = "message";
      arrow["id"] = sends ? concat(rank, " ", peer, " ", args.number)
                          : concat(peer, " ", rank, " ", args.number);
      arrow["bp"] = "e";
      events.push_back(std::move(arrow));
    }
    first += part.tasks().size();
  }
  return std::move(events).text();
}

/// Writes it. Throws Error with path, step and reason.
inline void write_job_trace(std::string const& path, std::span<Plan const> parts,
                            JobSimulation const& simulation) {
  write_file(path, job_trace_text(parts, simulation));
}

}  // namespace nntile::io
