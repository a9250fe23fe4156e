// SPDX-License-Identifier: BSD-3-Clause
// Calls on graphs, plans and stores that ask for what is not there.
#include "nntile/graph/adopted.hh"
#include "nntile/graph/embed.hh"
#include "nntile/graph/gradient.hh"
#include "nntile/graph/graph.hh"
#include "nntile/ops/sample.hh"
#include "nntile/ops/scale.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/graph/gradient_check.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// z = 2 w of shape {4, 6}, a parameter; and v, of which nothing is read.
struct Doubled {
  LogicalGraph graph;
  Node w = graph.parameter({.shape = {4, 6}, .axes = "row column"}, "w");
  Node v = graph.input({.shape = {4}}, "v");
  Node z = scale({.alpha = 2}, w).named("z").mark_output();
  explicit Doubled(char const* name = "doubled") : graph(name) {}
};

}  // namespace

TEST_CASE("a store says which tensor it lacks, and what others are", "[graph][refused]") {
  Doubled of;
  Serial runtime;
  TensorStore<Serial> store(runtime);
  Graph<Serial> const run(of.graph, store);
  CHECK(message_of<GraphError>([&] { (void)store.at("weight"); }) ==
        "store: no tensor 'weight' among its 2; compile the graph that declares it, an input, "
        "parameter, state or output");
  CHECK(contains(message_of<GraphError>([&] { (void)store.at("zz"); }), "'z'"));
  std::vector<float> const few(3);
  CHECK(message_of<ShapeError>([&] { store.write("w", std::span(few)); }) ==
        "write: 3 values for 'w' of shape {4, 6}");
  CHECK(message_of<ShapeError>([&] { (void)store.read_tile<float>("w", 1); }) ==
        "read_tile: tile 1 of 'w', which has 1");
}

TEST_CASE("a tile of an input that is bound as a whole is not written", "[graph][refused]") {
  LogicalGraph graph("bound");
  Node const x = graph.input({.shape = {4, 6}}, "x");
  scale({.alpha = 2}, x).mark_output();
  Serial runtime;
  TensorStore<Serial> store(runtime);
  Graph<Serial> const run(graph, store, {.tile = 2, .adopted = {"x"}});
  std::vector<float> const values(8);
  std::string const text =
      message_of<GraphError>([&] { store.write_tile("x", 0, std::span(values)); });
  CHECK(contains(text, "write_tile: 'x' is "));
  CHECK(contains(text, "; bind the whole by bind_input(\"x\", span)"));
}

TEST_CASE("a graph that has a tensor of a store in other tiles is refused", "[graph][refused]") {
  Doubled of, other("other");
  Serial runtime;
  TensorStore<Serial> store(runtime);
  Graph<Serial> const run(of.graph, store, {.tile = 2});
  auto const plan = std::make_shared<Plan const>(other.graph, PlanOptions{.tile = 4});
  CHECK(message_of<PlanError>([&] { CompiledGraph<Serial>(plan, store); }) ==
        "store: 'w' is cut into a grid of {2, 3} tiles here but {1, 2} in the new graph; plan both "
        "with the same tile options");
}

TEST_CASE("a plan says that a tensor is pruned, and that a mesh has parts", "[graph][refused]") {
  Doubled of;
  Plan const plan(of.graph);
  CHECK(message_of<PlanError>([&] { (void)plan.tensor("v"); }) ==
        "plan 'doubled': no tensor 'v' is used; a tensor that nothing reads is pruned");
  CHECK(contains(message_of<PlanError>([&] { Plan(of.graph, {.mesh = {{"data", 2}}}); }),
                 "plan 'doubled': a mesh has ranks, which plan a part each: "
                 "Plan(graph, options, rank)"));
  CHECK(message_of<PlanError>([&] { Plan(of.graph, {.cuts = {{"row", {2, 0}}}}); }) ==
        "tile: size 0 for axis 'row'; at least 1 is needed");
}

TEST_CASE("an axis that an op needs in one tile is not cut", "[graph][refused]") {
  LogicalGraph graph("whole");
  Node const logits =
      graph.input({.shape = {8, 4, 2}, .dtype = DType::fp32, .axes = "vocab seq batch"}, "logits");
  Node const step = graph.input({.shape = {}, .dtype = DType::int64}, "step");
  ops::sample(logits, step).mark_output();
  CHECK(contains(message_of<PlanError>([&] { Plan(graph, {.cuts = {{"vocab", {4}}}}); }),
                 "tile: axis 'vocab' must stay whole (8), an op needs it in one tile"));
}

TEST_CASE("an axis that a slice cuts into single indices has no other cuts", "[graph][refused]") {
  Doubled of;
  scale({.alpha = 2}, of.graph.slice(of.w, 0, 1)).mark_output();
  CHECK(message_of<PlanError>([&] { Plan(of.graph, {.cuts = {{"row", {2}}}}); }) ==
        "tile: axis 'row' is cut into single indices, as a slice needs it; leave its cut out, or "
        "give it the size 1");
  Plan const plan(of.graph, {.tile = 0, .cuts = {{"row", {1}}}});
  CHECK(plan.tensors()[of.w.id()].tiling.grid() == Shape{4, 1});
}

TEST_CASE("gradients have none of a view of what has one", "[graph][refused]") {
  LogicalGraph graph("views");
  Node const w = graph.parameter({.shape = {4, 6}}, "w");
  Node const row = graph.slice(w, 0, 1, "row");
  Node const loss = sum(sum_slice({.axis = 0}, w));
  Gradients const gradients = add_gradients(graph, loss);
  CHECK(gradients.find(w));
  CHECK(message_of<GraphError>([&] { (void)gradients.find(row); }) ==
        "gradients: none was made of the view 'row'; ask for that of 'w'");
}

TEST_CASE("an embedded graph has the tensors that it had alone", "[graph][refused]") {
  Doubled of;
  LogicalGraph graph("around");
  Embedded const inside = graph.embed(of.graph, "in.", {});
  Node const own = graph.input({.shape = {4}}, "own");
  CHECK(inside[of.z].name() == "in.z");
  CHECK(message_of<GraphError>([&] { (void)inside[own]; }) ==
        "embed: 'own' is no tensor of the graph that was embedded");
  CHECK(message_of<GraphError>([&] { (void)inside[Node()]; }) ==
        "embed: an empty Node is no tensor of the graph that was embedded");
}

TEST_CASE("sums of groups are no tensors of a graph", "[graph][refused]") {
  LogicalGraph graph("sums", {.groups = {{"k", 4}}});
  Node const x = graph.input({.shape = {64}, .axes = "k"}, "x");
  sum_slice({.axis = 0}, x).named("y").mark_output();
  Serial runtime;
  TensorStore<Serial> store(runtime);
  auto const compiled = compile(graph, store);
  auto const got = [&](char const* name) {
    return message_of<GraphError>([&] { (void)compiled.get_output<float>(name); });
  };
  CHECK(got("y.partial1") ==
        "get_output: graph 'sums' has 'y.partial1' for sums of groups of 'y', which no run keeps; "
        "use that one");
  CHECK(got("y.partial") == "get_output: graph 'sums' has no tensor 'y.partial'");
}
