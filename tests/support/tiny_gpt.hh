// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A small GPT-2 training step, the same for every runtime and tiling, for tests of equal bits.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nntile/graph/compile.hh"
#include "nntile/nn/gpt2.hh"
#include "nntile/nn/language_model.hh"

namespace nntile::test {

/// Sizes that leave several heads, tiles and blocks of 64 to cut.
struct TinyGpt {
  nn::Gpt2Config config{.vocab = 96, .positions = 128, .width = 128, .layers = 1, .heads = 2};
  Index seq = 128;
  Index batch = 2;
  double clip = 1;
  int accumulate = 1;  // micro-batches of a step
  Numerics numerics = {};
  bool open = false;  // seq and batch are names, which planning binds

  std::vector<BoundDim> dims() const {
    if (!open) return {};
    return {{"seq", seq}, {"batch", batch}};
  }
};

/// The graph of one training step: loss, gradients, AdamW.
struct TinyGptGraph {
  explicit TinyGptGraph(TinyGpt const& given = {})
      : sizes(given),
        graph("tiny", sizes.numerics),
        model(graph, sizes.config),
        step(model, {.seq = sizes.open ? Dim("seq") : Dim(sizes.seq),
                     .batch = sizes.open ? Dim("batch") : Dim(sizes.batch),
                     .accumulate = sizes.accumulate,
                     .adamw = {.clip = sizes.clip}}) {}

  TinyGpt sizes;
  LogicalGraph graph;
  nn::Gpt2 model;
  nn::LanguageModelStep step;
};

/// The fixed text of a step: tokens, and labels, the next ones.
struct TinyBatch {
  std::vector<std::int64_t> tokens, labels;
};
inline TinyBatch tiny_batch(TinyGpt const& sizes, int number) {
  auto const vocab = static_cast<std::size_t>(sizes.config.vocab);
  TinyBatch batch;
  for (std::size_t i = 0; i < static_cast<std::size_t>(sizes.seq * sizes.batch); ++i) {
    auto const token = (i * 7 + 3 * (i / 5) + static_cast<std::size_t>(number)) % vocab;
    batch.tokens.push_back(static_cast<std::int64_t>(token));
    batch.labels.push_back(static_cast<std::int64_t>((token + 1) % vocab));
  }
  return batch;
}

/// The step bound to a runtime, with first values and a fixed text.
template <Runtime R> class TinyGptRun {
 public:
  TinyGptRun(R& runtime, TinyGptGraph const& of, PlanOptions const& options,
             BindOptions const& bind = {})
      : of_(of), store(runtime), step(compile(of.graph, store, options, bind)) {
    initialize(options.tile, bind);
  }
  /// A plan that several runs share.
  TinyGptRun(R& runtime, TinyGptGraph const& of, std::shared_ptr<Plan const> plan,
             BindOptions const& bind = {})
      : of_(of), store(runtime), step(detail::bind(of.graph, std::move(plan), store, bind)) {
    initialize(step.plan().tile(), bind);
  }

  void bind(int number) {
    auto const [tokens, labels] = tiny_batch(of_.sizes, number);
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
  void initialize(Index tile, BindOptions const& bind) {
    LogicalGraph init("init");
    nn::initialize(init, of_.step, 1);
    compile(init, store, {.tile = tile}, bind).execute();  // it lacks the axes of batches
    store.template write<Index>("positions", of_.step.position_values());
  }

  TinyGptGraph const& of_;

 public:
  TensorStore<R> store;
  CompiledGraph<R> step;
};

}  // namespace nntile::test
