// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/graph/compiled.hh"

#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "nntile/graph/apply.hh"
#include "nntile/graph/compile.hh"
#include "nntile/ops/embedding.hh"
#include "nntile/ops/scale.hh"
#include "nntile/runtime/adaptors/record.hh"
#include "tests/runtime/gate.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/runtimes.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

using Parameters = std::map<std::string, std::vector<float>>;

template <class R>
Parameters trained(R& runtime, PlanOptions const& options, BindOptions const& bind = {},
                   TinyGpt const& sizes = {}) {
  TinyGptGraph const gpt(sizes);
  TinyGptRun<R> run(runtime, gpt, options, bind);
  run.train(2);
  return run.parameters();
}

Parameters const& reference() {
  static Parameters const parameters = [] {
    Serial runtime;
    return trained(runtime, {.tile = 0});
  }();
  return parameters;
}

/// The name of the first tensor whose bits differ.
std::string difference(Parameters const& a, Parameters const& b) {
  for (auto const& [name, values] : a)
    if (std::memcmp(values.data(), b.at(name).data(), values.size() * sizeof(float)) != 0)
      return name;
  return "none";
}

}  // namespace

TEST_CASE("a training step brings the loss down", "[graph][compiled]") {
  Serial runtime;
  TinyGptGraph const gpt;
  TinyGptRun<Serial> run(runtime, gpt, {.tile = 64});
  float const first = run.train(1);
  CHECK(run.train(6) < first - 0.5f);
}

TEST_CASE("every canonical tiling gives the same bits", "[graph][compiled]") {
  auto const options = GENERATE(
      PlanOptions{.tile = 64}, PlanOptions{.tile = 128},
      PlanOptions{.tile = 64, .cuts = {{"hidden", {64, 192}}, {"seq", {64}}, {"batch", {1}}}});
  Serial runtime;
  CHECK(difference(reference(), trained(runtime, options)) == "none");
}

TEMPLATE_LIST_TEST_CASE("every runtime with any number of workers gives the same bits",
                        "[graph][compiled]", AllRuntimes) {
  for (int const workers : worker_counts<TestType>()) {
    INFO(workers << " workers");
    TestType runtime(RuntimeOptions{.workers = workers});
    CHECK(difference(reference(), trained(runtime, {.tile = 64})) == "none");
  }
}

TEST_CASE("replayed and submitted runs give the same bits", "[graph][compiled]") {
  Ring runtime({.workers = 2});
  CHECK(difference(reference(), trained(runtime, {.tile = 64}, {.replay = false})) == "none");
}

TEMPLATE_LIST_TEST_CASE("a traced run notes every task, and has the same bits", "[graph][compiled]",
                        AllRuntimes) {
  for (bool const replay : {false, true}) {
    TestType runtime(RuntimeOptions{.workers = std::min(2, most_workers<TestType>)});
    TinyGptGraph const gpt;
    TinyGptRun<TestType> run(runtime, gpt, {.tile = 64}, {.replay = replay, .trace = true});
    run.train(2);
    CHECK(difference(reference(), run.parameters()) == "none");
    auto const times = run.step.times();
    REQUIRE(times.size() == run.step.plan().tasks().size());
    bool const all = std::all_of(times.begin(), times.end(), [](TaskTime const& time) {
      return time.begin > 0 && time.end >= time.begin && time.thread != 0;
    });
    CHECK(all);
  }
}

TEMPLATE_LIST_TEST_CASE("a task that a failure cancels keeps no time of the run before",
                        "[graph][compiled]", AllRuntimes) {
  bool const replay = GENERATE(false, true);
  TestType runtime;
  LogicalGraph graph;
  Node const tokens = graph.input({.shape = {2}, .dtype = DType::int64}, "tokens");
  gelutanh(embedding(tokens, graph.parameter({.shape = {2, 2}}, "table"))).mark_output();
  TensorStore<TestType> store(runtime);
  auto run = compile(graph, store, {}, {.replay = replay, .trace = true});
  store.template write<float>("table", std::vector<float>(4));
  auto const times_of = [&](std::int64_t token) {
    run.template bind_input<std::int64_t>("tokens", std::vector<std::int64_t>{0, token});
    try {
      run.execute();
    } catch (TaskError const& error) {
      CHECK(contains(error.what(), ": embedding: "));
    }
    return std::vector<bool>{run.times()[0].end != 0, run.times()[1].end != 0};
  };
  CHECK(times_of(1) == std::vector{true, true});
  CHECK(times_of(7) == std::vector{true, false});
  CHECK(times_of(1) == std::vector{true, true});
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
}

TEST_CASE("both vector instruction sets give the same bits", "[graph][compiled]") {
  if (!kernels::available(Isa::v3) || !kernels::available(Isa::v4))
    return skip("this CPU or build lacks AVX2 or AVX-512");
  Serial runtime;
  CHECK(difference(trained(runtime, {.tile = 64}, {.isa = Isa::v3}),
                   trained(runtime, {.tile = 64}, {.isa = Isa::v4})) == "none");
}

TEST_CASE("kernels without FMA give the same bits on every runtime and canonical tiling",
          "[graph][compiled]") {
  if (!kernels::available(Isa::v2)) return skip("this build lacks x86-64-v2");
  Serial serial;
  Ring ring({.workers = 2});
  BindOptions const bind{.isa = Isa::v2};
  CHECK(difference(trained(serial, {.tile = 0}, bind), trained(ring, {.tile = 64}, bind)) ==
        "none");
}

TEST_CASE("a plan of fast numerics gives the same bits on every runtime, and again",
          "[graph][compiled]") {
  TinyGpt const fast{.numerics = {.mode = Mode::fast}};
  Serial serial;
  Ring ring({.workers = 2});
  Parameters const first = trained(serial, {.tile = 64}, {}, fast);
  CHECK(difference(first, trained(serial, {.tile = 64}, {}, fast)) == "none");
  CHECK(difference(first, trained(ring, {.tile = 64}, {}, fast)) == "none");
}

TEST_CASE("a run waits for nothing but its end", "[graph][compiled]") {
  Record<Ring> runtime(RuntimeOptions{.workers = 2});
  TinyGptGraph const gpt;
  TinyGptRun<Record<Ring>> run(runtime, gpt, {.tile = 64}, {.replay = false});
  run.bind(1);
  runtime.clear();
  auto const flight = run.step.execute_async();
  CHECK(runtime.counts().submits == run.step.plan().tasks().size());
  CHECK(runtime.counts().waits == 0);
  CHECK(runtime.counts().wait_alls == 0);
  CHECK(runtime.counts().locks == 0);
  flight.wait();
  CHECK(runtime.counts().wait_alls == 0);
}

TEST_CASE("binding allocates what memory() says, to the byte", "[graph][compiled]") {
  if (!allocations_are_counted()) return skip("a sanitizer owns malloc");
  Serial runtime;
  TinyGptGraph const gpt;
  PlanOptions const options{.tile = 64};
  Plan const plan(gpt.graph, options);
  TensorStore<Serial> store(runtime);
  auto const shared = std::make_shared<Plan const>(plan);
  AllocationCount const binding;
  CompiledGraph<Serial> step(shared, store);
  CHECK(binding.aligned_bytes() == static_cast<std::size_t>(plan.memory().total()));
}

TEST_CASE("a run allocates nothing of 4 KiB or more", "[graph][compiled]") {
  if (!allocations_are_counted()) return skip("a sanitizer owns malloc");
  Ring runtime({.workers = 2});
  TinyGptGraph const gpt;
  TinyGptRun<Ring> run(runtime, gpt, {.tile = 64});
  run.train(1);
  run.bind(2);
  AllocationCount const running;
  run.step.execute();
  CHECK(running.large() == 0);
}

TEST_CASE("a failed task names op, tensor and cause, and the graph runs on with good data",
          "[graph][compiled]") {
  Ring runtime({.workers = 2});
  LogicalGraph graph;
  Node const tokens = graph.input({.shape = {4}, .dtype = DType::int64}, "tokens");
  Node const table = graph.parameter({.shape = {8, 16}}, "table");
  embedding(tokens, table).mark_output();
  TensorStore<Ring> store(runtime);
  auto run = compile(graph, store);
  store.write<float>("table", std::vector<float>(8 * 16, 1.0f));
  run.bind_input<std::int64_t>("tokens", std::vector<std::int64_t>{1, 2, 99, 3});
  auto const text = message_of<TaskError>([&] { run.execute(); });
  CHECK(contains(text, "embedding"));
  CHECK(contains(text, "99"));
  CHECK_THROWS_AS(run.get_output<float>("embedding"), TaskError);
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
  run.bind_input<std::int64_t>("tokens", std::vector<std::int64_t>{1, 2, 3, 4});
  run.execute();
  CHECK(run.get_output<float>("embedding") == std::vector<float>(8 * 4, 1.0f));
}

TEMPLATE_LIST_TEST_CASE("an input that was never bound is named before anything is submitted",
                        "[graph][compiled]", AllRuntimes) {
  bool const replay = GENERATE(false, true);
  TestType runtime;
  LogicalGraph graph("g");
  Node const x = graph.input({.shape = {4}}, "x"), w = graph.parameter({.shape = {4}}, "w");
  add(gelutanh(w), x).mark_output();
  TensorStore<TestType> store(runtime);
  auto run = compile(graph, store, {}, {.replay = replay});
  store.template write<float>("w", std::vector<float>(4));
  CHECK(message_of<LifetimeError>([&] { run.execute(); }) ==
        "execute: input 'x' of graph 'g' was never bound: call bind_input(\"x\", values) first, "
        "or, of a Graph, run[node] = values");
  CHECK_NOTHROW(runtime.wait_all());
  CHECK_THROWS_AS(run.execute_async(), LifetimeError);
  run.template bind_input<float>("x", std::vector<float>(4, 1));
  run.execute();
  CHECK(run.template get_output<float>("add") == std::vector<float>(4, 1));
}

TEST_CASE("a parameter or state without a value is named", "[graph][compiled]") {
  Ring runtime({.workers = 1});
  LogicalGraph graph("g"), init("init");
  gelutanh(graph.parameter({.shape = {4}}, "w")).mark_output();
  scale({.beta = 1}, graph.tensor({.shape = {4}}, "one", {.external = true}),
        graph.state({.shape = {4}}, "sum"));
  TensorStore<Ring> store(runtime);
  auto run = compile(graph, store);
  run.bind_input<float>("one", std::vector<float>(4));
  CHECK(
      contains(message_of<LifetimeError>([&] { run.execute(); }),
               "execute: parameter 'w' of graph 'g' has no value yet: load it, run a graph on the "
               "same store that fills it, or call write(\"w\", values) of the store first"));
  store.write<float>("w", std::vector<float>(4));
  CHECK(contains(message_of<LifetimeError>([&] { run.execute(); }), "state 'sum' of graph 'g'"));
  ops::fill({.value = 0}, init.state({.shape = {4}}, "sum"));
  compile(init, store).execute();
  CHECK_NOTHROW(run.execute());
}

TEST_CASE("what others wrote into the store's tiles counts as a value", "[graph][compiled]") {
  Ring runtime({.workers = 1});
  LogicalGraph graph("g");
  gelutanh(graph.parameter({.shape = {4}}, "w")).mark_output();
  TensorStore<Ring> store(runtime);
  auto run = compile(graph, store);
  {
    HostView<float, Ring, Access::write> const view(runtime, store.at("w").tiles[0]);
  }
  CHECK_NOTHROW(run.execute());
}

TEST_CASE("a value that is not kept is asked for with the remedy", "[graph][compiled]") {
  Serial runtime;
  LogicalGraph graph("g");
  Node const x = graph.input({.shape = {4}}, "x");
  graph.input({.shape = {4}}, "unused");
  Node const y = gelutanh(x, graph.tensor({.shape = {4}}, "hidden"));
  gelutanh(y, graph.tensor({.shape = {4}}, "output")).mark_output();
  TensorStore<Serial> store(runtime);
  auto run = compile(graph, store);
  auto const got = [&](char const* name) {
    return message_of<GraphError>([&] { (void)run.get_output<float>(name); });
  };
  CHECK(got("hidden") ==
        "get_output: graph 'g' computes 'hidden' and does not keep it; call mark_output() of its "
        "node before planning to read it after a run");
  CHECK(got("Outputs") == "get_output: graph 'g' has no tensor 'Outputs'; did you mean 'output'?");
  CHECK(got("weight") == "get_output: graph 'g' has no tensor 'weight'");
  CHECK(
      contains(message_of<GraphError>([&] { run.bind_input<float>("unused", {}); }),
               "does not need 'unused': no op on the way to an output or a kept tensor uses it; to "
               "read what an op computes, call mark_output() of its node before planning"));
  CHECK(contains(message_of<GraphError>([&] { (void)graph.at("hiden"); }), "mean 'hidden'?"));
}

TEST_CASE("tensors without elements are bound and read", "[graph][compiled]") {
  Serial runtime;
  LogicalGraph graph("g");
  gelutanh(graph.input({.shape = {0, 4}}, "x"), graph.tensor({.shape = {0, 4}}, "y")).mark_output();
  TensorStore<Serial> store(runtime);
  auto run = compile(graph, store, {.tile = GENERATE(Index{0}, PlanOptions::automatic)});
  run.bind_input<float>("x", std::vector<float>());
  run.execute();
  CHECK(run.get_output<float>("y").empty());
}

TEST_CASE("an empty plan is refused", "[graph][compiled]") {
  Serial runtime;
  TensorStore<Serial> store(runtime);
  CHECK(contains(message_of<PlanError>([&] { CompiledGraph<Serial>(nullptr, store); }),
                 "compile: the plan is an empty shared_ptr"));
}

TEST_CASE("a plan that was moved from is refused", "[graph][compiled]") {
  LogicalGraph graph;
  scale(graph.input({.shape = {4}}, "x")).mark_output();
  Serial runtime;
  TensorStore<Serial> store(runtime);
  Plan first(graph);
  auto const moved = std::make_shared<Plan const>(std::move(first));
  CHECK(message_of<PlanError>([&] {
          CompiledGraph(std::make_shared<Plan const>(std::move(first)), store);
        }) == "compile: the plan was moved from; use the one that it was moved to");
  CHECK(CompiledGraph(moved, store).plan().tasks().size() == 1);
}

TEST_CASE("compiled graphs move, and what is left behind says so", "[graph][compiled]") {
  Ring runtime({.workers = 2});
  LogicalGraph graph("g");
  gelutanh(graph.input({.shape = {64}}, "x"), graph.tensor({.shape = {64}}, "y")).mark_output();
  TensorStore<Ring> store(runtime);
  std::vector<CompiledGraph<Ring>> runs;
  for (int i = 0; i < 3; ++i) runs.push_back(compile(graph, store, {.tile = 1}));
  runs[0].bind_input("x", std::vector<float>(64));
  (void)runs[0].execute_async();
  CompiledGraph<Ring> kept = std::move(runs[0]);
  runs[1] = std::move(kept);
  runs[1].execute();
  CHECK(runs[1].get_output<float>("y") == std::vector<float>(64));
  CHECK(contains(message_of<LifetimeError>([&] { kept.execute(); }),
                 "execute: the compiled graph "
                 "was moved from"));
  CHECK_THROWS_AS(kept.plan(), LifetimeError);
  CHECK_THROWS_AS(kept.get_output<float>("y"), LifetimeError);
  CHECK_THROWS_AS(kept.bind_input<float>("x", {1.0f}), LifetimeError);
}

TEMPLATE_LIST_TEST_CASE("a run outlives its graph", "[graph][compiled]", AllRuntimes) {
  TestType runtime;
  LogicalGraph graph;
  gelutanh(graph.input({.shape = {64}}, "x"), graph.tensor({.shape = {64}}, "y")).mark_output();
  TensorStore<TestType> store(runtime);
  auto const run = [&] {
    auto compiled = compile(graph, store, {.tile = 1});
    compiled.template bind_input<float>("x", std::vector<float>(64));
    return compiled.execute_async();
  }();
  CHECK(run.is_complete());
  run.wait();
  CHECK(store.template read<float>("y") == std::vector<float>(64));
}

TEMPLATE_TEST_CASE(
    "a graph waits for what was submitted of a run that could not be submitted whole",
    "[graph][compiled]", Threads, Ring) {
  LogicalGraph graph;
  Node const y = gelutanh(graph.input({.shape = {4}}, "x")).mark_output();
  gelutanh(y, graph.tensor({.shape = {4}}, "z")).mark_output();
  TestType runtime(RuntimeOptions{.workers = 2});
  TensorStore<TestType> store(runtime);
  auto run = std::make_optional(compile(graph, store, {}, {.replay = false, .trace = true}));
  run->template bind_input<float>("x", std::vector<float>(4));
  Gate gate;
  Gate* const argument = &gate;
  Use<typename TestType::Handle> const x[] = {{store.at("x").tiles[0], Access::update}};
  (void)runtime.submit({&wait_codelet, x, std::as_bytes(std::span(&argument, 1)), {}, {}, {}});
  auto const z = store.at("z").tiles[0];
  (void)runtime.lock(z, Access::write);
  CHECK(contains(message_of<LifetimeError>([&] { run->execute(); }), "locked"));
  std::atomic<bool> completed = false;
  std::thread opener([&] {
    while (!gate.open) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    completed = true;
    gate.token.complete();
  });
  run.reset();
  CHECK(completed);
  opener.join();
  runtime.unlock(z);
  runtime.wait_all();
}

TEST_CASE("a run that was moved from says so", "[graph][compiled]") {
  Serial runtime;
  LogicalGraph graph;
  gelutanh(graph.input({.shape = {64}}, "x"), graph.tensor({.shape = {64}}, "y")).mark_output();
  TensorStore<Serial> store(runtime);
  auto compiled = compile(graph, store);
  compiled.bind_input("x", std::vector<float>(64));
  auto run = compiled.execute_async();
  auto const moved = std::move(run);
  CHECK(moved.is_complete());
  CHECK(
      contains(message_of<LifetimeError>([&] { (void)run.is_complete(); }), "run was moved from"));
  CHECK(contains(message_of<LifetimeError>([&] { run.wait(); }), "run was moved from"));
}

TEST_CASE("of two runs in flight, each reports its own failure", "[graph][compiled]") {
  bool const replay = GENERATE(false, true);
  Ring runtime({.workers = 2});
  LogicalGraph graph;
  Node const tokens = graph.input({.shape = {2}, .dtype = DType::int64}, "tokens");
  embedding(tokens, graph.parameter({.shape = {2, 2}}, "table")).mark_output();
  TensorStore<Ring> store(runtime);
  auto compiled = compile(graph, store, {}, {.replay = replay});
  store.write<float>("table", std::vector<float>(4));
  compiled.bind_input<std::int64_t>("tokens", std::vector<std::int64_t>{0, 7});
  auto const failing = compiled.execute_async();
  compiled.bind_input<std::int64_t>("tokens", std::vector<std::int64_t>{0, 1});
  auto const good = compiled.execute_async();
  CHECK_THROWS_AS(failing.wait(), TaskError);
  CHECK_NOTHROW(good.wait());
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
}

TEST_CASE("bound data of another size or dtype is refused", "[graph][compiled]") {
  Serial runtime;
  LogicalGraph graph;
  gelutanh(graph.input({.shape = {4}}, "x")).mark_output();
  TensorStore<Serial> store(runtime);
  auto run = compile(graph, store);
  CHECK(message_of<ShapeError>([&] { run.bind_input<float>("x", std::vector<float>(3)); }) ==
        "bind_input: 3 values for 'x' of shape {4}");
  CHECK_THROWS_AS(run.bind_input<double>("x", std::vector<double>(4)), TypeError);
  CHECK_THROWS_AS(run.bind_input<float>("y", std::vector<float>(4)), GraphError);
}
