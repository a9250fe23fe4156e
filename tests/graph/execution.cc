// SPDX-License-Identifier: BSD-3-Clause
// Execution policies of plans: hints of each tile task, from the options to the runtime.
#include "nntile/core/execution.hh"

#include <limits>
#include <vector>

#include "nntile/graph/compile.hh"
#include "nntile/graph/dump.hh"
#include "nntile/graph/parts.hh"
#include "nntile/io/plan.hh"
#include "nntile/nntile.hh"
#include "nntile/runtime/adaptors/record.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// A product whose tiles of 64 are 2 x 2 x 2 tasks, and its activation, 4 tasks, in another phase.
struct Layer {
  Layer() {
    Node const a = graph.input({.shape = {128, 128}}, "a");
    Node const h = gemm(a, a).named("h");
    graph.set_phase("late");
    gelutanh(h).named("z").mark_output();
  }
  LogicalGraph graph{"layer"};
};

PlanOptions options(ExecutionPolicy const& policy) { return {.tile = 64, .policy = policy}; }

/// Hints of the plan's tasks that write a tensor, by its tiles.
std::vector<std::pair<std::uint32_t, Hints>> hints(Plan const& plan, char const* tensor) {
  std::vector<std::pair<std::uint32_t, Hints>> result;
  for (PlannedTask const& task : plan.tasks())
    if (plan.tensors()[task.tensor].name == tensor)
      result.emplace_back(task.tile, plan.hints(task));
  return result;
}

}  // namespace

TEST_CASE("a plan without a policy has no hints, nor has its text", "[graph][execution]") {
  Layer layer;
  Plan const plan(layer.graph, options({}));
  CHECK(plan.data().hints.empty());
  CHECK_FALSE(contains(dump(plan), "hint"));
  CHECK_FALSE(contains(io::plan_text(plan, layer.graph), "hints"));
}

TEST_CASE("the owner of a result's tile computes it", "[graph][execution]") {
  Layer layer;
  ExecutionPolicy const policy{
      .placement = Placement::owner_computes, .workers = {3, 1}, .nodes = {0}, .offload = true};
  Plan const plan(layer.graph, options(policy));
  for (char const* const tensor : {"h", "z"})
    for (auto const& [tile, given] : hints(plan, tensor))
      CHECK(given == Hints{.worker = tile % 2 == 0 ? 3 : 1, .node = 0, .offload = true});
  CHECK(plan.data().hints.size() == 2);
  CHECK(contains(dump(plan), "hint worker 3 node 0 offload\n"));
}

TEST_CASE("affinity follows the largest tile of a task", "[graph][execution]") {
  LogicalGraph graph("sum");
  Node const x = graph.input({.shape = {128, 64}}, "x");
  sum_slice({.axis = 1}, x).named("y").mark_output();
  PlanOptions how{.tile = 32, .policy = {.placement = Placement::affinity}};
  how.machine.workers = 5;
  Plan const plan(graph, how);
  std::size_t moved = 0;
  for (PlannedTask const& task : plan.tasks()) {
    std::uint32_t const read = plan.buffers()[plan.uses(task)[0].handle].tile;
    CHECK(plan.hints(task).worker == static_cast<int>(read % 5));
    moved += read % 5 != task.tile % 5;
  }
  CHECK(moved > 0);
}

TEST_CASE("the first rule that names a task is over the placement", "[graph][execution]") {
  Layer layer;
  ExecutionPolicy const policy{.placement = Placement::rules,
                               .priority = 1,
                               .rules = {{.phase = "late", .tile = 2, .hints = {.worker = 7}},
                                         {.phase = "late", .hints = {.priority = -3}},
                                         {.tensor = "h", .op = "gemm", .hints = {.node = 4}}}};
  Plan const plan(layer.graph, options(policy));
  for (auto const& [tile, given] : hints(plan, "h"))
    CHECK(given == Hints{.priority = 1, .node = 4});
  for (auto const& [tile, given] : hints(plan, "z"))
    CHECK(given == (tile == 2 ? Hints{.worker = 7, .priority = 1} : Hints{.priority = -2}));
}

TEST_CASE("priorities that do not add up to an int stay at its ends", "[graph][execution]") {
  constexpr int most = std::numeric_limits<int>::max(), least = std::numeric_limits<int>::min();
  static_assert(over({.priority = most}, {.priority = 1}).priority == most);
  static_assert(over({.priority = least}, {.priority = -1}).priority == least);
  static_assert(over({.priority = most}, {.priority = least}).priority == -1);
  Layer const of;
  Plan const plan(of.graph, options({.priority = most, .rules = {{.hints = {.priority = most}}}}));
  for (auto const& [tile, task] : hints(plan, "z")) CHECK(task.priority == most);
}

TEMPLATE_TEST_CASE("hints reach the runtime for each tile task of a plan", "[graph][execution]",
                   std::true_type, std::false_type) {
  Record<Ring> runtime(RuntimeOptions{.workers = 2});
  TensorStore<Record<Ring>> store(runtime);
  Layer layer;
  ExecutionPolicy const policy{.placement = Placement::owner_computes,  // of both workers
                               .rules = {{.op = "gemm", .hints = {.priority = 2}}}};
  auto compiled = compile(layer.graph, store, options(policy), {.replay = TestType::value});
  compiled.bind_input("a", std::vector<float>(128 * 128, 0.01f));
  compiled.execute();
  std::size_t tasks = 0;
  for (LoggedCall const& call : TestType::value ? runtime.recorded() : runtime.log())
    if (call.kind == LoggedCall::Kind::submit) {
      ++tasks;
      CHECK(call.hints == Hints{.worker = static_cast<int>(call.tile % 2),
                                .priority = call.tensor == "h" ? 2 : 0});
    }
  CHECK(tasks == 12);
}

TEST_CASE("results do not depend on hints", "[graph][execution]") {
  auto const run = [](ExecutionPolicy const& policy) {
    Ring runtime({.workers = 2});
    TensorStore<Ring> store(runtime);
    Layer layer;
    auto compiled = compile(layer.graph, store, options(policy));
    compiled.bind_input("a", std::vector<float>(128 * 128, 0.01f));
    compiled.execute();
    return compiled.get_output<float>("z");
  };
  CHECK(run({}) == run({.placement = Placement::affinity, .priority = 1}));
}

TEST_CASE("hints that name what the runtime lacks are refused when a plan is bound",
          "[graph][execution]") {
  Serial runtime;
  TensorStore<Serial> store(runtime);
  Layer layer;
  auto const message = [&](ExecutionRule const& rule) {
    return message_of<PlanError>([&] { compile(layer.graph, store, options({.rules = {rule}})); });
  };
  CHECK(message({.tensor = "z", .tile = 1, .hints = {.worker = 4}}) ==
        "plan 'layer': gelutanh of 'z', tile 1: worker 4 is not one of the runtime's 1; they count "
        "from 0, and -1 is any");
  CHECK(contains(message({.op = "gemm", .hints = {.node = 1}}),
                 "memory node 1 is not one of the runtime's 1; 0 is the host's"));
}

TEST_CASE("a policy that names nothing, or contradicts itself, is refused", "[graph][execution]") {
  Layer layer;
  auto const message = [&](ExecutionPolicy const& policy) {
    return message_of<PlanError>([&] { Plan(layer.graph, options(policy)); });
  };
  CHECK(message({.rules = {{.op = "gemm"}, {.op = "gelu"}}}) ==
        "plan 'layer': execution rule 1 (tensor '', op 'gelu', phase '', tile -1) names none of "
        "its tasks");
  CHECK(contains(message({.nodes = {0}}), "own tiles under owner_computes and affinity"));
  CHECK(message({.placement = static_cast<Placement>(4)}) ==
        "plan 'layer': the execution policy has placement 4; those from automatic (0) to rules (3) "
        "are possible");
  CHECK(message({.rules = {{.op = "gemm", .hints = {.device = -2}}}}) ==
        "plan 'layer': a rule of the execution policy has device -2; they count from 0, and -1 is "
        "any");
  PlanOptions nobody = options({.placement = Placement::owner_computes});
  nobody.machine.workers = 0;
  CHECK(message_of<PlanError>([&] { Plan(layer.graph, nobody); }) ==
        "plan 'layer': PlanOptions::machine has 0 workers; at least 1");
}

TEST_CASE("a rule may name tasks of some ranks alone", "[graph][execution]") {
  LogicalGraph graph("stages");
  Node x = graph.input({.shape = {64, 8}}, "x");
  for (char const* const layer : {"h.0", "h.1"}) {
    Node const w = graph.parameter({.shape = {64, 64}}, concat(layer, ".weight"));
    x = gelutanh(gemm(w, x)).named(concat(layer, ".z"));
  }
  x.mark_output();
  PlanOptions how{.mesh = {{"pipe", 2}}, .rules = pipeline({{"h.0.*"}, {"h.1.*"}})};
  for (ExecutionRule const& rule :
       std::vector<ExecutionRule>{{.tensor = "h.1.z", .tile = 0, .hints = {.priority = 2}},
                                  {.op = "send", .hints = {.priority = 2}}}) {
    how.policy.rules = {rule};
    std::vector<std::size_t> named;
    for (int rank = 0; rank < 2; ++rank) {
      Plan const part(graph, how, rank);
      named.push_back(0);
      for (PlannedTask const& task : part.tasks()) named.back() += task.priority == 2 ? 1U : 0U;
    }
    CHECK(named ==
          (rule.op.empty() ? std::vector<std::size_t>{0, 1} : std::vector<std::size_t>{1, 0}));
  }
  for (ExecutionRule const& rule :
       std::vector<ExecutionRule>{{.tensor = "h.2"}, {.op = "sned"}, {.tensor = "h.1", .tile = 1}})
    for (int rank = 0; rank < 2; ++rank) {
      how.policy.rules = {rule};
      CHECK(contains(message_of<PlanError>([&] { Plan(graph, how, rank); }), "names none of its"));
    }
}

TEST_CASE("a saved plan keeps its hints", "[graph][execution]") {
  Layer layer;
  ExecutionPolicy const policy{.placement = Placement::owner_computes,
                               .workers = {1, 0},
                               .rules = {{.phase = "late", .hints = {.prefetch = false}}}};
  Plan const plan(layer.graph, options(policy));
  std::string const text = io::plan_text(plan, layer.graph);
  CHECK(io::plan_of(text, "p.json", layer.graph) == plan);
  std::string changed = text;
  changed.replace(changed.find("\"hints\":4"), 9, "\"hints\":9");
  CHECK(contains(message_of<Error>([&] { io::plan_of(changed, "p.json", layer.graph); }),
                 "has hints 9 of 4"));
  changed = text;
  changed.replace(changed.find("\"hints\":4"), 9, "\"hints\":3");
  CHECK(contains(message_of<Error>([&] { io::plan_of(changed, "p.json", layer.graph); }),
                 "plan anew"));
}

TEST_CASE("the priorities of a policy stand in place of the critical path's",
          "[graph][execution]") {
  Layer layer;
  PlanOptions how{.policy = {.rules = {{.tensor = "z", .hints = {.priority = -1}}}}};
  how.machine.workers = 4;
  Plan const plan(layer.graph, how);
  for (auto const& [tile, given] : hints(plan, "z")) CHECK(given.priority == -1);
  for (auto const& [tile, given] : hints(plan, "h")) CHECK(given.priority == 0);
}
