// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/graph/draw.hh"

#include "nntile/graph/apply.hh"
#include "nntile/graph/dump_graph.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/ops/randn.hh"
#include "nntile/ops/scale.hh"
#include "nntile/ops/sum_slice.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

TEST_CASE("a drawing names every tensor and op and quotes what needs it", "[graph][draw]") {
  LogicalGraph graph("a \"graph\"");
  gelutanh(graph.input({.shape = {8}}, "x"));
  auto const dot = to_dot(graph);
  CHECK(dot.find("digraph \"a \\\"graph\\\"\" {") == 0);
  CHECK(dot.find("\"x {8} fp32\"") != std::string::npos);
  CHECK(dot.find("t0 -> o0") != std::string::npos);
  CHECK(dot.find("o0 -> t1") != std::string::npos);
}

TEST_CASE("a drawing has the attributes that a call gives, and all of them by the pointer",
          "[graph][draw]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {8, 4}}, "x"), w = graph.parameter({.shape = {8, 3}}, "w");
  graph.set_phase("forward");
  Node const y = gemm({.trans_a = true, .alpha = 0.5}, w, x);
  scale(y);
  auto const dot = to_dot(graph);
  CHECK(contains(dot,
                 "label=\"gemm\\ntrans_a=true, alpha=0.5\", tooltip=\"forward: trans_a=true, "
                 "trans_b=false, "));
  CHECK(contains(dot, "label=\"scale\", tooltip=\"forward: alpha=1, "));
}

TEST_CASE("a drawing leads to an op from what it reads alone", "[graph][draw]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {4, 4}}, "x"), y = gemm(x, x);
  CHECK_FALSE(contains(to_dot(graph), "t1 -> o0"));
  gemm({.beta = 1}, x, x, y);
  CHECK(contains(to_dot(graph), "t1 -> o1"));
}

TEST_CASE("a graph is dumped with views, phases and attributes", "[graph][draw]") {
  LogicalGraph graph("small");
  Node const x = graph.input({.shape = {8, "batch"}}, "x"),
             w = graph.parameter({.shape = {8, 3, 2}}, "w");
  Node const s = graph.state({.shape = {3}}, "s");
  graph.set_phase("forward");
  Node const y = gemm({.trans_a = true}, graph.slice(w, 2, 1, "part"), x).named("y");
  sum_slice({.axis = 1, .beta = 1}, y, s);
  y.mark_output();
  CHECK(dump(graph) ==
        "graph 'small': 5 tensors, 2 ops\n"
        "tensor x fp32 {8, batch}, external\n"
        "tensor w fp32 {8, 3, 2}, persistent, requires grad\n"
        "tensor s fp32 {3}, persistent\n"
        "tensor part fp32 {8, 3}, [1] of w along 2\n"
        "tensor y fp32 {3, batch}, output\n"
        "op 0 gemm(trans_a=true) read a part read b x write c y in forward\n"
        "op 1 sum_slice(axis=1, beta=1) read x y update y s in forward\n");
  LogicalGraph init("init");
  randn({.seed = ~std::uint64_t{0}}, init.tensor({.shape = {4}}, "noise"));
  CHECK(contains(dump(init), "op 0 randn(seed=18446744073709551615) write "));
}
