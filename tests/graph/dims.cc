// SPDX-License-Identifier: BSD-3-Clause
// Graphs with open dimensions: names that inference carries and planning binds.
#include "nntile/core/dims.hh"

#include "nntile/graph/apply.hh"
#include "nntile/graph/draw.hh"
#include "nntile/graph/dump.hh"
#include "nntile/graph/gradient.hh"
#include "nntile/graph/graph.hh"
#include "nntile/ops/add.hh"
#include "nntile/ops/add_fiber.hh"
#include "nntile/ops/attention.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/ops/layer_norm.hh"
#include "nntile/ops/sample.hh"
#include "nntile/ops/scale.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// y[out, seq, batch] = w x + bias, a loss and the gradients, declared with these two dimensions.
struct Layer {
  LogicalGraph graph{"layer"};
  Node w, bias, x, y, loss, dw, dbias;

  Layer(Dim const& seq, Dim const& batch) {
    w = graph.parameter({.shape = {3, 4}, .axes = "out in"}, "w");
    bias = graph.parameter({.shape = {3}, .axes = "out"}, "bias");
    x = graph.input({.shape = {4, seq, batch}, .axes = "in seq batch"}, "x");
    y = add_fiber(gemm(w, x), bias).named("y").mark_output();
    Node const ones = graph.input({.shape = {3, seq, batch}}, "ones");
    loss = gemm({.trans_a = true, .ndim = 3}, y, ones, graph.tensor({.shape = {}}, "loss"));
    loss.mark_output();
    Gradients const gradients = add_gradients(graph, loss, {.persistent = true});
    dw = gradients.find(w);
    dbias = gradients.find(bias);
  }
};

std::string plan_error(LogicalGraph const& graph, std::vector<BoundDim> const& dims) {
  return message_of<PlanError>([&] { (void)Plan(graph, {.tile = 2, .dims = dims}); });
}

template <class Call> std::string graph_error(Call&& call) {
  return message_of<GraphError>(std::forward<Call>(call));
}

}  // namespace

TEST_CASE("a dimension is a number or a name", "[graph][dims]") {
  Dims const dims{512, "seq", std::string("batch")};
  CHECK(to_string(dims) == "{512, seq, batch}");
  CHECK(dims.open());
  CHECK((dims[1].open() && dims[1] == "seq" && dims[1].name() == "seq"));
  CHECK_FALSE(dims[1] == dims[2]);
  CHECK(dims[0] == 512);
  CHECK(Index{dims[0]} == 512);
  CHECK(Dims(Shape{2, 3}) == Shape{2, 3});
  CHECK_FALSE(dims == Dims{512, "seq", "time"});
  CHECK(Shape(Dims{2, 3}) == Shape{2, 3});
}

TEST_CASE("an open dimension has no number, and says so", "[graph][dims]") {
  std::string const text = graph_error([] { (void)Shape(Dims{2, "seq"}); });
  CHECK(text ==
        "dimension 'seq' is open, and has no number before planning binds it: "
        "PlanOptions::dims = {{\"seq\", 512}}");
  CHECK_THROWS_AS(element_count(Dims{2, "seq"}), GraphError);
}

TEST_CASE("a name is an identifier", "[graph][dims]") {
  for (char const* const name :
       {"", "1a", "a b", "a-b", "[", "`", "{", "@", "/", ":", "a_name_of_24_characters_"}) {
    INFO(name);
    CHECK(contains(graph_error([&] { (void)Dim(name); }),
                   concat("dimension: '", name, "' is no name")));
  }
  for (char const* const name : {"_", "a", "Z9", "seq_2", "a_name_of_23_characters"})
    CHECK(to_string(Dim(name)) == name);
  static_assert(Dim("seq").open() && Dim("seq") == Dim("seq") && !(Dim("seq") == Dim("seq2")));
  static_assert(!Dim(0).open() && !(Dim("seq") == 0));
  CHECK_THROWS_AS(Dim(INT64_MIN), ShapeError);
  CHECK_THROWS_AS(Dim(-1), ShapeError);
}

TEST_CASE("inference carries names through products, sums and gradients", "[graph][dims]") {
  Layer const layer("seq", "batch");
  CHECK(to_string(layer.y.shape()) == "{3, seq, batch}");
  CHECK(layer.dw.shape() == Shape{3, 4});
  CHECK(layer.dbias.shape() == Shape{3});
}

TEST_CASE("equal names alone are equal extents", "[graph][dims]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {4, "seq"}}, "x");
  Node const y = graph.input({.shape = {4, 8}}, "y"), z = graph.input({.shape = {4, "time"}}, "z");
  CHECK(message_of<ShapeError>([&] { add(x, y); }) ==
        "add: x[i1]=seq ('x') but y[i1]=8 ('y'); an open dimension equals that of the same name "
        "alone");
  CHECK(contains(message_of<ShapeError>([&] { add(x, z); }), "x[i1]=seq ('x') but y[i1]=time"));
  CHECK(add(x, x).shape() == Dims{4, "seq"});
}

TEST_CASE("what is kept between runs has numbers alone", "[graph][dims]") {
  LogicalGraph graph("g");
  auto const text = [&](TensorAttributes attributes) {
    return graph_error([&] { (void)graph.tensor({.shape = {2, "seq"}}, "t", attributes); });
  };
  CHECK(text({.requires_grad = true, .persistent = true}) ==
        "graph 'g': a parameter 't' has shape {2, seq}, but what is kept between runs has numbers "
        "alone; only inputs and results may be open");
  CHECK(contains(text({.persistent = true}), "a state 't'"));
  CHECK(contains(text({.persistent = true, .external = true}), "a constant 't'"));
  CHECK(graph.find("t").operator bool() == false);
  CHECK(
      contains(graph_error([&] { (void)graph.input({.shape = {"seq"}, .file_shape = {3}}, "u"); }),
               "an open one has no file shape"));
}

TEST_CASE("a view is not of an open dimension", "[graph][dims]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {2, "seq"}}, "x");
  CHECK(graph_error([&] { (void)graph.slice(x, 1, 0); }) ==
        "slice: dimension 1 of 'x' of shape {2, seq} is open, so that index 0 may lie outside; "
        "declare 'seq' as a number, or slice another dimension");
  CHECK(graph.slice(x, 0, 1).shape() == Dims{"seq"});
}

TEST_CASE("an open loss is refused with its shape", "[graph][dims]") {
  LogicalGraph graph;
  Node const p = graph.parameter({.shape = {2}}, "p");
  Node const x = graph.input({.shape = {2, "seq"}}, "x");
  CHECK(contains(message_of<ShapeError>([&] { add_gradients(graph, add_fiber(x, p).named("y")); }),
                 "'y' has shape {2, seq}; a loss has one element"));
}

TEST_CASE("flops are counted at the numbers that are given", "[graph][dims]") {
  Layer const open("seq", "batch"), closed(5, 2);
  CHECK(open.graph.estimate_flops({{"seq", 5}, {"batch", 2}}) == closed.graph.estimate_flops());
  CHECK(graph_error([&] { (void)open.graph.estimate_flops(); }) ==
        "estimate_flops: dimension 'seq' of graph 'layer' is open; give its number: "
        "estimate_flops({{\"seq\", 512}})");
  CHECK_THROWS_AS(open.graph.estimate_flops({{"seq", 5}}), PlanError);
}

TEST_CASE("a bound plan is that of the graph in numbers", "[graph][dims]") {
  Layer const open("seq", "batch");
  for (auto const& [seq, batch] : {std::pair<Index, Index>{5, 2}, {2, 3}, {1, 1}, {0, 2}}) {
    Layer const closed(seq, batch);
    for (Index const tile : {Index{0}, Index{2}, PlanOptions::automatic}) {
      INFO(seq << " " << batch << " " << tile);
      Plan const bound(open.graph, {.tile = tile, .dims = {{"batch", batch}, {"seq", seq}}});
      Plan const numbers(closed.graph, {.tile = tile});
      CHECK(dump(bound) == dump(numbers));
      PlanData data = bound.data();
      for (std::size_t t = 0; t < data.tensors.size(); ++t)
        data.tensors[t].open = numbers.data().tensors[t].open;
      CHECK(data == numbers.data());
    }
  }
}

TEST_CASE("each open dimension is bound once, by its name", "[graph][dims]") {
  Layer const layer("seq", "batch");
  CHECK(plan_error(layer.graph, {}) ==
        "plan 'layer': dimension 'seq' is open; bind it: "
        "PlanOptions::dims = {{\"seq\", ...}, {\"batch\", ...}}");
  CHECK(plan_error(layer.graph, {{"seq", 5}}) ==
        "plan 'layer': dimension 'batch' is open; bind it: PlanOptions::dims = {{\"seq\", 5}, "
        "{\"batch\", ...}}");
  CHECK(plan_error(layer.graph, {{"seq", 5}, {"batch", 2}, {"seq", 6}}) ==
        "plan 'layer': dimension 'seq' is bound twice, to 5 and to 6");
  CHECK(plan_error(layer.graph, {{"seq", 5}, {"bach", 2}}) ==
        "plan 'layer': no dimension 'bach' to bind to 2; did you mean 'batch'?");
  CHECK(contains(plan_error(layer.graph, {{"", 5}}), "no dimension '' to bind to 5"));
  CHECK(plan_error(layer.graph, {{"seq", -5}, {"batch", 2}}) ==
        "plan 'layer': dimension 'seq' is bound to -5; 0 or more elements are needed");
  CHECK(contains(plan_error(layer.graph, {{"seq", Index{1} << 61}, {"batch", 2}}),
                 "'x' of shape {4, seq, batch} is bound to {4, 2305843009213693952, 2}: shape: "));
  Layer const closed(5, 2);
  CHECK(plan_error(closed.graph, {{"seq", 5}}) ==
        "plan 'layer': no dimension 'seq' to bind to 5; all of the graph's are numbers");
}

TEST_CASE("what an op asks of extents is checked when they are bound", "[graph][dims]") {
  LogicalGraph graph("g");
  Node const q = graph.input({.shape = {4, 1, "new"}}, "q");
  Node const k = graph.input({.shape = {4, 1, "past"}}, "k");
  attention({.causal = true}, q, k, k).mark_output();
  CHECK(contains(plan_error(graph, {{"new", 3}, {"past", 2}}),
                 "plan 'g': with new=3, past=2: attention: causal with q[i]=3 queries but k[j]=2"));
  CHECK(plan_error(graph, {{"new", 2}, {"past", 3}}) == "(nothing was thrown)");
}

TEST_CASE("a picture and a file of a graph have its names", "[graph][dims]") {
  Layer const layer("seq", "batch");
  CHECK(contains(to_dot(layer.graph), "x {4, seq, batch} fp32"));
}
