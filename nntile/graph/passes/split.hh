#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The pass that splits the tasks of a job among ranks: what one of them does, with its transfers.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/passes/keep.hh"
#include "nntile/graph/passes/rank_walk.hh"

namespace nntile::passes {

/// Keeps what one rank does. Every rank walks through the same tasks and decides alike, so that the
/// parts agree without a word.
class SplitPass {
 public:
  SplitPass(PlanData plan, MeshShape const& mesh, std::vector<TileHome> homes, int rank,
            std::uint32_t keep_received, ThinJob const* thin = nullptr)
      : plan_(std::move(plan)),
        mesh_(mesh),
        homes_(std::move(homes)),
        rank_(rank),
        keep_received_(keep_received),
        thin_(thin),
        sent_(static_cast<std::size_t>(mesh.ranks())),
        received_(sent_) {
    if (keep_received_ == PlanOptions::to_last_reader && plan_.phases.size() < 2) return;
    for (std::uint32_t b = 0; b < plan_.buffers.size(); ++b) now_.push_back(b);
  }

  PlanData run() {
    int const ranks = mesh_.ranks();
    part_.tasks.reserve(plan_.tasks.size() / static_cast<std::size_t>(ranks));
    RankWalk walk(plan_, mesh_, homes_, keep_received_, thin_);
    walk.run(*this);
    plan_.buffers.append(part_.again);
    for (std::vector<std::int64_t> const* counts : {&sent_, &received_})
      plan_.messages = std::max(plan_.messages, *std::max_element(counts->begin(), counts->end()));
    plan_.tasks = std::move(part_.tasks);
    plan_.uses = std::move(part_.uses);
    plan_.args = std::move(part_.args);
    plan_.flops = part_.flops;
    for (std::size_t p = 0; p < plan_.phases.size(); ++p) {
      plan_.phases[p].begin = p == 0 ? 0 : part_.ends[p - 1];
      plan_.phases[p].end = part_.ends[p];
    }
    plan_.rank = rank_;
    plan_.ranks = ranks;
    keep_buffers();
    return std::move(plan_);
  }

  /// Called by the walk.
  void task(PlannedTask const& task, RankBox const& box) {
    if (!mesh_.contains(box, rank_)) return;
    if (task.args == no_id) throw NotThin{"a task without arguments that is this rank's"};
    auto const uses = plan_.uses_of(task);
    PlannedTask own = task;
    own.hints = 0, own.priority = 0;  // marks of a thin job
    own.first_use = static_cast<std::uint32_t>(part_.uses.size());
    for (Use<BufferId> const& use : uses) part_.uses.push_back({now(use.handle), use.access});
    add(own, {plan_.args.data() + task.args, task.args_bytes});
  }
  void end_phase() { part_.ends.push_back(static_cast<std::uint32_t>(part_.tasks.size())); }
  void message(RankWalk::Message const& message) {
    if (message.from == rank_) add_transfer(KernelKind::send, message, message.to);
    if (message.to != rank_) return;
    if (message.again) {
      now_[message.buffer] = static_cast<std::uint32_t>(plan_.buffers.size() + part_.again.size());
      part_.again.push_back(plan_.buffers[message.buffer]);
      part_.again_of.push_back(message.buffer);
    }
    add_transfer(KernelKind::receive, message, message.from);
  }

 private:
  /// The buffer that has a tile here: another one each time that it is sent again.
  std::uint32_t now(std::uint32_t b) const { return now_.empty() ? b : now_[b]; }
  /// A transfer is of the node that wrote the value: it precedes all that read it.
  void add_transfer(KernelKind kind, RankWalk::Message const& message, int peer) {
    std::uint32_t const b = message.buffer;
    PlannedTask task;
    task.node = message.node;
    task.kernel =
        plan_.kernel({kind, kind == KernelKind::send ? "send" : "receive",
                      plan_.tensors[plan_.buffers[b].tensor].dtype, DType::fp32, Mode::exact});
    task.first_use = static_cast<std::uint32_t>(part_.uses.size());
    task.use_count = 1;
    task.tensor = plan_.buffers[b].tensor;
    task.tile = plan_.buffers[b].tile;
    part_.uses.push_back({now(b), kind == KernelKind::send ? Access::read : Access::write});
    auto& numbers = kind == KernelKind::send ? sent_ : received_;
    TransferArgs const args{numbers[static_cast<std::size_t>(peer)]++, peer, 0};
    add(task, std::as_bytes(std::span(&args, 1)));
  }

  void add(PlannedTask task, std::span<std::byte const> args) {
    task.args = static_cast<std::uint32_t>(part_.args.size());
    task.args_bytes = static_cast<std::uint16_t>(args.size());
    task.location.rank = rank_;
    part_.args.append(args);
    part_.args.resize((part_.args.size() + 7) / 8 * 8);
    add_saturated(part_.flops, task.cost.flops);
    part_.tasks.push_back(task);
  }

  /// Keeps the buffers that the rank ever has; on one rank all, as without a mesh.
  void keep_buffers() {
    std::vector<bool> here(plan_.buffers.size());
    for (Use<BufferId> const& use : plan_.uses) here[use.handle] = true;
    for (std::uint32_t b = 0; b < plan_.buffers.size(); ++b) {
      PlannedBuffer& buffer = plan_.buffers[b];
      bool const stored = plan_.tensors[buffer.tensor].storage != Storage::arena;
      bool const home = stored && b < homes_.size() && mesh_.contains(homes_[b].box, rank_);
      buffer.copy = stored && !home;
      buffer.location.rank = rank_;
      here[b] = here[b] || home || plan_.ranks == 1;
    }
    for (std::uint32_t const b : part_.again_of) here[b] = true;  // each tile has one of its own
    plan_ = keep(std::move(plan_), here, homes_.size());
  }

  struct Part {
    DynamicArray<PlannedTask> tasks;
    DynamicArray<Use<BufferId>> uses;
    DynamicArray<std::byte> args;
    DynamicArray<PlannedBuffer> again;    // of tiles that are sent again, behind those of the job
    std::vector<std::uint32_t> again_of;  // the job's
    std::vector<std::uint32_t> ends;      // of phases
    std::int64_t flops = 0;
  };

  PlanData plan_;
  MeshShape const& mesh_;
  std::vector<TileHome> homes_;
  int const rank_;
  std::uint32_t const keep_received_;
  ThinJob const* thin_;
  std::vector<std::int64_t> sent_, received_;  // messages so far, by peer
  std::vector<std::uint32_t> now_;             // by buffer of the job; empty: each is its own
  Part part_;
};

}  // namespace nntile::passes
