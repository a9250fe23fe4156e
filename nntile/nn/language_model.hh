#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A language model on batches of tokens: inputs, loss, gradients and optimizer.

#include <concepts>
#include <limits>
#include <optional>
#include <vector>

#include "nntile/nn/attention.hh"
#include "nntile/nn/loss.hh"
#include "nntile/nn/optim.hh"
#include "nntile/ops/scale.hh"

namespace nntile::nn {

/// Appends logits[vocab, seq, batch] of tokens int64 [seq, batch] at positions int64 [seq]. Where
/// `inference` is set, they need not be differentiable.
template <class Model>
concept LanguageModel = requires(Model const& model, Node const& node, bool inference) {
  { model.logits(node, node, inference) } -> std::same_as<Node>;
  { model.parameters() } -> std::same_as<ParameterList const&>;
};

/// A language model whose tokens may follow those in caches, of one element for each layer.
template <class Model>
concept CachedLanguageModel =
    LanguageModel<Model> &&
    requires(Model const& model, Node const& node, std::vector<KeyValueCache> const& caches) {
      { model.logits(node, node, caches) } -> std::same_as<Node>;
      { model.caches(node, Index{}, Index{}) } -> std::same_as<std::vector<KeyValueCache>>;
    };

struct LanguageModelOptions {
  Dim seq = 0;  // numbers, or names that planning binds
  Dim batch = 1;
  /// Prefill ends at the caches, inference at the logits, validation at the loss, `gradients` at
  /// those of the parameters, which are kept for an optimizer in another graph; training updates
  /// the parameters.
  enum class Purpose {
    prefill,
    inference,
    validation,
    gradients,
    training
  } purpose = Purpose::training;
  /// In prefill and inference, of caches of keys and values: the tokens of a run follow `start`
  /// others of the same sequences. Graphs of an open `seq` on one store, a prefill planned for a
  /// text's length and an inference planned for 1, compute for each token behind the text what one
  /// pass over all would, to the bit. 0: no caches.
  Index slots = 0;
  /// Micro-batches of a step. With more than one, `batch` is that of each; the gradients are of the
  /// mean of their losses, and are kept: a run of the phases forward and backward adds to them, in
  /// turn upwards from +0, and the phase optimizer, run behind the last, sets them to 0 again. A
  /// plan of training needs PlanOptions::by_phase. Cost: a gradient's memory a parameter, and the
  /// phases do not mix.
  int accumulate = 1;
  AdamWOptions adamw = {};
};

/// The computation of one run of a language model's graph, appended behind the model, or, where
/// that throws, nothing. The model outlives it.
class LanguageModelStep {
 public:
  template <LanguageModel Model>
  explicit LanguageModelStep(Model const& model, LanguageModelOptions const& options)
      : parameters_(&model.parameters()) {
    graph().all_or_nothing([&] { append(model, options); });
  }
  template <LanguageModel Model>
  LanguageModelStep(Model const&&, LanguageModelOptions const&) = delete;  // it would be gone

  LogicalGraph& graph() const { return parameters_->graph(); }
  ParameterList const& parameters() const { return *parameters_; }

  Node const& tokens() const { return tokens_; }  // int64 [seq, batch], an input
  /// int64 [seq]: a constant; where it is open, or there are caches, an input.
  Node const& positions() const { return positions_; }
  Node const& start() const { return start_; }  // int64 scalar, an input; empty without caches
  std::vector<KeyValueCache> const& caches() const { return caches_; }
  Node const& logits() const { return logits_; }  // [vocab, seq, batch], kept by inference
  Node const& labels() const { return labels_; }  // as tokens; empty in inference
  Node const& loss() const { return loss_; }      // a kept scalar; empty in inference
  Gradients const& gradients() const { return gradients_; }  // of the loss; none of a forward pass
  std::optional<AdamW> const& optimizer() const { return optimizer_; }  // in training alone
  bool accumulates() const { return accumulates_; }  // whether several runs add to the gradients

  /// Appends to `to`, this graph or another, what sets the gradients that are kept to 0.
  void zero_gradients(LogicalGraph& to) const {
    to.all_or_nothing([&] {
      for (Parameter const& parameter : parameters_->all())
        if (Node const gradient = gradients_.find(parameter.node))
          ops::fill({.value = 0}, shared(to, gradient, "zero_gradients"));
    });
  }

  /// The values of `positions`: start, start + 1, ..., start + seq - 1; of an open one at the
  /// number that it is bound to. Throws ShapeError for a sequence below 0 or too long for any list,
  /// ValueError for a start below 0, or so late that the last position is no Index.
  std::vector<Index> position_values() const { return position_values(positions_.shape()[0]); }
  static std::vector<Index> position_values(Index seq, Index start = 0) {
    if (seq < 0)
      throw ShapeError(concat("position_values: a sequence of ", seq, " tokens; 0 or more"));
    if (start < 0)
      throw ValueError(
          concat("position_values: a start at position ", start, "; 0 (the first) or more"));
    constexpr Index last = std::numeric_limits<Index>::max();
    if (seq > 0 && start > last - (seq - 1))
      throw ValueError(concat("position_values: ", seq, " tokens from position ", start,
                              "; the last is ", last, " or before"));
    std::vector<Index> values;
    if (static_cast<std::size_t>(seq) > values.max_size())
      throw ShapeError(
          concat("position_values: a sequence of ", seq, " tokens; no memory holds so many"));
    values.resize(static_cast<std::size_t>(seq));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = start + static_cast<Index>(i);
    return values;
  }

 private:
  template <LanguageModel Model>
  void append(Model const& model, LanguageModelOptions const& options) {
    using Purpose = LanguageModelOptions::Purpose;
    if (options.purpose < Purpose::prefill || options.purpose > Purpose::training)
      throw ValueError(concat("language model: purpose ", static_cast<int>(options.purpose),
                              "; those from prefill (0) to training (4) are possible"));
    auto const require = [](char const* name, Dim const& dim) {
      if (!dim.open() && dim < 1)
        throw ShapeError(concat("language model: ", name, "=", to_string(dim),
                                "; 1 or more, or a name that planning binds"));
    };
    require("seq", options.seq);
    require("batch", options.batch);
    if (options.accumulate < 1)
      throw GraphError(concat("language model: accumulate ", options.accumulate,
                              " micro-batches; there is 1 at least"));
    tokens_ = batch("tokens", options);
    positions_ =
        graph().tensor({.shape = {options.seq}, .dtype = DType::int64, .axes = "seq"}, "positions",
                       {.persistent = !options.seq.open() && options.slots == 0, .external = true});
    bool const forward = options.purpose <= Purpose::validation;
    if (options.slots != 0 || options.purpose == Purpose::prefill)
      return append_cached(model, options);
    logits_ = model.logits(tokens_, positions_, forward);
    if (options.purpose == Purpose::inference) {
      logits_.mark_output();
      return;
    }
    labels_ = batch("labels", options);
    loss_ = mean_cross_entropy(logits_, labels_).mark_output();
    if (forward) return;
    accumulates_ = options.accumulate > 1;
    Node const share = accumulates_
                           ? scale({.alpha = 1.0 / options.accumulate}, loss_).named("loss.share")
                           : loss_;
    gradients_ = add_gradients(graph(), share,
                               {.persistent = accumulates_ || options.purpose == Purpose::gradients,
                                .accumulate = accumulates_});
    if (options.purpose != Purpose::training) return;
    optimizer_.emplace(*parameters_, gradients_, options.adamw);
    if (!accumulates_) return;
    zero_gradients(graph());
    graph().keep_phases_apart();
  }

  template <LanguageModel Model>
  void append_cached(Model const& model, LanguageModelOptions const& options) {
    using Purpose = LanguageModelOptions::Purpose;
    if (options.slots == 0)
      throw GraphError("language model: a prefill without slots leaves nothing; give it slots");
    if (options.purpose > Purpose::inference)
      throw GraphError(concat("language model: ", options.slots,
                              " slots, but caches are of prefill and inference alone"));
    if (options.batch.open())
      throw GraphError(
          concat("language model: caches are kept, so that batch must be a number, not '",
                 options.batch.name(), "'"));
    if constexpr (CachedLanguageModel<Model>) {
      start_ = graph().input({.shape = {}, .dtype = DType::int64}, "start");
      caches_ = model.caches(start_, options.slots, options.batch);
      Node const logits = model.logits(tokens_, positions_, caches_);
      if (options.purpose == Purpose::inference) logits_ = logits.mark_output();
    } else {
      throw GraphError("language model: this one has no caches; see CachedLanguageModel");
    }
  }

  Node batch(char const* name, LanguageModelOptions const& options) const {
    return graph().input(
        {.shape = {options.seq, options.batch}, .dtype = DType::int64, .axes = "seq batch"}, name);
  }

  ParameterList const* parameters_;
  Node tokens_;
  Node positions_;
  Node start_;
  std::vector<KeyValueCache> caches_;
  Node logits_;
  Node labels_;
  Node loss_;
  Gradients gradients_;
  std::optional<AdamW> optimizer_;
  bool accumulates_ = false;
};

/// Appends to `init` what declares and clears the caches: they need it once, not for each text.
inline void initialize_caches(LogicalGraph& init, LanguageModelStep const& step) {
  auto const full_names = init.without_prefix();
  init.all_or_nothing([&] {
    for (KeyValueCache const& cache : step.caches())
      for (Node const& each : {cache.keys, cache.values})
        ops::fill({.value = 0}, init.state(each.graph().tensor_of(each).spec, each.name()));
  });
}

/// Fills `init` with ops that give every parameter, optimizer state, gradient that is added to and
/// cache its first value.
inline void initialize(LogicalGraph& init, LanguageModelStep const& step, std::uint64_t seed) {
  init.all_or_nothing([&] {
    initialize(init, step.parameters(), seed);
    if (step.optimizer()) initialize_states(init, *step.optimizer());
    if (step.accumulates()) step.zero_gradients(init);
    initialize_caches(init, step);
  });
}

}  // namespace nntile::nn
