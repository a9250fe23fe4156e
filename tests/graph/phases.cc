// SPDX-License-Identifier: BSD-3-Clause
// Phases of a graph, run by their names.
#include "nntile/graph/passes/phases.hh"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "nntile/graph/dump.hh"
#include "nntile/graph/graph.hh"
#include "nntile/ops/add.hh"
#include "nntile/ops/fill.hh"
#include "nntile/ops/scale.hh"
#include "tests/graph/random_graph.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/padding.hh"
#include "tests/support/runtimes.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// A step of which the optimizer moves up into the backward pass, unless phases are kept apart.
PlanOptions const mixed{.tile = 64}, apart{.tile = 64, .by_phase = true};

/// forward: h = 2 x, y = h + h; backward: g = h + x; update: w = w + g.
struct Steps {
  LogicalGraph graph{"steps"};
  Node x = graph.input({.shape = {6}}, "x"), w = graph.state({.shape = {6}}, "w");
  Node y;
  Steps() {
    Node const h = scale({.alpha = 2}, x).named("h");
    y = graph.tensor({.shape = {6}}, "y").mark_output();
    add(h, h, y);
    graph.set_phase("backward");
    Node const g = graph.tensor({.shape = {6}}, "g");
    add(h, x, g);
    graph.set_phase("update");
    add(w, g, w);
    w.mark_output();
  }
};
std::vector<float> all(float value) { return std::vector<float>(6, value); }

}  // namespace

TEMPLATE_LIST_TEST_CASE("phases that are run in turn compute what a run computes",
                        "[graph][phases]", AllRuntimes) {
  bool const replay = GENERATE(true, false);
  TinyGptGraph const graph;
  TestType one, other;
  TinyGptRun<TestType> whole(one, graph, mixed), parts(other, graph, apart, {.replay = replay});
  for (int step = 1; step <= 3; ++step) {
    whole.bind(step);
    whole.step.execute();
    parts.bind(step);
    (void)parts.step.execute_async("forward");
    (void)parts.step.execute_async("backward");
    parts.step.execute("optimizer");
    CHECK(parts.step.template get_output<float>("loss") ==
          whole.step.template get_output<float>("loss"));
  }
  CHECK(parts.parameters() == whole.parameters());
  whole.train(1);
  parts.train(1);  // all phases by one call
  CHECK(parts.parameters() == whole.parameters());
}

TEST_CASE("a phase needs what it reads, and runs behind the one before it", "[graph][phases]") {
  Steps of;
  Serial runtime;
  Graph<Serial> run(of.graph, runtime, {.tile = 4, .by_phase = true});
  CHECK(contains(message_of<LifetimeError>([&] { run.phase("forward"); }), "input 'x'"));
  run[of.x] = all(1);
  run.phase("forward");  // w has no value yet
  CHECK(run[of.y].read<float>() == all(4));
  CHECK(message_of<LifetimeError>([&] { run.phase("update"); }) ==
        "execute: phase 'update' of graph 'steps' runs behind 'backward', and the last that ran "
        "was forward: run the phases in turn");
  run.phase("backward");
  CHECK(contains(message_of<LifetimeError>([&] { run.phase("update"); }), "state 'w'"));
  run[of.w] = all(0);
  run.phase("update");
  CHECK(run[of.w].read<float>() == all(3));
  CHECK(contains(message_of<LifetimeError>([&] { run.phase("backward"); }), "was update"));
  run[of.x] = all(2);
  run.phase("forward");
  run[of.x] = all(1);
  run.phase("forward");  // as often as is liked
  run.async("backward").wait();
  run.phase("update");
  CHECK(run[of.w].read<float>() == all(6));
  run();
  CHECK(run[of.w].read<float>() == all(9));
  CHECK(run.stats().runs == 3);
}

// Also for the thread sanitizer: the refused thread looks at nothing that the other one writes.
TEST_CASE("a phase is refused while another thread drives, whosever turn it is",
          "[graph][phases]") {
  Steps of;
  Ring runtime({.workers = 2});
  TensorStore<Ring> store(runtime);
  auto run = compile(of.graph, store, {.tile = 4, .by_phase = true});
  run.bind_input<float>("x", all(1));
  store.write<float>("w", all(0));
  run.execute("forward");
  std::string text;
  auto const elsewhere = [&](auto call) {
    text.clear();
    std::thread([&] { text = message_of<LifetimeError>(call); }).join();
    return contains(text, "one thread drives a runtime at a time");
  };
  {
    auto const inside = runtime.drive("a long call");
    CHECK(elsewhere([&] { run.execute("update"); }));  // out of turn
    CHECK(text.starts_with("execute: called by thread"));
    CHECK(elsewhere([&] { (void)run.execute_async("update"); }));
    CHECK(text.starts_with("execute_async: called by thread"));
    CHECK(elsewhere([&] { run.execute("backward"); }));
    run.execute("forward");  // by the one that drives
  }
  CHECK_FALSE(elsewhere([&] { run.execute("backward"); }));  // now its turn
  run.execute("update");
  CHECK(store.read<float>("w") == all(3));

  // Threads that race: no phase runs out of turn, and each update had its own backward pass.
  std::atomic<int> steps{1};
  auto const race = [&] {
    for (int i = 0; i < 300; ++i)
      for (char const* const phase : {"forward", "backward", "update"}) try {
          run.execute(phase);
          if (phase[0] == 'u') ++steps;
        } catch (LifetimeError const&) {  // out of turn, or the other one drives
        }
  };
  std::thread other(race);
  race();
  other.join();
  CHECK(store.read<float>("w") == all(static_cast<float>(3 * steps)));
}

TEST_CASE("a phase that does not exist, and a plan without phases, are refused",
          "[graph][phases]") {
  Steps of;
  Serial runtime;
  TensorStore<Serial> store(runtime);
  Graph<Serial> run(of.graph, store, {.by_phase = true}), mix(of.graph, store);
  CHECK(message_of<PlanError>([&] { run.phase("optimizer"); }) ==
        "plan 'steps': no phase 'optimizer'; it has 'forward', 'backward', 'update'");
  CHECK(message_of<PlanError>([&] { mix.phase("forward"); }) ==
        "plan 'steps': no phase 'forward': it does not keep phases apart; plan with "
        "PlanOptions::by_phase");
}

TEST_CASE("a plan keeps phases apart where it is asked to", "[graph][phases]") {
  TinyGptGraph const graph;
  CHECK(Plan(graph.graph, mixed).phases().empty());
  for (Index const tile : {Index{64}, PlanOptions::automatic}) {
    Plan const plan(graph.graph, {.tile = tile, .by_phase = true, .check = true});
    REQUIRE(plan.phases().size() == 3);
    CHECK(plan.phases()[2].name == "optimizer");
    CHECK(contains(dump(plan), "phase optimizer: "));
    for (PlannedPhase const& phase : plan.phases())
      for (std::uint32_t t = phase.begin; t < phase.end; ++t)
        if (graph.graph.phase_name(graph.graph.op_at(plan.tasks()[t].node).phase) != phase.name)
          FAIL("task " << t << " is not of phase " << phase.name);
  }
  std::size_t padded = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    RandomGraph random(seed);
    random.loss.mark_output();
    PlanOptions const options =
        padded_at_times(random.graph, seed, {.tile = 2, .by_phase = true, .check = true});
    padded += options.pad.size();
    CHECK_NOTHROW(Plan(random.graph, options));
  }
  CHECK(padded >= 5);
}

TEST_CASE("an op that must follow a later phase is a PlanError", "[graph][phases]") {
  LogicalGraph graph("g");
  Node const x = graph.input({.shape = {6}}, "x");
  graph.set_phase("backward");
  Node const y = scale(x).named("y");
  graph.set_phase("forward");
  scale(y).named("z").mark_output();
  CHECK(message_of<PlanError>([&] { Plan(graph, {.by_phase = true}); }) ==
        "plan 'g': scale of phase 'forward' reads 'y' behind an op of phase 'backward'; set its "
        "phase to that one, or plan without PlanOptions::by_phase");
}
