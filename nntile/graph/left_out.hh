#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Transfers of tasks that are left out where submission throws amid a graph, or before it.

#include <cstdint>
#include <exception>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/bound_tasks.hh"
#include "nntile/graph/plan.hh"
#include "nntile/runtime/unsubmitted.hh"
#include "nntile/tile/submit.hh"

namespace nntile::detail {

/// Of tasks from `begin` to `end`, of which those before `next` were submitted, submits the
/// transfers that are left, which nothing else will. Other ranks get `cause` in the place of tiles,
/// and what they send is received, so that none waits for what does not come. Where no task was
/// submitted, no other buffers than these are marked. Messages go through the buffers of a run, and
/// so behind those of the run before. `bindings`: the handles of the plan's buffers, by `table`.
/// Adds to `events`. Others wait if memory lacks for that, too. Never throws.
template <Runtime R>
void submit_left_out(R& runtime, Plan const& plan, BoundTasks const& bound,
                     BindingTable const& table, DynamicArray<typename R::Handle> const& bindings,
                     std::uint32_t begin, std::uint32_t next, std::uint32_t end, char const* cause,
                     DynamicArray<Event>& events) noexcept try {
  using Handle = typename R::Handle;
  if (next >= end) return;
  bool const marked = next > begin;
  if (!marked) next = begin;
  auto const tasks = plan.tasks().subspan(next, end - next);
  DynamicArray<bool> sent(plan.buffers().size());
  for (PlannedTask const& task : tasks)
    if (plan.kernels()[task.kernel].kind == KernelKind::send)
      sent[plan.uses(task)[0].handle] = true;
  events.reserve(events.size() + tasks.size());
  for (PlannedTask const& task : tasks) {
    auto const mark = [&](BufferId buffer) {
      mark_unsubmitted(runtime, bindings[table[buffer]], cause, bound.label(task));
    };
    bool const moves = is_transfer(plan.kernels()[task.kernel].kind);
    for (auto const& use : plan.uses(task))
      if (!moves && !marked && writes(use.access) && sent[use.handle]) mark(use.handle);
    if (!moves) continue;
    auto const& its = plan.uses(task)[0];
    Use<Handle> const use[] = {{bindings[table[its.handle]], its.access}};
    auto const whole = bound.task(task, std::span<Use<Handle> const>(use));
    try {
      events.push_back(submit(runtime, whole));
    } catch (std::exception const&) {  // perhaps it has no value
      mark(its.handle);
      events.push_back(submit(runtime, whole));
    }
  }
} catch (std::exception const&) {
}

}  // namespace nntile::detail
