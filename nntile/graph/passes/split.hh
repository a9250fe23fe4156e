#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The pass that splits the tasks of a job among ranks, and moves the tiles that one has and another
// needs.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "nntile/graph/passes/homes.hh"

namespace nntile::passes {

/// Goes through the tasks of all ranks in their common order, notes which ranks have the present
/// value of each tile, and keeps what one of them does.
///
/// Law: every rank goes through the same tasks and decides alike, so that the parts agree without a
/// word. A task runs, on each axis of the mesh, where the tile that it writes is; else where the
/// tiles are that it reads of a tensor cut over that axis; else everywhere, if what it writes is
/// stored everywhere or all that it reads is there; else at one coordinate. A tile is sent to a
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
        valid_(plan_.buffers.size() * words_),
        here_(plan_.buffers.size()),
        written_by_(plan_.buffers.size()),
        numbers_(static_cast<std::size_t>(ranks_) * static_cast<std::size_t>(ranks_)) {
    homes_.resize(plan_.buffers.size());  // hidden operands are everywhere
  }

  PlanData run() {
    for (std::uint32_t b = 0; b < plan_.buffers.size(); ++b)
      if (stored(b)) mesh_.each(homes_[b].box, [&](int rank) { set_valid(b, rank); });
    part_.tasks.reserve(plan_.tasks.size() / static_cast<std::size_t>(ranks_));
    for (PlannedTask const& task : plan_.tasks) split(task);
    for (std::uint32_t b = 0; b < plan_.buffers.size(); ++b)
      if (stored(b)) mesh_.each(homes_[b].box, [&](int rank) { move_to(rank, b); });
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
  static constexpr std::int16_t all = RankBox::all;

  bool stored(std::uint32_t b) const {
    return plan_.tensors[plan_.buffers[b].tensor].storage != Storage::arena;
  }
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
    std::fill_n(valid_.begin() + static_cast<std::ptrdiff_t>(b * words_), words_, 0);
    mesh_.each(box, [&](int rank) { set_valid(b, rank); });
  }

  void split(PlannedTask const& task) {
    auto const uses = plan_.uses_of(task);
    RankBox const box = place(task, uses);
    for (Use<BufferId> const& use : uses)
      if (reads(use.access)) mesh_.each(box, [&](int rank) { move_to(rank, use.handle); });
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
  RankBox place(PlannedTask const& task, std::span<Use<BufferId> const> uses) const {
    RankBox box;
    std::uint8_t open = 0;  // axes of the mesh that nothing decides so far
    bool everywhere = false;
    for (Use<BufferId> const& use : uses) everywhere |= writes(use.access) && stored(use.handle);
    for (std::size_t a = 0; a < mesh_.axes(); ++a) {
      box.at[a] = written_at(task, uses, a);
      if (box.at[a] == all) box.at[a] = read_at(uses, a);
      if (box.at[a] == all && !everywhere) open = static_cast<std::uint8_t>(open | 1u << a);
    }
    if (open == 0 || all_there(uses, box)) return box;
    int const one = best(uses, box);
    for (std::size_t a = 0; a < mesh_.axes(); ++a)
      if ((open >> a & 1u) != 0) box.at[a] = static_cast<std::int16_t>(mesh_.coordinate(one, a));
    return box;
  }
  std::int16_t written_at(PlannedTask const& task, std::span<Use<BufferId> const> uses,
                          std::size_t a) const {
    std::uint32_t first = no_id;
    for (Use<BufferId> const& use : uses) {
      std::int16_t const at = homes_[use.handle].box.at[a];
      if (!writes(use.access) || at == all) continue;
      if (first == no_id)
        first = use.handle;
      else if (homes_[first].box.at[a] != at && stored(first) && stored(use.handle))
        fail_owners(task, first, use.handle, a);
    }
    return first == no_id ? all : homes_[first].box.at[a];
  }
  /// The coordinate at which the tiles are that are read of tensors cut over an axis; all, if there
  /// are none, or at several.
  std::int16_t read_at(std::span<Use<BufferId> const> uses, std::size_t a) const {
    std::int16_t found = all;
    for (Use<BufferId> const& use : uses) {
      TileHome const& home = homes_[use.handle];
      if (!reads(use.access) || (home.cut >> a & 1u) == 0) continue;
      if (found != all && found != home.box.at[a]) return all;
      found = home.box.at[a];
    }
    return found;
  }
  bool all_there(std::span<Use<BufferId> const> uses, RankBox const& box) const {
    bool there = true;
    mesh_.each(box, [&](int rank) {
      for (Use<BufferId> const& use : uses)
        there = there && (!reads(use.access) || valid(use.handle, rank));
    });
    return there;
  }
  /// The rank of a box that has the most bytes of what a task reads: what it updates counts twice,
  /// since it would come back.
  int best(std::span<Use<BufferId> const> uses, RankBox const& box) const {
    int best = 0;
    Index most = -1;
    mesh_.each(box, [&](int rank) {
      Index bytes = 0;
      for (Use<BufferId> const& use : uses)
        if (reads(use.access) && valid(use.handle, rank))
          bytes += plan_.buffers[use.handle].bytes * (writes(use.access) ? 2 : 1);
      if (bytes > most) most = bytes, best = rank;
    });
    return best;
  }

  /// Sends a tile to a rank that lacks its present value, from the rank before it that has it: so
  /// that several that need one value get it from several.
  void move_to(int to, std::uint32_t b) {
    if (valid(b, to)) return;
    int from = to;
    do from = (from + ranks_ - 1) % ranks_;
    while (from != to && !valid(b, from));
    set_valid(b, to);
    if (from == to) return;  // nothing has written it: an output that is not computed
    std::int64_t const number = numbers_[static_cast<std::size_t>(from * ranks_ + to)]++;
    if (from == rank_) add_transfer(KernelKind::send, b, {number, to, 0});
    if (to == rank_) add_transfer(KernelKind::receive, b, {number, from, 0});
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

  [[noreturn]] void fail_owners(PlannedTask const& task, std::uint32_t first, std::uint32_t second,
                                std::size_t a) const {
    auto const at = [&](std::uint32_t b) {
      return concat("tile ", plan_.buffers[b].tile, " of '",
                    plan_.tensors[plan_.buffers[b].tensor].name, "' at ", homes_[b].box.at[a]);
    };
    throw PlanError(concat("plan '", plan_.name, "': ", plan_.kernels[task.kernel].name, " writes ",
                           at(first), " and ", at(second), " of mesh axis '", mesh_.axis(a).name,
                           "'; place both tensors by one rule"));
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
  std::vector<std::uint64_t> valid_;       // ranks that have a tile's present value, by buffer
  std::vector<bool> here_;                 // whether this one ever has
  std::vector<std::uint32_t> written_by_;  // node of the present value
  std::vector<std::int64_t> numbers_;      // of the next message to and from each rank
  Part part_;
};

}  // namespace nntile::passes
