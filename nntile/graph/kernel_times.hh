#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Measured durations of kernels, for simulations.

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nntile/core/machine_model.hh"
#include "nntile/graph/plan.hh"
#include "nntile/graph/trace.hh"

namespace nntile {

/// Mean durations of the tasks of traced runs, by kernel and cost. A task of a known kernel with
/// another cost takes what the machine's model says, times the ratio of both over all tasks of that
/// kernel; one of an unknown kernel takes what the model says.
class KernelTimes {
 public:
  /// Adds a run: the times of the plan's tasks, in their order. A task that never ran has none.
  /// Throws ValueError for times of another plan, std::bad_alloc; nothing was added then. Cost:
  /// n log n in the number of tasks.
  void add(Plan const& plan, std::span<TaskTime const> times) {
    detail::check_times("times of kernels", plan, times);
    std::vector<Row> rows = rows_;
    for (std::size_t t = 0; t < times.size(); ++t) {
      if (times[t].end == 0) continue;
      PlannedTask const& task = plan.tasks()[t];
      rows.push_back({plan.kernels()[task.kernel].name, task.cost, 1,
                      static_cast<double>(times[t].end - times[t].begin) * 1e-9});
    }
    std::sort(rows.begin(), rows.end(), [](Row const& a, Row const& b) { return before(a, b); });
    std::size_t kept = 0;
    for (Row const& row : rows) {
      if (kept > 0 && !before(rows[kept - 1], row)) {
        rows[kept - 1].tasks += row.tasks;
        rows[kept - 1].seconds += row.seconds;
      } else {
        rows[kept++] = Row(row);
      }
    }
    rows.resize(kept);
    rows_ = std::move(rows);
  }

  /// Seconds of a task's body, with the machine's overhead of a task.
  double seconds(std::string_view kernel, Cost const& cost, MachineModel const& machine) const {
    double const modelled = task_seconds(cost, machine) - machine.task_overhead;
    auto row = std::lower_bound(rows_.begin(), rows_.end(), kernel,
                                [](Row const& a, std::string_view b) { return a.kernel < b; });
    double measured = 0, of_model = 0;
    for (; row != rows_.end() && row->kernel == kernel; ++row) {
      auto const tasks = static_cast<double>(row->tasks);
      if (row->cost == cost) return machine.task_overhead + row->seconds / tasks;
      measured += row->seconds;
      of_model += tasks * (task_seconds(row->cost, machine) - machine.task_overhead);
    }
    return machine.task_overhead + modelled * (of_model > 0 ? measured / of_model : 1);
  }

 private:
  struct Row {
    std::string kernel;
    Cost cost;
    std::int64_t tasks = 0;
    double seconds = 0;
  };
  static bool before(Row const& a, Row const& b) {
    if (int const order = a.kernel.compare(b.kernel); order != 0) return order < 0;
    return a.cost.flops != b.cost.flops ? a.cost.flops < b.cost.flops : a.cost.bytes < b.cost.bytes;
  }

  std::vector<Row> rows_;  // in ascending order
};

}  // namespace nntile
