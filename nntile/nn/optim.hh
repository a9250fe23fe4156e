#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// AdamW with decoupled weight decay, and clipping by the global norm.

#include <algorithm>
#include <cmath>
#include <optional>

#include "nntile/graph/gradient.hh"
#include "nntile/nn/module.hh"
#include "nntile/ops/adamw_step.hh"
#include "nntile/ops/cast.hh"
#include "nntile/ops/global_norm.hh"
#include "nntile/ops/sum_slice.hh"

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
  /// Dtype of the states, as which gradients count; empty: each parameter's. fp32 lets bf16 and
  /// fp16 parameters move by less than states of theirs would resolve, for 2 bytes more an element
  /// of each.
  std::optional<DType> states = {};
};

/// The constants of a parameter's step.
inline ops::AdamwStepAttrs step_attrs(AdamWOptions const& options) {
  return {.beta1 = options.beta1,
          .beta2 = options.beta2,
          .eps = options.eps,
          .weight_decay = options.weight_decay};
}

/// Throws ValueError for an option out of range.
inline void check(AdamWOptions const& options) {
  ops::check("adamw", step_attrs(options));
  if (!(options.clip >= 0 && std::isfinite(options.clip)))
    throw ValueError(concat("adamw: clip of ", options.clip, "; 0 (none) or more, such as 1"));
}

/// Appends the update of every parameter that has a gradient, in phase "optimizer". States are kept
/// as PyTorch keeps them, named `optim.exp_avg/<parameter>` and `optim.exp_avg_sq/<parameter>`.
/// Of a gradient that is a cast from bf16 or fp16, and is not kept, the update reads what was cast.
/// Throws TypeError for states of a dtype that adamw_step does not take beside the parameter's,
/// ValueError as check() does; the graph is as it was then.
/// Source: Loshchilov and Hutter 2019.
class AdamW {
 public:
  /// Behind the backward pass, in the parameters' graph.
  AdamW(ParameterList const& parameters, Gradients const& gradients,
        AdamWOptions const& options = {})
      : AdamW(parameters.graph(), parameters, gradients, options) {}
  /// In a graph of its own, which names the same parameters and gradients: compiled on the store of
  /// the other, it reads what that one's runs left there. Throws GraphError where add_gradients was
  /// not asked for `persistent` gradients.
  AdamW(LogicalGraph& graph, ParameterList const& parameters, Gradients const& gradients,
        AdamWOptions const& options = {})
      : graph_(graph) {
    check(options);
    graph_.all_or_nothing([&] { append(parameters, gradients, options); });
  }

  AdamW(AdamW const&) = default;  // a move copies, and leaves no object without states

  Node const& lr() const { return lr_; }
  Node const& step() const { return step_; }
  /// Optimizer states; all begin at 0.
  std::vector<Node> const& states() const { return states_; }
  /// The gradients' global norm (fp64 scalar, its square), where clipping is on and there are any.
  Node const& squared_norm() const { return squared_norm_; }

 private:
  struct Update {
    Node parameter;
    Node gradient;
    bool decays;
  };

  void append(ParameterList const& parameters, Gradients const& gradients,
              AdamWOptions const& options) {
    graph_.set_phase("optimizer");
    lr_ = graph_.input({{}, DType::fp32, {}, {}}, "lr");
    step_ = graph_.input({{}, DType::int64, {}, {}}, "step");
    std::vector<Update> updates;
    for (Parameter const& parameter : parameters.all())
      if (Node const gradient = gradients.find(parameter.node))
        updates.push_back({shared(graph_, parameter.node, "adamw"),
                           shared(graph_, gradient, "adamw"), parameter.decays});
    read_narrow_gradients(updates, options);
    Node scale;
    if (options.clip > 0 && !updates.empty()) scale = clip_scale_of(updates, options.clip);
    for (Update const& update : updates) {
      TensorSpec spec = graph_.tensor_of(update.parameter).spec;
      if (options.states) spec.dtype = checked_states(*options.states, update.parameter);
      bool const narrow =
          update.parameter.dtype() == DType::fp32 && update.gradient.dtype() != DType::fp32;
      Node const gradient = narrow || update.gradient.dtype() == spec.dtype
                                ? update.gradient
                                : cast(update.gradient, spec.dtype);
      Node const m = state(spec, "optim.exp_avg/" + update.parameter.name());
      Node const v = state(spec, "optim.exp_avg_sq/" + update.parameter.name());
      ops::AdamwStepAttrs attrs = step_attrs(options);
      if (!update.decays) attrs.weight_decay = 0;
      attrs.scaled = bool(scale);
      auto const step = [&](auto const& call) {
        if (scale)
          call(attrs, update.parameter, gradient, m, v, lr_, step_, scale);
        else
          call(attrs, update.parameter, gradient, m, v, lr_, step_);
      };
      if (narrow)
        step(adamw_step_narrow);
      else
        step(adamw_step);
    }
  }

  /// Throws TypeError where adamw_step takes no states of that dtype beside the parameter.
  static DType checked_states(DType states, Node const& parameter) {
    std::string list;
    for (ElementTypes const& each : optimizer_types) {
      if (each.element != parameter.dtype()) continue;
      if (each.second == states) return states;
      list += concat(list.empty() ? "" : " or ", name_of(each.second));
    }
    throw TypeError(concat("adamw: states of ", name_of(states), ", but parameter '",
                           parameter.name(), "' is ", name_of(parameter.dtype()),
                           ", and has states of ", list.empty() ? "no dtype" : list));
  }

  Node state(TensorSpec const& spec, std::string const& name) {
    auto const full_names = graph_.without_prefix();
    states_.push_back(graph_.state(spec, name));
    return states_.back();
  }

  /// A parameter that is trained in fp32 and used in bf16 or fp16 has a cast for its gradient: the
  /// narrow tensor says the same in half the bytes.
  void read_narrow_gradients(std::vector<Update>& updates, AdamWOptions const& options) const {
    if (options.states.value_or(DType::fp32) != DType::fp32) return;
    TensorVersions const versions(graph_);
    for (std::size_t i = 0; i < graph_.op_count(); ++i) {
      OpNode const& op = graph_.op_at(i);
      bool const widens = op.info == &op_info<ops::Cast> && op.element == DType::fp32 &&
                          (op.second == DType::bf16 || op.second == DType::fp16);
      if (!widens || versions.overwriter(i, 0) != no_op || versions.overwriter(i, 1) != no_op)
        continue;
      for (Update& update : updates)
        if (update.gradient.id() == op.operands[1] && update.parameter.dtype() == DType::fp32 &&
            !graph_.tensor_of(update.gradient).attributes.persistent)
          update.gradient = {graph_, op.operands[0]};
    }
  }

  /// Sums squares per tensor, then over tensors in the order of their names, in fp64.
  Node clip_scale_of(std::vector<Update> list, double clip) {
    std::sort(list.begin(), list.end(), [](Update const& a, Update const& b) {
      return a.parameter.name() < b.parameter.name();
    });
    squared_norm_ = graph_.tensor({{}, DType::fp64, {}, {}}, "optim.squared_norm");
    double beta = 0;
    for (Update const& update : list) {
      Node sum = sum_squares(with_dimension(update.gradient));
      while (!sum.shape().empty()) sum = sum_slice({.axis = 0, .ascending = true}, sum);
      global_norm_add({.beta = beta}, sum, squared_norm_);
      beta = 1;
    }
    return clip_scale({.max_norm = clip}, squared_norm_);
  }

  /// Of a scalar a vector of that element, since sum_squares takes no scalars.
  Node with_dimension(Node const& gradient) {
    if (!gradient.shape().empty()) return gradient;
    return broadcast_slice({.axis = 0}, gradient,
                           graph_.tensor({.shape = {1}, .dtype = gradient.dtype()},
                                         graph_.unique(gradient.name() + ".vector")));
  }

  LogicalGraph& graph_;
  Node lr_;
  Node step_;
  Node squared_norm_;
  std::vector<Node> states_;
};

/// Fills `init` with ops that set every state of the optimizer to 0.
inline void initialize_states(LogicalGraph& init, AdamW const& optimizer) {
  auto const full_names = init.without_prefix();
  init.all_or_nothing([&] {
    for (Node const& declared : optimizer.states())
      ops::fill({.value = 0},
                init.state(declared.graph().tensor_of(declared).spec, declared.name()));
  });
}

}  // namespace nntile::nn
