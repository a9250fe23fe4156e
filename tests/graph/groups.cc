// SPDX-License-Identifier: BSD-3-Clause
// Canonical groups of a graph's named axes: partials in plans and their memory, gradients, plans in
// files, and what is refused.
#include <cmath>

#include "nntile/graph/apply.hh"
#include "nntile/graph/compile.hh"
#include "nntile/graph/dump.hh"
#include "nntile/graph/gradient.hh"
#include "nntile/io/graph.hh"
#include "nntile/io/plan.hh"
#include "nntile/ops/all.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

namespace {

using namespace nntile;

/// A layer over a batch of tokens, a loss, and the gradients of the weight: all sums have groups.
struct Layer {
  LogicalGraph graph;
  explicit Layer(std::vector<AxisGroups> groups, DType dtype = DType::fp32)
      : graph("layer", {.groups = std::move(groups)}) {
    Node const w =
        graph.parameter({.shape = {24, 48}, .dtype = dtype, .axes = "embed hidden"}, "w");
    Node const x =
        graph.input({.shape = {48, 10, 4}, .dtype = dtype, .axes = "hidden seq batch"}, "x");
    Node const y = gelutanh(gemm(w, x));
    Node loss = sum_slice({.axis = 0}, sum_slice({.axis = 0}, sum_slice({.axis = 0}, y)));
    loss.mark_output();
    add_gradients(graph, loss);
    graph.at("w.grad").mark_output();
  }
};

template <Runtime R>
std::vector<std::byte> gradient(Layer const& layer, PlanOptions const& options, int workers = 1) {
  R runtime(RuntimeOptions{.workers = workers});
  TensorStore<R> store(runtime);
  auto const plan = std::make_shared<Plan const>(layer.graph, options);
  CompiledGraph<R> compiled(plan, store);
  auto const fill_with = [&](char const* name, std::size_t count, float step) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = std::sin(step * static_cast<float>(i));
    store.template write<float>(name, values);
  };
  fill_with("w", 24 * 48, 0.37F);
  fill_with("x", 48 * 10 * 4, 0.11F);
  compiled.execute();
  std::vector<std::byte> bytes(24 * 48 * 4);
  store.read_bytes(store.at("w.grad"), bytes.data());
  return bytes;
}

std::vector<PlanOptions> tilings() {
  return {{.tile = 0},
          {.tile = 16},
          {.tile = 0, .cuts = {{"batch", {3, 1}}, {"hidden", {7, 41}}, {"seq", {4, 6}}}}};
}

}  // namespace

TEST_CASE("a graph with groups has one result over tilings and runtimes, gradients included",
          "[graph][groups]") {
  std::vector<AxisGroups> const groups{{"batch", 3}, {"hidden", 4}, {"seq", 2}, {"embed", 2}};
  auto const expected = gradient<Serial>(Layer(groups), {.tile = 0});
  for (PlanOptions const& options : tilings()) {
    CHECK(gradient<Serial>(Layer(groups), options) == expected);
    CHECK(gradient<Ring>(Layer(groups), options, 2) == expected);
  }
  CHECK_FALSE(gradient<Serial>(Layer({}), {.tile = 0}) == expected);
  CHECK(gradient<Serial>(Layer({{"batch", 1}, {"seq", 1}}), {.tile = 0}) ==
        gradient<Serial>(Layer({}), {.tile = 0}));
}

TEST_CASE("groups are those of the graph's axes, whatever a program keeps of its results",
          "[graph][groups]") {
  float sums[2] = {};
  for (bool const all : {false, true}) {
    LogicalGraph graph("kept", {.groups = {{"batch", 4}}});
    Node const x = graph.input({.shape = {1000}}, "x");
    Node const other = graph.input({.shape = {1000, 2}, .axes = "batch pair"}, "other");
    Node const sum = sum_slice({.axis = 0}, x).mark_output();
    Node const named = add(x, graph.slice(other, 1, 1));  // says that x has the axis "batch"
    if (all) named.mark_output();
    Serial runtime;
    TensorStore<Serial> store(runtime);
    CompiledGraph<Serial> compiled = compile(graph, store);
    std::vector<float> values(1000);
    for (std::size_t i = 0; i < 1000; ++i) values[i] = std::sin(0.37F * static_cast<float>(i));
    compiled.bind_input("x", values);
    if (all) compiled.bind_input("other", std::vector<float>(2000));
    compiled.execute();
    sums[all] = compiled.get_output<float>(sum.name())[0];
  }
  CHECK(sums[0] == sums[1]);
}

TEST_CASE("partials are hidden tensors of a plan, about log2 G a tile, and memory counts them",
          "[graph][groups]") {
  for (DType const dtype : {DType::fp32, DType::bf16})
    for (PlanOptions const& options :
         {PlanOptions{.tile = 0}, PlanOptions{.tile = 0, .cuts = {{"k", {32, 32}}}}}) {
      LogicalGraph graph("product", {.groups = {{"k", 8}}});
      Node const a = graph.input({.shape = {16, 64}, .dtype = dtype, .axes = "m k"}, "a");
      Node const b = graph.input({.shape = {64, 16}, .dtype = dtype, .axes = "k n"}, "b");
      Node c = gemm(a, b);
      c.mark_output();
      Plan const plan(graph, options);
      std::vector<std::string> partials;
      Index bytes = 0;
      for (std::size_t t = graph.tensor_count(); t < plan.tensors().size(); ++t) {
        partials.push_back(plan.tensors()[t].name);
        CHECK(plan.tensors()[t].dtype == DType::fp32);
        bytes += 16 * 16 * 4;
      }
      // The lowest of the stack is the result, where that is as wide as its accumulator.
      CHECK(partials.size() == (dtype == DType::fp32 ? 2 : 3));  // a pair is one sum
      CHECK(partials[0] == (dtype == DType::fp32 ? "gemm.partial1" : "gemm.partial0"));
      CHECK(plan.memory().arena >= bytes);
      CHECK(plan.flops() == 2 * 16 * 16 * 64);
      CHECK(plan.tasks().size() == (dtype == DType::fp32 ? 4 + 3 : 4 + 3 + 1));
    }
}

TEST_CASE("gradients with groups are used up tile by tile", "[graph][groups]") {
  auto const arena = [](std::vector<AxisGroups> groups) {
    LogicalGraph graph("step", {.groups = std::move(groups)});
    Node const w = graph.parameter({.shape = {512, 512}, .axes = "embed hidden"}, "w");
    Node const x = graph.input({.shape = {512, 64}, .axes = "hidden batch"}, "x");
    Node const m = graph.state({.shape = {512, 512}}, "m"),
               v = graph.state({.shape = {512, 512}}, "v");
    Node const dy = graph.input({.shape = {512, 64}, .axes = "embed batch"}, "dy");
    Node const dw = gemm({.trans_b = true}, dy, x);
    adamw_step(w, dw, m, v, graph.input({.shape = {}}, "lr"),
               graph.input({.shape = {}, .dtype = DType::int64}, "step"));
    return Plan(graph, {.tile = 64}).memory().arena_lower_bound;
  };
  Index const tile = 64 * 64 * 4;
  CHECK(arena({}) == tile);
  CHECK(arena({{"batch", 2}}) == tile);
  CHECK(arena({{"batch", 4}}) == 2 * tile);  // the sum of a pair beside the gradient's tile
  CHECK(arena({{"batch", 8}}) == 3 * tile);
}

TEST_CASE("a plan with groups is saved and read", "[graph][groups][io]") {
  for (DType const dtype : {DType::fp32, DType::bf16})
    for (PlanOptions const& options : tilings()) {
      Layer const layer({{"batch", 3}, {"hidden", 4}, {"seq", 2}}, dtype);
      Plan const plan(layer.graph, options);
      std::string const text = io::plan_text(plan, layer.graph);
      CHECK(io::plan_of(text, "here", layer.graph) == plan);
      auto const graph = io::graph_of(io::graph_text(layer.graph), "here", io::known_ops(AllOps{}));
      CHECK(*graph == layer.graph);
      CHECK(graph->numerics().groups == layer.graph.numerics().groups);
      Layer const other({{"batch", 4}, {"hidden", 4}, {"seq", 2}}, dtype);
      CHECK_THROWS_AS(io::plan_of(text, "here", other.graph), FormatError);
    }
}

TEST_CASE("groups that mean nothing are one error with names and values", "[graph][groups]") {
  auto const of = [](std::vector<AxisGroups> groups) {
    return test::message_of<Error>([&] { Plan(Layer(groups).graph, {.tile = 0}); });
  };
  CHECK(of({{"batch", 0}}) ==
        "graph 'layer': axis 'batch' has 0 canonical groups; at least 1 is needed");
  CHECK(of({{"batch", 2}, {"seq", 2}, {"batch", 4}}) ==
        "graph 'layer': axis 'batch' is listed twice in Numerics::groups, with 2 and 4");
  CHECK(
      of({{"badge", 2}}) ==
      "plan 'layer': numerics have 2 canonical groups of axis 'badge'; tile: the graph 'layer' has "
      "no axis 'badge'; it has embed, hidden, seq, batch");
  CHECK(of({{"batch", 5}}) ==
        "plan 'layer': sum_slice of 'sum_slice.2': axis 'batch' of 4 elements has 5 canonical "
        "groups; "
        "at most 4 would do");
  LogicalGraph graph("two", {.groups = {{"k", 2}, {"p", 3}}});
  Node const a = graph.input({.shape = {4, 6}, .axes = "m k"}, "a");
  Node const b = graph.input({.shape = {6, 4}, .axes = "p n"}, "b");
  gemm(a, b).mark_output();
  CHECK(
      test::message_of<PlanError>([&] { Plan(graph, {.tile = 0}); }) ==
      "plan 'two': axes 'k' and 'p' are one in this graph, but have 2 and 3 canonical groups; give "
      "both the same");
}

TEST_CASE("a border that is not canonical within its group is named", "[graph][groups]") {
  LogicalGraph graph("sum", {.groups = {{"k", 2}}});
  sum_slice({.axis = 0}, graph.input({.shape = {100, 2}, .axes = "k j"}, "x")).mark_output();
  CHECK(Plan(graph, {.tile = 0}).canonical());
  CHECK(Plan(graph, {.tile = 0, .cuts = {{"k", {50, 50}}}}).canonical());
  CHECK_FALSE(Plan(graph, {.tile = 0, .cuts = {{"k", {64, 36}}}}).canonical());
  CHECK(Plan(graph, {.tile = 64}).canonical());  // in one tile
}
