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

TEST_CASE("axes that lie inside one another in circles are cut soon", "[graph][plan]") {
  constexpr int count = 14;  // 6 * 10^9 ways from each
  LogicalGraph graph;
  std::vector<Node> axes;
  for (int i = 0; i < count; ++i) axes.push_back(graph.input({.shape = {2}}, concat("a", i)));
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t inner = 0; inner < count; ++inner) {
      if (inner == i) continue;
      Node const side = graph.input({.shape = {2, 2}}, concat("s", i, ".", inner));
      gemm(axes[inner], side).mark_output();
      gemm(side, axes[i]).mark_output();
      gemm({.ndim = 2}, side, side).mark_output();
    }
  CHECK(Plan(graph, {.tile = 4}).tasks().size() > 3 * count * (count - 1));
}

TEST_CASE("axes are cut however deep they lie inside one another", "[graph][plan]") {
  constexpr int count = 20'000;
  LogicalGraph graph;
  std::vector<Node> axes, sides;  // the outermost first
  for (int i = 0; i < count; ++i) axes.push_back(graph.input({.shape = {2}}, concat("a", i)));
  for (std::size_t i = 0; i + 1 < count; ++i) {
    Node const side = graph.input({.shape = {2, 2}}, concat("s", i));
    gemm(axes[i + 1], side).mark_output();
    gemm(side, axes[i]).mark_output();
    gemm({.ndim = 2}, side, side).mark_output();
  }
  Plan const plan(graph, {.tile = 4});
  CHECK(plan.tensors()[axes.front().id()].tiling.tile_count() == 2);
  CHECK(plan.tensors()[axes.back().id()].tiling.tile_count() == 1);
}

TEST_CASE("tiles of axes inside one another may have more elements than a number",
          "[graph][plan]") {
  Index const side = Index{1} << 22;  // three of them are 2^66
  LogicalGraph graph;
  auto const input = [&](Index outer, char const* axes) {
    Node const x = graph.input({.shape = {side, outer}, .axes = axes}, axes);
    gemm({.ndim = 2}, x, x).mark_output();  // the first inside the second
    return x;
  };
  Node const s = input(side, "a b"), t = input(side, "b c"), u = input(2, "c d");
  add_slice({.axis = 1}, t, sum_slice({.axis = 0}, s)).mark_output();
  add_slice({.axis = 1}, u, sum_slice({.axis = 0}, t)).mark_output();
  Plan const plan(graph, {.tile = side, .cuts = {{"a", {side}}, {"b", {side}}, {"c", {side}}}});
  CHECK(plan.tensors()[u.id()].tiling.grid() == Shape{1, 2});
}

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

TEST_CASE("a tile of more elements than its kernel counts is refused", "[graph][plan]") {
  Index const many = Index{1} << 32;
  LogicalGraph graph("g");
  Node const x = graph.input({.shape = {1, many}}, "x");
  softmax(x).named("y").mark_output();
  CHECK(message_of<PlanError>([&] { Plan(graph, {.tile = 0}); }) ==
        "plan 'g': softmax of 'y': its kernel counts up to 4294967295 elements of a tile along "
        "'i', and there are 4294967296; use smaller tiles");
  CHECK(Plan(graph, {.tile = many / 2}).tasks().size() == 2);
  LogicalGraph drawn("d");
  Node const step = drawn.input({.shape = {}, .dtype = DType::int64}, "step");
  ops::sample(drawn.input({.shape = {1, 2, many / 2}}, "x"), step).named("y").mark_output();
  CHECK(message_of<PlanError>([&] { Plan(drawn, {.tile = 0}); }) ==
        "plan 'd': sample of 'y': its kernel counts up to 2147483647 columns of a tile along "
        "dimension 1, and there are 2147483648; use smaller tiles");
  LogicalGraph sums("s", {.groups = {{"k", 2}}});  // the second group is `many` elements behind
  sum_slice({.axis = 0}, sums.input({.shape = {2 * many}, .axes = "k"}, "x"))
      .named("y")
      .mark_output();
  CHECK(contains(message_of<PlanError>([&] { Plan(sums, {.tile = 0}); }),
                 "sum_slice of 'y': its kernel counts up to 4294967295 elements"));
}
