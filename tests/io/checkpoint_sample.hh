#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A small model whose tensors are a function of the step, for the tests of checkpoints.

#include <vector>

#include "nntile/io/checkpoint.hh"

namespace nntile::test {

/// Three parameters and two states; all values are `step` plus something.
struct SmallModel {
  std::vector<float> weight = std::vector<float>(12);
  std::vector<float> bias = std::vector<float>(3);
  std::vector<double> scale = std::vector<double>(1);
  std::vector<float> first = std::vector<float>(12);
  std::vector<float> second = std::vector<float>(12);

  explicit SmallModel(int step = 0) {
    for (std::size_t i = 0; i < 12; ++i) {
      weight[i] = static_cast<float>(step) + static_cast<float>(i);
      first[i] = -weight[i];
      second[i] = weight[i] * weight[i];
    }
    for (std::size_t i = 0; i < 3; ++i) bias[i] = static_cast<float>(step) - static_cast<float>(i);
    scale[0] = 1.0 / (1 + step);
  }
  bool operator==(SmallModel const&) const = default;

  std::vector<io::TensorSource> sources() const {
    auto const from = [](char const* name, auto const& values, Shape const& shape) {
      using T = typename std::decay_t<decltype(values)>::value_type;
      return io::source_of(name, dtype_of<T>, shape, std::as_bytes(std::span(values)));
    };
    return {from("h.0.weight", weight, {4, 3}), from("h.0.bias", bias, {3}),
            from("scale", scale, {}), from("optim.exp_avg/h.0.weight", first, {4, 3}),
            from("optim.exp_avg_sq/h.0.weight", second, {4, 3})};
  }
  std::vector<io::TensorTarget> targets() {
    auto const into = [](char const* name, auto& values, Shape const& shape) {
      using T = typename std::decay_t<decltype(values)>::value_type;
      return io::target_of(name, dtype_of<T>, shape, std::as_writable_bytes(std::span(values)));
    };
    return {into("h.0.weight", weight, {4, 3}), into("h.0.bias", bias, {3}),
            into("scale", scale, {}), into("optim.exp_avg/h.0.weight", first, {4, 3}),
            into("optim.exp_avg_sq/h.0.weight", second, {4, 3})};
  }
};

inline io::Json const small_config =
    io::Json::object({{"model_type", "small"}, {"width", 4}, {"layers", 1}});

inline io::TrainingState state_at(int step) {
  io::TrainingState state;
  state.step = static_cast<std::uint64_t>(step);
  state.sample = 8 * state.step;
  state.seed = ~std::uint64_t{0};
  state.counter = state.step << 40;
  state.optimizer = {{"lr", 0.1 / (step + 1)}, {"beta1", 0.9}};
  state.loss = 5.5 / (step + 1);
  state.run["data"] = "text.txt";
  return state;
}

inline io::SavedCheckpoint save_step(io::CheckpointDirectory& directory, int step) {
  return directory.save(small_config, state_at(step), SmallModel(step).sources());
}

/// Step of the newest checkpoint after all of it was read and compared with what save_step wrote;
/// -1 where there is none.
inline int good_step(std::string const& directory) {
  auto const path = io::latest_checkpoint(directory);
  if (!path) return -1;
  auto const checkpoint = io::Checkpoint::open(*path);
  SmallModel model;
  checkpoint.load(model.targets());
  int const step = static_cast<int>(checkpoint.state().step);
  return model == SmallModel(step) ? step : -2;
}

}  // namespace nntile::test
