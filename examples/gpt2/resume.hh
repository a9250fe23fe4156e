#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// What a run that is resumed has of its settings, and what it may be given anew.

#include <string>

#include "history.hh"
#include "nntile/core/error.hh"
#include "nntile/io/manifest.hh"
#include "settings.hh"

namespace gpt2 {

/// Fills in what the run of a checkpoint began with. Throws ValueError where the settings say
/// something else, which its bits do not allow.
inline void take_over(TrainSettings& settings, RunRecord const& run,
                      nntile::io::SavedState const& state, std::string const& path) {
  if (state.seed != settings.seed)
    throw nntile::ValueError(nntile::concat("--seed: ", settings.seed, " but the run in '", path,
                                            "' began with ", state.seed));
  std::string const groups = to_text(groups_of(settings.groups));
  if (!groups.empty() && groups != run.groups)
    throw nntile::ValueError(
        nntile::concat("--groups: ", groups, " but the run in '", path, "' began with ",
                       run.groups.empty() ? "none" : run.groups, ", and its bits belong to these"));
  settings.groups = run.groups;
  if (settings.accumulate && *settings.accumulate != run.accumulate)
    throw nntile::ValueError(nntile::concat("--accumulate: ", *settings.accumulate,
                                            " but the run in '", path, "' began with ",
                                            run.accumulate, ", and its bits belong to that"));
  settings.accumulate = run.accumulate;
}

}  // namespace gpt2
