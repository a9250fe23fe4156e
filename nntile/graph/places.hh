#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Traffic of a plan between the places of a rank.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "nntile/core/cost.hh"
#include "nntile/graph/plan.hh"

namespace nntile {

/// Copies of a run from one place to another.
struct PlaceTraffic {
  Place from = {}, to = {};
  std::int64_t copies = 0;  // tiles
  Index bytes = 0;          // without what fills the last cache line of each
  bool operator==(PlaceTraffic const&) const = default;
};

/// By pair of places, in the order in which the plan first copies between them. Cost: linear in the
/// tasks.
inline std::vector<PlaceTraffic> place_traffic(Plan const& plan) {
  std::vector<PlaceTraffic> all;
  for (PlannedTask const& task : plan.tasks()) {
    if (plan.kernels()[task.kernel].kind != KernelKind::copy) continue;
    PlannedBuffer const& source = plan.buffers()[plan.uses(task)[0].handle];
    Place const from = source.location.place;
    Place const to = plan.buffers()[plan.uses(task)[1].handle].location.place;
    auto at = std::find_if(all.begin(), all.end(),
                           [&](PlaceTraffic const& of) { return of.from == from && of.to == to; });
    if (at == all.end()) at = all.insert(all.end(), {from, to});
    at->copies += 1;
    add_saturated(at->bytes, source.payload());
  }
  return all;
}

}  // namespace nntile
