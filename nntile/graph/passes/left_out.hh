#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Reads of other coordinates by tasks that a thin job leaves out, with their times.

#include <cstdint>
#include <span>
#include <vector>

#include "nntile/graph/mesh.hh"
#include "nntile/graph/passes/thin.hh"
#include "nntile/graph/plan.hh"

namespace nntile::passes {

/// Follows the tasks of a thin job, and tells which coordinates that it leaves out would have had
/// their turn. Tasks of cut tiles follow one another by coordinates, which ascend within a cycle;
/// those of a coordinate that is left out read what the first one has read in the cycle.
class LeftOut {
 public:
  /// A tile that is not cut, and the ranks that read it at the first coordinate.
  struct Read {
    std::uint32_t buffer;
    std::vector<RankBox> boxes;
  };

  /// Without a thin job nothing is left out.
  explicit LeftOut(ThinJob const* thin) : thin_(thin) {}

  /// Calls turn(begin, end) for the coordinates that had theirs between the last task and this one,
  /// or, without one, the end.
  template <class Turn> void before(PlannedTask const* task, Turn turn) {
    int const next = task == nullptr ? none : task->location.rank - 1;
    if (next == none && task != nullptr && thin_ != nullptr && !thin_->line && window_ == 0 &&
        task->node == node_)
      return;  // adds sums of the cycle, which goes on to the last coordinate
    bool const follows = next >= at_ && at_ != none && is_of_run(*task);
    if (!reads_.empty()) turn(at_ + 1, follows ? next : thin_->coordinates);
    if (!follows) reads_.clear();
    at_ = next;
    if (task != nullptr) node_ = task->node, window_ = task->hints;
  }
  /// The same for those up to a coordinate, behind tasks of the cycle.
  template <class Turn> void until(int coordinate, Turn turn) {
    if (at_ == none || coordinate <= at_) return;
    if (!reads_.empty()) turn(at_ + 1, coordinate + 1);
    at_ = coordinate;
  }
  /// Notes what a task of the first coordinate reads.
  void add(std::uint32_t buffer, std::span<RankBox const> boxes) {
    reads_.push_back({buffer, {boxes.begin(), boxes.end()}});
  }
  std::span<Read const> reads() const { return reads_; }

 private:
  static constexpr int none = -1;

  /// Whether the coordinates of a task go on from those of the last one.
  bool is_of_run(PlannedTask const& task) const {
    return task.hints == window_ && (window_ != 0 || task.node == node_);
  }

  ThinJob const* thin_;
  std::vector<Read> reads_;  // in the cycle
  int at_ = none;            // the coordinate of the last task
  std::uint32_t node_ = 0;
  std::uint16_t window_ = 0;
};

/// The ranks, at all coordinates, that add the terms of the sum to which the last such task adds.
class SumTerms {
 public:
  /// A task that adds a term at ranks of a box. Throws NotThin where others do not.
  void add(PlannedTask const& task, RankBox box, std::size_t axis) {
    box.at[axis] = RankBox::all;
    if (has(task) && !(box_ == box)) throw NotThin{"terms at other ranks"};
    node_ = task.node, tile_ = task.tile, box_ = box;
  }
  RankBox const& of(PlannedTask const& task) const {
    if (!has(task)) throw NotThin{"terms at unknown ranks"};
    return box_;
  }

 private:
  bool has(PlannedTask const& task) const { return node_ == task.node && tile_ == task.tile; }

  std::uint32_t node_ = no_id, tile_ = 0;
  RankBox box_ = {};
};

/// Tests that the coordinates of a cycle run their tasks at the same ranks of the other axes.
class AlikeTurns {
 public:
  /// A task of cut tiles, at ranks of a box. Throws NotThin.
  void visit(PlannedTask const& task, RankBox box, std::size_t axis) {
    int const at = task.location.rank - 1;
    bool const follows = at >= at_ && task.hints == window_ && (window_ != 0 || task.node == node_);
    if (!follows) first_.clear();
    if (!follows || at != at_) turn_ = 0;
    at_ = at, node_ = task.node, window_ = task.hints;
    box.at[axis] = RankBox::all;
    if (at == 0) return first_.push_back(box);
    if (first_.empty()) return;  // sums of groups, in blocks
    if (turn_ == first_.size() || !(first_[turn_++] == box))
      throw NotThin{"coordinates that do not do alike"};
  }

  /// The ranks at which a task runs whose turn is next, as the first coordinate ran it. Throws
  /// NotThin.
  RankBox next(PlannedTask const& task, std::size_t axis) const {
    int const at = task.location.rank - 1;
    bool const follows =
        at > 0 && at >= at_ && task.hints == 0 && window_ == 0 && task.node == node_;
    std::size_t const turn = at == at_ ? turn_ : 0;
    if (!follows || turn >= first_.size()) throw NotThin{"a turn that the first has not had"};
    RankBox box = first_[turn];
    box.at[axis] = static_cast<std::int16_t>(at);
    return box;
  }

 private:
  std::vector<RankBox> first_;  // the ranks of tasks of the first coordinate
  std::size_t turn_ = 0;
  int at_ = -1;
  std::uint32_t node_ = 0;
  std::uint16_t window_ = 0;
};

}  // namespace nntile::passes
