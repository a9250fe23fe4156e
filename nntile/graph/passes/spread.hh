#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The ways of a value from the ranks that have it to those that need it.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "nntile/graph/passes/targets.hh"

namespace nntile::passes {

/// A message.
struct Hop {
  int from = 0, to = 0;
};

/// Lists messages so that each comes behind those that bring its sender the value. Each rank gets
/// it from the source with the most of its coordinates: on a mesh of few ranks directly, on a
/// larger one along a binomial tree over all that read it in one op.
class Spread {
 public:
  static constexpr int most_direct = MeshShape::few_ranks;

  /// `targets`: of the tasks.
  Spread(PlanData const& plan, MeshShape const& mesh, std::span<Target const> targets,
         ThinJob const* thin = nullptr)
      : plan_(plan), mesh_(mesh), targets_(targets), thin_(thin) {
    if (mesh.ranks() <= most_direct) return;
    readers_of_.resize(plan.buffers.size());
    for (std::size_t t = 0; t < plan.tasks.size(); ++t) {
      std::uint32_t const node = plan.tasks[t].node;
      if (node >= last_of_.size()) last_of_.resize(node + std::size_t{1});
      last_of_[node] = t;
    }
  }

  /// To all ranks of a box. The list lives to the next call.
  std::span<Hop const> box(RankBox const& to, RankBox const& sources) {
    hops_.clear();
    add(to, sources);
    return ways();
  }
  /// To all ranks that read the present value of a tile in tasks of the node of task `t`, which is
  /// the next one; to none on a mesh of few ranks.
  std::span<Hop const> readers(std::size_t t, std::uint32_t b, RankBox const& sources) {
    hops_.clear();
    boxes_.clear();
    to_ = nullptr;
    if (readers_of_.empty()) return {};
    if (t >= end_) enter(t);
    Readers& its = readers_of_[b];
    if (its.end != end_) return {};
    std::uint32_t const node = plan_.tasks[t].node;
    std::size_t& covered = covered_of(its, node);
    if (t < covered) return {};
    covered = end_;
    while (its.first != no_id && readers_[its.first].task < t) its.first = readers_[its.first].next;
    RankBox const* last = nullptr;
    for (std::uint32_t at = its.first; at != no_id; at = readers_[at].next) {
      Reader const& reader = readers_[at];
      if (reads(reader.access) && plan_.tasks[reader.task].node == node &&
          (last == nullptr || !(*last == reader.box))) {
        boxes_.push_back(reader.box);
        if (thin_ != nullptr && mesh_.is_all(reader.box)) to_ = &all_;
        last = &reader.box;
      }
      if (!writes(reader.access)) continue;
      covered = reader.task + 1;
      break;
    }
    if (thin_ != nullptr && to_ == nullptr && boxes_.size() == 1 &&
        mesh_.is_row(boxes_[0], thin_->axis))
      to_ = &boxes_[0];
    if (to_ != nullptr) return {};
    for (RankBox const& each : boxes_) add(each, sources);
    return ways();
  }
  /// The ranks that the last call of `readers`, of a thin job, has found and does not list: all, or
  /// all along the axis of the job.
  RankBox const* to() const { return to_; }
  /// Of the messages from a source to all ranks, or to those along the axis of the thin job, those
  /// of one: the one that brings it the value, and those that it sends. Requires trees.
  std::span<Hop const> to_all_by(int rank, int source, bool row) {
    hops_.clear();
    int const stride = row ? mesh_.stride(thin_->axis) : 1;
    auto const place_of = [&](int of) { return row ? mesh_.coordinate(of, thin_->axis) : of; };
    auto const ranks = static_cast<unsigned>(row ? thin_->coordinates : mesh_.ranks());
    auto const from = static_cast<unsigned>(place_of(source));
    auto const at = (static_cast<unsigned>(place_of(rank)) + ranks - from) % ranks;
    auto const rank_at = [&](unsigned place) {
      return source + (static_cast<int>((from + place) % ranks) - static_cast<int>(from)) * stride;
    };
    if (at != 0) hops_.push_back({rank_at(at & (at - 1)), rank});
    unsigned const lowest = at == 0 ? std::bit_ceil(ranks) : at & (~at + 1);
    for (unsigned bit = lowest / 2; bit > 0; bit /= 2)
      if (at + bit < ranks) hops_.push_back({rank, rank_at(at + bit)});
    return hops_;
  }
  bool along_trees() const { return mesh_.ranks() > most_direct; }
  /// Ranks that the last call of `readers` has listed.
  std::span<RankBox const> boxes() const { return boxes_; }
  /// To all ranks of some boxes at a coordinate of an axis of the mesh.
  std::span<Hop const> at(std::span<RankBox const> boxes, std::size_t axis, int coordinate,
                          RankBox const& sources) {
    hops_.clear();
    for (RankBox box : boxes) {
      box.at[axis] = static_cast<std::int16_t>(coordinate);
      add(box, sources);
    }
    return ways();
  }

 private:
  struct Reader {
    std::size_t task;
    RankBox box;
    Access access;
    std::uint32_t next;  // of the same tile
  };
  /// Of a tile, in the run of tasks up to `end`.
  struct Readers {
    std::size_t end = 0;
    std::uint32_t first = no_id, last = no_id;
    std::uint32_t covered = no_id;  // the last of its Covered
  };
  /// The tasks before which all readers in a node have a tile.
  struct Covered {
    std::uint32_t node;
    std::uint32_t next;  // of the same tile
    std::size_t until = 0;
  };

  void add(RankBox const& to, RankBox const& sources) {
    if (mesh_.covers(sources, to)) return;
    bool const one = mesh_.is_one(sources);
    int from = mesh_.first(sources);
    mesh_.each(to, [&](int rank) {
      if (!one) from = mesh_.nearest(sources, rank);
      if (from != rank) hops_.push_back({from, rank});
    });
  }

  /// Turns direct ways into trees, whose roots are the sources: position i of those that one source
  /// serves gets the value from where the lowest bit of i is 0. They are counted from the source
  /// upwards, so that over many sources each rank sends alike; each sends to its largest branch
  /// first, whose last rank is the last of all.
  std::span<Hop const> ways() {
    if (readers_of_.empty() || hops_.size() < 2) return hops_;
    int const ranks = mesh_.ranks();
    auto const ascends = [](Hop const& a, Hop const& b) { return a.from == b.from && a.to < b.to; };
    auto const before = [&](Hop const& a, Hop const& b) { return !ascends(a, b); };
    if (std::adjacent_find(hops_.begin(), hops_.end(), before) == hops_.end()) {
      auto const behind = [](Hop const& hop) { return hop.to > hop.from; };
      std::rotate(hops_.begin(), std::find_if(hops_.begin(), hops_.end(), behind), hops_.end());
    } else {
      auto const distance = [&](Hop const& hop) { return (hop.to - hop.from + ranks) % ranks; };
      std::sort(hops_.begin(), hops_.end(), [&](Hop const& a, Hop const& b) {
        return a.from != b.from ? a.from < b.from : distance(a) < distance(b);
      });
      auto const same = [](Hop const& a, Hop const& b) { return a.to == b.to; };
      hops_.erase(std::unique(hops_.begin(), hops_.end(), same), hops_.end());
    }
    ways_.clear();
    for (std::size_t begin = 0, end; begin < hops_.size(); begin = end) {
      end = begin;
      while (end < hops_.size() && hops_[end].from == hops_[begin].from) ++end;
      std::size_t const places = end - begin + 1;
      auto const rank_at = [&](std::size_t place) {
        return place == 0 ? hops_[begin].from : hops_[begin + place - 1].to;
      };
      for (std::size_t bit = std::bit_floor(places - 1); bit > 0; bit /= 2)
        for (std::size_t place = 0; place + bit < places; place += 2 * bit)
          ways_.push_back({rank_at(place), rank_at(place + bit)});
    }
    return ways_;
  }

  /// Notes who reads what in the run of tasks that begins with a task: those of its node, and of
  /// others that take turns with it. Tasks that homes leave open are left out: they run where most
  /// of their tiles are. In a thin job a task of cut tiles reads what is not cut for all
  /// coordinates.
  void enter(std::size_t t) {
    readers_.clear();
    covered_.clear();
    std::size_t last = t;
    for (end_ = t; end_ <= last; ++end_) last = std::max(last, last_of_[plan_.tasks[end_].node]);
    for (; t < end_; ++t) {
      TaskPlace const place = targets_[t].place();
      for (Use<BufferId> const& use : plan_.uses_of(plan_.tasks[t]))
        if (place.open == 0 || writes(use.access))
          add(use.handle, {t, place.open == 0 ? ranks_of(t, use, place.box) : place.box,
                           place.open == 0 ? use.access : Access::write, no_id});
    }
  }
  RankBox ranks_of(std::size_t t, Use<BufferId> const& use, RankBox box) const {
    PlannedTask const& task = plan_.tasks[t];
    if (thin_ != nullptr && task.location.rank > 0 && !writes(use.access) &&
        thin_->cut[plan_.buffers[use.handle].tensor] < 0)
      box.at[thin_->axis] = RankBox::all;
    if (thin_ != nullptr && reads(use.access) &&
        thin_->rows.all_read(task.node, plan_.buffers[use.handle].tensor))
      box.at[thin_->rows.axis] = RankBox::all;
    return box;
  }
  void add(std::uint32_t b, Reader const& reader) {
    Readers& its = readers_of_[b];
    auto const at = static_cast<std::uint32_t>(readers_.size());
    readers_.push_back(reader);
    if (its.end == end_)
      readers_[its.last].next = at;
    else
      its.end = end_, its.first = at, its.covered = no_id;
    its.last = at;
  }
  std::size_t& covered_of(Readers& its, std::uint32_t node) {
    std::uint32_t at = its.covered;
    while (at != no_id && covered_[at].node != node) at = covered_[at].next;
    if (at == no_id) {
      at = static_cast<std::uint32_t>(covered_.size());
      covered_.push_back({node, std::exchange(its.covered, at)});
    }
    return covered_[at].until;
  }

  PlanData const& plan_;
  MeshShape const& mesh_;
  std::span<Target const> targets_;
  ThinJob const* thin_;
  std::vector<RankBox> boxes_;
  std::vector<Hop> hops_, ways_;
  std::vector<Readers> readers_of_;   // by buffer; none on a mesh of few ranks
  std::vector<std::size_t> last_of_;  // by node, its last task; none on a mesh of few ranks
  std::vector<Reader> readers_;       // in the run of tasks up to end_, in their order
  std::vector<Covered> covered_;      // the same
  std::size_t end_ = 0;
  RankBox const* to_ = nullptr;
  RankBox const all_ = {};
};

}  // namespace nntile::passes
