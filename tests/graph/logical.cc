// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/graph/logical.hh"

#include "nntile/graph/draw.hh"
#include "nntile/ops/add.hh"
#include "nntile/ops/cross_entropy.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/ops/layer_norm.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

TEST_CASE("a product's result has the shape that its axes say", "[graph][logical]") {
  LogicalGraph graph;
  Node const w = graph.parameter({.shape = {64, 12, 3, 768}}, "w");
  Node const x = graph.input({.shape = {768, 32, 4}}, "x");
  CHECK(gemm(w, x).shape() == Shape{64, 12, 3, 32, 4});
}

TEST_CASE("contracted groups of several dimensions are matched in order", "[graph][logical]") {
  LogicalGraph graph;
  Node const w = graph.parameter({.shape = {768, 64, 12}}, "w");
  Node const x = graph.input({.shape = {64, 12, 32, 4}}, "x");
  CHECK(gemm({.ndim = 2}, w, x).shape() == Shape{768, 32, 4});
}

TEST_CASE("a shape error names op, axis, values and both tensors", "[graph][logical]") {
  LogicalGraph graph;
  Node const w = graph.parameter({.shape = {16, 512}}, "h1");
  Node const x = graph.input({.shape = {768, 4}}, "w2");
  CHECK(message_of<ShapeError>([&] { gemm(w, x); }) == "gemm: a[k]=512 ('h1') but b[k]=768 ('w2')");
}

TEST_CASE("a rank that does not fit is told with the axes that are wanted", "[graph][logical]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {8, 4}}, "x");
  Node const gamma = graph.parameter({.shape = {8, 4}}, "gamma");
  Node const beta = graph.parameter({.shape = {8}}, "beta");
  auto const text = message_of<ShapeError>([&] { layer_norm(x, gamma, beta); });
  CHECK(text.find("'gamma'") != std::string::npos);
  CHECK(text.find("{8, 4}") != std::string::npos);
}

TEST_CASE("mixed dtypes are refused and a cast is proposed", "[graph][logical]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {8}, .dtype = DType::fp32}, "x");
  Node const y = graph.input({.shape = {8}, .dtype = DType::bf16}, "y");
  CHECK(message_of<TypeError>([&] { add(x, y); }) ==
        "add: x ('x') is fp32 but y ('y') is bf16; insert a cast");
}

TEST_CASE("labels that are no integers are refused", "[graph][logical]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {8, 4}}, "x");
  Node const y = graph.input({.shape = {4}}, "y");
  CHECK_THROWS_AS(cross_entropy(x, y), TypeError);
}

TEST_CASE("a dtype without a kernel is refused with those that have one", "[graph][logical]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {8}, .dtype = DType::int32}, "x");
  auto const text = message_of<TypeError>([&] { gelutanh(x); });
  CHECK(text.find("no kernel for int32 ('x')") != std::string::npos);
  CHECK(text.find("fp32") != std::string::npos);
}

TEST_CASE("a name is taken once", "[graph][logical]") {
  LogicalGraph graph("g");
  graph.input({.shape = {8}}, "x");
  CHECK(message_of<GraphError>([&] { graph.input({.shape = {4}}, "x"); }) ==
        "graph 'g': a tensor 'x' exists already");
}

TEST_CASE("results are named after their op, and counted", "[graph][logical]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {8}}, "x");
  CHECK(gelutanh(x).name() == "gelutanh");
  CHECK(gelutanh(x).name() == "gelutanh.1");
}

TEST_CASE("a prefix goes before every name while its guard lives", "[graph][logical]") {
  LogicalGraph graph;
  {
    auto const outer = graph.prefix("h.0.");
    auto const inner = graph.prefix("attn.");
    CHECK(graph.input({.shape = {8}}, "x").name() == "h.0.attn.x");
  }
  CHECK(graph.input({.shape = {8}}, "x").name() == "x");
}

TEST_CASE("a tensor of another graph is refused", "[graph][logical]") {
  LogicalGraph one("one"), two("two");
  Node const x = one.input({.shape = {8}}, "x");
  Node const y = two.input({.shape = {8}}, "y");
  CHECK_THROWS_AS(add(x, y), GraphError);
}

TEST_CASE("a slice drops its dimension and stays inside it", "[graph][logical]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {8, 3, 5}}, "x");
  CHECK(graph.slice(x, 1, 2).shape() == Shape{8, 5});
  CHECK_THROWS_AS(graph.slice(x, 1, 3), ShapeError);
  CHECK_THROWS_AS(graph.slice(graph.slice(x, 1, 0), 0, 0), GraphError);
}

TEST_CASE("more than one canonical group cannot be planned yet", "[graph][logical]") {
  CHECK_THROWS_AS(LogicalGraph("g", {.batch_groups = 2}), PlanError);
}

TEST_CASE("flops are twice the products' elements", "[graph][logical]") {
  LogicalGraph graph;
  gemm(graph.parameter({.shape = {16, 32}}, "w"), graph.input({.shape = {32, 8}}, "x"));
  CHECK(graph.estimate_flops() == 2 * 16 * 32 * 8);
}

TEST_CASE("a drawing names every tensor and op and quotes what needs it", "[graph][logical]") {
  LogicalGraph graph("a \"graph\"");
  gelutanh(graph.input({.shape = {8}}, "x"));
  auto const dot = to_dot(graph);
  CHECK(dot.find("digraph \"a \\\"graph\\\"\" {") == 0);
  CHECK(dot.find("\"x {8} fp32\"") != std::string::npos);
  CHECK(dot.find("t0 -> o0") != std::string::npos);
  CHECK(dot.find("o0 -> t1") != std::string::npos);
}
