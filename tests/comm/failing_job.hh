// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One rank's part of a random graph, some of whose tasks fail, over any communicator.

#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "nntile/runtime/adaptors/forward.hh"
#include "tests/comm/part_tiles.hh"
#include "tests/comm/runs_alone.hh"
#include "tests/graph/random_parts.hh"
#include "tests/support/places.hh"

namespace nntile::test {

/// Wraps the body of each task that a CPU runs: notes that it ran, and fails where asked.
struct Watched {
  Codelet const* own = nullptr;
  void const* arguments = nullptr;
  bool fails = false;
  bool ran = false;
};
inline constexpr Codelet watched_codelet{.name = "watched",
                                         .cpu = +[](KernelCall const& call) noexcept -> Status {
                                           Watched* its = nullptr;
                                           std::memcpy(&its, call.arguments, sizeof its);
                                           its->ran = true;
                                           if (its->fails) return {"injected"};
                                           KernelCall own = call;
                                           own.arguments = its->arguments;
                                           return its->own->cpu(own);
                                         },
                                         .workspace = max_workspace_bytes};

/// An R whose tasks, numbered in the order of their submission, are watched.
template <class R> class WatchedRuntime : public Forward<R> {
 public:
  using Forward<R>::Forward;
  using Handle = typename Forward<R>::Handle;

  Event submit(Task<Handle> const& task) {
    if (next_ >= tasks.size() || task.codelet->cpu == nullptr) {
      ++next_;
      return Forward<R>::submit(task);
    }
    Watched* const its = &tasks[next_++];
    its->own = task.codelet;
    its->arguments = task.arguments.data();  // the plan's
    Task<Handle> watched = task;
    watched.codelet = &watched_codelet;
    watched.arguments = std::as_bytes(std::span(&its, 1));
    return Forward<R>::submit(watched);
  }

  /// Watches the next `count` tasks, and none of before.
  void watch(std::size_t count) {
    tasks.resize(count);
    next_ = 0;
  }
  std::vector<Watched> tasks;

 private:
  std::size_t next_ = 0;
};
template <class R> inline constexpr bool runs_alone<WatchedRuntime<R>> = runs_alone<R>;
template <class R> WatchedRuntime<R>& watched(WatchedRuntime<R>& runtime) { return runtime; }
template <class R> auto& watched(Places<R>& runtime) { return runtime.inner(); }

/// An op's task by what it does: node, tile and arguments.
inline std::string name_of_task(Plan const& plan, PlannedTask const& task) {
  auto const args = plan.args(task);
  std::string name = concat(plan.kernels()[task.kernel].name, " ", task.node, " ",
                            plan.tensors()[task.tensor].name, " ", task.tile, " ");
  return name.append(reinterpret_cast<char const*>(args.data()), args.size());
}

/// What failures led to.
struct Consequences {
  std::set<std::string> cancelled;  // tasks of ops, by name
  std::vector<std::string> texts;   // of each rank: what execute() and wait_all() threw
  std::vector<int> failed;          // of each rank: its tasks that failed themselves
};

/// R is a WatchedRuntime, or Places of one.
template <class R>
void run_rank(RandomParts const& job, PlanOptions const& options, RankLink const& link,
              std::set<std::string> const& failing, Consequences& all, std::mutex& mutex) {
  R runtime(RuntimeOptions{.workers = runs_alone<R> ? 1 : 1 + link.rank % 2});
  TensorStore<R> store(runtime, link);
  std::vector<Watched>& tasks = watched(runtime).tasks;
  auto step = compile_any(job.graph(), store, options, {.replay = false});
  for (auto const& stored : store.tensors()) {
    if (!stored->spec.attributes.persistent && !stored->spec.attributes.external) continue;
    Index const count = element_count(stored->spec.tiling.shape());
    std::vector<double> const zeros(static_cast<std::size_t>(count));
    store.write_bytes(*stored, reinterpret_cast<std::byte const*>(zeros.data()));
  }
  Plan const& plan = step.plan();
  watched(runtime).watch(plan.tasks().size());
  for (std::size_t t = 0; t < plan.tasks().size(); ++t)
    tasks[t].fails = failing.contains(name_of_task(plan, plan.tasks()[t]));
  std::string text;
  try {
    step.execute();
  } catch (TaskError const& error) {
    text = error.what();
  }
  try {
    runtime.wait_all();
  } catch (TaskError const& error) {
    text += concat(" | ", error.what());
  }
  std::lock_guard const guard(mutex);
  for (std::size_t t = 0; t < plan.tasks().size(); ++t)
    if (plan.kernels()[plan.tasks()[t].kernel].kind == KernelKind::op && !tasks[t].ran)
      all.cancelled.insert(name_of_task(plan, plan.tasks()[t]));
  all.texts[static_cast<std::size_t>(link.rank)] = text;
  for (Watched const& task : tasks)
    all.failed[static_cast<std::size_t>(link.rank)] += task.ran && task.fails ? 1 : 0;
}

/// The names of up to three tasks of a graph.
inline std::set<std::string> draw_failing(RandomParts& job) {
  Plan const whole(job.graph(), job.alone());
  std::set<std::string> failing;
  for (int failures = 1 + job.below(3); failures > 0; --failures)
    failing.insert(name_of_task(whole, whole.tasks()[static_cast<std::size_t>(
                                           job.below(static_cast<int>(whole.tasks().size())))]));
  return failing;
}

}  // namespace nntile::test
