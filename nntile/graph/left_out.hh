#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Transfers of tasks that are left out where submission throws amid a graph, or before it.

#include <algorithm>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <span>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/inplace_vector.hh"
#include "nntile/graph/bound_tasks.hh"
#include "nntile/graph/plan.hh"
#include "nntile/runtime/runtime_ref.hh"
#include "nntile/runtime/unsubmitted.hh"
#include "nntile/tile/submit.hh"

namespace nntile::detail {

/// Of the tasks from `begin` to `end`, which a run that threw for `cause` amid its submission
/// leaves out: marks what they write, and submits the transfers among them, in their order, so that
/// other ranks get the marks in the place of tiles, and none waits for what does not come.
/// `bindings`: the handles of the plan's buffers, by `table`. Adds to `events`, which have room.
/// Others wait if memory lacks for that, too. Never throws.
template <Runtime R>
void submit_left_out(R& runtime, Plan const& plan, BoundTasks const& bound,
                     BindingTable const& table, DynamicArray<typename R::Handle> const& bindings,
                     std::uint32_t begin, std::uint32_t end, char const* cause,
                     DynamicArray<Event>& events) noexcept {
  using Handle = typename R::Handle;
  inplace_vector<Use<Handle>, max_operands> its;
  for (std::uint32_t t = begin; t < end; ++t) {
    PlannedTask const& task = plan.tasks()[t];
    auto const uses = plan.uses(task);
    if (is_transfer(plan.kernels()[task.kernel].kind)) {
      table.list(plan, t, bindings, its);
      try {
        events.push_back(submit(
            runtime, bound.task(task, std::span<Use<Handle> const>(its.data(), its.size()))));
        continue;
      } catch (std::exception const&) {
      }
    }
    for (Use<BufferId> const& use : uses)
      if (writes(use.access))
        mark_unsubmitted(runtime, bindings[table[use.handle]], cause, bound.label(task));
  }
}

/// Of a range of which nothing was submitted: other ranks get `cause` in the place of tiles, and
/// what they send is received and dropped, so that this rank keeps its values. Waits for the runs
/// `before`, whose messages have the same numbers, and for these. Never throws.
template <Runtime R>
void exchange_nothing(R& runtime, Plan const& plan, BoundTasks const& bound, std::uint32_t begin,
                      std::uint32_t end, char const* cause,
                      std::initializer_list<DynamicArray<Event> const*> before) noexcept try {
  using Handle = typename R::Handle;
  auto const tasks = plan.tasks().subspan(begin, end - begin);
  DynamicArray<Event> events;
  Index room = 0;
  for (PlannedTask const& task : tasks)
    if (is_transfer(plan.kernels()[task.kernel].kind))
      room = std::max(room, plan.buffers()[plan.uses(task)[0].handle].payload());
  if (room == 0) return;
  events.reserve(tasks.size());
  RuntimeRef<R> const life(runtime);
  for (auto const* const run : before)
    for (Event const event : *run) life.wait(event);
  Handle const nothing = runtime.allocate(1, host, Lifetime::persistent);
  try {
    Handle const dropped =
        runtime.allocate(static_cast<std::size_t>(room), host, Lifetime::persistent);
    try {
      mark_unsubmitted(runtime, nothing, cause, bound.label(tasks[0]));
      for (PlannedTask const& task : tasks) {
        KernelKind const kind = plan.kernels()[task.kernel].kind;
        if (!is_transfer(kind)) continue;
        Use<Handle> const use[] = {kind == KernelKind::send ? Use<Handle>{nothing, Access::read}
                                                            : Use<Handle>{dropped, Access::write}};
        events.push_back(submit(runtime, bound.task(task, std::span<Use<Handle> const>(use))));
      }
    } catch (std::exception const&) {
    }
    for (Event const event : events) life.wait(event);
    life.retire(dropped);
  } catch (std::exception const&) {
  }
  life.retire(nothing);
} catch (std::exception const&) {
}

}  // namespace nntile::detail
