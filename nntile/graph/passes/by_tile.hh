#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The pass that orders the tasks of neighbouring nodes tile by tile instead of node by node.

#include <cstdint>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/passes/counting_sort.hh"
#include "nntile/graph/passes/thin.hh"
#include "nntile/graph/plan.hh"

namespace nntile::passes {

/// Finds runs of nodes that follow one another and all touch a tensor which the first of them
/// writes, and orders their tasks by that tensor's tiles: a weight's gradient tile is computed,
/// added to and used up by the optimizer before the next one begins, so that few of them live at a
/// time and each is still in cache. Only where no task of one tile touches what a task of another
/// writes, so no bit depends on it.
class ByTilePass {
 public:
  ByTilePass(PlanData& plan, ThinJob* thin)
      : plan_(plan), thin_(thin), users_(plan.buffers.size()) {
    for (std::size_t t = 0; t < plan.tasks.size(); ++t)
      if (t == 0 || plan.tasks[t].node != plan.tasks[t - 1].node) first_task_.push_back(t);
    first_task_.push_back(plan.tasks.size());
  }

  /// Orders the tasks. Cost: linear in the number of tasks, times tasks per window.
  void run() {
    std::size_t const nodes = first_task_.size() - 1;
    for (std::size_t node = 0, end; node < nodes; node = end) {
      end = node + 1;
      for (std::uint32_t const tensor : results(node)) {
        std::size_t const until = last_of(node, tensor);
        if (until == node + 1 || !independent(node, until, tensor)) continue;
        auto const tiles = static_cast<std::size_t>(plan_.tensors[tensor].tiling.tile_count());
        reorder(plan_.tasks, first_task_[node], counting_sort(keys_, tiles));
        if (thin_ != nullptr && thin_->cut[tensor] >= 0)
          mark(first_task_[node], first_task_[until]);
        end = until;
        break;
      }
    }
  }

 private:
  static constexpr std::uint32_t none = ~0u;

  /// The tensor that a use counts for: a sum of a canonical group for its result.
  std::uint32_t tensor_of(Use<BufferId> const& use) const {
    std::uint32_t const id = plan_.buffers[use.handle].tensor;
    return plan_.tensors[id].base == no_id ? id : plan_.tensors[id].base;
  }

  /// Tensors of several tiles that the node's first task writes.
  DynamicArray<std::uint32_t> results(std::size_t node) const {
    DynamicArray<std::uint32_t> found;
    for (Use<BufferId> const& use : plan_.uses_of(plan_.tasks[first_task_[node]]))
      if (writes(use.access) && plan_.tensors[tensor_of(use)].tiling.tile_count() > 1)
        found.push_back(tensor_of(use));
    return found;
  }

  /// The node behind the last one of the run that touches the tensor. Looks at first tasks alone.
  std::size_t last_of(std::size_t node, std::uint32_t tensor) const {
    for (++node; node + 1 < first_task_.size(); ++node) {
      bool touches = false;
      for (Use<BufferId> const& use : plan_.uses_of(plan_.tasks[first_task_[node]]))
        touches |= tensor_of(use) == tensor;
      if (!touches) break;
    }
    return node;
  }

  /// Lists the tasks' keys, their tiles of the tensor; false where tasks of different tiles are not
  /// independent.
  bool independent(std::size_t node, std::size_t until, std::uint32_t tensor) {
    keys_.clear();
    ++window_;
    for (std::size_t t = first_task_[node]; t < first_task_[until]; ++t) {
      std::uint32_t key = none;
      for (Use<BufferId> const& use : plan_.uses_of(plan_.tasks[t])) {
        if (tensor_of(use) != tensor) continue;
        std::uint32_t const tile = plan_.buffers[use.handle].tile;
        if (key != none && key != tile) return false;
        key = tile;
      }
      if (key == none) return false;
      keys_.push_back(key);
      for (Use<BufferId> const& use : plan_.uses_of(plan_.tasks[t])) {
        User& user = users_[use.handle];
        if (user.window != window_) user = {window_, key, false, false};
        user.several |= user.key != key;
        user.written |= writes(use.access);
        if (user.several && user.written) return false;
      }
    }
    return true;
  }

  /// Numbers a window of tasks that are now ordered by tiles which are cut over the axis of a thin
  /// job. Throws NotThin where tasks of several coordinates follow one another in a node.
  void mark(std::size_t begin, std::size_t end) {
    if (++thin_->windows == 0) throw NotThin{"too many windows"};
    for (std::size_t t = begin; t < end; ++t) {
      PlannedTask& task = plan_.tasks[t];
      PlannedTask const& before = plan_.tasks[t == begin ? t : t - 1];
      if (task.location.rank == 0) throw NotThin{"a window of tasks of all coordinates"};
      if (before.node == task.node && before.location.rank != task.location.rank)
        throw NotThin{"a window with tiles of one node alone"};
      task.hints = thin_->windows;
    }
  }

  struct User {
    std::uint32_t window;  // the last one that uses the buffer, from 1
    std::uint32_t key;
    bool written;
    bool several;
  };

  PlanData& plan_;
  ThinJob* thin_;
  DynamicArray<std::size_t> first_task_;  // of each node that has tasks
  DynamicArray<std::uint32_t> keys_;      // of a window's tasks
  DynamicArray<User> users_;              // by buffer
  std::uint32_t window_ = 0;
};

/// Orders tasks by tile where their nodes allow it. Throws NotThin.
inline PlanData by_tile(PlanData plan, ThinJob* thin = nullptr) {
  ByTilePass(plan, thin).run();
  return plan;
}

}  // namespace nntile::passes
