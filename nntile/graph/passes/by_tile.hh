#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The pass that orders the tasks of neighbouring ops tile by tile instead of op by op.

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <vector>

#include "nntile/graph/plan.hh"

namespace nntile::passes {

/// Finds runs of ops that follow one another and all touch a tensor which the first of them writes,
/// and orders their tasks by that tensor's tiles: a weight's gradient tile is computed, added to
/// and used up by the optimizer before the next one begins, so that few of them live at a time and
/// each is still in cache. Only where no task of one tile touches what a task of another writes, so
/// no bit depends on it.
template <std::same_as<Plan> P> class ByTilePass {
 public:
  /// `first_task` of every op in the plan's order, and the number of tasks.
  ByTilePass(P const& plan, std::vector<std::size_t> const& first_task)
      : plan_(plan), first_task_(first_task), key_(plan.tasks().size()) {}

  /// The tasks in their new order. Cost: linear in the number of tasks, times tasks per window.
  std::vector<std::uint32_t> run() {
    std::vector<std::uint32_t> order(plan_.tasks().size());
    std::iota(order.begin(), order.end(), 0u);
    std::size_t const ops = first_task_.size() - 1;
    for (std::size_t op = 0, end; op < ops; op = end) {
      end = op + 1;
      for (std::uint32_t const tensor : results(op)) {
        std::size_t const until = last_of(op, tensor);
        if (until == op + 1 || !independent(op, until, tensor)) continue;
        std::stable_sort(order.begin() + offset(op), order.begin() + offset(until),
                         [&](std::uint32_t a, std::uint32_t b) { return key_[a] < key_[b]; });
        end = until;
        break;
      }
    }
    return order;
  }

 private:
  static constexpr std::uint32_t none = ~0u;

  std::ptrdiff_t offset(std::size_t op) const {
    return static_cast<std::ptrdiff_t>(first_task_[op]);
  }
  std::uint32_t tensor_of(PlannedUse const& use) const {
    return plan_.buffers()[use.buffer].tensor;
  }

  /// Tensors of several tiles that the op's first task writes.
  std::vector<std::uint32_t> results(std::size_t op) const {
    std::vector<std::uint32_t> found;
    if (first_task_[op] == first_task_[op + 1]) return found;
    for (PlannedUse const& use : plan_.uses(plan_.tasks()[first_task_[op]]))
      if (writes(use.access) && plan_.tensors()[tensor_of(use)].tiling.tile_count() > 1)
        found.push_back(tensor_of(use));
    return found;
  }

  /// The op behind the last one of the run that touches the tensor. Looks at first tasks alone.
  std::size_t last_of(std::size_t op, std::uint32_t tensor) const {
    for (++op; op + 1 < first_task_.size(); ++op) {
      if (first_task_[op] == first_task_[op + 1]) continue;
      bool touches = false;
      for (PlannedUse const& use : plan_.uses(plan_.tasks()[first_task_[op]]))
        touches |= tensor_of(use) == tensor;
      if (!touches) break;
    }
    return op;
  }

  /// Sets the tasks' keys, their tiles of the tensor; false where tasks of different tiles are not
  /// independent.
  bool independent(std::size_t op, std::size_t until, std::uint32_t tensor) {
    struct User {
      std::uint32_t key;
      bool written;
      bool several;
    };
    std::unordered_map<std::uint32_t, User> users;  // of a buffer
    for (std::size_t t = first_task_[op]; t < first_task_[until]; ++t) {
      std::uint32_t key = none;
      for (PlannedUse const& use : plan_.uses(plan_.tasks()[t])) {
        if (tensor_of(use) != tensor) continue;
        std::uint32_t const tile = plan_.buffers()[use.buffer].tile;
        if (key != none && key != tile) return false;
        key = tile;
      }
      if (key == none) return false;
      key_[t] = key;
      for (PlannedUse const& use : plan_.uses(plan_.tasks()[t])) {
        auto const [at, fresh] = users.try_emplace(use.buffer, User{key, false, false});
        User& user = at->second;
        user.several |= user.key != key;
        user.written |= writes(use.access);
        if (user.several && user.written) return false;
      }
    }
    return true;
  }

  P const& plan_;
  std::vector<std::size_t> const& first_task_;
  std::vector<std::uint32_t> key_;
};

}  // namespace nntile::passes
