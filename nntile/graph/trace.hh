#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// When and on which thread the tasks of a run ran, and where the time of runs goes.

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <string>
#include <vector>

#include "nntile/core/codelet.hh"
#include "nntile/graph/plan.hh"

namespace nntile {

/// Where and when a task's body ran. Times are CLOCK_MONOTONIC, in ns.
struct TaskTime {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::uint64_t thread = 0;
};

namespace detail {

/// Attribute bytes of a traced task: whom to call with what, and where to note the time.
struct TracedTask {
  Codelet const* codelet;
  void const* attributes;
  TaskTime* time;
};

inline std::int64_t monotonic_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

inline Status run_traced(KernelCall const& call) noexcept {
  TracedTask task;
  std::memcpy(&task, call.attributes, sizeof task);
  task.time->begin = monotonic_ns();
  Status const status = task.codelet->cpu({call.buffers, task.attributes, call.text});
  task.time->end = monotonic_ns();
  task.time->thread = static_cast<std::uint64_t>(pthread_self());
  return status;
}

/// Stands for every traced codelet: runtimes know codelets by address, so there is one.
inline constexpr Codelet traced_codelet{"traced", &run_traced, nullptr, nullptr};

}  // namespace detail

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
  void add(Plan const& plan, std::span<TaskTime const> times) {
    std::int64_t begin = 0, end = 0;
    for (std::size_t t = 0; t < times.size(); ++t) {
      if (times[t].end == 0) continue;
      PlannedTask const& task = plan.tasks()[t];
      Row& row = row_of(plan.kernels()[task.kernel].op->name);
      ++row.tasks;
      row.seconds += static_cast<double>(times[t].end - times[t].begin) * 1e-9;
      row.cost += task.cost;
      begin = begin == 0 ? times[t].begin : std::min(begin, times[t].begin);
      end = std::max(end, times[t].end);
    }
    elapsed_ += static_cast<double>(end - begin) * 1e-9;
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
  Row& row_of(char const* op) {
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
