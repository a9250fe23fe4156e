#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A breakdown of the time of runs.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "nntile/graph/plan.hh"
#include "nntile/graph/trace.hh"

namespace nntile {

/// Sums over runs of one plan, by op.
class Profile {
 public:
  struct Row {
    std::string op;
    std::int64_t tasks = 0;  // of all runs
    double seconds = 0;
    Cost cost;
  };

  /// Adds a run: the times of the plan's tasks, in their order. A task that never ran has none.
  /// Throws ValueError for times of another plan.
  void add(Plan const& plan, std::span<TaskTime const> times) {
    detail::check_times("profile", plan, times);
    std::int64_t begin = INT64_MAX, end = 0;
    for (std::size_t t = 0; t < times.size(); ++t) {
      if (times[t].end == 0) continue;
      PlannedTask const& task = plan.tasks()[t];
      Row& row = row_of(plan.kernels()[task.kernel].name);
      ++row.tasks;
      row.seconds += static_cast<double>(times[t].end - times[t].begin) * 1e-9;
      row.cost += task.cost;
      begin = std::min(begin, times[t].begin);
      end = std::max(end, times[t].end);
    }
    if (end > begin) elapsed_ += static_cast<double>(end - begin) * 1e-9;
    ++runs_;
  }

  std::int64_t runs() const { return runs_; }
  /// Seconds from the first task's begin to the last one's end, over all runs.
  double elapsed() const { return elapsed_; }
  /// Seconds in bodies, over all runs and threads.
  double busy() const {
    double sum = 0;
    for (Row const& row : rows_) sum += row.seconds;
    return sum;
  }
  /// The most expensive op first.
  std::vector<Row> rows() const {
    std::vector<Row> sorted = rows_;
    std::sort(sorted.begin(), sorted.end(),
              [](Row const& a, Row const& b) { return a.seconds > b.seconds; });
    return sorted;
  }

 private:
  Row& row_of(std::string const& op) {
    for (Row& row : rows_)
      if (row.op == op) return row;
    rows_.push_back({op, 0, 0, {}});
    return rows_.back();
  }

  std::vector<Row> rows_;
  std::int64_t runs_ = 0;
  double elapsed_ = 0;
};

}  // namespace nntile
