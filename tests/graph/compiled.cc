// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/graph/compiled.hh"

#include <cstring>

#include "nntile/ops/embedding.hh"
#include "nntile/runtime/adaptors/record.hh"
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
Parameters trained(R& runtime, PlanOptions const& options, BindOptions const& bind = {}) {
  TinyGptGraph const gpt;
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

TEST_CASE("both vector instruction sets give the same bits", "[graph][compiled]") {
  if (!kernels::available(Isa::v3) || !kernels::available(Isa::v4))
    return skip("this CPU or build lacks AVX2 or AVX-512");
  Serial runtime;
  CHECK(difference(trained(runtime, {.tile = 64}, {.isa = Isa::v3}),
                   trained(runtime, {.tile = 64}, {.isa = Isa::v4})) == "none");
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

TEST_CASE("an input that was never bound is an error of the run", "[graph][compiled]") {
  Serial runtime;
  LogicalGraph graph;
  gelutanh(graph.input({.shape = {4}}, "x")).mark_output();
  TensorStore<Serial> store(runtime);
  auto run = compile(graph, store);
  CHECK_THROWS_AS(run.execute(), LifetimeError);
}

TEST_CASE("bound data of another size or dtype is refused", "[graph][compiled]") {
  Serial runtime;
  LogicalGraph graph;
  gelutanh(graph.input({.shape = {4}}, "x")).mark_output();
  TensorStore<Serial> store(runtime);
  auto run = compile(graph, store);
  CHECK(message_of<ShapeError>([&] { run.bind_input<float>("x", std::vector<float>(3)); }) ==
        "write: 3 values for 'x' of shape {4}");
  CHECK_THROWS_AS(run.bind_input<double>("x", std::vector<double>(4)), TypeError);
  CHECK_THROWS_AS(run.bind_input<float>("y", std::vector<float>(4)), GraphError);
}
