#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Simulated makespan of a plan on a machine that is described by a few numbers.

#include <algorithm>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/last_users.hh"
#include "nntile/core/machine_model.hh"
#include "nntile/graph/plan.hh"

namespace nntile {

/// Result of a simulation in seconds: makespan and work.
struct Simulation {
  double elapsed = 0;
  double busy = 0;
};

/// Dependences of a plan's tasks, those through reused slots included.
struct TaskOrder {
  DynamicArray<DynamicArray<std::uint32_t>> followers;  // of a task; in ascending order
  DynamicArray<std::uint32_t> earlier;                  // number of tasks that a task waits for
};

/// `readers_wait`: those of a tile run in turn, as on Serial. Cost: linear in the number of tasks
/// and of their readers.
inline TaskOrder order_of(Plan const& plan, bool readers_wait = false) {
  using Users = LastUsers<std::uint32_t>;  // of a slot, or of a stored buffer
  std::size_t const slots = plan.slots().size();
  DynamicArray<Users> memories(slots + plan.buffers().size(), Users{no_id, {}});
  TaskOrder order;
  order.followers.resize(plan.tasks().size());
  order.earlier.resize(plan.tasks().size());
  auto const follows = [&](std::uint32_t task, std::uint32_t earlier) {
    if (earlier == no_id || earlier == task) return;
    order.followers[earlier].push_back(task);
    ++order.earlier[task];
  };
  for (std::uint32_t t = 0; t < plan.tasks().size(); ++t)
    for (Use<BufferId> const& use : plan.uses(plan.tasks()[t])) {
      std::uint32_t const slot = plan.buffers()[use.handle].slot;
      Users& users = memories[slot != no_id ? slot : slots + use.handle];
      Access const access = readers_wait ? Access::update : use.access;
      users.each_before(access, [&](std::uint32_t earlier) { follows(t, earlier); });
      users.enter(access, t);
    }
  return order;
}

/// Seconds that a task can be late without making the run longer, were there a worker for each.
inline DynamicArray<double> slack_of(Plan const& plan, TaskOrder const& order,
                                     MachineModel const& machine) {
  std::size_t const count = plan.tasks().size();
  DynamicArray<double> begin(count), left(count);
  double longest = 0;
  for (std::size_t t = 0; t < count; ++t)
    for (std::uint32_t const follower : order.followers[t])
      begin[follower] =
          std::max(begin[follower], begin[t] + task_seconds(plan.tasks()[t].cost, machine));
  for (std::size_t t = count; t-- > 0;) {
    for (std::uint32_t const follower : order.followers[t])
      left[t] = std::max(left[t], left[follower]);
    left[t] += task_seconds(plan.tasks()[t].cost, machine);
    longest = std::max(longest, begin[t] + left[t]);
  }
  for (std::size_t t = 0; t < count; ++t) left[t] = longest - begin[t] - left[t];
  return left;
}

namespace detail {

/// Throws ValueError where a plan is simulated on what has a fault.
inline void check_model(Plan const& plan, char const* of, std::string const& fault) {
  if (!fault.empty())
    throw ValueError(concat("simulate: plan '", plan.name(), "': ", of, " of ", fault));
}

}  // namespace detail

/// Runs the plan's tasks: a worker that is free takes the task of the highest priority among those
/// that are ready, of these the one that has been ready longest. Transfers of a rank's part take no
/// time: simulate_job.hh has all ranks. Throws ValueError (a negative peak, no bandwidth ...).
/// Cost: n log n in the number of tasks.
inline Simulation simulate(Plan const& plan, MachineModel const& machine, TaskOrder order) {
  detail::check_model(plan, "a machine", fault_of(machine));
  struct Item {
    double since;
    std::int32_t priority;
    std::uint32_t task;
  };
  // Whether b goes first: a heap's first element is the greatest.
  struct Before {
    bool by_priority;
    bool operator()(Item const& a, Item const& b) const {
      if (by_priority && a.priority != b.priority) return a.priority < b.priority;
      return a.since != b.since ? a.since > b.since : a.task > b.task;
    }
  };
  constexpr Before later{false}, less_urgent{true};
  DynamicArray<Item> coming, ready;
  auto const push = [](DynamicArray<Item>& heap, Item item, Before compare) {
    heap.push_back(item);
    std::push_heap(heap.begin(), heap.end(), compare);
  };
  auto const pop = [](DynamicArray<Item>& heap, Before compare) {
    std::pop_heap(heap.begin(), heap.end(), compare);
    Item const item = heap.back();
    heap.pop_back();
    return item;
  };
  for (std::uint32_t t = 0; t < plan.tasks().size(); ++t)
    if (order.earlier[t] == 0) push(coming, {0, plan.tasks()[t].priority, t}, later);
  auto const workers = static_cast<std::size_t>(machine.workers);
  DynamicArray<double> free(std::min(workers, plan.tasks().size() + 1), 0.0);  // more have no task
  auto const ends_later = [](double a, double b) { return a > b; };  // the first ends earliest
  DynamicArray<double> available(plan.tasks().size());
  Simulation result;
  double now = 0;  // a worker that has nothing to do is free from here on
  while (!coming.empty() || !ready.empty()) {
    std::pop_heap(free.begin(), free.end(), ends_later);
    double& worker = free.back();
    now = std::max(now, worker);
    if (ready.empty()) now = std::max(now, coming.front().since);
    worker = now;
    while (!coming.empty() && coming.front().since <= worker)
      push(ready, pop(coming, later), less_urgent);
    Item const next = pop(ready, less_urgent);
    PlannedTask const& task = plan.tasks()[next.task];
    double const seconds =
        is_transfer(plan.kernels()[task.kernel].kind) ? 0 : task_seconds(task.cost, machine);
    worker += seconds;
    result.busy += seconds;
    result.elapsed = std::max(result.elapsed, worker);
    for (std::uint32_t const follower : order.followers[next.task]) {
      available[follower] = std::max(available[follower], worker);
      if (--order.earlier[follower] == 0)
        push(coming, {available[follower], plan.tasks()[follower].priority, follower}, later);
    }
    std::push_heap(free.begin(), free.end(), ends_later);
  }
  return result;
}
inline Simulation simulate(Plan const& plan, MachineModel const& machine) {
  return simulate(plan, machine, order_of(plan));
}

}  // namespace nntile
