#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The ways of a value from the ranks that have it to those that need it.

#include <algorithm>
#include <cstdint>
#include <span>
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
  static constexpr int most_direct = 8;  // ranks of a mesh, beyond which trees are shorter

  Spread(PlanData const& plan, MeshShape const& mesh, FixedPlaces const& places)
      : plan_(plan), mesh_(mesh), places_(places) {
    if (mesh.ranks() > most_direct) covered_.resize(plan.buffers.size());
  }

  /// To all ranks of a box. The list lives to the next call.
  std::span<Hop const> box(RankBox const& to, RankBox const& sources) {
    hops_.clear();
    mesh_.each(to, [&](int rank) { add(rank, sources); });
    return ways();
  }
  /// To all ranks that read the present value of a tile in tasks of the node of task `t`, which is
  /// the next one; to none on a mesh of few ranks.
  std::span<Hop const> readers(std::size_t t, std::uint32_t b, RankBox const& sources) {
    hops_.clear();
    if (covered_.empty() || t < covered_[b]) return {};
    if (t >= end_) enter(t);
    auto reader = std::lower_bound(readers_.begin(), readers_.end(), Reader{b, t, {}, {}});
    std::vector<RankBox> boxes;
    covered_[b] = end_;
    for (; reader != readers_.end() && reader->buffer == b; ++reader) {
      if (reads(reader->access) &&
          std::find(boxes.begin(), boxes.end(), reader->box) == boxes.end())
        boxes.push_back(reader->box);
      if (!writes(reader->access)) continue;
      covered_[b] = reader->task + 1;
      break;
    }
    for (RankBox const& box : boxes) mesh_.each(box, [&](int rank) { add(rank, sources); });
    return ways();
  }

 private:
  struct Reader {
    std::uint32_t buffer;
    std::size_t task;
    RankBox box;
    Access access;
    bool operator<(Reader const& other) const {
      return buffer != other.buffer ? buffer < other.buffer : task < other.task;
    }
  };

  void add(int rank, RankBox const& sources) {
    if (int const from = mesh_.nearest(sources, rank); from != rank) hops_.push_back({from, rank});
  }

  /// Turns direct ways into trees, whose roots are the sources: position i of those that one source
  /// serves gets the value from where the lowest bit of i is 0. They are counted from the source
  /// upwards, so that over many sources each rank sends alike.
  std::span<Hop const> ways() {
    if (covered_.empty() || hops_.size() < 2) return hops_;
    int const ranks = mesh_.ranks();
    auto const distance = [&](Hop const& hop) { return (hop.to - hop.from + ranks) % ranks; };
    std::sort(hops_.begin(), hops_.end(), [&](Hop const& a, Hop const& b) {
      return a.from != b.from ? a.from < b.from : distance(a) < distance(b);
    });
    auto const same = [](Hop const& a, Hop const& b) { return a.to == b.to; };
    hops_.erase(std::unique(hops_.begin(), hops_.end(), same), hops_.end());
    for (std::size_t begin = 0, end; begin < hops_.size(); begin = end) {
      end = begin;
      while (end < hops_.size() && hops_[end].from == hops_[begin].from) ++end;
      for (std::size_t i = 1; i <= end - begin; ++i)
        if (std::size_t const parent = i & (i - 1); parent != 0)
          hops_[begin + i - 1].from = hops_[begin + parent - 1].to;
    }
    return hops_;
  }

  /// Notes who reads what in the run of tasks of one node that begins with a task. Tasks that homes
  /// leave open are left out: they run where most of their tiles are.
  void enter(std::size_t t) {
    readers_.clear();
    for (end_ = t; end_ < plan_.tasks.size() && plan_.tasks[end_].node == plan_.tasks[t].node;
         ++end_) {
      TaskPlace const place = places_.of(plan_.tasks[end_]);
      for (Use<BufferId> const& use : plan_.uses_of(plan_.tasks[end_]))
        if (place.open == 0 || writes(use.access))
          readers_.push_back(
              {use.handle, end_, place.box, place.open == 0 ? use.access : Access::write});
    }
    std::sort(readers_.begin(), readers_.end());
  }

  PlanData const& plan_;
  MeshShape const& mesh_;
  FixedPlaces const& places_;
  std::vector<Hop> hops_;
  std::vector<std::size_t> covered_;  // by buffer: the tasks before which all readers have it
  std::vector<Reader> readers_;       // in the run of tasks up to end_
  std::size_t end_ = 0;
};

}  // namespace nntile::passes
