#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Runs a plan as a program that calls op after op would, over buffers of the runtime's heaps.

#include <cstdint>
#include <vector>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/heaps.hh"
#include "nntile/runtime/scope.hh"
#include "nntile/testing/waits.hh"

namespace nntile::testing {

/// Submits the tasks of a plan in its order. Tiles of its arena are allocated in the heaps before
/// their first task and retired behind their last; others are the store's. Waits for all tasks,
/// where it throws, too. Throws what CompiledGraph and allocate do; LifetimeError, before its first
/// task, where a handle is locked or the runtime is paused. With `instead` every task has that
/// codelet: what a run needs is then seen without its work.
template <ScopedRuntime R>
void run_in_heaps(Plan const& plan, HeapPlan const& heaps, TensorStore<R>& store,
                  BindOptions const& options = {}, Codelet const* instead = nullptr) {
  using Handle = typename R::Handle;
  R& runtime = store.runtime();
  detail::check_waits(runtime);
  Isa const isa = options.isa == Isa::best ? kernels::best() : options.isa;
  nntile::detail::BoundTasks const tasks(plan, runtime, isa, options.ops, options.trace);
  std::vector<Handle> handles(plan.buffers().size());
  typename TensorStore<R>::Stored const* stored = nullptr;
  for (std::size_t b = 0; b < handles.size(); ++b) {
    PlannedBuffer const& buffer = plan.buffers()[b];
    PlannedTensor const& tensor = plan.tensors()[buffer.tensor];
    if (tensor.storage == Storage::arena) continue;
    if (buffer.tile == 0)
      stored = &store.ensure(
          tensor, plan.buffers().subspan(b, static_cast<std::size_t>(tensor.tiling.tile_count())));
    handles[b] = stored->tiles[buffer.tile];
    if (instead == nullptr) continue;
    (void)runtime.lock(handles[b], Access::write);  // counts as written
    runtime.unlock(handles[b]);
  }
  DynamicArray<passes::LiveRange> const ranges = passes::live_ranges(plan.data());
  std::vector<bool> alive(handles.size());
  auto step = scope(runtime, Lifetime::step), layer = scope(runtime, Lifetime::scope),
       scratch = scope(runtime, Lifetime::scratch);
  struct Ended {  // tasks that an exception leaves behind use names and times
    R& runtime;
    ~Ended() {
      try {
        runtime.wait_all();
      } catch (...) {  // of tasks that have ended
      }
    }
  } const ended{runtime};
  std::vector<Use<Handle>> uses;
  for (std::uint32_t t = 0; t < plan.tasks().size(); ++t) {
    auto const in_heap = [&](auto visit) {
      for (Use<BufferId> const& use : plan.uses(plan.tasks()[t]))
        if (heaps.lifetimes[use.handle] != Lifetime::persistent) visit(use.handle);
    };
    in_heap([&](BufferId b) {
      if (ranges[b].first != t || alive[b]) return;
      handles[b] = runtime.allocate(static_cast<std::size_t>(plan.buffers()[b].bytes), host,
                                    heaps.lifetimes[b]);
      alive[b] = true;
    });
    uses.clear();
    for (Use<BufferId> const& use : plan.uses(plan.tasks()[t]))
      uses.push_back({handles[use.handle], use.access});
    Task<Handle> task = tasks.task(plan.tasks()[t], std::span<Use<Handle> const>(uses));
    if (instead != nullptr) task.codelet = instead;
    submit(runtime, task);
    in_heap([&](BufferId b) {
      if (ranges[b].last != t || !alive[b]) return;
      runtime.retire(handles[b]);
      alive[b] = false;
    });
  }
  runtime.wait_all();  // the plan's names are lent to its tasks
}

}  // namespace nntile::testing
