#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The pass that leaves out buffers.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/plan.hh"

namespace nntile::passes {

/// Leaves out buffers of a part that its rank never has. The tiles' own ones, of which there are so
/// many, come first and ascend by tensor and tile; those of values that come again follow.
inline PlanData keep(PlanData plan, std::vector<bool> const& kept, std::size_t own) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t b = 0; b < plan.buffers.size(); ++b)
    if (kept[b]) order.push_back(b);
  auto const end = std::lower_bound(order.begin(), order.end(), own);
  auto const before = [&](std::uint32_t a, std::uint32_t b) {
    PlannedBuffer const &one = plan.buffers[a], &other = plan.buffers[b];
    return one.tensor != other.tensor ? one.tensor < other.tensor : one.tile < other.tile;
  };
  if (!std::is_sorted(order.begin(), end, before)) std::sort(order.begin(), end, before);
  std::vector<std::uint32_t> number(plan.buffers.size());
  DynamicArray<PlannedBuffer> buffers;
  buffers.reserve(order.size());
  for (std::uint32_t const b : order) {
    number[b] = static_cast<std::uint32_t>(buffers.size());
    buffers.push_back(plan.buffers[b]);
  }
  std::uint32_t at = 0;
  auto const tiles = static_cast<std::uint32_t>(end - order.begin());
  for (std::uint32_t t = 0; t < plan.tensors.size(); ++t) {
    PlannedTensor& tensor = plan.tensors[t];
    tensor.first_buffer = at;
    while (at < tiles && buffers[at].tensor == t) ++at;
    tensor.buffer_count = at - tensor.first_buffer;
  }
  for (Use<BufferId>& use : plan.uses) use.handle = number[use.handle];
  plan.buffers = std::move(buffers);
  return plan;
}

}  // namespace nntile::passes
