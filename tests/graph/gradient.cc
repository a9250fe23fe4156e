// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/graph/gradient.hh"

#include <functional>
#include <vector>

#include "nntile/graph/apply.hh"
#include "nntile/ops/add_fiber.hh"
#include "nntile/ops/attention.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/ops/layer_norm.hh"
#include "nntile/ops/sum_slice.hh"
#include "tests/graph/gradient_check.hh"
#include "tests/support/catch.hh"
#include "tests/support/differences.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// Weighted sum of all elements, so that each has a gradient of its own.
Node weighed(Node const& y) {
  LogicalGraph& graph = y.graph();
  Node const weights = graph.constant({.shape = y.shape(), .dtype = DType::fp64}, "weights");
  return gemm({.trans_a = true, .ndim = static_cast<int>(y.shape().size())}, weights, y);
}

/// Builds a graph of fp64 parameters, differentiates it, and compares every derivative with a
/// difference.
void check_gradients(std::vector<Shape> const& shapes,
                     std::function<Node(LogicalGraph&, std::vector<Node> const&)> build,
                     PlanOptions const& options = {.tile = 0}) {
  LogicalGraph graph;
  std::vector<Node> inputs;
  for (std::size_t i = 0; i < shapes.size(); ++i)
    inputs.push_back(graph.parameter({.shape = shapes[i], .dtype = DType::fp64}, concat("p", i)));
  Node const loss = weighed(build(graph, inputs));
  CHECK(deviation(graph, loss, add_gradients(graph, loss), 1, options).error < 1e-7);
}

}  // namespace

TEST_CASE("products are differentiated however they are transposed", "[graph][gradient]") {
  bool const trans_a = GENERATE(false, true);
  bool const trans_b = GENERATE(false, true);
  check_gradients({trans_a ? Shape{4, 3} : Shape{3, 4}, trans_b ? Shape{2, 4} : Shape{4, 2}},
                  [&](LogicalGraph&, std::vector<Node> const& p) {
                    return gemm({.trans_a = trans_a, .trans_b = trans_b, .alpha = 0.5}, p[0], p[1]);
                  });
}

TEST_CASE("products over groups of dimensions, with a bias, are differentiated",
          "[graph][gradient]") {
  check_gradients({{2, 3, 4}, {4, 5, 2}, {2, 3}}, [](LogicalGraph&, std::vector<Node> const& p) {
    return gemm({.bias = true}, p[0], p[1], p[2]);  // [2, 3, 5, 2]
  });
}

TEST_CASE("batched products are differentiated", "[graph][gradient]") {
  check_gradients({{2, 3, 2}, {3, 4, 2}}, [](LogicalGraph&, std::vector<Node> const& p) {
    return gemm({.batch_ndim = 1}, p[0], p[1]);
  });
}

TEST_CASE("a tensor that is used twice gets the sum of both derivatives", "[graph][gradient]") {
  check_gradients({{3, 3}}, [](LogicalGraph&, std::vector<Node> const& p) {
    return add(gelutanh(p[0]), gemm(p[0], p[0]));
  });
}

TEST_CASE("a residual sum whose trunk is used in between is differentiated", "[graph][gradient]") {
  // The trunk's gradient grows while the branch's, which begins as the same tensor, is still to be
  // read.
  check_gradients({{3, 4}, {3, 3}, {3}, {3}}, [](LogicalGraph&, std::vector<Node> const& p) {
    Node const x = gelutanh(p[0]);
    Node const branch = gemm(p[1], layer_norm(x, p[2], p[3]));
    Node const between = gelutanh(x);
    return add(add(x, branch), between);
  });
}

TEST_CASE("a sum with factors is differentiated", "[graph][gradient]") {
  check_gradients({{3}, {3}}, [](LogicalGraph&, std::vector<Node> const& p) {
    return add({.alpha = 2, .beta = -3}, p[0], add(p[0], p[1]));
  });
}

TEST_CASE("slices of one tensor give their gradients to its parts", "[graph][gradient]") {
  check_gradients({{4, 3, 2}}, [](LogicalGraph& graph, std::vector<Node> const& p) {
    return add(gelutanh(graph.slice(p[0], 1, 0)),
               graph.slice(p[0], 1, 2));  // nothing reads index 1
  });
}

TEST_CASE("a tensor and a slice of it give their gradients to the same tensor",
          "[graph][gradient]") {
  check_gradients({{4, 2}}, [](LogicalGraph& graph, std::vector<Node> const& p) {
    Node const whole = sum_slice({.axis = 1}, gelutanh(p[0]));
    return add(whole, graph.slice(p[0], 1, 1));
  });
}

TEST_CASE("tiled gradients are the gradients", "[graph][gradient]") {
  check_gradients({{5, 7}, {7, 6}, {5}, {5}},
                  [](LogicalGraph&, std::vector<Node> const& p) {
                    return layer_norm(gemm(p[0], p[1]), p[2], p[3]);
                  },
                  {.tile = 3});
}

TEST_CASE("a loss of more than one element is refused", "[graph][gradient]") {
  LogicalGraph graph;
  Node const x = graph.parameter({.shape = {8}}, "x");
  CHECK(contains(message_of<ShapeError>([&] { add_gradients(graph, gelutanh(x)); }),
                 "a loss has one element"));
}

TEST_CASE("a loss that depends on no parameter is refused", "[graph][gradient]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {8}}, "x");
  CHECK_THROWS_AS(add_gradients(graph, sum_slice(x)), GraphError);
}

TEST_CASE("a fused activation is not differentiated, and the error says what to do",
          "[graph][gradient]") {
  LogicalGraph graph;
  Node const w = graph.parameter({.shape = {1, 8}}, "w");
  Node const x = graph.input({.shape = {8, 1}}, "x");
  Node const y = gemm({.activation = Activation::gelu_tanh}, w, x);
  CHECK(contains(message_of<GraphError>([&] { add_gradients(graph, y); }), "use a separate op"));
}

TEST_CASE("gradients are named after their tensors, whatever prefix is open", "[graph][gradient]") {
  LogicalGraph graph;
  Node const w = graph.parameter({.shape = {1, 4}}, "w");
  auto const prefix = graph.prefix("step.");
  Node const v = graph.parameter({.shape = {4, 1}}, "v");
  Gradients const gradients = add_gradients(graph, gemm(w, v));
  CHECK(gradients.find(w).name() == "w.grad");
  CHECK(gradients.find(v).name() == "step.v.grad");
}

TEST_CASE("persistent gradients of two batches add up", "[graph][gradient]") {
  auto const build = [](LogicalGraph& graph, bool accumulate) {
    Node const w = graph.parameter({.shape = {1, 4}, .dtype = DType::fp64}, "w");
    Node const x = graph.input({.shape = {4, 1}, .dtype = DType::fp64}, "x");
    add_gradients(graph, gemm(w, x), {.persistent = true, .accumulate = accumulate});
  };
  AccumulatedGradients run(build);
  run.store.write<double>("x", std::vector<double>{1, 2, 3, 4});
  run.first.execute();
  run.store.write<double>("x", std::vector<double>{10, 20, 30, 40});
  run.later.execute();
  CHECK(run.store.read<double>("w.grad") == std::vector<double>{11, 22, 33, 44});
}

TEST_CASE("kept gradients are asked for once", "[graph][gradient]") {
  LogicalGraph graph("g");
  Node const loss = graph.parameter({.shape = {1}}, "w");
  add_gradients(graph, loss, {.persistent = true});
  CHECK(message_of<GraphError>([&] { add_gradients(graph, loss, {.persistent = true}); }) ==
        "add_gradients: graph 'g' has 'w.grad' already, the name of the gradient of 'w' that is "
        "kept; differentiate the sum of the losses at once, or without .persistent");
  CHECK(add_gradients(graph, loss).find(loss).name() == "w.grad.1");
}

TEST_CASE("gradients that are not kept are not accumulated, and the error says what to set",
          "[graph][gradient]") {
  LogicalGraph graph;
  Node const w = graph.parameter({.shape = {1, 4}}, "w");
  Node const loss = gemm(w, graph.input({.shape = {4, 1}}, "x"));
  CHECK(
      contains(message_of<GraphError>([&] { add_gradients(graph, loss, {.accumulate = true}); }),
               "accumulate adds to the gradients of earlier runs, of which 'gemm' keeps none; set "
               "persistent as well"));
  CHECK_FALSE(graph.find("w.grad"));
}

TEST_CASE("later stages of a gradient's sums add element by element", "[graph][gradient]") {
  LogicalGraph graph;
  Node const f = graph.parameter({.shape = {5}}, "f"), c = graph.parameter({.shape = {}}, "c");
  Node const x = graph.input({.shape = {2, 3, 4, 5}}, "x"), k = graph.input({.shape = {2}}, "k");
  Node sum = gemm({.bias = true}, k, add_fiber({.axis = 3}, x, f), c);  // [3, 4, 5]
  while (!sum.shape().empty()) sum = sum_slice({}, sum);
  std::size_t const forward = graph.op_count();
  add_gradients(graph, sum);
  std::vector<bool> ascending;  // of sums along dimension 0
  for (std::size_t i = forward; i < graph.op_count(); ++i)
    if (OpNode const& op = graph.op_at(i); op.info == &op_info<ops::SumSlice>) {
      auto const& attrs = *reinterpret_cast<ops::SumSliceAttrs const*>(op.attrs.data());
      CHECK(attrs.axis == 0);
      ascending.push_back(attrs.ascending);
    }
  CHECK(ascending == std::vector<bool>{false, true, true, false, true, true});
}
