// SPDX-License-Identifier: BSD-3-Clause
// Axes that options or a target cut into tiles, and tiles that no kernel takes.
#include <cstddef>
#include <vector>

#include "nntile/core/shape.hh"
#include "nntile/graph/apply.hh"
#include "nntile/graph/compile.hh"
#include "nntile/ops/add_slice.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/ops/sample.hh"
#include "nntile/ops/softmax.hh"
#include "nntile/ops/sum_slice.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

TEST_CASE("an axis is cut by any name that a dimension has in it", "[graph][plan]") {
  LogicalGraph graph("g");
  Node const x = graph.input({.shape = {8, 6}, .axes = "embed batch"}, "x");
  Node const w = graph.parameter({.shape = {4, 8}, .axes = "out in"}, "w");
  gemm(w, x).mark_output();
  for (char const* const name : {"embed", "in"}) {
    Plan const plan(graph, {.tile = 0, .cuts = {{name, {2}}}});
    CHECK(plan.tensors()[x.id()].tiling.grid() == Shape{4, 1});
    CHECK(plan.tensors()[w.id()].tiling.grid() == Shape{1, 4});
  }
  CHECK(Plan(graph, {.cuts = {{"in", {2}}, {"embed", {2}}}}).tasks().size() == 4);
  CHECK(message_of<PlanError>([&] { Plan(graph, {.cuts = {{"in", {2}}, {"embed", {4}}}}); }) ==
        "plan 'g': axes 'embed' and 'in' are one in this graph, but PlanOptions::cuts has other "
        "sizes for each; list one of them");
}
