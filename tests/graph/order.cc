// SPDX-License-Identifier: BSD-3-Clause
// What the passes that order ops and tile tasks must keep: dependent ones stay in the graph's
// order.
#include <map>
#include <string>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/apply.hh"
#include "nntile/graph/compile.hh"
#include "nntile/graph/passes/order.hh"
#include "nntile/graph/plan.hh"
#include "nntile/ops/adamw_step.hh"
#include "nntile/ops/add.hh"
#include "nntile/ops/attention.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/global_norm.hh"
#include "tests/support/catch.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// The first two dependent tile tasks that a plan has in another order than the graph has their
/// ops, in words; empty where there are none. Tasks depend on each other where they touch a tile
/// and one of them writes it.
std::string misplaced(Plan const& plan) {
  struct Latest {
    std::uint32_t touched = 0, written = 0;  // positions of ops in the graph, the largest so far
  };
  std::map<std::uint32_t, Latest> latest;  // by buffer
  for (PlannedTask const& task : plan.tasks())
    for (Use<BufferId> const& use : plan.uses(task)) {
      Latest& before = latest[use.handle];
      std::uint32_t const limit = writes(use.access) ? before.touched : before.written;
      if (task.node < limit)
        return concat("op ", task.node, " (", plan.kernels()[task.kernel].name, ") after op ",
                      limit, " on a tile of '",
                      plan.tensors()[plan.buffers()[use.handle].tensor].name, "'");
      before.touched = std::max(before.touched, task.node);
      if (writes(use.access)) before.written = std::max(before.written, task.node);
    }
  return {};
}

/// An optimizer's step of w between readers of it: y before it in the graph, z after it. Its
/// gradient is an input, so that nothing but the readers holds the step back.
struct StepBetweenReaders {
  LogicalGraph graph{"step"};
  StepBetweenReaders() {
    Shape const shape{128, 128};
    Node const w = graph.parameter({.shape = shape, .axes = "m n"}, "w"),
               x = graph.input({.shape = shape}, "x"),
               gradient = graph.input({.shape = shape}, "g"),
               m = graph.state({.shape = shape}, "m"), v = graph.state({.shape = shape}, "v"),
               lr = graph.input({.shape = {}}, "lr"),
               step = graph.input({.shape = {}, .dtype = DType::int64}, "step");
    gelutanh(x, graph.tensor({.shape = shape}, "first")).mark_output();
    add(w, x, graph.tensor({.shape = shape}, "y")).mark_output();
    graph.set_phase("optimizer");
    adamw_step(w, gradient, m, v, lr, step);
    graph.set_phase("forward");
    add(w, x, graph.tensor({.shape = shape}, "z")).mark_output();
  }
};

}  // namespace

TEST_CASE("an optimizer's step stays behind the readers of its weight and before later ones",
          "[graph][order]") {
  StepBetweenReaders const of;
  CHECK(passes::order(of.graph, passes::prune(of.graph), BoundDims(of.graph, {})) ==
        DynamicArray<std::size_t>{0, 1, 2, 3});
}

TEST_CASE("an optimizer's step moves up to right behind the last op that it must follow",
          "[graph][order]") {
  LogicalGraph graph;
  Shape const shape{4};
  Node const w = graph.parameter({.shape = shape}, "w"), x = graph.input({.shape = shape}, "x"),
             gradient = graph.input({.shape = shape}, "g"), m = graph.state({.shape = shape}, "m"),
             v = graph.state({.shape = shape}, "v"), lr = graph.input({.shape = {}}, "lr"),
             step = graph.input({.shape = {}, .dtype = DType::int64}, "step");
  add(w, x, graph.tensor({.shape = shape}, "y")).mark_output();
  gelutanh(x, graph.tensor({.shape = shape}, "z")).mark_output();
  graph.set_phase("optimizer");
  adamw_step(w, gradient, m, v, lr, step);
  CHECK(passes::order(graph, passes::prune(graph), BoundDims(graph, {})) ==
        DynamicArray<std::size_t>{0, 2, 1});
}

TEST_CASE("what reads only what an optimizer's step leaves of the gradients moves up with it",
          "[graph][order]") {
  LogicalGraph graph;
  Node const g = graph.input({.shape = {4, 4}}, "g"), x = graph.input({.shape = {4}}, "x");
  gelutanh(x, graph.tensor({.shape = {4}}, "y")).mark_output();  // 0
  Node const squares = sum_squares(g);                           // 1: takes gradients
  sum_slice({.axis = 0}, squares).mark_output();                 // 2: reads only that
  CHECK(passes::order(graph, passes::prune(graph), BoundDims(graph, {})) ==
        DynamicArray<std::size_t>{1, 2, 0});
}

TEST_CASE("what reads a trained weight stays behind what came before it", "[graph][order]") {
  LogicalGraph graph;
  Shape const shape{4};
  Node const w = graph.parameter({.shape = shape}, "w"), x = graph.input({.shape = shape}, "x"),
             gradient = graph.input({.shape = shape}, "g"), m = graph.state({.shape = shape}, "m"),
             v = graph.state({.shape = shape}, "v"), lr = graph.input({.shape = {}}, "lr"),
             step = graph.input({.shape = {}, .dtype = DType::int64}, "step");
  gelutanh(x, graph.tensor({.shape = shape}, "y")).mark_output();  // 0
  adamw_step(w, gradient, m, v, lr, step);                         // 1: moves up
  gelutanh(w, graph.tensor({.shape = shape}, "z")).mark_output();  // 2: stays
  CHECK(passes::order(graph, passes::prune(graph), BoundDims(graph, {})) ==
        DynamicArray<std::size_t>{1, 0, 2});
}

TEST_CASE("results of more bytes than have a number wait for their reader", "[graph][order]") {
  LogicalGraph graph;
  Shape const large{Index{1} << 60, 1, 1}, small{1, 1};  // 2^62 bytes: three have no number
  auto const input = [&](Shape const& shape) {
    return graph.input({.shape = shape}, graph.unique("x"));
  };
  auto const result = [&] { return graph.tensor({.shape = large}, graph.unique("y")); };
  Node const q = input(large), dq = result(), dk = result(), dv = result();
  attention_backward(q, q, q, q, input(small), input(small), q, dq, dk, dv);
  add(q, q).mark_output();
  add(add(dq, dk), dv).mark_output();
  BoundDims const dims(graph, {});
  CHECK(passes::order(graph, passes::prune(graph), dims).front() == 1);
}

TEST_CASE("tile tasks that touch one tile keep the graph's order", "[graph][order]") {
  for (Index const tile : {0, 32, 64}) {
    INFO("tile " << tile);
    CHECK(misplaced(Plan(StepBetweenReaders().graph, {.tile = tile})) == "");
    CHECK(misplaced(Plan(TinyGptGraph().graph, {.tile = tile})) == "");
  }
}

TEST_CASE("ops in place are ordered by tiles behind the last op that hinders it",
          "[graph][order]") {
  LogicalGraph graph;
  Node const x = graph.parameter({.shape = {4}}, "x");
  auto const halve = [&](int times) {
    for (int i = 0; i < times; ++i) gelutanh(x, x);
  };
  halve(1000);
  Node const sum = sum_slice({.axis = 0}, x).mark_output();  // of both tiles of x
  halve(1);
  add({.alpha = 1, .beta = 1}, sum, sum, sum);
  halve(2);
  Plan const plan(graph, {.tile = 2});
  std::string tiles;
  for (PlannedTask const& task : plan.tasks())
    if (plan.tensors()[task.tensor].name == "x") tiles += concat(task.tile);
  std::string nodes;
  for (int i = 0; i < 1001; ++i) nodes += "01";
  CHECK(tiles == nodes + "0011");
}
