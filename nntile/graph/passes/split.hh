#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The pass that splits the tasks of a job among ranks, and moves the tiles that one has and another
// needs.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "nntile/graph/passes/spread.hh"
#include "nntile/graph/passes/targets.hh"

namespace nntile::passes {

/// Goes through the tasks of all ranks in their common order, notes which ranks have the present
/// value of each tile, and keeps what one of them does.
///
/// Law: every rank goes through the same tasks and decides alike, so that the parts agree without a
/// word. A task that homes leave open runs everywhere if all that it reads is there, else at the
/// rank that has most of it, and of several such at the one nearest to its target: so each rank
/// but the root sends one sum of a tree, whose roots are dealt out by bytes. A tile is sent to a
/// rank right before the first task there that reads it, once for each value. At the end the ranks
/// that store a tile have its last value.
class SplitPass {
 public:
  SplitPass(PlanData plan, MeshShape const& mesh, std::vector<TileHome> homes, int rank)
      : plan_(std::move(plan)),
        mesh_(mesh),
        homes_(std::move(homes)),
        rank_(rank),
        ranks_(mesh.ranks()),
        words_((static_cast<std::size_t>(ranks_) + 63) / 64),
        places_(plan_, mesh_, homes_),
        valid_(plan_.buffers.size() * words_),
        sources_(plan_.buffers.size()),
        here_(plan_.buffers.size()),
        written_by_(plan_.buffers.size()),
        load_(static_cast<std::size_t>(ranks_)),
        numbers_(static_cast<std::size_t>(ranks_) * static_cast<std::size_t>(ranks_)) {
    homes_.resize(plan_.buffers.size());  // hidden operands are everywhere
  }

  PlanData run() {
    TargetPass pass(plan_, mesh_, places_);
    targets_ = pass.run();
    roots_.assign(pass.roots(), -1);
    for (std::uint32_t b = 0; b < plan_.buffers.size(); ++b)
      if (stored(b)) set_valid(b, homes_[b].box);
    part_.tasks.reserve(plan_.tasks.size() / static_cast<std::size_t>(ranks_));
    Spread spread(plan_, mesh_, places_);
    for (std::size_t t = 0; t < plan_.tasks.size(); ++t) split(t, spread);
    for (std::uint32_t b = 0; b < plan_.buffers.size(); ++b)
      if (stored(b)) move_to(spread.box(homes_[b].box, sources_[b]), b);
    for (std::uint32_t b = 0; b < plan_.buffers.size(); ++b) locate(b);
    plan_.tasks = std::move(part_.tasks);
    plan_.uses = std::move(part_.uses);
    plan_.args = std::move(part_.args);
    plan_.flops = part_.flops;
    plan_.rank = rank_;
    plan_.messages = *std::max_element(numbers_.begin(), numbers_.end());
    plan_.ranks = ranks_;
    return std::move(plan_);
  }

 private:
  bool stored(std::uint32_t b) const { return places_.stored(b); }
  bool valid(std::uint32_t b, int rank) const {
    auto const at = static_cast<std::size_t>(rank);
    return (valid_[b * words_ + at / 64] >> at % 64 & 1u) != 0;
  }
  void set_valid(std::uint32_t b, int rank) {
    auto const at = static_cast<std::size_t>(rank);
    valid_[b * words_ + at / 64] |= std::uint64_t{1} << at % 64;
    if (rank == rank_) here_[b] = true;
  }
  void set_valid(std::uint32_t b, RankBox const& box) {
    sources_[b] = box;
    std::fill_n(valid_.begin() + static_cast<std::ptrdiff_t>(b * words_), words_, 0);
    mesh_.each(box, [&](int rank) { set_valid(b, rank); });
  }

  void split(std::size_t t, Spread& spread) {
    PlannedTask const& task = plan_.tasks[t];
    auto const uses = plan_.uses_of(task);
    RankBox const box = place(t, uses);
    for (Use<BufferId> const& use : uses)
      if (reads(use.access)) {
        move_to(spread.readers(t, use.handle, sources_[use.handle]), use.handle);
        move_to(spread.box(box, sources_[use.handle]), use.handle);
      }
    for (Use<BufferId> const& use : uses)
      if (writes(use.access)) {
        set_valid(use.handle, box);
        written_by_[use.handle] = task.node;
      }
    if (!mesh_.contains(box, rank_)) return;
    PlannedTask own = task;
    own.first_use = static_cast<std::uint32_t>(part_.uses.size());
    part_.uses.insert(part_.uses.end(), uses.begin(), uses.end());
    add(own, {plan_.args.data() + task.args, task.args_bytes});
  }

  /// The ranks that run a task.
  RankBox place(std::size_t t, std::span<Use<BufferId> const> uses) {
    TaskPlace place = places_.of(plan_.tasks[t]);
    if (place.open == 0 || all_there(uses, place.box)) return place.box;
    int const one = best(uses, place.box, targets_[t]);
    for (std::size_t a = 0; a < mesh_.axes(); ++a)
      if ((place.open >> a & 1u) != 0)
        place.box.at[a] = static_cast<std::int16_t>(mesh_.coordinate(one, a));
    return place.box;
  }
  bool all_there(std::span<Use<BufferId> const> uses, RankBox const& box) const {
    bool there = true;
    mesh_.each(box, [&](int rank) {
      for (Use<BufferId> const& use : uses)
        there = there && (!reads(use.access) || valid(use.handle, rank));
    });
    return there;
  }
  /// The rank of a box that has the most bytes of what a task reads, of several such the one
  /// nearest to the target: whose number differs from its in the lowest bits alone, so that all
  /// ranks add alike over all roots.
  int best(std::span<Use<BufferId> const> uses, RankBox const& box, Target const& target) {
    Index most = -1;
    candidates_.clear();
    mesh_.each(box, [&](int rank) {
      Index bytes = 0;
      for (Use<BufferId> const& use : uses)
        if (reads(use.access) && valid(use.handle, rank)) bytes += plan_.buffers[use.handle].bytes;
      if (bytes > most) most = bytes, candidates_.clear();
      if (bytes == most) candidates_.push_back(rank);
    });
    if (candidates_.size() == 1) return candidates_[0];
    int const wanted = mesh_.nearest(target.box, target.root == no_id ? 0 : root(target, most));
    return *std::min_element(candidates_.begin(), candidates_.end(),
                             [&](int a, int b) { return (a ^ wanted) < (b ^ wanted); });
  }
  /// The rank of a root, which is dealt out when it is first asked for.
  int root(Target const& target, Index bytes) {
    int& root = roots_[target.root];
    if (root >= 0) return root;
    auto const load = [&](int rank) { return load_[static_cast<std::size_t>(rank)]; };
    mesh_.each(target.box, [&](int rank) {
      if (root < 0 || load(rank) < load(root)) root = rank;
    });
    load_[static_cast<std::size_t>(root)] += bytes;
    return root;
  }

  /// Sends a tile along hops to ranks that lack its present value.
  void move_to(std::span<Hop const> hops, std::uint32_t b) {
    for (Hop const& hop : hops) {
      if (valid(b, hop.to) || !valid(b, hop.from)) continue;  // an output that nothing computes
      set_valid(b, hop.to);
      std::int64_t const number = numbers_[static_cast<std::size_t>(hop.from * ranks_ + hop.to)]++;
      if (hop.from == rank_) add_transfer(KernelKind::send, b, {number, hop.to, 0});
      if (hop.to == rank_) add_transfer(KernelKind::receive, b, {number, hop.from, 0});
    }
  }
  /// A transfer is of the node that wrote the value: it precedes all that read it.
  void add_transfer(KernelKind kind, std::uint32_t b, TransferArgs const& args) {
    PlannedTask task;
    task.node = written_by_[b];
    task.kernel = kernel(kind, b);
    task.first_use = static_cast<std::uint32_t>(part_.uses.size());
    task.use_count = 1;
    task.tensor = plan_.buffers[b].tensor;
    task.tile = plan_.buffers[b].tile;
    part_.uses.push_back({b, kind == KernelKind::send ? Access::read : Access::write});
    add(task, std::as_bytes(std::span(&args, 1)));
  }
  std::uint32_t kernel(KernelKind kind, std::uint32_t b) {
    PlannedKernel const wanted{kind, kind == KernelKind::send ? "send" : "receive",
                               plan_.tensors[plan_.buffers[b].tensor].dtype, DType::fp32,
                               Mode::exact};
    auto const at = std::find(plan_.kernels.begin(), plan_.kernels.end(), wanted);
    auto const position = static_cast<std::uint32_t>(at - plan_.kernels.begin());
    if (at == plan_.kernels.end()) plan_.kernels.push_back(wanted);
    return position;
  }

  void add(PlannedTask task, std::span<std::byte const> args) {
    task.args = static_cast<std::uint32_t>(part_.args.size());
    task.args_bytes = static_cast<std::uint16_t>(args.size());
    task.location.rank = rank_;
    part_.args.insert(part_.args.end(), args.begin(), args.end());
    part_.args.resize((part_.args.size() + 7) / 8 * 8);
    part_.flops += task.cost.flops;
    part_.tasks.push_back(task);
  }

  /// Where a buffer of the part is; one that the rank never has, at another rank.
  void locate(std::uint32_t b) {
    PlannedBuffer& buffer = plan_.buffers[b];
    bool const home = stored(b) && mesh_.contains(homes_[b].box, rank_);
    buffer.copy = stored(b) && here_[b] && !home;
    int at = rank_;
    if (!home && !here_[b]) {
      at = rank_ == 0 && ranks_ > 1 ? 1 : 0;
      if (stored(b))
        for (int rank = ranks_; rank-- > 0;)
          if (mesh_.contains(homes_[b].box, rank)) at = rank;
    }
    buffer.location.rank = at;
  }

  struct Part {
    std::vector<PlannedTask> tasks;
    std::vector<Use<BufferId>> uses;
    std::vector<std::byte> args;
    std::int64_t flops = 0;
  };

  PlanData plan_;
  MeshShape const& mesh_;
  std::vector<TileHome> homes_;
  int const rank_, ranks_;
  std::size_t const words_;
  FixedPlaces places_;
  std::vector<Target> targets_;            // by task
  std::vector<int> roots_;                 // ranks, or -1
  std::vector<int> candidates_;            // of one task
  std::vector<std::uint64_t> valid_;       // ranks that have a tile's present value, by buffer
  std::vector<RankBox> sources_;           // ... that made or store it
  std::vector<bool> here_;                 // whether this one ever has
  std::vector<std::uint32_t> written_by_;  // node of the present value
  std::vector<Index> load_;                // bytes of the roots of each rank
  std::vector<std::int64_t> numbers_;      // of the next message to and from each rank
  Part part_;
};

}  // namespace nntile::passes
