// SPDX-License-Identifier: BSD-3-Clause
// Graphs within graphs.
#include "nntile/graph/embed.hh"

#include "nntile/graph/gradient.hh"
#include "nntile/graph/graph.hh"
#include "nntile/ops/add.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// y = gelutanh(w x).
struct Layer {
  LogicalGraph graph{"layer"};
  Node w = graph.parameter({.shape = {4, 4}, .dtype = DType::fp32, .axes = "out in"}, "w");
  Node x = graph.input({.shape = {4, 3}}, "x");
  Node y = gelutanh(gemm(w, x)).named("y");
};

std::vector<float> const weights{1, -2, 3, 1, 0, 1, -1, 2, 0, 3, 1, -1, 2, 1, 0, 1};
std::vector<float> const values{1, 2, 3, 4, -1, 0, 2, 1, 1, 1, -2, 1};

/// What the layer gives by itself.
std::vector<float> of_layer(std::vector<float> const& x) {
  Layer layer;
  layer.y.mark_output();
  Serial runtime;
  Graph<Serial> run(layer.graph, runtime);
  run[layer.w] = weights;
  run[layer.x] = x;
  run();
  return run[layer.y].read<float>();
}

std::string refusal(LogicalGraph& graph, LogicalGraph const& other, std::string const& prefix,
                    std::vector<Connection> const& connections) {
  std::size_t const tensors = graph.tensor_count(), ops = graph.op_count();
  try {
    graph.embed(other, prefix, connections);
  } catch (Error const& error) {
    CHECK(graph.tensor_count() == tensors);
    CHECK(graph.op_count() == ops);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a graph embedded twice has twice its tensors, under two prefixes", "[graph][embed]") {
  Layer const layer;
  LogicalGraph graph("two");
  Node const x = graph.input({.shape = {4, 3}}, "x");
  auto const first = graph.embed(layer.graph, "a.", {{"x", x}});
  auto const second = graph.embed(layer.graph, "b.", {{"x", first.at("y")}});
  CHECK(graph.tensor_count() == 1 + 2 * (layer.graph.tensor_count() - 1));
  CHECK(first[layer.w].name() == "a.w");
  CHECK(graph.tensor_of(second.at("w")) == TensorNode{"b.w", layer.graph.tensor_of(layer.w).spec,
                                                      layer.graph.tensor_of(layer.w).attributes});
  CHECK_FALSE(graph.find("a.x"));
  Node const y = second[layer.y].mark_output();
  Serial runtime;
  Graph<Serial> run(graph, runtime);
  run[first.at("w")] = weights;
  run[second.at("w")] = weights;
  run[x] = values;
  run();
  CHECK(run[y].read<float>() == of_layer(of_layer(values)));
}

TEST_CASE("an embedded copy of a whole training step has its bits", "[graph][embed]") {
  TinyGptGraph gpt({.clip = 1});
  LogicalGraph outer("outer");
  auto const inner = outer.embed(gpt.graph, "", {});  // no prefix: the same names, in one store
  CHECK(inner.outputs().size() == 1);
  CHECK(outer.phases() == gpt.graph.phases());
  for (std::size_t i = 0; i < outer.op_count(); ++i)
    CHECK(outer.op_at(i).phase == gpt.graph.op_at(i).phase);
  auto const loss = [&](LogicalGraph const& graph) {
    Serial runtime;
    TinyGptRun<Serial> run(runtime, gpt, {.tile = 64});
    auto step = compile(graph, run.store, {.tile = 64});
    run.bind(1);
    step.execute();
    return std::pair(step.template get_output<float>("loss"), run.parameters());
  };
  CHECK(loss(outer) == loss(gpt.graph));
}

TEST_CASE("gradients flow through an embedded graph, to shared parameters", "[graph][embed]") {
  Layer const layer;
  Serial runtime;
  auto const gradients = [&](bool embedded) {
    LogicalGraph graph("two");
    Node const w = graph.parameter({.shape = {4, 4}}, "w");
    Node const x = graph.input({.shape = {4, 3}}, "x");
    auto const apply = [&](Node const& to, char const* prefix) {
      return embedded ? graph.embed(layer.graph, prefix, {{"w", w}, {"x", to}})[layer.y]
                      : gelutanh(gemm(w, to));
    };
    Node const y = apply(apply(x, "a."), "b.");
    Node const loss = sum_slice(sum_slice(y));
    Node const gradient = add_gradients(graph, loss).find(w).mark_output();
    Graph<Serial> run(graph, runtime);
    run[w] = weights;
    run[x] = values;
    run();
    return run[gradient].read<float>();
  };
  CHECK(gradients(true) == gradients(false));
}

TEST_CASE("views of an embedded graph are views of what was connected", "[graph][embed]") {
  LogicalGraph inner("inner"), graph("outer");
  Node const pair = inner.input({.shape = {4, 2}}, "pair");
  Node const half = gelutanh(inner.slice(pair, 1, 1, "half")).named("y");
  Node const given = graph.input({.shape = {4, 2}}, "given");
  auto const embedded = graph.embed(inner, "i.", {{"pair", given}});
  TensorNode const& view = graph.tensor_of(embedded.at("half"));
  CHECK(view.name == "i.half");
  CHECK(view.base == given.id());
  CHECK(view.view_index == 1);
  CHECK(embedded[half].name() == "i.y");
}

TEST_CASE("an output that a node takes the place of is among the outputs", "[graph][embed]") {
  LogicalGraph inner("inner"), graph;
  Node const x = inner.input({.shape = {4}}, "x");
  Node const sum = inner.state({.shape = {4}}, "sum").mark_output();
  Node const y = gelutanh(add(x, sum, sum)).mark_output();
  Node const kept = graph.state({.shape = {4}}, "kept");
  Embedded const copy = graph.embed(inner, "a.", {{"sum", kept}});
  REQUIRE(copy.outputs().size() == 2);
  CHECK(copy.outputs()[0].name() == "kept");
  CHECK(copy.outputs()[1].name() == copy[y].name());
}

TEST_CASE("later ops stand in the phase from before, and later names without prefix",
          "[graph][embed]") {
  LogicalGraph inner("inner"), graph("outer");
  inner.set_phase("backward");
  gelutanh(inner.input({.shape = {4}}, "x"));
  auto const embedded = graph.embed(inner, "i.", {});
  Node const y = gelutanh(embedded.at("gelutanh"));
  CHECK(y.name() == "gelutanh");
  CHECK(graph.phase_name(graph.op_at(0).phase) == "backward");
  CHECK(graph.phase_name(graph.op_at(1).phase) == "forward");
}

TEST_CASE("phases of an embedded graph keep the order in which they were set", "[graph][embed]") {
  LogicalGraph inner("inner"), graph("outer");
  Node const x = inner.input({.shape = {4}}, "x");
  inner.set_phase("early");
  inner.set_phase("late");
  gelutanh(x);
  inner.set_phase("early");
  gelutanh(x);
  graph.embed(inner, "i.", {});
  CHECK(graph.phases() == inner.phases());
}

TEST_CASE("what does not fit is one clear error, and the graph is as it was", "[graph][embed]") {
  Layer layer;
  LogicalGraph graph("g");
  Node const x = graph.input({.shape = {4, 3}}, "x");
  Node const wide = graph.input({.shape = {4, 5}}, "wide");
  Node const fp64 = graph.input({.shape = {4, 3}, .dtype = DType::fp64}, "fp64");
  graph.tensor({.shape = {4}}, "taken.gemm");
  std::string const here = "graph 'g': embedding graph 'layer' as 'l.': ";
  auto const says = [&](std::vector<Connection> const& connections) {
    return refusal(graph, layer.graph, "l.", connections);
  };
  CHECK(says({{"X", x}}) == here + "it has no tensor 'X'; did you mean 'x'?");
  CHECK(says({{"x", wide}}) == here + "'x' has shape {4, 3} but 'wide' has {4, 5}");
  CHECK(says({{"x", fp64}}) == here + "'x' is fp32 but 'fp64' is fp64");
  CHECK(says({{"x", x}, {"x", x}}) == here + "'x' is connected twice");
  CHECK(says({{"y", x}}) == here +
                                "'y' is a result of its ops; connect inputs, parameters, "
                                "constants or states");
  CHECK(contains(says({{"x", layer.x}}), "the node for 'x' is 'x' of another graph, 'layer'"));
  CHECK(contains(says({{"x", Node{}}}), "the node for 'x' is an empty Node"));
  CHECK(contains(
      refusal(graph, layer.graph, "taken.", {{"x", x}}),
      "graph 'g': a tensor 'taken.gemm' exists already, of shape {4} in fp32; use it by "));
  CHECK(contains(refusal(layer.graph, layer.graph, "l.", {}), "not embedded in itself"));
  LogicalGraph fast("fast", {.mode = Mode::fast});
  CHECK(contains(refusal(graph, fast, "f.", {}), "its numerics are others"));
}

TEST_CASE("an open dimension is what it is in the node that was connected", "[graph][embed]") {
  LogicalGraph inner("inner"), graph("outer");
  Node const a = inner.input({.shape = {4, "seq"}}, "a"), b = inner.input({.shape = {"seq"}}, "b");
  Node const y = add(a, inner.input({.shape = {4, "seq"}}, "c")).named("y");
  Node const x = graph.input({.shape = {4, 6}}, "x"), z = graph.input({.shape = {7}}, "z");
  auto const embedded = graph.embed(inner, "i.", {{"a", x}});
  CHECK(embedded[y].shape() == Shape{4, 6});
  CHECK(embedded[b].shape() == Shape{6});
  CHECK(graph.embed(inner, "j.", {})[y].shape() == Dims{4, "seq"});
  CHECK(refusal(graph, inner, "k.", {{"a", x}, {"b", z}}) ==
        "graph 'outer': embedding graph 'inner' as 'k.': 'b' has shape {6} but 'z' has {7}");
}

TEST_CASE("an op of the embedded graph that would write an outer input is refused",
          "[graph][embed]") {
  LogicalGraph inner("inner"), graph("outer");
  Node const state = inner.state({.shape = {4}}, "state");
  add({}, inner.input({.shape = {4}}, "x"), state, state);
  Node const x = graph.input({.shape = {4}}, "x");
  CHECK(contains(refusal(graph, inner, "i.", {{"state", x}}), "would overwrite 'x'"));
}
