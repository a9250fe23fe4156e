#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Times of the tasks that a run left to devices, from their log.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "nntile/graph/plan.hh"
#include "nntile/graph/trace.hh"
#include "nntile/runtime/device_log.hh"

namespace nntile {

/// The times of a run with those of its device tasks and copies, each stream as a thread of its
/// own. `log` has the jobs of that run: clear it before. A job that no task of the plan is, such as
/// a copy for the caller, is left out. Throws ValueError for times of another plan. Cost: n log n
/// in tasks and jobs.
inline std::vector<TaskTime> with_device_times(Plan const& plan, std::span<TaskTime const> times,
                                               DeviceLog const& log) {
  detail::check_times("times of devices", plan, times);
  // Of one result at one place jobs run in the plan's order: they share its buffer.
  using Key = std::tuple<std::string, std::int64_t, std::string, std::string>;
  std::multimap<Key, TaskTime> jobs;
  for (LoggedJob const& job : log.jobs()) {
    std::string const at = to_string(device(job.stream.device));
    jobs.insert({{job.tensor, job.tile, job.copied ? to_string(job.from) : at,
                  job.copied ? to_string(job.to) : at},
                 {job.begin, job.end,
                  (static_cast<std::uint64_t>(job.stream.device) << 8) +
                      static_cast<std::uint64_t>(job.stream.lane) + 1}});
  }
  std::vector<TaskTime> all(times.begin(), times.end());
  all.resize(plan.tasks().size());
  for (std::size_t t = 0; t < all.size(); ++t) {
    PlannedTask const& task = plan.tasks()[t];
    bool const copies = plan.kernels()[task.kernel].kind == KernelKind::copy;
    auto const place_of = [&](std::size_t use) {
      return to_string(copies ? plan.buffers()[plan.uses(task)[use].handle].location.place
                              : task.location.place);
    };
    Key const key{plan.tensors()[task.tensor].name, task.tile, place_of(0),
                  place_of(copies ? 1 : 0)};
    auto const job = jobs.lower_bound(key);
    if (job == jobs.end() || job->first != key) continue;
    all[t] = job->second;
    jobs.erase(job);
  }
  return all;
}

}  // namespace nntile
