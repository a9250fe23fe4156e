#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Ranks that hold the tiles of a stored tensor, and refusals that name them.

#include <cstddef>

#include "nntile/core/rank_link.hh"
#include "nntile/graph/plan.hh"
#include "nntile/graph/spelling.hh"
#include "nntile/graph/stored_spec.hh"

namespace nntile::detail {

/// Throws PlanError where a plan is not the part of this rank.
inline void check_part(Plan const& plan, RankLink const& link) {
  if (plan.rank() != link.rank || plan.ranks() != link.ranks)
    throw PlanError(concat("compile: plan '", plan.name(), "' is the part of rank ", plan.rank(),
                           " of ", plan.ranks(), ", and the store is that of rank ", link.rank,
                           " of ", link.ranks,
                           ": plan with its rank, and give the store the communicator"));
}

/// The rank that gives a tile to all: the lowest that holds it.
inline int owner(StoredSpec const& spec, std::size_t tile, RankLink const& link) {
  return spec.homes.empty() ? link.rank : spec.homes[tile].first;
}

[[noreturn]] inline void fail_elsewhere(StoredSpec const& spec, std::size_t tile,
                                        RankLink const& link, char const* call) {
  throw GraphError(concat(call, ": tile ", tile, " of '", spec.name, "' is on rank ",
                          owner(spec, tile, link), ", and this is rank ", link.rank, " of ",
                          link.ranks, ": have all ranks call gather(\"", spec.name,
                          "\"), or read the tiles that are here by read_tile"));
}

}  // namespace nntile::detail
