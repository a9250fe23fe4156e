#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// AdamW with decoupled weight decay, and clipping by the global norm.

#include <algorithm>

#include "nntile/graph/gradient.hh"
#include "nntile/nn/module.hh"
#include "nntile/ops/adamw_step.hh"
#include "nntile/ops/global_norm.hh"

namespace nntile::nn {

/// Constants of the optimizer. The learning rate and the step are data: inputs `lr` (fp32) and
/// `step` (int64, from 1).
struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double eps = 1e-8;
  double weight_decay = 0.1;
  /// Largest global norm of the gradients; 0 leaves them as they are, and updates then overlap with
  /// the backward pass.
  double clip = 0;
};

/// Appends the update of every parameter that has a gradient, in phase "optimizer". States are kept
/// as PyTorch keeps them, named `optim.exp_avg/<parameter>` and `optim.exp_avg_sq/<parameter>`.
/// Source: Loshchilov and Hutter 2019.
class AdamW {
 public:
  AdamW(ParameterList const& parameters, Gradients const& gradients,
        AdamWOptions const& options = {})
      : graph_(parameters.graph()) {
    graph_.set_phase("optimizer");
    lr_ = graph_.input({{}, DType::fp32, {}, {}}, "lr");
    step_ = graph_.input({{}, DType::int64, {}, {}}, "step");
    Node scale;
    if (options.clip > 0) scale = clip_scale_of(parameters, gradients, options.clip);
    for (Parameter const& parameter : parameters.all()) {
      Node const gradient = gradients.find(parameter.node);
      if (!gradient) continue;
      TensorSpec const& spec = graph_.tensor_of(parameter.node).spec;
      Node const m = state(spec, "optim.exp_avg/" + parameter.node.name());
      Node const v = state(spec, "optim.exp_avg_sq/" + parameter.node.name());
      ops::AdamwStep::Attrs attrs{};
      attrs.beta1 = options.beta1;
      attrs.beta2 = options.beta2;
      attrs.eps = options.eps;
      attrs.weight_decay = parameter.decays ? options.weight_decay : 0;
      attrs.scaled = bool(scale);
      if (scale)
        adamw_step(attrs, parameter.node, gradient, m, v, lr_, step_, scale);
      else
        adamw_step(attrs, parameter.node, gradient, m, v, lr_, step_);
    }
  }

  Node const& lr() const { return lr_; }
  Node const& step() const { return step_; }
  /// Optimizer states; all begin at 0.
  std::vector<Node> const& states() const { return states_; }
  /// The gradients' global norm (fp64 scalar, its square), where clipping is on.
  Node const& squared_norm() const { return squared_norm_; }

 private:
  Node state(TensorSpec const& spec, std::string const& name) {
    states_.push_back(graph_.state(spec, name));
    return states_.back();
  }

  /// Sums squares per tensor, then over tensors in the order of their names, in fp64.
  Node clip_scale_of(ParameterList const& parameters, Gradients const& gradients, double clip) {
    std::vector<Node> list;
    for (Parameter const& parameter : parameters.all())
      if (gradients.find(parameter.node)) list.push_back(parameter.node);
    std::sort(list.begin(), list.end(),
              [](Node const& a, Node const& b) { return a.name() < b.name(); });
    squared_norm_ = graph_.tensor({{}, DType::fp64, {}, {}}, "optim.squared_norm");
    double beta = 0;
    for (Node const& parameter : list) {
      Node sum = sum_squares(gradients.find(parameter));
      while (!sum.shape().empty()) sum = sum_slice({.axis = 0, .ascending = true}, sum);
      global_norm_add({.beta = beta}, sum, squared_norm_);
      beta = 1;
    }
    return clip_scale({.max_norm = clip}, squared_norm_);
  }

  LogicalGraph& graph_;
  Node lr_;
  Node step_;
  Node squared_norm_;
  std::vector<Node> states_;
};

/// Fills `init` with ops that set every state of the optimizer to 0.
inline void initialize_states(LogicalGraph& init, AdamW const& optimizer) {
  for (Node const& declared : optimizer.states())
    ops::fill({.value = 0}, init.state(declared.graph().tensor_of(declared).spec, declared.name()));
}

}  // namespace nntile::nn
