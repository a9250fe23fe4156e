#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The pass that reports on all parts of a job by one walk through its tasks.

#include <cstdint>
#include <utility>
#include <vector>

#include "nntile/core/cost.hh"
#include "nntile/graph/passes/part_lists.hh"

namespace nntile::passes {

/// Bytes, tasks and messages of a rank's part in a run.
struct PartReport {
  MemoryReport memory;               // of the host
  std::vector<MemoryReport> beyond;  // of the other places that hold something
  std::size_t tasks = 0;             // with transfers
  std::int64_t flops = 0;
  std::int64_t sent = 0, received = 0;  // messages
  Index bytes_sent = 0, bytes_received = 0;
  bool operator==(PartReport const&) const = default;
};

/// By rank; lays out the arena of one after the other. `homes` are those of all buffers. Cost:
/// linear in the tasks of all ranks, and four bytes for each.
inline std::vector<PartReport> report(PlanData const& plan, MeshShape const& mesh,
                                      std::vector<TileHome> const& homes,
                                      std::uint32_t keep_received) {
  PartLists lists(plan, mesh, homes, keep_received);
  std::vector<PartReport> reports(static_cast<std::size_t>(mesh.ranks()));
  auto const of = [&](int rank) -> PartReport& { return reports[static_cast<std::size_t>(rank)]; };
  for (RankWalk::Message const& message : lists.messages()) {
    Index const bytes = plan.buffers[message.buffer].payload();
    PartReport &from = of(message.from), &to = of(message.to);
    ++from.sent, add_saturated(from.bytes_sent, bytes);
    ++to.received, add_saturated(to.bytes_received, bytes);
  }
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    PlanData const part = lists.part(rank);
    for (PlannedTask const& task : part.tasks) add_saturated(of(rank).flops, task.cost.flops);
    of(rank).tasks = part.tasks.size();
    if (!part.memory.empty()) of(rank).memory = part.memory[0];
    of(rank).memory.location = {rank, {}};
    of(rank).memory.stored = 0;
    lists.drop(rank);
  }
  for (std::uint32_t b = 0; b < plan.buffers.size(); ++b)
    if (lists.stored(b))
      mesh.each(homes[b].box, [&](int rank) {
        of(rank).memory.add(plan.tensors[plan.buffers[b].tensor], plan.buffers[b]);
      });
  return reports;
}

}  // namespace nntile::passes
