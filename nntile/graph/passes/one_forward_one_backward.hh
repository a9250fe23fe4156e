#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The pass that orders the tasks of a pipeline by micro-batches: one forward, one backward.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/passes/counting_sort.hh"
#include "nntile/graph/passes/rank_walk.hh"
#include "nntile/graph/spelling.hh"

namespace nntile::passes {

/// Micro-batches are tiles along an axis; of an axis that is shared out over the mesh, those of the
/// same number on each of its coordinates are one.
///
/// Law: the turn of a task is the least number such that
///     turn >= 2 m, where it writes a tile of micro-batch m,
///     turn >= that of each task which it must follow, and 1 more where it reads the result of
///             another stage.
/// Tasks are sorted by turn, and keep their order within it, so that whatever touches the same tile
/// keeps its order, and each sum too. With S stages, stage s runs micro-batch m forward at turn
/// s + 2 m and backward at turn 2 (S - 1) - s + 2 m: it begins with S - s micro-batches forward,
/// then takes one backward and one forward in turn, and has the activations of S - s at most,
/// however many there are.
class OneForwardOneBackward {
 public:
  /// Micro-batches are along `axis`.
  OneForwardOneBackward(PlanData const& plan, MeshShape const& mesh, HomePass const& places,
                        std::string const& axis)
      : plan_(plan), mesh_(mesh), stages_(places.stages()) {
    auto const& axes = places.axes();
    Index const runs = places.runs(axis);
    micro_batches_.resize(plan.buffers.size(), none);
    for (std::uint32_t t = 0; t < axes.size(); ++t) {
      PlannedTensor const& tensor = plan.tensors[t];
      auto const of_axis = [&](ClassNames const& names) { return is_called(names, axis); };
      auto const d = static_cast<std::size_t>(
          std::find_if(axes[t].begin(), axes[t].end(), of_axis) - axes[t].begin());
      if (!tensor.used || tensor.storage == Storage::view || d == axes[t].size()) continue;
      TileRuns const each{tensor.tiling.axis(d).count(), runs};
      for (Index tile = 0; tile < tensor.tiling.tile_count(); ++tile) {
        Index const at = tensor.tiling.position(tile)[d];
        auto const number = static_cast<std::uint32_t>(at - each.begin(each.of(at)));
        micro_batches_[tensor.first_buffer + static_cast<std::uint32_t>(tile)] = number;
        several_ = several_ || number > 0;
      }
    }
  }

  /// Whether there are several micro-batches.
  bool several() const { return several_; }

  /// The places of tasks in the new order. Cost: that of a walk over all ranks.
  DynamicArray<std::uint32_t> run(std::vector<TileHome> const& homes, std::uint32_t keep_received) {
    values_.resize(plan_.buffers.size());
    turns_.reserve(plan_.tasks.size());
    RankWalk(plan_, mesh_, homes, keep_received).run(*this);
    return counting_sort(turns_, last_ + 1u);
  }

  /// Called by the walk.
  void task(PlannedTask const& task, RankBox const& box) {
    std::uint32_t turn = 0;
    for (Use<BufferId> const& use : plan_.uses_of(task)) {
      if (writes(use.access) && micro_batches_[use.handle] != none)
        turn = std::max(turn, 2 * micro_batches_[use.handle]);
      Value const& value = values_[use.handle];
      turn = std::max(turn, writes(use.access) ? value.last : value.written);
      if (reads(use.access) && value.exists && comes_from_elsewhere(value.box, box))
        turn = std::max(turn, value.written + 1);
    }
    for (Use<BufferId> const& use : plan_.uses_of(task)) {
      Value& value = values_[use.handle];
      value.last = std::max(value.last, turn);
      if (writes(use.access)) value.written = turn, value.box = box, value.exists = true;
    }
    turns_.push_back(turn);
    last_ = std::max(last_, turn);
  }
  void message(RankWalk::Message const&) {}
  void end_phase() {}

 private:
  static constexpr std::uint32_t none = ~0u;

  /// State of a buffer: the turns of the task that wrote it, and of the last that has touched it.
  struct Value {
    std::uint32_t written = 0, last = 0;
    RankBox box = {};
    bool exists = false;  // a task has written it
  };
  bool comes_from_elsewhere(RankBox const& from, RankBox const& to) const {
    for (std::size_t a = 0; a < mesh_.axes(); ++a)
      if ((stages_ >> a & 1u) != 0 && from.at[a] != RankBox::all && from.at[a] != to.at[a])
        return true;
    return false;
  }

  PlanData const& plan_;
  MeshShape const& mesh_;
  std::uint32_t const stages_;                // bits of the mesh's axes that have stages
  std::vector<std::uint32_t> micro_batches_;  // by buffer
  std::vector<Value> values_;                 // by buffer
  DynamicArray<std::uint32_t> turns_;         // by task
  std::uint32_t last_ = 0;
  bool several_ = false;
};

/// Throws PlanError where micro-batches are along an axis that no tensor has, unless by default.
inline void check_micro_batches(PlanData const& plan, PlanOptions const& options,
                                HomePass const& places) {
  if (options.micro_batches == PlanOptions().micro_batches) return;
  DynamicArray<std::string_view> names;
  std::string list;
  for (std::vector<ClassNames> const& axes : places.axes())
    for (ClassNames const& axis : axes)
      for (std::string const& name : axis) {
        if (name == options.micro_batches) return;
        if (std::find(names.begin(), names.end(), name) != names.end()) continue;
        names.push_back(name);
        list += concat(list.empty() ? "; axes are " : ", ", name);
      }
  std::string const near = did_you_mean(options.micro_batches, names);
  throw PlanError(concat("plan '", plan.name, "': PlanOptions::micro_batches is '",
                         options.micro_batches, "', an axis that no tensor has",
                         near.empty() ? list : near));
}

/// Orders the tasks of a job by the schedule of the options, where rules put tensors at stages.
/// Behind the homes of `places`, which are those given. Throws PlanError.
inline PlanData schedule(PlanData plan, PlanOptions const& options, MeshShape const& mesh,
                         HomePass const& places, std::vector<TileHome> const& homes) {
  if (places.stages() == 0) return plan;
  check_micro_batches(plan, options, places);
  if (options.by_phase || options.schedule == PipelineSchedule::layer_by_layer) return plan;
  OneForwardOneBackward pass(plan, mesh, places, options.micro_batches);
  if (pass.several()) reorder(plan.tasks, 0, pass.run(homes, options.keep_received));
  return plan;
}

}  // namespace nntile::passes
