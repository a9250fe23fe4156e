#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Times and threads of the tasks of a run.

#include <pthread.h>

#include <cstdint>
#include <cstring>
#include <span>

#include "nntile/core/codelet.hh"
#include "nntile/core/threads.hh"
#include "nntile/graph/plan.hh"
#include "nntile/runtime/named_failure.hh"

namespace nntile {

/// Thread and times of a task's body. Times are CLOCK_MONOTONIC, in ns.
struct TaskTime {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::uint64_t thread = 0;
};

namespace detail {

/// Throws ValueError, naming `call`, where times are of another plan; a graph that is not traced
/// has none.
inline void check_times(char const* call, Plan const& plan, std::span<TaskTime const> times) {
  if (!times.empty() && times.size() != plan.tasks().size())
    throw ValueError(concat(call, ": ", times.size(), " times, and plan '", plan.name(), "' has ",
                            plan.tasks().size(), " tasks; give it the times of a run of its own"));
}

/// Argument bytes of a traced task: the codelet, its own arguments, and where its time is stored.
struct TracedTask {
  Codelet const* codelet;
  void const* arguments;
  TaskTime* time;
};

inline Status run_traced(KernelCall const& call) noexcept {
  TracedTask task;
  std::memcpy(&task, call.arguments, sizeof task);
  task.time->begin = monotonic_ns();
  Status const status =
      task.codelet->cpu({call.buffers, task.arguments, call.text, call.workspace});
  task.time->end = monotonic_ns();
  task.time->thread = pthread_self();
  return status.ok() ? status : named_failure(*task.codelet, status, call.text);
}

/// They stand for every traced codelet: runtimes know codelets by address, so there are few.
inline constexpr Codelet traced_codelet{"traced", &run_traced, nullptr, nullptr};
inline constexpr Codelet traced_large_codelet{"traced", &run_traced, nullptr, nullptr,
                                              max_workspace_bytes};

inline Codelet const& traced_codelet_for(Codelet const& codelet) {
  return codelet.workspace != 0 ? traced_large_codelet : traced_codelet;
}

}  // namespace detail

}  // namespace nntile
