// SPDX-License-Identifier: BSD-3-Clause
// Inputs with two buffers: the next batch comes in while a run reads this one.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "nntile/graph/graph.hh"
#include "nntile/nn/linear.hh"
#include "nntile/ops/add.hh"
#include "nntile/ops/scale.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/one_to_one.hh"
#include "tests/support/runtimes.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// y = x, once the gate is open; -1 where it does not open within a minute.
struct Gate : OneToOne {
  static constexpr char const* name = "gate";
  template <class T> static void reference(Args const& args, Buffers<Gate> const& buffers) {
    T const* const x = buffers.template at<T>(Operand::x);
    T* const y = buffers.template at<T>(Operand::y);
    using namespace std::chrono;
    auto const limit = steady_clock::now() + seconds(60);
    while (!open && steady_clock::now() < limit) std::this_thread::sleep_for(microseconds(100));
    for (Index i = 0; i < args.n; ++i) y[i] = open ? x[i] : T(-1);
  }
  inline static std::atomic<bool> open{true};
};

constexpr std::size_t elements = 35;

/// y = y + x in each run.
struct Sum {
  LogicalGraph graph{"sum"};
  Node x = graph.input({.shape = {7, 5}}, "x"), y = graph.state({.shape = {7, 5}}, "y");
  Sum() {
    add(y, x, y);
    y.mark_output();
  }
};

std::vector<float> all(float value) { return std::vector<float>(elements, value); }

using Concurrent = std::tuple<
#ifdef NNTILE_HAVE_STARPU
    StarPU,
#endif
    Threads, DynamicRing, Ring>;

}  // namespace

TEMPLATE_LIST_TEST_CASE("the next batch is copied in while a run reads this one",
                        "[graph][double_buffer]", Concurrent) {
  bool const replay = GENERATE(true, false);
  LogicalGraph graph;
  Node const x = graph.input({.shape = {7, 5}}, "x");
  Node const y = Call<Gate>{}(x, graph.tensor({.shape = {7, 5}}, "y")).mark_output();
  TestType runtime({.workers = 2, .own_driver = true});
  Graph<TestType> run(graph, runtime, {.tile = 3, .double_buffered = {"x"}}, {.replay = replay});
  for (float batch = 1; batch < 6; ++batch) {
    run[x] = all(batch);
    Gate::open = false;
    auto const step = run.async();
    run[x] = all(-2);  // waits for no task: the gate is closed
    CHECK_FALSE(step.is_complete());
    Gate::open = true;
    step.wait();
    CHECK(run[y].template read<float>() == all(batch));
    run();
    CHECK(run[y].template read<float>() == all(-2));
  }
}

TEMPLATE_LIST_TEST_CASE("runs that are submitted at once read each its own batch",
                        "[graph][double_buffer]", AllRuntimes) {
  bool const replay = GENERATE(true, false);
  Sum of;
  TestType runtime;
  Graph<TestType> run(of.graph, runtime, {.tile = 3, .double_buffered = {"x"}}, {.replay = replay});
  run[of.y] = all(0);
  float sum = 0;
  for (int i = 1; i <= 60; ++i) {
    run[of.x] = all(static_cast<float>(i));
    (void)run.async();
    sum += static_cast<float>(i);
    if (i % 7 == 0) {  // the same batch again
      (void)run.async();
      sum += static_cast<float>(i);
    }
  }
  CHECK(run[of.y].template read<float>() == all(sum));
  CHECK(run[of.x].template read<float>() == all(60));
}

TEST_CASE("graphs of one store read the batch that was bound last", "[graph][double_buffer]") {
  Sum of;
  LogicalGraph other("other");
  Node const z = scale({.alpha = 2}, other.input({.shape = {7, 5}}, "x")).named("z").mark_output();
  Serial runtime;
  TensorStore<Serial> store(runtime);
  Graph<Serial> run(of.graph, store, {.tile = 3, .double_buffered = {"x"}}), second(other, store);
  run[of.y] = all(0);
  for (float const batch : {1.0f, 2.0f, 3.0f}) {
    run[of.x] = all(batch);
    second();
    CHECK(second[z].read<float>() == all(2 * batch));
    run();
  }
  CHECK(run[of.y].read<float>() == all(6));
}

TEST_CASE("a double-buffered input counts twice in the plan's memory", "[graph][double_buffer]") {
  Sum of;
  Plan const once(of.graph, {.tile = 3}), twice(of.graph, {.tile = 3, .double_buffered = {"x"}});
  CHECK(once.memory().stored == 2 * 6 * 64);
  CHECK(twice.memory().stored == 3 * 6 * 64);
  CHECK(twice.memory().adopted == 0);
  CHECK_FALSE(once == twice);
}

TEST_CASE("a number is bound to a double-buffered scalar", "[graph][double_buffer]") {
  LogicalGraph graph;
  Node const rate = graph.input({.shape = {}}, "rate");
  Node const z = scale(rate).named("z").mark_output();
  Serial runtime;
  Graph<Serial> run(graph, runtime, {.double_buffered = {"rate"}});
  CHECK(contains(message_of<LifetimeError>([&] { run(); }), "input 'rate'"));
  for (float const value : {0.5f, 0.25f, 0.125f}) {
    run[rate] = value;
    run();
    CHECK(run[z].item<float>() == value);
  }
}
