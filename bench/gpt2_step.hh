#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The GPT-2 training step that benches plan and run.

#include <cstdint>
#include <vector>

#include "nntile/graph/compile.hh"
#include "nntile/graph/parts.hh"
#include "nntile/graph/profile.hh"
#include "nntile/nn/gpt2.hh"
#include "nntile/nn/language_model.hh"

namespace nntile::bench {

/// Forward, backward and AdamW of a GPT-2, as one graph.
struct Gpt2Step {
  LogicalGraph graph;
  nn::Gpt2 model;
  Index seq;
  Index batch;
  nn::LanguageModelStep step;

  Gpt2Step(nn::Gpt2Config const& config, Index seq_, Index batch_, Numerics numerics = {})
      : graph("step", numerics),
        model(graph, config),
        seq(seq_),
        batch(batch_),
        step(model, {.seq = seq, .batch = batch}) {}
};

/// A step bound to a runtime of its own, with weights and a batch that are the same everywhere; on
/// a mesh, a rank's part of it.
template <Runtime R> class BoundStep {
 public:
  BoundStep(Gpt2Step const& of, RuntimeOptions const& options, PlanOptions const& plan,
            BindOptions const& bind = {}, RankLink const& link = {})
      : runtime_(options), store_(runtime_, link), run_(bound(of.graph, plan, bind)) {
    LogicalGraph init("initialize", {of.graph.numerics().mode});
    nn::initialize(init, of.step, 1);
    bound(init, {.tile = plan.tile, .mesh = plan.mesh}, {}).execute();
    auto const count = static_cast<std::size_t>(of.seq * of.batch);
    auto const vocab = static_cast<std::uint64_t>(of.model.config().vocab);
    for (std::uint64_t i = 0, state = 1; i <= count; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
      auto const token = static_cast<std::int64_t>((state >> 33) % vocab);
      if (i < count) tokens_.push_back(token);
      if (i > 0) labels_.push_back(token);
    }
    store_.template write<Index>("positions", of.step.position_values());
    bind_batch();
    run_.template bind_input<float>("lr", std::vector<float>{1e-4f});
  }

  /// One step; returns its loss.
  float execute() {
    run_.template bind_input<std::int64_t>("step", {++number_});
    run_.execute();
    return run_.template get_output<float>("loss")[0];
  }
  /// The same, with the next batch copied in meanwhile: waits for the step where the inputs are not
  /// double-buffered.
  float execute_while_binding() {
    run_.template bind_input<std::int64_t>("step", {++number_});
    auto const step = run_.execute_async();
    bind_batch();
    step.wait();
    return run_.template get_output<float>("loss")[0];
  }
  CompiledGraph<R> const& run() const { return run_; }

 private:
  CompiledGraph<R> bound(LogicalGraph const& graph, PlanOptions const& plan,
                         BindOptions const& bind) {
    return plan.mesh.empty() ? compile(graph, store_, plan, bind)
                             : compile_part(graph, store_, plan, bind);
  }
  void bind_batch() {
    run_.bind_input("tokens", tokens_);
    run_.bind_input("labels", labels_);
  }

  R runtime_;
  TensorStore<R> store_;
  CompiledGraph<R> run_;
  std::vector<std::int64_t> tokens_, labels_;
  std::int64_t number_ = 0;
};

}  // namespace nntile::bench
