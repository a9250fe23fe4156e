// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A small GPT-2 training step, the same for every runtime and tiling, for tests of equal bits.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nntile/graph/compile.hh"
#include "nntile/nn/gpt2.hh"
#include "nntile/nn/optim.hh"

namespace nntile::test {

/// Sizes that leave several heads, tiles and blocks of 64 to cut.
struct TinyGpt {
  nn::Gpt2Config config{.vocab = 96, .positions = 128, .width = 128, .layers = 1, .heads = 2};
  Index seq = 128;
  Index batch = 2;
  double clip = 1;
  Numerics numerics = {};
};

/// The graph of one training step: loss, gradients, AdamW.
class TinyGptGraph {
 public:
  explicit TinyGptGraph(TinyGpt const& sizes = {})
      : sizes_(sizes), graph("tiny", sizes.numerics), model(graph, sizes.config) {
    Node const tokens = batch("tokens"), labels = batch("labels");
    Node const positions =
        graph.constant({.shape = {sizes.seq}, .dtype = DType::int64, .axes = "seq"}, "positions");
    Node const loss = nn::mean_cross_entropy(model.logits(tokens, positions), labels, "loss");
    loss.mark_output();
    optimizer = std::make_unique<nn::AdamW>(model.parameters(), add_gradients(graph, loss),
                                            nn::AdamWOptions{.clip = sizes.clip});
  }
  TinyGpt const& sizes() const { return sizes_; }

 private:
  Node batch(std::string const& name) {
    return graph.input(
        {.shape = {sizes_.seq, sizes_.batch}, .dtype = DType::int64, .axes = "seq batch"}, name);
  }
  TinyGpt sizes_;

 public:
  LogicalGraph graph;
  nn::Gpt2 model;
  std::unique_ptr<nn::AdamW> optimizer;
};

/// The step bound to a runtime, with first values and a fixed text.
template <Runtime R> class TinyGptRun {
 public:
  TinyGptRun(R& runtime, TinyGptGraph const& of, PlanOptions const& options,
             BindOptions const& bind = {})
      : of_(of), store(runtime), step(compile(of.graph, store, options, bind)) {
    LogicalGraph init("init");
    nn::initialize(init, of.model.parameters(), 1);
    nn::initialize_states(init, *of.optimizer);
    compile(init, store, {.tile = options.tile}, bind).execute();  // it lacks the axes of batches
    std::vector<std::int64_t> positions(static_cast<std::size_t>(of.sizes().seq));
    for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<std::int64_t>(i);
    store.template write<std::int64_t>("positions", positions);
  }

  void bind(int number) {
    auto const count = static_cast<std::size_t>(of_.sizes().seq * of_.sizes().batch);
    std::vector<std::int64_t> tokens(count), labels(count);
    for (std::size_t i = 0; i < count; ++i) {
      auto const vocab = static_cast<std::size_t>(of_.sizes().config.vocab);
      tokens[i] = static_cast<std::int64_t>(
          (i * 7 + 3 * (i / 5) + static_cast<std::size_t>(number)) % vocab);
      labels[i] = (tokens[i] + 1) % static_cast<std::int64_t>(vocab);
    }
    step.template bind_input<std::int64_t>("tokens", tokens);
    step.template bind_input<std::int64_t>("labels", labels);
    step.template bind_input<float>("lr", std::vector<float>{0.01f});
    step.template bind_input<std::int64_t>("step", std::vector<std::int64_t>{number});
  }
  /// Trains and returns the loss of the last step.
  float train(int steps) {
    for (int number = 1; number <= steps; ++number) {
      bind(number);
      step.execute();
    }
    return step.template get_output<float>("loss")[0];
  }
  /// Every parameter by name.
  std::map<std::string, std::vector<float>> parameters() const {
    std::map<std::string, std::vector<float>> result;
    for (auto const& parameter : of_.model.parameters().all())
      result.emplace(parameter.node.name(), store.template read<float>(parameter.node.name()));
    return result;
  }

 private:
  TinyGptGraph const& of_;

 public:
  TensorStore<R> store;
  CompiledGraph<R> step;
};

}  // namespace nntile::test
