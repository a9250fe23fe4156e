// SPDX-License-Identifier: BSD-3-Clause
// Plans for several places: what is copied where, and when.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nntile/graph/dump.hh"
#include "nntile/graph/graph.hh"
#include "nntile/graph/parts.hh"
#include "nntile/graph/places.hh"
#include "nntile/ops.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/graph/placed_layer.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/places.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

TEST_CASE("an op runs on the device that its result lives on", "[graph][places]") {
  PlacedLayer const of;
  PlanOptions options{.tile = 4, .check = true};
  options.place = {{.tensors = "x"}, {.tensors = "y"}, all_on(0)};
  Plan const plan(of.graph, options);
  std::map<std::string, int> tasks;
  for (PlannedTask const& task : plan.tasks())
    ++tasks[concat(plan.kernels()[task.kernel].name, " ", to_string(task.location.place))];
  INFO(dump(plan));
  // x goes there, h comes back.
  CHECK(tasks == std::map<std::string, int>{
                     {"gemm device 0", 4}, {"gelutanh host", 4}, {"copy device 0", 6}});
  CHECK(place_traffic(plan) ==
        std::vector<PlaceTraffic>{{host, device(0), 2, 96}, {device(0), host, 4, 192}});
}

TEST_CASE("an adopted input stays where the caller has it", "[graph][places]") {
  PlacedLayer const of;
  Places<Serial> runtime;
  TensorStore<Places<Serial>> store(runtime);
  auto run = compile(of.graph, store, {.tile = 4, .adopted = {"x"}, .place = {all_on(0)}});
  CHECK(run.plan().memory().adopted == 96);
  store.write<float>("w", std::vector<float>(32, 1));
  std::vector<float> const x(24, 2);
  run.bind_input("x", x);
  run.execute();
  CHECK(run.get_output<float>("y") == std::vector<float>(48, 8));
}

TEST_CASE("an automatic tile is one that fits", "[graph][places][single-threaded]") {
  TinyGptGraph const of(
      {.config = {.vocab = 96, .positions = 128, .width = 256, .layers = 1, .heads = 2}});
  PlanOptions options;
  options.place = {
      {.role = Role::parameter}, {.role = Role::state}, {.role = Role::input}, all_on(0)};
  CHECK(Plan(of.graph, options).tile() == 0);  // a device is filled by one task
  options.capacity = {{device(0), Index{900} * 1024}};
  options.tile = 0;
  CHECK_THROWS_AS(Plan(of.graph, options), PlanError);
  options.tile = PlanOptions::automatic;
  Plan const plan(of.graph, options);
  CHECK(plan.tile() > 0);
  CHECK(plan.memory({0, device(0)}).total() <= Index{900} * 1024);
  options.capacity[0].bytes = 4096;
  CHECK(contains(message_of<PlanError>([&] { Plan(of.graph, options); }), "at once"));
}

TEST_CASE("an automatic tile is one of ranks that have room together",
          "[graph][places][single-threaded]") {
  TinyGptGraph const of({.batch = 4, .numerics = {.groups = {{"batch", 4}}}});
  PlanOptions options{.tile = 64, .cuts = {{"batch", {1}}}, .mesh = {{"data", 4}}, .rules = fsdp()};
  Index most = 0;
  for (int rank = 0; rank < 4; ++rank)
    most = std::max(most, Plan(of.graph, options, rank).memory({rank, host}).total());
  options.capacity = {{host, most}};
  for (Index const tile : {Index{64}, PlanOptions::automatic}) {
    options.tile = tile;
    for (int rank = 0; rank < 4; ++rank)
      CHECK(Plan(of.graph, options, rank).memory({rank, host}).total() <= most);
  }
  options.mesh.clear();
  options.rules.clear();
  CHECK_THROWS_AS(Plan(of.graph, options), PlaceFull);  // one rank alone keeps more
}

TEST_CASE("what is written several times goes home once", "[graph][places]") {
  LogicalGraph graph("twice");
  Node const p = graph.parameter({.shape = {8}}, "p"), g = graph.input({.shape = {8}}, "g");
  Node const m = graph.state({.shape = {8}}, "m"), v = graph.state({.shape = {8}}, "v");
  Node const lr = graph.input({.shape = {}}, "lr");
  Node const count = graph.input({.shape = {}, .dtype = DType::int64}, "count");
  adamw_step(p, g, m, v, lr, count);
  adamw_step(p, g, m, v, lr, count);
  Plan const plan(graph, {.tile = 0, .place = {{.role = Role::state}, all_on(0)}, .check = true});
  CHECK(place_traffic(plan) ==
        std::vector<PlaceTraffic>{{host, device(0), 2, 64}, {device(0), host, 2, 64}});
}

TEST_CASE("bytes of copies that no integer holds are the most that one does", "[graph][places]") {
  LogicalGraph graph("huge");
  Node const x = graph.parameter({.shape = {Index{1} << 58}}, "x");
  Node const w = graph.parameter({.shape = {Index{1} << 58}}, "w");
  for (int i = 0; i < 9; ++i) {
    gelutanh(x, w);
    gelutanh(w, x);
  }
  auto const moved =
      place_traffic(Plan(graph, {.tile = 0, .place = {{"x", Role::any, device(0)}}}));
  REQUIRE(moved.size() == 2);
  for (PlaceTraffic const& way : moved) {
    CHECK(way.copies == 9);
    CHECK(way.bytes == INT64_MAX);
  }
}

TEST_CASE("what changes between phases is read as it is then", "[graph][places]") {
  LogicalGraph graph("phases");
  Node const x = graph.input({.shape = {4, 2}}, "x");
  Node const w = graph.parameter({.shape = {4, 4}}, "w");
  Node const h = gemm(w, x).named("h").mark_output();
  graph.set_phase("second");
  gemm(w, h).named("y").mark_output();
  auto const results = [&]<class R>(R*, std::vector<PlaceRule> const& place) {
    R runtime;
    TensorStore<R> store(runtime);
    auto run = compile(graph, store, {.tile = 2, .by_phase = true, .place = place});
    store.template write<float>("w", std::vector<float>(16, 1));
    run.bind_input("x", std::vector<float>(8, 1));
    run.execute("forward");
    store.template write<float>("w", std::vector<float>(16, 3));
    run.execute("second");
    return run.template get_output<float>("y");
  };
  auto const expected = results(static_cast<Serial*>(nullptr), {});
  CHECK(expected == std::vector<float>(8, 48));
  CHECK(results(static_cast<Places<Serial>*>(nullptr),
                {{.role = Role::parameter}, {.role = Role::input}, all_on(0)}) == expected);
}

TEST_CASE("a tensor on a device is watched from the host", "[graph][places]") {
  PlacedLayer const of;
  Places<Serial> runtime;
  TensorStore<Places<Serial>> store(runtime);
  auto run = compile(of.graph, store, {.tile = 4, .place = {all_on(0)}});
  store.write<float>("w", std::vector<float>(32, 1));
  run.bind_input("x", std::vector<float>(24, 2));
  Watch<float> const y = run.watch<float>("y");
  CHECK(y.latest().step == 0);
  run.execute();
  CHECK(y.latest().step == 1);
  CHECK(y.latest().values == run.get_output<float>("y"));
  CHECK(y.latest().values == std::vector<float>(48, 8));
}

namespace {

/// A host without memory for another buffer when it is full.
struct Fillable : Places<Serial> {
  bool full = false;
  Handle allocate(std::size_t bytes, Place place = host, Lifetime lifetime = Lifetime::persistent) {
    if (full && place == host && now["host"] > 0)
      throw OutOfMemory(concat("allocate: ", bytes, " bytes of a full host"));
    return Places<Serial>::allocate(bytes, place, lifetime);
  }
};

}  // namespace

TEST_CASE("a watch that finds no memory for its copies keeps none", "[graph][places]") {
  PlacedLayer const of;
  Fillable runtime;
  TensorStore<Fillable> store(runtime);
  auto run = compile(of.graph, store, {.tile = 4, .place = {all_on(0)}});
  runtime.now["host"] = 0;
  runtime.full = true;  // for the second tile of several
  CHECK_THROWS_AS(run.watch<float>("y"), OutOfMemory);
  CHECK(runtime.now["host"] == 0);
  runtime.full = false;
  CHECK_NOTHROW(run.watch<float>("y"));
}

TEST_CASE("a plan around a store leaves tensors where they are", "[graph][places]") {
  PlacedLayer const of;
  Places<Serial> runtime;
  TensorStore<Places<Serial>> store(runtime);
  auto const first = compile(of.graph, store, {.tile = 4, .place = {all_on(0)}});
  auto const second = compile(of.graph, store, {.tile = 4});
  CHECK(second.plan().memory({0, device(0)}).stored == 512);
  auto const moved =
      std::make_shared<Plan const>(of.graph, PlanOptions{.tile = 4, .place = {all_on(1)}});
  CHECK(message_of<PlanError>([&] { CompiledGraph(moved, store); }) ==
        "store: 'x' lives at device 0 here but at device 1 in the new graph; plan both with the "
        "same places, or the new one around TensorStore::tilings()");
}

TEST_CASE("a tensor of another shape lives where its own plan asks", "[graph][places]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {4, "batch"}}, "x");
  scale(x).named("z").mark_output();
  Places<Serial> runtime;
  TensorStore<Places<Serial>> store(runtime);
  auto const place_of = [&](Index batch, std::vector<PlaceRule> const& rules) {
    PlanOptions const options{.tile = 0, .dims = {{"batch", batch}}, .place = rules};
    return compile(graph, store, options).plan().tensors()[x.id()].place;
  };
  CHECK(place_of(8, {}) == host);
  CHECK(place_of(4, {all_on(0)}) == device(0));
  CHECK(place_of(4, {}) == device(0));
  CHECK(place_of(8, {all_on(0)}) == host);
}
