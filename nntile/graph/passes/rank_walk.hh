#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The walk through the tasks of a job that says which ranks run each, and which messages go between
// them.

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "nntile/core/cost.hh"
#include "nntile/graph/passes/left_out.hh"
#include "nntile/graph/passes/spread.hh"
#include "nntile/graph/passes/targets.hh"
#include "nntile/graph/passes/valid_ranks.hh"

namespace nntile::passes {

/// Goes through the tasks of all ranks in their common order, and notes which ranks have the
/// present value of each tile.
///
/// Law: every rank goes through the same tasks and decides alike, so that the parts agree without a
/// word. A task that homes leave open runs everywhere if all that it reads is there, or if all
/// ranks need its result and what it reads comes to them for no more bytes; else at the rank that
/// has most of it, and of several such at the one nearest to its target: so each rank but the root
/// sends one sum of a tree, whose roots are dealt out by bytes. A tile is sent to a rank right
/// before the first task there that reads it, once for each value, and again where a kept tile has
/// been without a reader for more ops than PlanOptions::keep_received, and an input in each phase,
/// as it may be bound anew. At the end of each phase, or once, the ranks that store a tile have its
/// last value.
///
/// On a mesh of several axes coordinates of one do alike (MeshShape::alike_axis): an open task that
/// cut tiles put at one of them counts any other tile as missing which is at one coordinate by
/// chance, since its owner is there.
class RankWalk {
 public:
  /// A message of a tile, whose value the node has written.
  struct Message {
    std::uint32_t buffer, node;
    int from, to;
    bool again;  // the receiver may have had this value, and dropped it
  };

  /// Of a thin job the messages of its own coordinate are those of the whole one.
  RankWalk(PlanData const& plan, MeshShape const& mesh, std::vector<TileHome> const& homes,
           std::uint32_t keep_received, ThinJob const* thin = nullptr)
      : plan_(plan),
        mesh_(mesh),
        homes_(homes),
        keep_received_(keep_received),
        thin_(thin),
        places_(plan, mesh, homes),
        valid_(mesh, plan.buffers.size(), places_.alike_axis()),
        made_alike_(places_.alike_axis() < mesh.axes() ? plan.buffers.size() : 0),
        written_by_(plan.buffers.size(), first_node(plan)),
        read_by_(keep_received == PlanOptions::to_last_reader ? 0 : plan.buffers.size(), no_id),
        dropped_(plan.buffers.size()) {}

  /// Calls sink.task(task, box) for each and sink.message(message), in the common order, and
  /// sink.end_phase() behind each phase of the plan, or once. Cost: linear in the tasks of all
  /// ranks.
  template <class Sink> void run(Sink& sink) {
    TargetPass pass(plan_, mesh_, places_, thin_);
    targets_ = pass.run();
    roots_ = pass.roots();
    blocks_ = pass.take_blocks();
    places_.each_stored([&](std::uint32_t b) { valid_.set(b, homes_[b].box); });
    if (thin_ != nullptr) note_written();
    Spread spread(plan_, mesh_, targets_, thin_);
    auto const settle = [&] {
      places_.each_stored([&](std::uint32_t b) { move_to(homes_[b].box, b, spread, sink); });
      sink.end_phase();
    };
    std::size_t phase = 0;
    for (std::size_t t = 0; t < plan_.tasks.size(); ++t) {
      if (phase < plan_.phases.size() && plan_.phases[phase].end == t)
        settle(), drop_inputs(), ++phase;
      PlannedTask const& task = plan_.tasks[t];
      if (thin_ == nullptr) {
        visit(task, t, spread, sink);
        continue;
      }
      bool const stands_in =
          task.location.rank > 0 && (task.priority > 0 || !thin_->has(task.location.rank - 1));
      if (stands_in && !thin_->line)
        catch_up(std::max(task.location.rank, task.priority) - 1, spread, sink);
      else
        catch_up(&task, spread, sink);
      if (task.priority < 0)
        add_blocks(t, spread, sink);
      else if (stands_in)
        stand_in(t, spread, sink);
      else
        visit(task, t, spread, sink);
    }
    if (thin_ != nullptr) catch_up(nullptr, spread, sink);
    settle();
  }

 private:
  static std::uint32_t first_node(PlanData const& plan) {
    auto const first = std::min_element(plan.nodes.begin(), plan.nodes.end());
    return first == plan.nodes.end() ? 0 : static_cast<std::uint32_t>(*first);
  }
  /// Of a task that is task `t`, or a step of it.
  template <class Sink>
  void visit(PlannedTask const& task, std::size_t t, Spread& spread, Sink& sink) {
    auto const uses = plan_.uses_of(task);
    for (Use<BufferId> const& use : uses)
      if (!read_by_.empty() && reads(use.access)) drop_old(use.handle, task.node);
    RankBox const box = place(t, uses);
    bool const cut =  // of a thin job
        task.location.rank > 0 && !thin_->rows.only_reads(task.node, box);
    bool const alike = places_.alike(uses, targets_[t].open);
    if (thin_ != nullptr) check_reads(uses, box);
    if (cut && !thin_->line) note_turn(task, uses, box);
    for (Use<BufferId> const& use : uses)
      if (reads(use.access) && !valid_.everywhere(use.handle)) {
        move_to_readers(t, use.handle, spread, sink);
        if (cut) note_read(task, use, spread.boxes());
        move_to(box, use.handle, spread, sink);
        if (cut) note_read(task, use, {&box, 1});
      }
    if (cut && thin_->line) check_terms(uses);
    for (Use<BufferId> const& use : uses)
      if (writes(use.access)) {
        valid_.set(use.handle, box);
        written_by_[use.handle] = task.node;
        dropped_[use.handle] = false;
        if (!made_alike_.empty()) made_alike_[use.handle] = alike;
      }
    sink.task(task, box);
  }
  /// The rank at which the result of a task is wanted.
  int wanted_rank(Target const& target) const {
    return mesh_.nearest(target.box, target.root == no_id ? 0 : roots_[target.root]);
  }
  /// Drops the copies of a kept tile that no op has read for long.
  void drop_old(std::uint32_t b, std::uint32_t node) {
    std::uint32_t const last = read_by_[b];
    if (last != no_id && last >= node) return;  // nodes take turns, tile by tile
    read_by_[b] = node;
    if (last == no_id || node - last <= keep_received_ || !places_.stored(b)) return;
    if (valid_.source(b) == homes_[b].box) drop(b);
  }
  /// Drops the copies of inputs, which may be bound anew between phases.
  void drop_inputs() {
    for (std::uint32_t b = 0; b < plan_.buffers.size(); ++b)
      if (plan_.tensors[plan_.buffers[b].tensor].attributes.external) drop(b);
  }
  /// Leaves a value at its home alone.
  void drop(std::uint32_t b) {
    valid_.set(b, homes_[b].box);
    dropped_[b] = true;
  }

  /// The ranks that run a task.
  RankBox place(std::size_t t, std::span<Use<BufferId> const> uses) {
    TaskPlace place = targets_[t].place();
    if (place.open == 0) return place.box;
    if (thin_ != nullptr && is_of_last(uses)) return turns_.next(plan_.tasks[t], thin_->axis);
    if (thin_ != nullptr) check_known(uses);
    if (places_.alike(uses, place.open))
      return place_open(t, place, uses, [&](std::uint32_t b, int rank) {
        bool const here = places_.at_coordinate(b) || made_alike_[b];
        return here ? valid_.has(b, rank) : valid_.is_alike(b, rank);
      });
    if (plan_.tasks[t].location.rank > 0) check_open(uses);
    return place_open(t, place, uses,
                      [&](std::uint32_t b, int rank) { return valid_.has(b, rank); });
  }
  /// The same of a task that homes leave open; `has(b, rank)`: whether a tile counts as there.
  template <class Has>
  RankBox place_open(std::size_t t, TaskPlace place, std::span<Use<BufferId> const> uses, Has has) {
    if (all_there(uses, place.box, has)) return place.box;
    if (targets_[t].spread == place.open && worth_all(uses, place.box, has)) return place.box;
    int const one = best(uses, place, targets_[t], has);
    for (std::size_t a = 0; a < mesh_.axes(); ++a)
      if ((place.open >> a & 1u) != 0)
        place.box.at[a] = static_cast<std::int16_t>(mesh_.coordinate(one, a));
    return place.box;
  }
  template <class Has>
  bool all_there(std::span<Use<BufferId> const> uses, RankBox const& box, Has has) const {
    bool there = true;
    for (Use<BufferId> const& use : uses)  // the common case alone
      there = there && (!reads(use.access) || has(use.handle, mesh_.first(box)));
    if (!there) return false;
    mesh_.each(box, [&](int rank) {
      for (Use<BufferId> const& use : uses)
        there = there && (!reads(use.access) || has(use.handle, rank));
    });
    return there;
  }
  /// Whether what a task reads comes to all ranks of a box for no more bytes than its largest
  /// result.
  template <class Has>
  bool worth_all(std::span<Use<BufferId> const> uses, RankBox const& box, Has has) const {
    Index missing = 0, largest = 0;
    int ranks = 0;
    mesh_.each(box, [&](int rank) {
      ++ranks;
      for (Use<BufferId> const& use : uses)
        if (reads(use.access) && !has(use.handle, rank))
          add_saturated(missing, plan_.buffers[use.handle].bytes);
    });
    for (Use<BufferId> const& use : uses)
      if (writes(use.access)) largest = std::max(largest, plan_.buffers[use.handle].bytes);
    return missing <= saturated_product({largest, ranks - 1});
  }
  /// The rank of a box that has the most bytes of what a task reads, of several such the one
  /// nearest to the target: whose number differs from its in the lowest bits alone, so that all
  /// ranks add alike over all roots.
  template <class Has>
  int best(std::span<Use<BufferId> const> uses, TaskPlace const& place, Target const& target,
           Has has) {
    Index most = 0;
    candidates_.clear();
    auto const weigh = [&](int rank) {
      if (!mesh_.contains(place.box, rank)) return;
      Index bytes = 0;
      bool any = false;
      for (Use<BufferId> const& use : uses)
        if (reads(use.access) && has(use.handle, rank))
          add_saturated(bytes, plan_.buffers[use.handle].bytes), any = true;
      if (!any) return;
      if (bytes > most) most = bytes, candidates_.clear();
      if (bytes == most) candidates_.push_back(rank);
    };
    if (places_.alike(uses, place.open))
      mesh_.each(place.box, weigh);
    else
      valid_.each_holder(uses, weigh);
    if (thin_ != nullptr && candidates_.empty() && (place.open >> thin_->axis & 1u) != 0)
      throw NotThin{"a sum away from its terms"};
    if (candidates_.empty()) mesh_.each(place.box, [&](int rank) { candidates_.push_back(rank); });
    if (candidates_.size() == 1) return candidates_[0];
    int const wanted = wanted_rank(target);
    return *std::min_element(candidates_.begin(), candidates_.end(),
                             [&](int a, int b) { return (a ^ wanted) < (b ^ wanted); });
  }
  /// Sends a tile along hops to ranks that lack its present value.
  template <class Sink> void move_to(std::span<Hop const> hops, std::uint32_t b, Sink& sink) {
    for (Hop const& hop : hops) {
      if (valid_.has(b, hop.to) || !valid_.has(b, hop.from))
        continue;  // an output that nothing computes
      valid_.add(b, hop.to);
      send(hop, b, sink);
    }
  }
  template <class Sink> void send(Hop const& hop, std::uint32_t b, Sink& sink) {
    sink.message(Message{b, written_by_[b], hop.from, hop.to, dropped_[b]});
  }
  /// Sends a tile to ranks of a box that lack its present value. Of a thin job's messages from one
  /// rank to all those of its own coordinate alone.
  template <class Sink>
  void move_to(RankBox const& box, std::uint32_t b, Spread& spread, Sink& sink) {
    bool const all = mesh_.is_all(box);
    if (all && valid_.everywhere(b)) return;
    if (mesh_.is_one(box) && valid_.has(b, mesh_.first(box))) return;
    RankBox const& source = valid_.source(b);
    int const from = mesh_.first(source);
    if (thin_ == nullptr || !spread.along_trees() || !(all || mesh_.is_row(box, thin_->axis)) ||
        !mesh_.is_one(source) || !mesh_.contains(box, from) || !valid_.at_one(b) ||
        !valid_.has(b, from))
      return move_to(spread.box(box, source), b, sink);
    if (all)
      valid_.add_all(b);
    else
      valid_.add_row(b, box);
    if (!mesh_.contains(box, thin_->rank)) return;
    for (Hop const& hop : spread.to_all_by(thin_->rank, from, !all)) send(hop, b, sink);
  }

  /// Sends a tile to all that read it in tasks of this one's node, where it goes along trees.
  template <class Sink>
  void move_to_readers(std::size_t t, std::uint32_t b, Spread& spread, Sink& sink) {
    auto const hops = spread.readers(t, b, valid_.source(b));
    if (RankBox const* const box = spread.to(); box != nullptr)
      move_to(*box, b, spread, sink);
    else
      move_to(hops, b, sink);
  }

  bool is_cut(std::uint32_t b) const { return thin_->cut[plan_.buffers[b].tensor] >= 0; }
  void note_written() {
    written_.resize(plan_.tensors.size());
    for (PlannedTask const& task : plan_.tasks)
      for (Use<BufferId> const& use : plan_.uses_of(task))
        if (writes(use.access)) written_[plan_.buffers[use.handle].tensor] = true;
  }

  /// Sends what coordinates that a thin job leaves out read between the last task and the next;
  /// what others send them, none of which is a message of this one, they just have.
  template <class Sink> void catch_up(PlannedTask const* task, Spread& spread, Sink& sink) {
    left_out_.before(task, [&](int begin, int end) { take_turns(begin, end, spread, sink); });
  }
  /// The same up to a coordinate, within a sum of all.
  template <class Sink> void catch_up(int coordinate, Spread& spread, Sink& sink) {
    left_out_.until(coordinate, [&](int begin, int end) { take_turns(begin, end, spread, sink); });
  }
  template <class Sink> void take_turns(int begin, int end, Spread& spread, Sink& sink) {
    if (begin >= end) return;
    auto const sends = [&](std::uint32_t b) {
      return valid_.source(b).at[thin_->axis] == thin_->own;
    };
    for (LeftOut::Read const& read : left_out_.reads())
      if (!sends(read.buffer) && valid_.has(read.buffer, mesh_.first(valid_.source(read.buffer))))
        just_have(read, begin, end);
    bool const any = std::any_of(left_out_.reads().begin(), left_out_.reads().end(),
                                 [&](LeftOut::Read const& read) { return sends(read.buffer); });
    for (int c = begin; c < end && any; ++c)
      for (LeftOut::Read const& read : left_out_.reads())
        if (sends(read.buffer))
          move_to(spread.at(read.boxes, thin_->axis, c, valid_.source(read.buffer)), read.buffer,
                  sink);
  }
  void just_have(LeftOut::Read const& read, int begin, int end) {
    if (thin_->line) return valid_.add(read.buffer, begin, end);
    for (RankBox const& box : read.boxes) valid_.add(read.buffer, box, begin, end);
  }
  /// Whether a value is at the ranks of boxes, and those of all other coordinates there.
  bool at_all(std::uint32_t b, std::span<RankBox const> boxes) {
    if (thin_->line) return valid_.everywhere(b);
    return std::all_of(boxes.begin(), boxes.end(),
                       [&](RankBox const& box) { return valid_.all_have(b, box); });
  }
  void note_read(PlannedTask const& task, Use<BufferId> const& use,
                 std::span<RankBox const> boxes) {
    if (task.location.rank == 1 && !boxes.empty() && !writes(use.access) && !is_cut(use.handle) &&
        !at_all(use.handle, boxes))
      left_out_.add(use.handle, boxes);
  }
  /// Requires that a value written by a coordinate that is left out is read there alone: nothing
  /// says when it is sent.
  void check_reads(std::span<Use<BufferId> const> uses, RankBox const& box) const {
    for (Use<BufferId> const& use : uses) {
      if (!reads(use.access)) continue;
      if (is_of_row(use.handle) &&
          box.at[thin_->rows.axis] != homes_[use.handle].box.at[thin_->rows.axis])
        throw NotThin{"a task that reads what other rows compute"};
      if (!is_cut(use.handle)) continue;
      int const at = homes_[use.handle].box.at[thin_->axis];
      std::uint32_t const of = plan_.buffers[use.handle].tensor;
      bool const left_out = !thin_->has(at) || thin_->last.leaves_out(of, at);
      if (at != RankBox::all && left_out && box.at[thin_->axis] != at && written_[of])
        throw NotThin{"a task that reads what other coordinates compute"};
    }
  }
  /// Of a task that adds to the sum of a group of coordinates: those that are left out have to find
  /// what they read.
  void check_terms(std::span<Use<BufferId> const> uses) const {
    bool adds = false;
    for (Use<BufferId> const& use : uses) adds |= writes(use.access) && !is_cut(use.handle);
    if (!adds) return;
    for (Use<BufferId> const& use : uses)
      if (!writes(use.access) && !is_cut(use.handle) && !valid_.everywhere(use.handle))
        throw NotThin{"terms that are sent to each coordinate"};
  }
  /// Notes the ranks at which a coordinate adds the terms of a sum. Throws NotThin where others do
  /// not.
  void note_turn(PlannedTask const& task, std::span<Use<BufferId> const> uses, RankBox const& box) {
    turns_.visit(task, box, thin_->axis);
    for (Use<BufferId> const& use : uses)
      if (writes(use.access) && !is_cut(use.handle)) return terms_.add(task, box, thin_->axis);
  }
  /// The ranks, at all coordinates, that add the terms of a sum.
  RankBox term_of(PlannedTask const& task) const {
    return thin_->line ? RankBox{} : terms_.of(task);
  }
  RankBox box_of(int rank) const {
    RankBox box;
    for (std::size_t a = 0; a < mesh_.axes(); ++a)
      box.at[a] = static_cast<std::int16_t>(mesh_.coordinate(rank, a));
    return box;
  }
  RankBox at_coordinate(RankBox box, int at) const {
    box.at[thin_->axis] = static_cast<std::int16_t>(at);
    return box;
  }
  /// Requires that an open task of cut tiles, which runs where these are, reads nothing else.
  void check_open(std::span<Use<BufferId> const> uses) const {
    for (Use<BufferId> const& use : uses)
      if (!is_cut(use.handle)) throw NotThin{"a task that runs where its tiles happen to be"};
  }
  /// Requires that the ranks are known that have what an open task reads.
  void check_known(std::span<Use<BufferId> const> uses) const {
    for (Use<BufferId> const& use : uses) {
      if (reads(use.access) && is_cut(use.handle) && !valid_.known(use.handle))
        throw NotThin{"a task that runs where other coordinates have its tiles"};
      if (reads(use.access) && is_of_row(use.handle))
        throw NotThin{"a task that runs where other rows have its tiles"};
    }
  }
  /// Whether a task reads what the last coordinate computes, whose tasks are left out.
  bool is_of_last(std::span<Use<BufferId> const> uses) const {
    return std::any_of(uses.begin(), uses.end(), [&](Use<BufferId> const& use) {
      return reads(use.access) && thin_->last.leaves_out(plan_.buffers[use.handle].tensor,
                                                         homes_[use.handle].box.at[thin_->axis]);
    });
  }
  /// Whether a value comes from tasks of another row that are left out.
  bool is_of_row(std::uint32_t b) const {
    return thin_->rows.leaves_out(plan_.buffers[b].tensor, homes_[b].box);
  }
  /// A task of a coordinate that a thin job leaves out, or of a block of them: the sums that it
  /// stands for are at the rank of the block that is nearest to their target, as choosing between
  /// two sums at a time gives, too.
  template <class Sink> void stand_in(std::size_t t, Spread& spread, Sink& sink) {
    PlannedTask const& task = plan_.tasks[t];
    auto const uses = plan_.uses_of(task);
    RankBox const term = term_of(task);
    for (Use<BufferId> const& use : uses) {
      if (is_cut(use.handle)) continue;
      if (!writes(use.access)) move_to_readers(t, use.handle, spread, sink);
      if (!writes(use.access) && thin_->line && !valid_.everywhere(use.handle))
        throw NotThin{"terms that are sent to each coordinate"};
      if (!writes(use.access)) continue;
      int at = task.location.rank - 1;
      RankBox box = term;
      if (task.priority > 0) {
        int const wanted = wanted_rank(blocks_.back());
        at = ThinJob::nearest(at, task.priority - 1, mesh_.coordinate(wanted, thin_->axis));
        if (!thin_->line) box = box_of(mesh_.nearest(term, wanted));
        blocks_.pop_back();
      }
      put(use.handle, at_coordinate(box, at), task.node);
    }
  }
  /// A task that adds the sums of blocks in turn, each of which is at one rank, as is what it is
  /// added to: the result is at one of the two, by the rule of `best`. A block is of other ranks,
  /// and steps between such change nothing but where it is.
  template <class Sink> void add_blocks(std::size_t t, Spread& spread, Sink& sink) {
    PlannedTask const& task = plan_.tasks[t];
    auto const blocks = thin_->blocks_of(task);
    auto const uses = plan_.uses_of(task);
    std::uint32_t const result = uses.back().handle;
    int const wanted = wanted_rank(targets_[t]);
    int const wanted_at = mesh_.coordinate(wanted, thin_->axis);
    RankBox const term = term_of(task),
                  one = thin_->line ? term : box_of(mesh_.nearest(term, wanted));
    RankBox at = valid_.source(uses[1 - blocks[0].use].handle);
    if (at.at[thin_->axis] == RankBox::all)
      throw NotThin{"blocks that are added to a sum at several coordinates"};
    if (thin_->line) at = at_coordinate(one, at.at[thin_->axis]);
    for (std::size_t s = 0; s < blocks.size(); ++s) {
      int const here = at.at[thin_->axis],
                there = ThinJob::nearest(blocks[s].first, blocks[s].last, wanted_at);
      if (here == thin_->own) {
        auto const two = uses.subspan(2 * s, 2);
        put(two[blocks[s].use].handle, at_coordinate(one, there), task.node);
        put(two[1 - blocks[s].use].handle, at, task.node);
        PlannedTask step = task;
        step.first_use += static_cast<std::uint32_t>(2 * s);
        step.use_count = 2;
        if (std::uint32_t const to = two[1].handle; to != result)
          step.tensor = plan_.buffers[to].tensor, step.tile = plan_.buffers[to].tile;
        visit(step, t, spread, sink);
      }
      at = at_coordinate(one, (there ^ wanted_at) < (here ^ wanted_at) ? there : here);
    }
    put(result, at, task.node);
    if (!read_by_.empty()) read_by_[result] = task.node;
  }
  /// Notes that a sum is at ranks of a box alone.
  void put(std::uint32_t b, RankBox const& box, std::uint32_t node) {
    valid_.set(b, box);
    written_by_[b] = node;
    dropped_[b] = false;
  }

  PlanData const& plan_;
  MeshShape const& mesh_;
  std::vector<TileHome> const& homes_;  // of all buffers
  std::uint32_t const keep_received_;
  ThinJob const* thin_;
  LeftOut left_out_{thin_};
  AlikeTurns turns_;
  SumTerms terms_;
  std::vector<bool> written_;  // of a thin job: tensors of which some task writes tiles
  FixedPlaces places_;
  std::vector<Target> targets_;  // by task
  std::vector<int> roots_;       // ranks
  std::vector<int> candidates_;  // of one task
  std::vector<Target> blocks_;   // of the blocks of groups to come, the next one last
  ValidRanks valid_;
  std::vector<bool> made_alike_;           // values that each coordinate makes for itself
  std::vector<std::uint32_t> written_by_;  // node of the present value; the first before any
  std::vector<std::uint32_t> read_by_;     // node that last read a buffer; empty: all are kept
  std::vector<bool> dropped_;              // buffers whose value is sent again
};

}  // namespace nntile::passes
