#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The pass that gives tiles their buffers.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "nntile/graph/passes/thin.hh"
#include "nntile/graph/plan.hh"
#include "nntile/ops/walk.hh"

namespace nntile::passes {

/// Adds the buffers of a tensor's tiles to a plan; of a thin job those of tiles that it has.
inline void add_buffers(PlanData& plan, std::uint32_t id, ThinJob const* thin = nullptr) {
  PlannedTensor& tensor = plan.tensors[id];
  tensor.first_buffer = static_cast<std::uint32_t>(plan.buffers.size());
  if (!tensor.used || tensor.storage == Storage::view) return;
  if (PlannedTensor const* const like = tensor.base == no_id ? nullptr : &plan.tensors[tensor.base];
      like != nullptr && like->storage != Storage::view && like->dtype == tensor.dtype) {
    tensor.buffer_count = like->buffer_count;  // a sum of groups is tiled as its result
    for (std::uint32_t i = 0; i < like->buffer_count; ++i) {
      PlannedBuffer const& buffer = plan.buffers[like->first_buffer + i];
      plan.buffers.push_back(
          {.tensor = id, .tile = buffer.tile, .bytes = buffer.bytes, .tail = buffer.tail});
    }
    return;
  }
  std::size_t const rank = tensor.tiling.rank();
  int const cut = thin == nullptr ? ThinJob::uncut : thin->cut[id];
  TileSample const sample = cut < 0 ? TileSample{} : thin->sample(tensor.tiling, cut);
  Shape at, extent, before;
  for (std::size_t d = 0; d < rank; ++d)
    at.push_back(0), extent.push_back(tensor.tiling.axis(d).size(0));
  Index payload = tile_bytes(extent, tensor.dtype, tensor.column_unit);
  Index tile = 0;
  for (bool more = true; more;) {
    if (!(extent == before)) payload = tile_bytes(extent, tensor.dtype, tensor.column_unit);
    before = extent;
    Index const bytes = buffer_bytes(payload);
    plan.buffers.push_back({.tensor = id,
                            .tile = static_cast<std::uint32_t>(tile),
                            .bytes = bytes,
                            .tail = static_cast<std::uint8_t>(bytes - payload)});
    more = false;
    for (std::size_t d = 0; d < rank && !more; ++d) {
      AxisTiling const& axis = tensor.tiling.axis(d);
      Index next = at[d] + 1;
      if (sample.axis == d) next = sample.next(at[d]);
      more = next > 0 && next < axis.count();
      at[d] = more ? next : 0;
      extent[d] = axis.size(at[d]);
    }
    tile = cut < 0 ? tile + 1 : tensor.tiling.number(at);
  }
  tensor.buffer_count = static_cast<std::uint32_t>(plan.buffers.size()) - tensor.first_buffer;
}

/// Fills in the buffers of the graph's tensors; of a thin job those that it has.
inline PlanData add_buffers(PlanData plan, ThinJob const* thin = nullptr) {
  Index tiles = 0;
  for (PlannedTensor const& tensor : plan.tensors)
    if (thin == nullptr && tensor.used && tensor.storage != Storage::view) {
      Index const more = tensor.tiling.tile_count();
      if (more > AxisTiling::most - tiles)
        throw PlanError(concat("plan '", plan.name, "': with the ", more, " of '", tensor.name,
                               "' it has more than ", AxisTiling::most,
                               " tiles; use larger ones: PlanOptions::tile, or cuts"));
      tiles += more;
    }
  plan.buffers.reserve(static_cast<std::size_t>(tiles + tiles / 8));  // and hidden operands
  for (std::uint32_t t = 0; t < plan.tensors.size(); ++t) add_buffers(plan, t, thin);
  return plan;
}

}  // namespace nntile::passes
