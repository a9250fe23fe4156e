// SPDX-License-Identifier: BSD-3-Clause
// The convenience of a planned graph with its storage: tensors by their nodes.
#include "nntile/graph/graph.hh"

#include <cmath>
#include <cstdint>
#include <utility>

#include "nntile/nn/linear.hh"
#include "nntile/ops/adamw_step.hh"
#include "nntile/ops/cast.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/scale.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

TEST_CASE("a graph is run by its nodes", "[graph][graph]") {
  LogicalGraph layer;
  Node const x = layer.input({.shape = {4, 3}}, "x");
  Node const z = scale({.alpha = 2}, x).named("z").mark_output();
  Ring runtime({.workers = 2});
  Graph<Ring> run(layer, runtime, {.tile = 2});
  for (float const value : {1.0f, 3.0f}) {
    run[x] = std::vector<float>(12, value);
    run();
    CHECK(run[z].read<float>() == std::vector<float>(12, 2 * value));
  }
  std::vector<float> const copy = run[z];
  CHECK(copy.size() == 12);
  float into[12] = {};
  run[z].read(std::span<float>(into));
  CHECK(into[11] == 6);
  run.async().wait();
}

TEST_CASE("one element is set by a number and read as one", "[graph][graph]") {
  LogicalGraph graph;
  Node const rate = graph.input({.shape = {}}, "rate"),
             count = graph.input({.shape = {}, .dtype = DType::int64}, "count"),
             p = graph.parameter({.shape = {4}}, "p"), g = graph.input({.shape = {4}}, "g"),
             m = graph.state({.shape = {4}}, "m"), v = graph.state({.shape = {4}}, "v");
  adamw_step(p, g, m, v, rate, count);
  Serial runtime;
  Graph<Serial> run(graph, runtime);
  run[rate] = 0.5;
  run[count] = 7;
  CHECK(run[rate].item<float>() == 0.5f);
  CHECK(run[count].item<std::int64_t>() == 7);
  CHECK(contains(message_of<TypeError>([&] { run[count] = 0.5; }),
                 "0.5 for 'count', which is int64 and cannot hold it"));
  CHECK(contains(message_of<TypeError>([&] { run[count] = UINT64_MAX; }),
                 "18446744073709551615 for 'count'"));
  CHECK(contains(message_of<TypeError>([&] { run[count] = 1e30f; }), "1e+30 for 'count'"));
  run[count] = true;
  CHECK(run[count].item<std::int64_t>() == 1);
  CHECK(contains(message_of<ShapeError>([&] { run[p] = 1.0; }), "1 values for 'p' of shape {4}"));
}

TEST_CASE("an integer holds a number of which nothing is lost", "[graph][graph]") {
  using detail::holds;
  CHECK(holds<std::int64_t>(-0x1p63));
  CHECK(holds<std::int64_t>(false));
  CHECK(holds<std::int32_t>(std::uint8_t{255}));
  CHECK(holds<std::int32_t>(-0x1p31));
  CHECK(holds<bool>(true));
  CHECK(holds<bool>(1.0f));
  CHECK_FALSE(holds<std::int64_t>(UINT64_MAX));
  CHECK_FALSE(holds<std::int64_t>(0x1p63));
  CHECK_FALSE(holds<std::int64_t>(std::nan("")));
  CHECK_FALSE(holds<std::int64_t>(0.5f));
  CHECK_FALSE(holds<std::int32_t>(0xffff'ffffu));
  CHECK_FALSE(holds<std::int32_t>(std::int64_t{1} << 31));
  CHECK_FALSE(holds<std::int32_t>(-0x1p31 - 1));
  CHECK_FALSE(holds<bool>(2));
  CHECK_FALSE(holds<bool>(-1.0));
}

TEST_CASE("a value that is read too early is missed by its name", "[graph][graph]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {2, 2}}, "x"), z = scale(x).named("z").mark_output();
  Serial runtime;
  Graph<Serial> run(graph, runtime);
  std::string const text = message_of<LifetimeError>([&] { (void)run[z].read<float>(); });
  CHECK(
      text.starts_with("store: 'z' has no value until a graph that computes it has run, or "
                       "values are bound or written: lock for read: nothing has written"));
  run[x] = std::vector<float>(4);
  run();
  CHECK(run[z].read<float>() == std::vector<float>(4));
}

TEST_CASE("graphs on one store share tensors by name", "[graph][graph]") {
  Serial runtime;
  TensorStore<Serial> store(runtime);
  LogicalGraph init, use;
  ops::fill({.value = 3}, init.parameter({.shape = {4}}, "w"));
  Node const doubled =
      scale({.alpha = 2}, use.parameter({.shape = {4}}, "w")).named("doubled").mark_output();
  Graph<Serial>{init, store}();
  Graph<Serial> run(use, store);
  run();
  CHECK(run[doubled].read<float>() == std::vector<float>(4, 6));
  CHECK(contains(message_of<GraphError>([&] { run[init.at("w")]; }), "is of graph"));
}

TEST_CASE("a node that is not kept, or came later, is refused by name", "[graph][graph]") {
  LogicalGraph graph("g");
  Node const x = graph.input({.shape = {4}}, "x");
  Node const y = scale(x).named("y");
  Node const z = scale(y).named("z").mark_output();
  Serial runtime;
  Graph<Serial> run(graph, runtime);
  CHECK(contains(message_of<GraphError>([&] { run[y]; }), "computes 'y' and does not keep it"));
  Node const late = scale(z).named("late");
  CHECK(contains(message_of<GraphError>([&] { run[late]; }),
                 "'late' was added after the graph had been planned"));
  CHECK_THROWS_AS(run[Node()], GraphError);
  CHECK(contains(message_of<LifetimeError>([&] { run(); }), "input 'x'"));

  TensorStore<Serial> store(runtime);
  CompiledGraph<Serial> compiled = compile(graph, store);
  Node const later = scale(z).named("later");
  Graph<Serial> compiled_before(graph, std::move(compiled));
  CHECK(contains(message_of<GraphError>([&] { compiled_before[later]; }),
                 "'later' was added after the graph had been planned"));
}

TEST_CASE("a tensor that is renamed behind the plan is refused, not another's", "[graph][graph]") {
  LogicalGraph graph("g");
  Node const x = graph.input({.shape = {4}}, "x");
  Node const y = scale(x).named("y").mark_output(), z = scale(x).named("z").mark_output();
  Serial runtime;
  Graph<Serial> run(graph, runtime);
  z.named("first");
  y.named("z");
  CHECK(message_of<GraphError>([&] { run[y]; }) ==
        "graph 'g': 'z' was 'y' when the graph was planned; name tensors before that");
}

TEST_CASE("a graph may be moved, and what is left behind says so", "[graph][graph]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {4}}, "x");
  Node const z = scale({.alpha = 2}, x).mark_output();
  Serial runtime;
  Graph<Serial> first(graph, runtime);
  Graph<Serial> run(std::move(first));
  run[x] = {1.0f, 2.0f, 3.0f, 4.0f};
  run();
  CHECK(run[z].read<float>() == std::vector<float>{2, 4, 6, 8});
  CHECK(contains(message_of<LifetimeError>([&] { first[x]; }), "was moved from"));
  CHECK_THROWS_AS(first(), LifetimeError);
}

TEST_CASE("values of another number or type are refused by the tensor's name", "[graph][graph]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {2, 2}}, "x");
  scale(x).named("z").mark_output();
  Serial runtime;
  Graph<Serial> run(graph, runtime);
  CHECK(contains(message_of<ShapeError>([&] { run[x] = std::vector<float>(3); }),
                 "3 values for 'x' of shape {2, 2}"));
  CHECK(contains(message_of<TypeError>([&] { run[x] = std::vector<double>(4); }),
                 "'x' is fp32, not fp64"));
  CHECK(contains(message_of<TypeError>([&] { (void)run[x].read<std::int64_t>(); }),
                 "'x' is fp32, not int64; its elements are float"));
  CHECK(contains(message_of<ShapeError>([&] { (void)run[x].item<float>(); }), "1 values for 'x'"));
}

TEST_CASE("a result is named where it is made", "[graph][graph]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {4}}, "x");
  Node const z = gelutanh(x).named("z");
  CHECK(z.name() == "z");
  CHECK(graph.find("z").id() == z.id());
  CHECK_FALSE(graph.find("gelutanh"));
  CHECK(z.named("z").name() == "z");
  CHECK(contains(message_of<GraphError>([&] { z.named("x"); }),
                 "a tensor 'x' exists already, of shape {4} in fp32; use it by at(\"x\")"));
  CHECK(z.name() == "z");
  CHECK_THROWS_AS(Node().named("z"), GraphError);
  auto const prefixed = graph.prefix("a.");
  CHECK(gelutanh(x).named("z").name() == "a.z");
}

TEST_CASE("cast names the dtype of its result", "[graph][graph]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {4, 2}, .axes = "in batch"}, "x");
  Node const y = cast(x, DType::bf16);
  CHECK(y.dtype() == DType::bf16);
  CHECK(y.shape() == Shape{4, 2});
  Node const back = cast(y, DType::fp32).named("back").mark_output();
  Node other = scale({.alpha = 2}, x);  // not const
  DType const wide = DType::fp64;
  Node const of_temporary = cast(cast(std::move(other), wide), DType::fp32).mark_output();
  Serial runtime;
  Graph<Serial> run(graph, runtime);
  run[x] = std::vector<float>(8, 1.5f);
  run();
  CHECK(run[back].read<float>() == std::vector<float>(8, 1.5f));
  CHECK(run[of_temporary].read<float>() == std::vector<float>(8, 3));
}

TEST_CASE("a graph says how many tasks, runs and bytes it had", "[graph][graph]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {4, 3}}, "x"), y = graph.input({.shape = {4, 3}}, "y");
  scale(x).named("z").mark_output();
  scale(y).named("w").mark_output();
  std::vector<float> const values(12, 1);  // outlives the run that reads it in place
  Ring runtime({.workers = 2});
  Graph<Ring> run(graph, runtime, {.tile = 2, .adopted = {"y"}});
  CHECK(run.stats().tasks == 6);
  CHECK(run.stats().runs == 0);
  CHECK(run.stats().bytes_bound == 0);
  run[x] = values;
  run[y] = values;
  run();
  run[y] = values;
  (void)run.async();
  CHECK(run.stats().runs == 2);
  CHECK(run.stats().bytes_bound == 3 * 48);
  REQUIRE(run.stats().memory.size() == 1);
  CHECK(run.stats().memory[0] == run.plan().memory());
  CHECK(run.stats().memory[0].adopted == 48);
}

TEST_CASE("what a graph does not keep is not that of another graph of the store",
          "[graph][graph]") {
  LogicalGraph one("one"), other("other");
  Node const x = one.input({.shape = {4}}, "x");
  scale({.alpha = 2}, x).named("y").mark_output();
  Node const y = scale({.alpha = 3}, other.input({.shape = {4}}, "x")).named("y");
  scale(y).named("z").mark_output();
  Serial runtime;
  TensorStore<Serial> store(runtime);
  Graph<Serial> first(one, store), second(other, store);
  first[x] = std::vector<float>(4, 1);
  first();
  second();
  CHECK(contains(message_of<GraphError>([&] { second[y]; }), "computes 'y' and does not keep it"));
  CHECK_THROWS_AS(second.compiled().get_output<float>("y"), GraphError);
  CHECK_THROWS_AS(second.compiled().watch<float>("y"), GraphError);
}

TEST_CASE("a transient is not cut as another graph's tensor of its name", "[graph][graph]") {
  LogicalGraph one, other;
  scale(one.input({.shape = {128}}, "x")).named("y").mark_output();
  Node const y = scale(other.input({.shape = {128}}, "w")).named("y");
  Node const z = scale(y).named("z").mark_output();
  Serial runtime;
  TensorStore<Serial> store(runtime);
  Graph<Serial> const first(one, store, {.tile = 0});
  Graph<Serial> const second(other, store, {.tile = 64});
  CHECK(second.plan().tensors()[z.id()].tiling.tile_count() == 2);
  CHECK(*plan_around(other, first.store(), {.tile = 64}) == second.plan());
  LogicalGraph input;
  scale(input.input({.shape = {128}}, "y")).named("v").mark_output();
  TensorStore<Serial> adopting(runtime);
  Graph<Serial> const third(input, adopting, {.tile = 0, .adopted = {"y"}});
  CHECK_NOTHROW(Graph<Serial>(other, adopting));
}

TEST_CASE("a tensor of truth values is bound, read and watched", "[graph][graph]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {4, 3}, .dtype = DType::boolean}, "x");
  Node const z = cast(cast(x, DType::fp32), DType::boolean).named("z").mark_output();
  Serial runtime;
  Graph<Serial> run(graph, runtime, {.tile = 2});
  auto const watched = run.compiled().watch<bool>("z");
  CHECK(watched.latest().values.empty());
  bool const values[12] = {true, false, true, true};
  run[x] = values;
  run();
  std::vector<bool> const wanted(std::begin(values), std::end(values));
  CHECK(run[z].read<bool>() == wanted);
  CHECK(run.store().read<bool>("z") == wanted);
  CHECK(run.store().gather<bool>("z") == wanted);
  CHECK(run.store().read_tile<bool>("z", 0) == std::vector<bool>{true, false, false, false});
  CHECK(watched.latest().values == wanted);
  CHECK_FALSE(run[z].read<bool>()[1]);
}

TEST_CASE("an integer is rounded once to a tensor's dtype", "[graph][graph]") {
  LogicalGraph graph;
  auto const scalar = [&](DType dtype) {
    Node const x = graph.input({.shape = {}, .dtype = dtype}, graph.unique("x"));
    scale(x).mark_output();
    return x;
  };
  Node const single = scalar(DType::fp32), tagged = scalar(DType::fp32_fast_tf32),
             narrow = scalar(DType::bf16);
  Serial runtime;
  Graph<Serial> run(graph, runtime);
  std::int64_t const value = (std::int64_t{1} << 54) + (std::int64_t{1} << 30) + 1;
  run[single] = value;
  CHECK(run[single].item<float>() == 0x1.000002p54f);
  run[tagged] = value;
  CHECK(run[tagged].item<fp32_fast_tf32_t>() == 0x1.000002p54f);
  run[narrow] = (std::int64_t{1} << 60) + (std::int64_t{1} << 52) + 1;
  CHECK(run[narrow].item<bf16_t>() == 0x1.02p60f);
}
