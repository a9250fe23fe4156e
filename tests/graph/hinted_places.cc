// SPDX-License-Identifier: BSD-3-Clause
// Places as hints, for runtimes that move values themselves.
#include <map>
#include <string>

#include "nntile/graph/graph.hh"
#include "nntile/graph/places.hh"
#include "nntile/io/plan.hh"
#include "nntile/ops.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/comm/part_tiles.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/tiny_gpt.hh"
#ifdef NNTILE_HAVE_STARPU
#include "nntile/runtime/starpu/starpu.hh"
#endif

using namespace nntile;
using namespace nntile::test;

namespace {

/// Parameters on one device, all else on another, states on the host.
std::vector<PlaceRule> const rules{
    {.role = Role::state}, {.role = Role::parameter, .place = device(1)}, {.place = device(0)}};

template <class R> Tiles tiles_of(TinyGptRun<R>& run) {
  Tiles tiles;
  collect(run.store, tiles);
  return tiles;
}

}  // namespace

TEST_CASE("a plan has as many different hints as tasks can number", "[graph][places]") {
  PlanData plan;
  plan.name = "many";
  for (int i = 0; i < UINT16_MAX; ++i) plan.hints.push_back({.device = i});
  CHECK(plan.hint({.device = UINT16_MAX - 1}) == UINT16_MAX);
  CHECK(message_of<PlanError>([&] { (void)plan.hint({.device = UINT16_MAX}); }) ==
        "plan 'many': more than 65535 different hints");
}

TEST_CASE("of places that are hints a plan keeps the devices of tasks", "[graph][hinted_places]") {
  LogicalGraph graph("layer");
  Node const x = graph.input({.shape = {4, 6}}, "x"), w = graph.parameter({.shape = {8, 4}}, "w");
  Node const h = gemm(w, x).named("h");
  gelutanh(h).named("y").mark_output();
  PlanOptions options{.tile = 4, .check = true};
  options.place = {{.tensors = "h", .place = device(2)}, {.tensors = "y"}, {.place = device(0)}};
  options.places_are_hints = true;
  options.policy = {.rules = {{.op = "gemm", .hints = {.priority = 3}}}};
  Plan const plan(graph, options);
  CHECK(place_traffic(plan).empty());
  REQUIRE(plan.memories().size() == 1);
  CHECK(plan.memories()[0].location.place == host);
  std::map<std::string, int> tasks;
  for (PlannedTask const& task : plan.tasks()) {
    Hints const hints = plan.hints(task);
    ++tasks[concat(plan.kernels()[task.kernel].name, " ", hints.device, " ", hints.priority)];
  }
  CHECK(tasks == std::map<std::string, int>{{"gemm 2 3", 4}, {"gelutanh -1 0", 4}});
}

TEST_CASE("what places hint at comes and goes with a saved plan", "[graph][hinted_places]") {
  TinyGptGraph const of;
  PlanOptions const options{.tile = 64, .place = rules, .places_are_hints = true};
  Plan const plan(of.graph, options);
  std::string const text = io::plan_text(plan, of.graph);
  Plan const read = io::plan_of(text, "text", of.graph);
  CHECK(io::plan_text(read, of.graph) == text);
  std::map<int, int> devices;
  for (std::size_t t = 0; t < plan.tasks().size(); ++t) {
    ++devices[plan.hints(plan.tasks()[t]).device];
    CHECK(read.hints(read.tasks()[t]) == plan.hints(plan.tasks()[t]));
  }
  CHECK((devices.size() >= 2 && devices[0] > 0 && devices[1] > 0));
}

#ifdef NNTILE_HAVE_STARPU
TEST_CASE("StarPU without devices runs a plan for devices with the same bits",
          "[graph][hinted_places]") {
  TinyGptGraph const of;
  Serial serial;
  TinyGptRun expected(serial, of, {.tile = 64});
  StarPU starpu({.workers = 2});
  TinyGptRun run(starpu, of, {.tile = 64, .place = rules, .check = true});
  CHECK(place_traffic(run.step.plan()).empty());
  int hinted = 0;
  for (PlannedTask const& task : run.step.plan().tasks())
    hinted += run.step.plan().hints(task).device >= 0;
  CHECK(hinted > 0);
  CHECK(run.train(2) == expected.train(2));
  CHECK(tiles_of(run) == tiles_of(expected));
}
#endif
