#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The check that options are of the values that their types have.

#include <string>

#include "nntile/graph/options.hh"

namespace nntile::passes {

/// Throws PlanError where an option is a number that its enum has no name for: other passes look
/// names up, and take what is none they know for the last.
inline void check_values(std::string const& plan, PlanOptions const& options) {
  auto const check = [&](auto value, auto last, auto const&... what) {
    if (value > last)
      throw PlanError(concat("plan '", plan, "': PlanOptions::", what..., " ",
                             static_cast<int>(value), "; from 0 to ", static_cast<int>(last)));
  };
  check(options.schedule, PipelineSchedule::one_forward_one_backward, "schedule is");
  for (ShardRule const& rule : options.rules)
    check(rule.role, Role::transient, "rules has, of tensors '", rule.tensors, "', role");
  for (PlaceRule const& rule : options.place)
    check(rule.role, Role::transient, "place has, of tensors '", rule.tensors, "', role");
  for (KeptTiling const& kept : options.keep)
    check(kept.storage, Storage::double_buffered, "keep has, of '", kept.tensor, "', storage");
}

}  // namespace nntile::passes
