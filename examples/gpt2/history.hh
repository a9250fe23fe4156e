#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The history of a run beside its tensors, as checkpoints keep it.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nntile/io/json.hh"
#include "plot.hh"

namespace gpt2 {

/// Losses so far, kept in checkpoints so that the picture of a resumed run is whole. Those of a
/// long run are thinned evenly, the same whether it was resumed: a manifest has room for these.
struct History {
  static constexpr std::size_t most_train = std::size_t{1} << 20;  // 24 MiB of a manifest's 64
  static constexpr std::size_t most_valid = std::size_t{1} << 18;  // 10 MiB with their steps

  std::vector<double> train;  // of steps every, 2 every, ...
  std::int64_t every = 1;     // doubled when they are thinned
  std::int64_t steps = 0;     // trained so far
  double last_train = NAN;    // of the last step, which `train` may lack
  std::vector<double> valid_step;
  std::vector<double> valid;

  /// Notes the loss of the next step.
  void trained(double loss) {
    last_train = loss;
    if (++steps % every == 0) train.push_back(loss);
    while (train.size() > most_train) {
      for (std::size_t i = 0; i < train.size() / 2; ++i) train[i] = train[2 * i + 1];
      train.resize(train.size() / 2);
      every *= 2;
    }
  }

  /// Notes a validation behind a step. One of the same step, of a run that was resumed there, gives
  /// way to it: else runs that are resumed and train nothing would make this longer than any run.
  void validated(std::int64_t step, double loss) {
    auto const at = static_cast<double>(step);
    if (valid_step.empty() || valid_step.back() != at) {
      valid_step.push_back(at);
      valid.emplace_back();
    }
    valid.back() = loss;
    if (valid.size() > most_valid) thin_valid();
  }

 private:
  /// Keeps half of the validations or fewer, as evenly as they can be; the first and the last one.
  void thin_valid() {
    double const gap = valid_step.back() / static_cast<double>(most_valid / 2 - 2);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < valid.size(); ++i) {
      if (i != 0 && i + 1 != valid.size() && !(valid_step[i] >= valid_step[kept - 1] + gap))
        continue;
      valid_step[kept] = valid_step[i];
      valid[kept++] = valid[i];
    }
    valid_step.resize(kept);
    valid.resize(kept);
  }
};

/// The picture's data.
inline LossCurve curve_of(History const& history, std::string title) {
  LossCurve curve;
  curve.title = std::move(title);
  curve.train = history.train;
  curve.train_every = static_cast<double>(history.every);
  curve.steps = static_cast<double>(history.steps);
  curve.valid_step = history.valid_step;
  curve.valid = history.valid;
  return curve;
}

/// The `run` of a checkpoint.
struct RunRecord {
  History history;
  std::int64_t steps = 0;  // of the whole run, as planned
  std::uint64_t data = 0;  // hash of the text
  std::string groups;      // canonical groups, as --groups takes them
  int accumulate = 1;      // micro-batches of a step
  std::int64_t batch = 0;  // sequences of a step; 0: written before that was kept
};

inline nntile::io::Json to_json(RunRecord const& run) {
  auto json = nntile::io::Json::object({{"train", run.history.train},
                                        {"valid", run.history.valid},
                                        {"valid_step", run.history.valid_step},
                                        {"steps", run.steps},
                                        {"data", run.data}});
  if (!run.groups.empty()) json["groups"] = run.groups;
  if (run.accumulate != 1) json["accumulate"] = run.accumulate;
  if (run.batch != 0) json["batch"] = run.batch;
  if (run.history.every != 1) json["train_every"] = run.history.every;
  return json;
}

/// Reads the `run` of a checkpoint of that step. Throws FormatError that names `path` and the entry
/// where one is missing, of another type, or contradicts the step.
inline RunRecord run_from(nntile::io::JsonView json, std::uint64_t step, std::string const& path) {
  auto const fail = [&](auto const&... words) {
    throw nntile::FormatError(
        nntile::concat(nntile::io::path_in_quotes(path), ": its run: ", words...));
  };
  auto const list = [&](char const* key, std::uint64_t most, std::uint64_t least) {
    auto const found = nntile::io::json_field<nntile::io::JsonView>(json, key, path);
    if (!found.is_array())
      fail("'", key, "' is ", found.shown(), " where a list of numbers is needed");
    if (std::size_t const size = found.elements().size(); size < least || size > most)
      fail("'", key, "' holds ", size, " numbers where ", step, " steps were trained");
    auto values = found.template as<std::vector<double>>();
    if (!values) fail("'", key, "' is no list of numbers");
    return std::move(*values);
  };
  RunRecord run;
  if (step > INT64_MAX / 2) fail("it trained ", step, " steps, more than can be counted");
  if (json.find("train_every"))
    run.history.every = nntile::io::json_field<std::int64_t>(json, "train_every", path);
  if (run.history.every < 1) fail("'train_every' is ", run.history.every);
  std::uint64_t const kept = step / static_cast<std::uint64_t>(run.history.every);
  run.history.train = list("train", kept, kept);
  run.history.steps = static_cast<std::int64_t>(step);
  if (kept > 0) run.history.last_train = run.history.train.back();
  run.history.valid = list("valid", 2 * step + 2, 0);
  run.history.valid_step = list("valid_step", 2 * step + 2, 0);
  if (run.history.valid.size() != run.history.valid_step.size())
    fail(run.history.valid.size(), " validations at ", run.history.valid_step.size(), " steps");
  for (double const at : run.history.valid_step)
    if (!(at >= 0 && at <= static_cast<double>(step)))
      fail("a validation at step ", at, " where ", step, " steps were trained");
  run.steps = nntile::io::json_field<std::int64_t>(json, "steps", path);
  if (run.steps < 0) fail("'steps' is ", run.steps);
  run.data = nntile::io::json_field<std::uint64_t>(json, "data", path);
  if (json.find("groups")) run.groups = nntile::io::json_field<std::string>(json, "groups", path);
  if (json.find("accumulate"))
    run.accumulate = nntile::io::json_field<int>(json, "accumulate", path);
  if (run.accumulate < 1) fail("'accumulate' is ", run.accumulate);
  if (json.find("batch")) run.batch = nntile::io::json_field<std::int64_t>(json, "batch", path);
  if (json.find("batch") && run.batch < 1) fail("'batch' is ", run.batch);
  return run;
}

}  // namespace gpt2
