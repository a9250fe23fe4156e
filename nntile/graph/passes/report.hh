#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The pass that reports on all parts of a job by one walk through its tasks.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "nntile/graph/passes/lifetime.hh"
#include "nntile/graph/passes/rank_walk.hh"

namespace nntile::passes {

/// What a rank's part holds, does and sends in a run.
struct PartReport {
  MemoryReport memory;
  std::size_t tasks = 0;  // with transfers
  std::int64_t flops = 0;
  std::int64_t sent = 0, received = 0;  // messages
  Index bytes_sent = 0, bytes_received = 0;
  bool operator==(PartReport const&) const = default;
};

/// Lists the tasks of every rank, and lays out the arena of one rank after the other. Cost: linear
/// in the tasks of all ranks, and four bytes for each.
class ReportPass {
 public:
  ReportPass(PlanData const& plan, MeshShape const& mesh, std::vector<TileHome> homes)
      : plan_(plan),
        mesh_(mesh),
        homes_(std::move(homes)),
        reports_(static_cast<std::size_t>(mesh.ranks())),
        lists_(reports_.size()),
        number_(plan.buffers.size()) {
    homes_.resize(plan.buffers.size());
  }

  std::vector<PartReport> run() {
    (void)RankWalk(plan_, mesh_, homes_).run(*this);
    for (std::size_t rank = 0; rank < reports_.size(); ++rank) lay_out(static_cast<int>(rank));
    for (std::uint32_t b = 0; b < plan_.buffers.size(); ++b)
      if (stored(b))
        mesh_.each(homes_[b].box, [&](int rank) {
          report(rank).memory.add(plan_.tensors[plan_.buffers[b].tensor], plan_.buffers[b]);
        });
    return std::move(reports_);
  }

  /// What the walk calls.
  void task(PlannedTask const& task, RankBox const& box) {
    auto const number = static_cast<std::uint32_t>(&task - plan_.tasks.data());
    mesh_.each(box, [&](int rank) {
      report(rank).flops += task.cost.flops;
      lists_[static_cast<std::size_t>(rank)].push_back(number);
    });
  }
  void end_phase() {}
  void message(RankWalk::Message const& message) {
    PartReport &from = report(message.from), &to = report(message.to);
    ++from.sent, from.bytes_sent += bytes(message.buffer);
    ++to.received, to.bytes_received += bytes(message.buffer);
    for (int const rank : {message.from, message.to}) {
      lists_[static_cast<std::size_t>(rank)].push_back(transfer);
      lists_[static_cast<std::size_t>(rank)].push_back(message.buffer);
    }
  }

 private:
  static constexpr std::uint32_t transfer = ~0u;  // and a buffer behind it

  PartReport& report(int rank) { return reports_[static_cast<std::size_t>(rank)]; }
  Index bytes(std::uint32_t b) const { return plan_.buffers[b].bytes; }
  bool stored(std::uint32_t b) const {
    return plan_.tensors[plan_.buffers[b].tensor].storage != Storage::arena;
  }

  /// Finds the arena of a part, of which only what slots need is made.
  void lay_out(int rank) {
    std::vector<std::uint32_t> const list = std::move(lists_[static_cast<std::size_t>(rank)]);
    PlanData part;
    part.rank = rank;
    part.tensors.resize(2);  // one for what is in the arena, one for what is not
    part.tensors[1].storage = Storage::stored;
    for (std::size_t i = 0; i < list.size(); ++i) {
      PlannedTask own;
      bool const moves = list[i] == transfer;
      if (moves) ++i;
      if (!moves) own = plan_.tasks[list[i]];
      Use<BufferId> const moved{list[i], Access::update};
      auto const uses = moves ? std::span(&moved, 1) : plan_.uses_of(own);
      own.first_use = static_cast<std::uint32_t>(part.uses.size());
      own.use_count = static_cast<std::uint8_t>(uses.size());
      part.uses.insert(part.uses.end(), uses.begin(), uses.end());
      part.tasks.push_back(own);
    }
    std::vector<std::uint32_t> used;
    for (Use<BufferId> const& use : part.uses)
      if (std::exchange(number_[use.handle], 1u) == 0) used.push_back(use.handle);
    std::sort(used.begin(), used.end());
    for (std::uint32_t const b : used) {
      number_[b] = static_cast<std::uint32_t>(part.buffers.size());
      bool const here = stored(b) && mesh_.contains(homes_[b].box, rank);
      part.buffers.push_back({.tensor = here ? 1u : 0u, .location = {rank, {}}, .bytes = bytes(b)});
    }
    for (Use<BufferId>& use : part.uses) use.handle = number_[use.handle];
    for (std::uint32_t const b : used) number_[b] = 0;
    report(rank).tasks = part.tasks.size();
    part = lifetime(std::move(part));
    if (!part.memory.empty()) report(rank).memory = part.memory[0];
    report(rank).memory.location = {rank, {}};
    report(rank).memory.stored = 0;
  }

  PlanData const& plan_;
  MeshShape const& mesh_;
  std::vector<TileHome> homes_;
  std::vector<PartReport> reports_;
  std::vector<std::vector<std::uint32_t>> lists_;  // tasks by rank
  std::vector<std::uint32_t> number_;              // of a buffer in a part, plus what marks it
};

}  // namespace nntile::passes
