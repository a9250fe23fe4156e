#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// What a run that is resumed has of its settings, and what it may be given anew.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "history.hh"
#include "nntile/core/error.hh"
#include "nntile/io/manifest.hh"
#include "settings.hh"

namespace gpt2 {

/// Numbers of the settings that any step may have others of, as checkpoints keep them.
inline std::map<std::string, double> numbers_of(TrainSettings const& settings) {
  return {{"lr", settings.lr},
          {"warmup", static_cast<double>(settings.warmup)},
          {"beta1", settings.beta1},
          {"beta2", settings.beta2},
          {"weight_decay", settings.weight_decay},
          {"clip", settings.clip}};
}

/// Says which numbers are other ones from here on than a checkpoint has: "--lr 0.001 (0.003
/// before), --batch 4 (8 before)". "" where all are as they were. Called before take_over().
inline std::string changes_of(TrainSettings const& settings, RunRecord const& run,
                              nntile::io::SavedState const& state) {
  std::string text;
  auto const compare = [&](std::string name, auto now, auto before) {
    std::replace(name.begin(), name.end(), '_', '-');
    if (now != before)
      text +=
          nntile::concat(text.empty() ? "" : ", ", "--", name, " ", now, " (", before, " before)");
  };
  for (auto const& [name, now] : numbers_of(settings))
    compare(name, now, state.optimizer[name].as<double>().value_or(now));
  if (run.batch != 0) compare("batch", settings.batch.value_or(run.batch), run.batch);
  bool const timed = settings.minutes > 0 || run.steps == INT64_MAX;
  compare("steps", timed ? run.steps : settings.steps, run.steps);
  return text;
}

/// Says how a run whose steps are done would train more.
inline std::string end_of_resumed(TrainSettings const& settings, std::int64_t step) {
  return settings.minutes > 0
             ? nntile::concat(
                   "--minutes leaves a resumed run its steps: for more, give --steps, above ", step,
                   ", instead")
             : "--steps counts those before a --resume";
}

/// Fills in what the run of a checkpoint began with. Throws ValueError where the settings say
/// something else, which its bits do not allow; FormatError.
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
  if (run.batch > largest_batch)
    throw nntile::FormatError(nntile::concat(nntile::io::path_in_quotes(path),
                                             ": its run's 'batch' is ", run.batch, ", more than ",
                                             largest_batch));
  if (run.batch != 0 && !settings.batch) settings.batch = run.batch;
}

}  // namespace gpt2
