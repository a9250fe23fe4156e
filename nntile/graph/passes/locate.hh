#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The passes that lay out memory: at which places values are, and in which slots.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "nntile/graph/passes/copies.hh"

namespace nntile::passes {

/// Bytes that a place keeps between runs. Throws PlanError where they are more than it may hold.
inline Index kept_bytes(PlanData const& plan, PlaceCapacity const& capacity) {
  Index sum = 0, most = 0;
  std::string largest;
  for (PlannedTensor const& tensor : plan.tensors) {
    MemoryReport own;
    bool const tiles = tensor.used && tensor.storage != Storage::view;
    for (Index tile = 0;
         tiles && tensor.place == capacity.place && tile < tensor.tiling.tile_count(); ++tile) {
      auto const& buffer = plan.buffers[tensor.first_buffer + static_cast<std::uint32_t>(tile)];
      if (buffer.location.rank == plan.rank) own.add(tensor, buffer);
    }
    sum += own.stored;
    if (own.stored > most) most = own.stored, largest = tensor.name;
  }
  if (sum > capacity.bytes)
    throw PlanError(concat("plan '", plan.name, "': tensors that live at ",
                           to_string(capacity.place), " have ", sum, " bytes, and it may hold ",
                           capacity.bytes, ": keep some elsewhere by PlanOptions::place, the ",
                           "largest is '", largest, "' of ", most, ", or give it more"));
  return sum;
}

/// Whether the options leave all values on the host, of which no capacity is said.
inline bool on_host_alone(PlanOptions const& options) {
  return options.place.empty() && options.capacity.empty() &&
         std::all_of(options.keep.begin(), options.keep.end(),
                     [](KeptTiling const& kept) { return kept.place == host; });
}

/// Fills in places, copies, slots and the reports of memory. Throws PlanError where a place is too
/// small. Where capacities are given, slots may waste some of them: then it tries with less.
inline PlanData locate(PlanData plan, LogicalGraph const& graph, PlanOptions const& options) {
  if (on_host_alone(options)) return lifetime(std::move(plan));
  Homes const homes(plan, graph, options);
  std::vector<PlaceCapacity> limits = options.capacity;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j)
      if (limits[j].place == limits[i].place)
        throw PlanError(concat("plan '", plan.name, "': two capacities of ",
                               to_string(limits[i].place), ", ", options.capacity[j].bytes, " and ",
                               limits[i].bytes, " bytes"));
    limits[i].bytes -= kept_bytes(plan, limits[i]);
  }
  for (;;) {
    PlanData result = lifetime(CopyPass(plan, homes, limits).run(), options.capacity);
    bool fits = true;
    for (std::size_t i = 0; i < limits.size(); ++i)
      for (MemoryReport const& report : result.memory)
        if (Index const over = report.total() - options.capacity[i].bytes;
            report.location.place == limits[i].place && over > 0) {
          limits[i].bytes -= std::max(over, limits[i].bytes / 16);
          fits = false;
        }
    if (fits) return result;
  }
}

}  // namespace nntile::passes
