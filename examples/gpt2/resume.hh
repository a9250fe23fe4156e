#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// What a run that is resumed has of its settings, and what it may be given anew.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>

#include "history.hh"
#include "nntile/core/error.hh"
#include "nntile/io/checkpoint.hh"
#include "session.hh"
#include "settings.hh"

namespace gpt2 {

namespace detail {

/// Calls f(name, option, number) for the numbers of the settings that any step may have others of.
template <class Settings, class F> void each_number(Settings& settings, F f) {
  f("lr", "--lr", settings.lr);
  f("warmup", "--warmup", settings.warmup);
  f("beta1", "--beta1", settings.beta1);
  f("beta2", "--beta2", settings.beta2);
  f("weight_decay", "--weight-decay", settings.weight_decay);
  f("clip", "--clip", settings.clip);
}

}  // namespace detail

/// These numbers, as checkpoints keep them.
inline std::map<std::string, double> numbers_of(TrainSettings const& settings) {
  std::map<std::string, double> numbers;
  detail::each_number(settings, [&](char const* name, char const*, auto number) {
    numbers[name] = static_cast<double>(number);
  });
  return numbers;
}

/// Gives a run that is resumed the model of its newest checkpoint, but for the dtype and the sizes
/// that were given; a preset that was given has all sizes. A checkpoint that cannot be read has
/// none: its opening says why.
inline void take_model(TrainSettings& settings) {
  if (!settings.resume) return;
  try {
    auto const path = nntile::io::latest_checkpoint(settings.out);
    if (!path) return;
    auto const checkpoint = nntile::io::Checkpoint::open(*path);
    auto const [model, seq] = model_from(checkpoint.model(), *path);
    if (settings.dtype.empty()) settings.dtype = name_of(model.dtype);
    if (settings.given.contains("--preset")) return;
    TrainSettings taken = settings;
    for (Preset const& preset : presets)  // whose sizes all are options, but for the vocabulary
      if (preset.model.vocab == model.vocab) taken.preset = preset.name;
    taken.width = settings.width.value_or(model.width);
    taken.layers = settings.layers.value_or(model.layers);
    taken.heads = settings.heads.value_or(model.heads);
    taken.seq = settings.seq.value_or(seq);
    (void)model_of(taken);  // as a preset and options can have it
    settings = taken;
  } catch (nntile::Error const&) {
  }
}

/// Throws FormatError where a checkpoint is of another model than the settings describe.
inline void require_model(nntile::io::Checkpoint const& checkpoint, nntile::io::Json const& model) {
  try {
    checkpoint.require_model(model);
  } catch (nntile::FormatError const& error) {
    throw nntile::FormatError(nntile::concat(
        std::string_view(error.what()),
        "; a resumed run has its own where no --preset, --width, --layers, --heads or --seq says ",
        "otherwise"));
  }
}

/// Says which numbers are other ones from here on than a checkpoint has: "--lr 0.001 (0.003
/// before), --batch 4 (8 before)". "" where all are as they were.
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

/// Fills in what the run of a checkpoint has and no option gave. Throws ValueError where options
/// say something else, which its bits do not allow; FormatError.
inline void take_over(TrainSettings& settings, RunRecord const& run,
                      nntile::io::SavedState const& state, std::string const& path) {
  auto const given = [&](char const* option) { return settings.given.contains(option); };
  if (given("--seed") && state.seed != settings.seed)
    throw nntile::ValueError(nntile::concat("--seed: ", settings.seed, " but the run in '", path,
                                            "' began with ", state.seed));
  settings.seed = state.seed;
  if (!given("--steps") && run.steps != INT64_MAX) settings.steps = run.steps;
  auto const where = nntile::concat(nntile::io::path_in_quotes(path), ": its optimizer: ");
  detail::each_number(settings, [&](char const* name, char const* option, auto& number) {
    auto const own = state.optimizer[name].as<double>();
    if (!own || given(option)) return;
    if (std::string_view(name) == "warmup" && !(*own >= 0 && *own <= 1e15))
      throw nntile::FormatError(nntile::concat(where, name, " is ", *own, ", no count of steps"));
    number = static_cast<std::remove_reference_t<decltype(number)>>(*own);
  });
  try {
    check_run(settings);
  } catch (nntile::ValueError const& error) {  // options were checked before
    throw nntile::FormatError(nntile::concat(where, std::string_view(error.what())));
  }
  std::string kept;
  try {
    kept = to_text(groups_of(run.groups));
  } catch (nntile::ValueError const&) {  // whose text is of an option
  }
  if (kept != run.groups)
    throw nntile::FormatError(nntile::concat(
        nntile::io::path_in_quotes(path), ": its run's 'groups' is ",
        nntile::io::in_quotes(run.groups), " where groups as batch=4,head=2 are needed"));
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
