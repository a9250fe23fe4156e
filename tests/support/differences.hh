// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Gradients of graphs against central differences of the loss, in fp64.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nntile/graph/compile.hh"
#include "nntile/runtime/serial/serial.hh"

namespace nntile::test {

/// Numbers in (-1, 1) from a fixed generator.
inline std::vector<double> numbers(Shape const& shape, std::uint64_t seed) {
  std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
  for (double& value : values) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    value = static_cast<double>(seed >> 11) * 0x1p-52 - 1;
  }
  return values;
}

/// A graph bound to values that follow from a seed: of parameters, constants and inputs. Every run
/// begins with them, since ops may overwrite them. The runtime is made of what comes last.
template <class R> class EvaluationOn {
 public:
  template <class... Arguments>
  EvaluationOn(LogicalGraph& graph, Node const& loss, std::uint64_t seed,
               PlanOptions const& options = {.tile = 0}, Arguments const&... runtime)
      : loss_(loss),
        runtime_(runtime...),
        store_(runtime_),
        run_((loss.mark_output(), compile(graph, store_, options))) {
    for (std::uint32_t id = 0; id < graph.tensor_count(); ++id) {
      TensorNode const& node = graph.tensor_at(id);
      bool const given = node.attributes.persistent || node.attributes.external;
      if (given &&
          store_.contains(node.name))  // what the loss and its gradients do not need is not
        bound_.push_back({node.name, node.spec.dtype, numbers(node.spec.shape, seed + id)});
    }
  }

  /// The loss where element `at` of a parameter is moved.
  double loss(std::string const& parameter = {}, std::size_t at = 0, double shift = 0) {
    for (Bound const& bound : bound_) {
      if (bound.dtype == DType::fp64) {
        auto values = bound.values;
        if (bound.name == parameter) values[at] += shift;
        store_.template write<double>(bound.name, values);
      } else if (bound.dtype == DType::fp32) {
        store_.template write<float>(bound.name,
                                     std::vector<float>(bound.values.begin(), bound.values.end()));
      } else {  // indices, of two classes
        std::vector<std::int64_t> indices;
        for (double const value : bound.values) indices.push_back(value < 0 ? 0 : 1);
        store_.template write<std::int64_t>(bound.name, indices);
      }
    }
    run_.execute();
    return loss_.dtype() == DType::fp64
               ? read(loss_)[0]
               : static_cast<double>(store_.template read<float>(loss_.name())[0]);
  }
  std::vector<double> read(Node const& node) { return store_.template read<double>(node.name()); }
  Plan const& plan() const { return run_.plan(); }
  R& runtime() { return runtime_; }
  /// Runs once more, on what the last run has left.
  void execute() { run_.execute(); }

 private:
  struct Bound {
    std::string name;
    DType dtype;
    std::vector<double> values;
  };
  Node loss_;
  R runtime_;
  TensorStore<R> store_;
  CompiledGraph<R> run_;
  std::vector<Bound> bound_;
};
using Evaluation = EvaluationOn<Serial>;

/// How far gradients are from differences. `doubt` is how far the differences of two steps are from
/// each other: near a kink, or where the loss bends sharply, they do not say what is right.
struct Deviation {
  double error = 0;
  double doubt = 0;
};

/// The largest deviations over all parameters, each relative to 1 + |difference|. One step of
/// Richardson's extrapolation: what is left is of the order of step^4 and of rounding, eps / step.
inline Deviation deviation(LogicalGraph& graph, Node const& loss, Gradients const& gradients,
                           std::uint64_t seed, PlanOptions const& options = {.tile = 0}) {
  std::vector<std::pair<Node, std::vector<double>>> parameters;
  for (std::uint32_t id = 0; id < graph.tensor_count(); ++id)
    if (graph.tensor_at(id).attributes.requires_grad) parameters.push_back({Node{graph, id}, {}});
  for (auto const& [node, values] : parameters)
    if (Node const gradient = gradients.find(node)) gradient.mark_output();
  Evaluation evaluation(graph, loss, seed, options);
  evaluation.loss();
  for (auto& [node, values] : parameters) {
    Node const gradient = gradients.find(node);
    auto const count = static_cast<std::size_t>(element_count(node.shape()));
    values = gradient ? evaluation.read(gradient) : std::vector<double>(count, 0.0);
  }
  constexpr double step = 1e-3;
  Deviation result;
  for (auto const& parameter : parameters)
    for (std::size_t at = 0; at < parameter.second.size(); ++at) {
      auto const difference = [&](double h) {
        std::string const& name = parameter.first.name();
        return (evaluation.loss(name, at, h) - evaluation.loss(name, at, -h)) / (2 * h);
      };
      double const wide = difference(step), narrow = difference(step / 2);
      double const expected = (4 * narrow - wide) / 3, scale = 1 + std::abs(expected);
      result.doubt = std::max(result.doubt, std::abs(wide - narrow) / scale);
      // Not a number is as far as can be.
      double const error = std::abs(parameter.second[at] - expected) / scale;
      result.error = error <= result.error ? result.error : error;
    }
  return result;
}

}  // namespace nntile::test
