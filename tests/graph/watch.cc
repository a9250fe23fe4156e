// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/graph/watch.hh"

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "nntile/graph/apply.hh"
#include "nntile/graph/compile.hh"
#include "nntile/ops/add.hh"
#include "nntile/runtime/adaptors/record.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/runtimes.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// y = y + x in each run, over tiles of 3: after run k every element is k where x is 1.
struct Sum {
  LogicalGraph graph{"sum"};
  Sum() {
    Node const x = graph.input({.shape = {7, 5}}, "x");
    Node const y = graph.state({.shape = {7, 5}}, "y");
    add(y, x, y);
    y.mark_output();
  }
};
constexpr std::size_t elements = 35;

template <class R> void start(TensorStore<R>& store, CompiledGraph<R>& run, float x = 1) {
  run.template bind_input<float>("x", std::vector<float>(elements, x));
  store.template write<float>("y", std::vector<float>(elements, 0));
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("a watch has the values of the last finished run", "[graph][watch]",
                        AllRuntimes) {
  bool const replay = GENERATE(true, false);
  Sum const sum;
  TestType runtime;
  TensorStore<TestType> store(runtime);
  auto run = compile(sum.graph, store, {.tile = 3}, {.replay = replay});
  start(store, run);
  run.execute();
  auto const watch = run.template watch<float>("y");
  CHECK(watch.latest().step == 0);
  CHECK(watch.latest().values.empty());
  for (std::uint64_t step = 2; step < 6; ++step) {
    run.execute();
    CHECK(watch.latest().step == step);
    CHECK(watch.latest().values == std::vector<float>(elements, static_cast<float>(step)));
  }
}

TEST_CASE("the elements of a watch are in their places", "[graph][watch]") {
  Sum const sum;
  Serial runtime;
  TensorStore<Serial> store(runtime);
  auto run = compile(sum.graph, store, {.tile = 2});
  start(store, run);
  std::vector<float> values(elements);
  for (std::size_t i = 0; i < elements; ++i) values[i] = static_cast<float>(i);
  run.bind_input<float>("x", values);
  auto const watch = run.watch<float>("y");
  run.execute();
  CHECK(watch.latest().values == values);
}

TEST_CASE("threads that look while runs go on see whole runs, in order", "[graph][watch]") {
  Sum const sum;
  Ring runtime({.workers = 2});
  TensorStore<Ring> store(runtime);
  auto run = compile(sum.graph, store, {.tile = 3});
  start(store, run);
  auto const watch = run.watch<float>("y");
  std::atomic<bool> stop{false};
  std::atomic<int> torn{0}, seen{0};
  std::thread logger([&, watch = watch] {
    for (std::uint64_t last = 0; !stop;) {
      auto const latest = watch.latest();
      if (latest.step < last) ++torn;
      for (float const value : latest.values)
        if (value != static_cast<float>(latest.step)) ++torn;
      seen += latest.step != last ? 1 : 0;
      last = latest.step;
    }
  });
  for (int i = 0; i < 3000 || (seen < 2 && i < 100'000); ++i) run.execute();
  stop = true;
  logger.join();
  CHECK(torn == 0);
  CHECK(seen >= 2);
}

TEST_CASE("a watch outlives its graph, store and runtime", "[graph][watch]") {
  Sum const sum;
  std::optional<Watch<float>> watch;
  {
    Ring runtime({.workers = 2});
    TensorStore<Ring> store(runtime);
    auto run = compile(sum.graph, store, {.tile = 3});
    start(store, run);
    watch = run.watch<float>("y");
    for (int i = 0; i < 10; ++i) (void)run.execute_async();
  }
  CHECK(watch->latest().step == 10);
  CHECK(watch->latest().values == std::vector<float>(elements, 10));
}

TEST_CASE("a graph without watches left submits what it did before", "[graph][watch]") {
  Sum const sum;
  Record<Serial> runtime;
  TensorStore<Record<Serial>> store(runtime);
  auto run = compile(sum.graph, store);
  start(store, run);
  {
    auto const watch = run.watch<float>("y");
  }
  runtime.clear();
  run.execute();
  CHECK(runtime.counts().submits == 0);
  auto const watch = run.watch<float>("y");
  run.execute();
  CHECK(runtime.counts().submits == 1);
}

TEST_CASE("what cannot be watched is refused", "[graph][watch]") {
  Sum const sum;
  Serial runtime;
  TensorStore<Serial> store(runtime);
  auto run = compile(sum.graph, store);
  CHECK(contains(message_of<GraphError>([&] { (void)run.watch<float>("z"); }), "no tensor 'z'"));
  CHECK(message_of<TypeError>([&] { (void)run.watch<double>("y"); }) ==
        "watch: 'y' is fp32, not fp64");
}

TEST_CASE("a watch after the end of the runtime is refused", "[graph][watch]") {
  Sum const sum;
  std::optional<Ring> runtime(std::in_place, RuntimeOptions{.workers = 2});
  TensorStore<Ring> store(*runtime);
  auto run = compile(sum.graph, store);
  runtime.reset();
  CHECK(contains(message_of<LifetimeError>([&] { (void)run.watch<float>("y"); }),
                 "watch: its runtime has ended"));
}

// Of a new graph, whose first run notes which tensors have values: the thread sanitizer looks on.
TEST_CASE("of a thread that trains and one that calls get_output, one is refused in words",
          "[graph][watch]") {
  Sum const sum;
  Ring runtime({.workers = 2});
  std::string text;
  for (int round = 0; round < 20; ++round) {
    TensorStore<Ring> store(runtime);
    auto run = compile(sum.graph, store, {.tile = 3});
    start(store, run);
    std::atomic<bool> refused{false};
    auto const drive = [&](auto&& call) {
      std::string said;
      auto const hang = std::chrono::steady_clock::now() + std::chrono::minutes(2);
      while (!refused && std::chrono::steady_clock::now() < hang)
        if (contains(said = message_of<LifetimeError>(call),
                     "one thread drives a runtime at a time"))
          if (!refused.exchange(true)) text = said;
    };
    std::thread logger([&] { drive([&] { (void)run.get_output<float>("y"); }); });
    drive([&] { run.execute(); });
    logger.join();
    runtime.wait_all();
    CHECK(refused);
    INFO(text);
    CHECK((text.starts_with("read: called by thread") ||
           text.starts_with("execute: called by thread")));
  }
}
