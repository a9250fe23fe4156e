// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Small graphs in fp64 whose gradients are checked against differences, or refused.

#include <functional>
#include <string>
#include <vector>

#include "nntile/graph/apply.hh"
#include "nntile/graph/compile.hh"
#include "nntile/graph/draw.hh"
#include "nntile/graph/gradient.hh"
#include "nntile/ops/sum_slice.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/support/catch.hh"
#include "tests/support/differences.hh"
#include "tests/support/message.hh"

namespace nntile::test {

using Build = std::function<Node(LogicalGraph&, Node const&)>;

inline Node sum(Node const& x) { return sum_slice({.axis = 0}, x); }

inline Node input(LogicalGraph& graph, std::string const& name, Shape const& shape = {8}) {
  return graph.input({.shape = shape, .dtype = DType::fp64}, name);
}
inline Node tensor(LogicalGraph& graph, Shape const& shape = {8}) {
  return graph.tensor({.shape = shape, .dtype = DType::fp64}, graph.unique("t"));
}
inline Node weights(LogicalGraph& graph, Shape const& shape = {8}) {
  return graph.parameter({.shape = shape, .dtype = DType::fp64}, "w");
}

/// CHECKs the gradient of a loss of w[8] against differences.
inline void check_right(Build const& build, Shape const& shape = {8}) {
  LogicalGraph graph;
  Node const loss = build(graph, weights(graph, shape));
  CHECK(deviation(graph, loss, add_gradients(graph, loss), 7).error < 1e-8);
}

/// The refusal to differentiate a loss of w[8]; CHECKs that the graph is as it was, and runs.
inline std::string refusal(Build const& build, Shape const& shape = {8}) {
  LogicalGraph graph;
  Node const loss = build(graph, weights(graph, shape));
  graph.set_phase("between");
  std::string const taken = loss.name() + ".grad";  // the first name that is asked for
  graph.tensor({.shape = {}}, taken);
  std::string const before = to_dot(graph);
  std::size_t const tensors = graph.tensor_count(), ops = graph.op_count();
  std::string const text = message_of<GraphError>([&] { add_gradients(graph, loss); });
  CHECK(to_dot(graph) == before);
  CHECK(graph.tensor_count() == tensors);
  CHECK(graph.op_count() == ops);
  CHECK(graph.phases() == std::vector<std::string>{"forward", "between"});
  CHECK_FALSE(graph.find(taken + ".1"));
  CHECK(graph.unique(taken) == taken + ".1");
  Evaluation(graph, loss, 7).loss();
  return text;
}

/// Two graphs of make(graph, accumulate) on one store: `first` begins the persistent gradients,
/// `later` adds to them.
struct AccumulatedGradients {
  Serial runtime;
  TensorStore<Serial> store{runtime};
  CompiledGraph<Serial> first, later;

  template <class Make>
  explicit AccumulatedGradients(Make const& make)
      : first(compiled(make, false)), later(compiled(make, true)) {}

 private:
  template <class Make> CompiledGraph<Serial> compiled(Make const& make, bool accumulate) {
    LogicalGraph graph(accumulate ? "later" : "first");
    make(graph, accumulate);
    return compile(graph, store);
  }
};

}  // namespace nntile::test
