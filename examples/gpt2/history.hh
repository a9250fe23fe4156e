#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The history of a run beside its tensors, as checkpoints keep it.

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "nntile/io/json.hh"

namespace gpt2 {

/// Losses so far, kept in checkpoints so that the picture of a resumed run is whole.
struct History {
  std::vector<double> train;  // of steps 1, 2, ...
  std::vector<double> valid_step;
  std::vector<double> valid;

  /// Notes a validation behind a step. One of the same step, of a run that was resumed there, gives
  /// way to it: else runs that are resumed and train nothing would make this longer than any run.
  void validated(std::int64_t step, double loss) {
    auto const at = static_cast<double>(step);
    if (valid_step.empty() || valid_step.back() != at) {
      valid_step.push_back(at);
      valid.emplace_back();
    }
    valid.back() = loss;
  }
};

/// The `run` of a checkpoint.
struct RunRecord {
  History history;
  std::int64_t steps = 0;  // of the whole run, as planned
  std::uint64_t data = 0;  // hash of the text
  std::string groups;      // canonical groups, as --groups takes them
  int accumulate = 1;      // micro-batches of a step
};

inline nntile::io::Json to_json(RunRecord const& run) {
  auto json = nntile::io::Json::object({{"train", run.history.train},
                                        {"valid", run.history.valid},
                                        {"valid_step", run.history.valid_step},
                                        {"steps", run.steps},
                                        {"data", run.data}});
  if (!run.groups.empty()) json["groups"] = run.groups;
  if (run.accumulate != 1) json["accumulate"] = run.accumulate;
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
  run.history.train = list("train", step, step);
  run.history.valid = list("valid", 2 * step + 2, 0);
  run.history.valid_step = list("valid_step", 2 * step + 2, 0);
  if (run.history.valid.size() != run.history.valid_step.size())
    fail(run.history.valid.size(), " validations at ", run.history.valid_step.size(), " steps");
  for (double const at : run.history.valid_step)
    if (!(at >= 0 && at <= static_cast<double>(step)))
      fail("a validation at step ", at, " where ", step, " steps were trained");
  run.steps = nntile::io::json_field<std::int64_t>(json, "steps", path);
  run.data = nntile::io::json_field<std::uint64_t>(json, "data", path);
  if (json.find("groups")) run.groups = nntile::io::json_field<std::string>(json, "groups", path);
  if (json.find("accumulate"))
    run.accumulate = nntile::io::json_field<int>(json, "accumulate", path);
  if (run.accumulate < 1) fail("'accumulate' is ", run.accumulate);
  return run;
}

}  // namespace gpt2
