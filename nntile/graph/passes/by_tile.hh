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
      : plan_(plan), thin_(thin), windows_(plan.tensors.size()), users_(plan.buffers.size()) {
    for (std::size_t t = 0; t < plan.tasks.size(); ++t)
      if (t == 0 || plan.tasks[t].node != plan.tasks[t - 1].node) first_task_.push_back(t);
    first_task_.push_back(plan.tasks.size());
  }

  /// Orders the tasks. Cost: linear in the uses of the tasks where few windows are refused; one is
  /// looked through again only where what it was refused for is before its begin.
  void run() {
    std::size_t const nodes = first_task_.size() - 1;
    for (std::size_t node = 0, end; node < nodes; node = end) {
      end = node + 1;
      for (std::uint32_t const tensor : results(node)) {
        Window& window = windows_[tensor];
        if (window.until <= node) window = {last_of(node, tensor), 0};
        std::size_t const until = window.until;
        if (until == node + 1 || first_task_[node] < window.refused) continue;
        window.refused = refused(node, until, tensor);
        if (window.refused != 0) continue;
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

  /// Lists the tasks' keys, their tiles of the tensor. Where tasks of different tiles are not
  /// independent, 1 + the first of two such; else 0.
  std::size_t refused(std::size_t node, std::size_t until, std::uint32_t tensor) {
    keys_.clear();
    ++window_;
    for (std::size_t t = first_task_[node]; t < first_task_[until]; ++t) {
      std::uint32_t key = none;
      for (Use<BufferId> const& use : plan_.uses_of(plan_.tasks[t])) {
        if (tensor_of(use) != tensor) continue;
        std::uint32_t const tile = plan_.buffers[use.handle].tile;
        if (key != none && key != tile) return t + 1;
        key = tile;
      }
      if (key == none) return t + 1;
      keys_.push_back(key);
      auto const now = static_cast<std::uint32_t>(t + 1);
      for (Use<BufferId> const& use : plan_.uses_of(plan_.tasks[t])) {
        User& user = users_[use.handle];
        if (user.window != window_) user = {window_, key, now, 0, 0};
        std::uint32_t const other = user.key != key ? user.last : user.other;
        if (other != 0 && writes(use.access)) return other;
        if (other != 0 && user.written != 0) return user.written;
        user = {window_, key, now, other, writes(use.access) ? now : user.written};
      }
    }
    return 0;
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

  /// Nodes that follow one another and touch a tensor.
  struct Window {
    std::size_t until = 0;    // the node behind the last
    std::size_t refused = 0;  // 1 + a task before which none of them begins that is independent
  };
  struct User {
    std::uint32_t window;                // the last one that uses the buffer, from 1
    std::uint32_t key;                   // of its last use
    std::uint32_t last, other, written;  // 1 + the tasks of that, of another key's, and of a write
  };

  PlanData& plan_;
  ThinJob* thin_;
  DynamicArray<std::size_t> first_task_;  // of each node that has tasks
  DynamicArray<std::uint32_t> keys_;      // of a window's tasks
  DynamicArray<Window> windows_;          // by tensor, the last one
  DynamicArray<User> users_;              // by buffer
  std::uint32_t window_ = 0;
};

/// Orders tasks by tile where their nodes allow it. Throws NotThin.
inline PlanData by_tile(PlanData plan, ThinJob* thin = nullptr) {
  ByTilePass(plan, thin).run();
  return plan;
}

}  // namespace nntile::passes
