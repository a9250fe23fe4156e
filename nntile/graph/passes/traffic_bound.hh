#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The pass that bounds what the ranks of a job have to send.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "nntile/core/cost.hh"
#include "nntile/graph/passes/rank_walk.hh"

namespace nntile::passes {

/// Goes through the tasks of a job, and for each tile notes the ranks that may have its value. A
/// task that homes fix runs there. Any other one runs at all ranks where the walk would have it so,
/// else at one of those that have most of what it reads, and its result may be at each of these: so
/// a sum of N ranks costs N - 1 tiles wherever its root is, and reaches one of them for nothing
/// (the small parsimony of Fitch, Systematic Zoology 20, 1971). Every tile that moves counts once
/// for each rank that it comes to. Cost: linear in tasks times ranks.
class TrafficBoundPass {
 public:
  TrafficBoundPass(PlanData const& plan, MeshShape const& mesh, std::vector<TileHome> homes,
                   std::uint32_t keep_received)
      : plan_(plan),
        mesh_(mesh),
        homes_(std::move(homes)),
        places_(plan_, mesh_, homes_),
        words_((static_cast<std::size_t>(mesh.ranks()) + 63) / 64),
        at_(plan.buffers.size() * words_),
        one_(plan.buffers.size()),
        keep_received_(keep_received),
        read_by_(keep_received == PlanOptions::to_last_reader ? 0 : plan.buffers.size(), no_id),
        task_(words_) {}

  /// Bytes that all ranks together send in a run.
  Index run() {
    for (std::uint32_t b = 0; b < plan_.buffers.size(); ++b)
      if (places_.stored(b)) set(task(homes_[b].box), b);
    std::vector<Target> const targets = TargetPass(plan_, mesh_, places_).run();
    for (std::size_t t = 0; t < targets.size(); ++t) visit(plan_.tasks[t], targets[t]);
    for (std::uint32_t b = 0; b < plan_.buffers.size(); ++b)
      if (places_.stored(b)) move(task(homes_[b].box), b);
    Sent sent{plan_};
    RankWalk(plan_, mesh_, homes_, keep_received_).run(sent);
    return std::min(bytes_, sent.bytes);
  }

 private:
  /// Sums the bytes that a walk sends.
  struct Sent {
    PlanData const& plan;
    Index bytes = 0;
    void task(PlannedTask const&, RankBox const&) {}
    void message(RankWalk::Message const& message) {
      add_saturated(bytes, plan.buffers[message.buffer].payload());
    }
    void end_phase() {}
  };

  using Ranks = std::span<std::uint64_t>;

  Ranks at(std::uint32_t b) { return {at_.data() + b * words_, words_}; }
  /// The set of ranks of a box. Lives to the next call.
  Ranks task(RankBox const& box) {
    std::fill(task_.begin(), task_.end(), 0);
    mesh_.each(box, [&](int rank) { add(task_, rank); });
    return task_;
  }
  static void add(Ranks set, int rank) {
    auto const r = static_cast<std::size_t>(rank);
    set[r / 64] |= std::uint64_t{1} << r % 64;
  }
  static bool has(Ranks set, int rank) {
    auto const r = static_cast<std::size_t>(rank);
    return (set[r / 64] >> r % 64 & 1u) != 0;
  }
  static int count(Ranks set) {
    int count = 0;
    for (std::uint64_t const word : set) count += std::popcount(word);
    return count;
  }
  int common(Ranks a, Ranks b) const {
    int count = 0;
    for (std::size_t w = 0; w < words_; ++w) count += std::popcount(a[w] & b[w]);
    return count;
  }

  void set(Ranks ranks, std::uint32_t b, bool one = false) {
    std::copy(ranks.begin(), ranks.end(), at(b).begin());
    one_[b] = one;
  }
  /// Takes a tile to all of some ranks.
  void move(Ranks ranks, std::uint32_t b) {
    int const there = common(ranks, at(b));
    if (count(at(b)) == 0) return;  // an output that nothing computes
    add_saturated(bytes_, missing(ranks, b));
    if (one_[b] && there > 0) std::fill(at(b).begin(), at(b).end(), 0);
    for (std::size_t w = 0; w < words_; ++w) at(b)[w] |= ranks[w];
    one_[b] = false;
  }

  void visit(PlannedTask const& planned, Target const& target) {
    auto const uses = plan_.uses_of(planned);
    for (Use<BufferId> const& use : uses)
      if (!read_by_.empty() && reads(use.access)) drop_old(use.handle, planned.node);
    TaskPlace const place = places_.of(planned);
    Ranks const ranks = task(place.box);
    bool const open = place.open != 0 && !all_there(uses, ranks) &&
                      !(target.spread == place.open && worth_all(uses, ranks));
    if (open) choose(uses, place.box);
    for (Use<BufferId> const& use : uses)
      if (!open && reads(use.access)) move(ranks, use.handle);
    for (Use<BufferId> const& use : uses)
      if (writes(use.access)) set(ranks, use.handle, open && count(ranks) > 1);
  }
  /// As in the walk: a kept tile that no op has read for long is at its home alone.
  void drop_old(std::uint32_t b, std::uint32_t node) {
    std::uint32_t const last = read_by_[b];
    if (last != no_id && last >= node) return;  // nodes take turns, tile by tile
    read_by_[b] = node;
    if (last == no_id || node - last <= keep_received_ || !places_.stored(b)) return;
    Ranks const home = task(homes_[b].box);
    if (!one_[b] && common(home, at(b)) == count(home)) set(home, b);
  }
  /// Bytes by which a tile comes to all of some ranks.
  Index missing(Ranks ranks, std::uint32_t b) {
    int const there = common(ranks, at(b));
    int const lack = count(ranks) - (one_[b] ? std::min(there, 1) : there);
    return saturated_product({plan_.buffers[b].payload(), lack});
  }
  /// Whether what is read comes to all of some ranks for no more bytes than the largest result.
  bool worth_all(std::span<Use<BufferId> const> uses, Ranks ranks) {
    Index all = 0, largest = 0;
    for (Use<BufferId> const& use : uses) {
      if (reads(use.access)) add_saturated(all, missing(ranks, use.handle));
      if (writes(use.access)) largest = std::max(largest, plan_.buffers[use.handle].payload());
    }
    return all <= saturated_product({largest, count(ranks) - 1});
  }
  bool all_there(std::span<Use<BufferId> const> uses, Ranks ranks) {
    for (Use<BufferId> const& use : uses)
      if (reads(use.access) && (one_[use.handle] || common(ranks, at(use.handle)) < count(ranks)))
        return false;
    return true;
  }
  /// Leaves those ranks of a box in `task_` that may have most of what is read; moves the rest.
  void choose(std::span<Use<BufferId> const> uses, RankBox const& box) {
    Index all = 0, most = -1;
    for (Use<BufferId> const& use : uses)
      if (reads(use.access)) add_saturated(all, plan_.buffers[use.handle].payload());
    mesh_.each(box, [&](int rank) {
      Index bytes = 0;
      for (Use<BufferId> const& use : uses)
        if (reads(use.access) && has(at(use.handle), rank))
          add_saturated(bytes, plan_.buffers[use.handle].payload());
      if (bytes > most) most = bytes, std::fill(task_.begin(), task_.end(), 0);
      if (bytes == most) add(task_, rank);
    });
    add_saturated(bytes_, all - most);
    for (Use<BufferId> const& use : uses)
      if (reads(use.access) && common(task_, at(use.handle)) == 0) {
        for (std::size_t w = 0; w < words_; ++w) at(use.handle)[w] |= task_[w];
        one_[use.handle] = false;
      }
  }

  PlanData const& plan_;
  MeshShape const& mesh_;
  std::vector<TileHome> homes_;
  FixedPlaces places_;
  std::size_t const words_;
  std::vector<std::uint64_t> at_;  // sets of ranks that have a tile's value, by buffer
  std::vector<bool> one_;          // whether one of them has it alone
  std::uint32_t const keep_received_;
  std::vector<std::uint32_t> read_by_;  // node, by buffer; empty: all are kept
  std::vector<std::uint64_t> task_;     // ranks of the present task
  Index bytes_ = 0;
};

}  // namespace nntile::passes
