// SPDX-License-Identifier: BSD-3-Clause
// Plans for several places: what is copied where, memory at each, and the same bits.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nntile/graph/dump.hh"
#include "nntile/graph/graph.hh"
#include "nntile/graph/places.hh"
#include "nntile/ops.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/comm/part_tiles.hh"
#include "tests/support/catch.hh"
#include "tests/support/copied.hh"
#include "tests/support/device_runtimes.hh"
#include "tests/support/disk_runtimes.hh"
#include "tests/support/message.hh"
#include "tests/support/places.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

PlaceRule all_on(int number) { return {.place = device(number)}; }

/// y = gelu(W x), whose sum of squares is kept too.
struct Layer {
  LogicalGraph graph{"layer"};
  Node x = graph.input({.shape = {4, 6}}, "x");
  Node w = graph.parameter({.shape = {8, 4}}, "w");
  Node h = gemm(w, x).named("h");
  Node y = gelutanh(h).named("y").mark_output();
};

/// A placement, and the capacities of device 0 and then of the host, as shares of the arena that
/// there is without.
struct Case {
  char const* name;
  std::vector<PlaceRule> place;
  double capacity = 0, host_capacity = 0;
  bool by_phase = false;
  bool disk = false;
};
std::vector<Case> const& cases() {
  static std::vector<PlaceRule> const kept_on_host = {
      {.role = Role::state}, {.role = Role::parameter}, {.role = Role::input}, all_on(0)};
  static std::vector<Case> const all = {
      {"device", {all_on(0)}},
      {"states on the host", {{.role = Role::state}, all_on(0)}},
      {"parameters on the host, by phase", {{.role = Role::parameter}, all_on(0)}, 0, 0, true},
      {"values on the device", {{.role = Role::transient, .place = device(0)}}},
      {"two devices", {{.tensors = "*h.0.*", .place = device(1)}, all_on(0)}},
      {"states on the disk", {{.role = Role::state, .place = disk}, all_on(0)}, 0, 0, false, true},
      {"0.4 of the arena", kept_on_host, 0.4},
      {"0.4 of the arena, by phase", kept_on_host, 0.4, 0, true},
      {"the host full, too", kept_on_host, 0.4, 0.5, false, true},
      {"the host alone, 0.4 of its arena", {}, 0, 0.4, false, true},
      {"the same by phase, its states on the disk",
       {{.role = Role::state, .place = disk}},
       0,
       0.4,
       true,
       true}};
  return all;
}

bool uses_device(Case const& each) {
  return std::any_of(each.place.begin(), each.place.end(),
                     [](PlaceRule const& rule) { return is_on_device(rule.place); });
}

PlanOptions options_of(TinyGptGraph const& of, Case const& each) {
  PlanOptions options{.tile = 64, .check = true};
  options.place = each.place;
  options.by_phase = each.by_phase;
  auto const limit = [&](Place const& place, double share) {
    if (share == 0) return;
    MemoryReport const memory = Plan(of.graph, options).memory({0, place});
    options.capacity.push_back(
        {place, memory.stored + static_cast<Index>(share * static_cast<double>(memory.arena))});
  };
  limit(device(0), each.capacity);
  limit(host, each.host_capacity);  // what the device has no room for is there
  return options;
}
/// What all runtimes bind.
struct Planned {
  TinyGptGraph of;
  PlanOptions options;
  std::shared_ptr<Plan const> plan;

  explicit Planned(Case const& each)
      : options(options_of(of, each)), plan(std::make_shared<Plan const>(of.graph, options)) {}
};
Planned const& planned(Case const& each) {
  static std::map<Case const*, Planned> all;
  return all.try_emplace(&each, each).first->second;
}

/// Kept tiles and the loss after three steps; before each, ready(plan), and checks() behind it.
template <class R> struct Trained {
  Tiles tiles;
  float loss = 0;
};
template <class R, class Ready, class Checks>
Trained<R> train(R& runtime, Planned const& planned, bool replay, Ready ready, Checks checks) {
  TinyGptRun<R> run(runtime, planned.of, planned.plan, {.replay = replay});
  for (int number = 1; number <= 3; ++number) {
    run.bind(number);
    ready();
    if (planned.options.by_phase)
      for (char const* phase : {"forward", "backward", "optimizer"}) run.step.execute(phase);
    else
      run.step.execute();
    checks(run.step.plan());
  }
  Trained<R> result;
  result.loss = run.step.template get_output<float>("loss")[0];
  collect(run.store, result.tiles);
  return result;
}

Trained<Serial> const& trained_on_host() {
  static Trained<Serial> const result = [] {
    Serial serial;
    return train(serial, Planned({"host", {}}), true, [] {}, [](Plan const&) {});
  }();
  return result;
}

/// Trains, with what a plan says of copies and of the disk, and without a touch of its addresses.
template <class R> void compare_on_disk(Planned const& planned, bool replay, R& runtime) {
  auto const got = train(
      runtime, planned, replay, [&] { (void)copied_on(runtime); },
      [&](Plan const& plan) {
        CHECK(copied_on(runtime) == copied_by(plan));
        CHECK(place_traffic(plan).size() >= 2);
        auto const use = runtime.device().disk_use();
        CHECK(use.peak == static_cast<std::size_t>(plan.memory({0, disk}).total()));
        CHECK(use.peak > 0);
        for (PlaceCapacity const& capacity : planned.options.capacity)
          CHECK(plan.memory({0, capacity.place}).total() <= capacity.bytes);
      });
  CHECK(got.loss == trained_on_host().loss);
  CHECK(got.tiles == trained_on_host().tiles);
  runtime.wait_all();
}

}  // namespace

TEST_CASE("an op runs on the device that its result lives on", "[graph][places]") {
  Layer const of;
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

TEST_CASE("a training step has the same bits wherever its tensors live",
          "[graph][places][single-threaded]") {
  for (Case const& each : cases()) {
    INFO(each.name);
    Planned const& of = planned(each);
    Places<Serial> runtime;
    auto const checks = [&](Plan const& plan) {
      typename Places<Serial>::Moved moved;
      for (PlaceTraffic const& traffic : place_traffic(plan))
        moved[{to_string(traffic.from), to_string(traffic.to)}] = traffic.bytes;
      CHECK(runtime.moved == moved);
      for (PlaceCapacity const& capacity : of.options.capacity)
        CHECK(plan.memory({0, capacity.place}).total() <= capacity.bytes);
    };
    auto const got = train(runtime, of, false, [&] { runtime.moved.clear(); }, checks);
    CHECK(got.loss == trained_on_host().loss);
    CHECK(got.tiles == trained_on_host().tiles);
  }
}

TEST_CASE("a place holds what the plan says, and moves what it must",
          "[graph][places][single-threaded]") {
  for (Case const& each : cases()) {
    INFO(each.name);
    TinyGptGraph const& of = planned(each).of;
    Places<Serial> runtime;
    TensorStore<Places<Serial>> store(runtime);
    auto step = compile(of.graph, store, planned(each).options);
    auto const holds = [&](std::map<std::string, Index>& bytes) {
      for (MemoryReport const& memory : step.plan().memories())
        CHECK(bytes[to_string(memory.location.place)] == memory.total());
    };
    holds(runtime.most);
    store.write<Index>("positions", of.step.position_values());  // by way of the host
    CHECK(store.read<Index>("positions") == of.step.position_values());
    holds(runtime.now);
    if (each.name != std::string("states on the host")) continue;
    // Each tile of a state comes once and goes once, but for what the step only reads.
    Index const stored = step.plan().memory().stored;
    for (PlaceTraffic const& traffic : place_traffic(step.plan())) CHECK(traffic.bytes <= stored);
  }
}

TEST_CASE("an adopted input stays where the caller has it", "[graph][places]") {
  Layer const of;
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

TEMPLATE_LIST_TEST_CASE("a training step on emulated devices has the bits of the host",
                        "[graph][places]", DeviceRuntimes) {
  for (Case const& each : cases()) {
    if (each.disk) continue;
    bool const replay = each.by_phase || each.capacity != 0;
    INFO(each.name << (replay ? ", replayed" : ""));
    std::uint64_t const seed = each.capacity != 0 ? 5 : 0;  // of delays
    TestType runtime(
        RuntimeOptions{.workers = 1},
        testing::EmulatedOptions{.devices = 2, .seed = seed, .longest_delay_ns = 20'000});
    auto const got = train(
        runtime, planned(each), replay, [&] { (void)runtime.device().copies().take(); },
        [&](Plan const& plan) {
          CHECK(copied_on(runtime) == copied_by(plan));
          for (int const i : {0, 1})
            CHECK(runtime.device().memory().peak(i) ==
                  static_cast<std::size_t>(plan.memory({0, device(i)}).total()));
        });
    CHECK(got.loss == trained_on_host().loss);
    CHECK(got.tiles == trained_on_host().tiles);
    runtime.wait_all();
  }
}

TEMPLATE_LIST_TEST_CASE("a training step with memory on the disk has the bits of the host",
                        "[graph][places]", DiskRuntimes) {
  for (Case const& each : cases()) {
    if (!each.disk || !uses_device(each)) continue;
    for (bool const replay : {false, true}) {
      INFO(each.name << (replay ? ", replayed" : ""));
      TestType runtime(RuntimeOptions{.workers = 1}, DiskOptions{.capacity = std::size_t{1} << 30},
                       testing::EmulatedOptions{.seed = 7, .longest_delay_ns = 20'000});
      compare_on_disk(planned(each), replay, runtime);
      CHECK(runtime.device().memory().peak(0) ==
            static_cast<std::size_t>(planned(each).plan->memory({0, device(0)}).total()));
    }
  }
}

TEMPLATE_LIST_TEST_CASE("a training step on a host with a disk has the bits of the host",
                        "[graph][places]", HostDiskRuntimes) {
  for (Case const& each : cases()) {
    if (!each.disk || uses_device(each)) continue;
    INFO(each.name);
    TestType runtime(RuntimeOptions{.workers = 1}, DiskOptions{.capacity = std::size_t{1} << 30});
    compare_on_disk(planned(each), true, runtime);
  }
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
  Layer const of;
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

TEST_CASE("what cannot be at its place is refused in one line", "[graph][places]") {
  Layer const of;
  auto const says = [&](PlanOptions options, std::string const& expected) {
    options.tile = 4;
    CHECK(message_of<PlanError>([&] { Plan(of.graph, options); }) == expected);
  };
  says(
      {.place = {{.tensors = "z*", .place = device(0)}}},
      "plan 'layer': place rule 0 (tensors 'z*', role any, place device 0) fits no tensor, or none "
      "that no rule before it fits");
  says(
      {.place = {all_on(0)}, .capacity = {{device(0), 400}}},
      "plan 'layer': tensors that live at device 0 have 512 bytes, and it may hold 400: keep some "
      "elsewhere by PlanOptions::place, the largest is 'y' of 256, or give it more; the least that "
      "fits is 576 bytes of device 0");
  says({.place = {{.tensors = "h", .place = device(0)}}, .capacity = {{device(0), 128}}},
       "plan 'layer': device 0 has 128 bytes besides the tensors that it keeps, and gemm of 'h', "
       "tile 0, uses 192 at once, a tile of 'w' the most, 64; give it more, smaller tiles, or keep "
       "fewer tensors there; the least that fits is 192 bytes of device 0");
  says({.place = {all_on(0)}, .capacity = {{device(1), 400}, {device(1), 500}}},
       "plan 'layer': two capacities of device 1, 400 and 500 bytes");
  says({.place = {{.tensors = "h", .place = device(-1)}}},
       "plan 'layer': device -1 in PlanOptions::place; they count from 0");
  Serial serial;
  TensorStore<Serial> store(serial);
  CHECK(message_of<PlanError>(
            [&] { (void)compile(of.graph, store, {.tile = 4, .place = {all_on(0)}}); }) ==
        "compile: plan 'layer' has tensors at device 0: allocate: this runtime has memory on the "
        "host only");
}

TEST_CASE("a place too small is told the least that fits, which does",
          "[graph][places][single-threaded]") {
  TinyGptGraph const of;
  for (Index const tile : {Index{64}, PlanOptions::automatic}) {
    PlanOptions options{.tile = tile, .place = cases()[6].place};
    options.capacity = {{device(0), 1000}};
    std::string text;
    try {
      Plan(of.graph, options);
    } catch (PlaceFull const& full) {
      text = full.what();
      CHECK(full.place == device(0));
      options.capacity[0].bytes = full.least;
    }
    INFO(text);
    std::size_t const at = text.find("; the least that fits is ");
    REQUIRE(at != std::string::npos);
    CHECK(options.capacity[0].bytes == std::stol(text.substr(at + 25)));
    CHECK(Plan(of.graph, options).memory({0, device(0)}).total() <= options.capacity[0].bytes);
    --options.capacity[0].bytes;
    CHECK_THROWS_AS(Plan(of.graph, options), PlanError);
  }
}

TEST_CASE("memory that a plan lacks at binding is told with plan and place", "[graph][places]") {
  Layer const of;
  BasicSerial<testing::EmulatedDevice> runtime(RuntimeOptions{},
                                               testing::EmulatedOptions{.capacity = 600});
  TensorStore<decltype(runtime)> store(runtime);
  CHECK(message_of<OutOfMemory>(
            [&] { (void)compile(of.graph, store, {.tile = 4, .place = {all_on(0)}}); }) ==
        "compile: plan 'layer' needs 768 bytes at device 0: allocate: 64 bytes on device 0, where "
        "576 of 600 bytes are taken; free some, evict to the host, or use smaller tensors; or keep "
        "the plan within what there is by PlanOptions::capacity, or by PlanOptions::place");
  auto step =
      compile(of.graph, store, {.tile = 4, .place = {all_on(0)}, .capacity = {{device(0), 600}}});
  CHECK(runtime.device().memory().peak(0) == 576);
}

TEST_CASE("a plan around a store leaves tensors where they are", "[graph][places]") {
  Layer const of;
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

TEST_CASE("a plan whose values are not where they are read is refused", "[graph][places]") {
  LogicalGraph graph("doubled");
  Node const x = graph.input({.shape = {4, 6}}, "x");
  Node const w = graph.parameter({.shape = {8, 4}}, "w");
  gemm(w, x).named("h").mark_output();
  add(w, w, w);
  gemm(w, x).named("y").mark_output();
  PlanOptions const options{
      .tile = 0,
      .place = {{.tensors = "h", .place = device(0)}, {.tensors = "y", .place = device(0)}}};
  // copy w, copy x, gemm, add, copy w, gemm.
  auto const says = [&](std::string const& text, auto change) {
    PlanData plan = Plan(graph, options).data();
    REQUIRE(plan.tasks.size() == 6);
    change(plan);
    CHECK(contains(message_of<PlanError>([&] { passes::check(plan); }), text));
  };
  auto const erase = [](PlanData& plan, std::ptrdiff_t task) {
    plan.tasks.erase(plan.tasks.begin() + task);
  };
  auto const use = [](PlanData& plan, std::size_t task, std::size_t number) -> Use<BufferId>& {
    return plan.uses[plan.tasks[task].first_use + number];
  };
  says("the first access of tile 0 of 'w' to slot 0 is read, not write",
       [&](PlanData& plan) { erase(plan, 0); });
  says("gemm ('y', tile 0) reads tile 0 of 'w', which another place has written since",
       [&](PlanData& plan) {
         use(plan, 5, 0) = use(plan, 2, 0);
         erase(plan, 4);
       });
  says("copies something else than one tile",
       [&](PlanData& plan) { std::swap(use(plan, 0, 0), use(plan, 1, 0)); });
  says("runs at rank 0 device 0 and uses tile 0 of 'w' at rank 0 host",
       [&](PlanData& plan) { use(plan, 2, 0) = use(plan, 0, 0); });
  // The optimizer runs on the device, and its states live on the host.
  PlanData step =
      Plan(TinyGptGraph().graph, {.tile = 64, .place = {{.role = Role::state}, all_on(0)}}).data();
  auto last = step.tasks.end();
  while (step.kernels[(--last)->kernel].kind != KernelKind::copy) {
  }
  step.tasks.erase(last);
  CHECK(contains(message_of<PlanError>([&] { passes::check(step); }),
                 " is not at rank 0 host when a run ends"));
}

TEST_CASE("values in memory of a device are refused with the tensor's name", "[graph][places]") {
  Layer const layer;
  BasicSerial<testing::EmulatedDevice> runtime;
  std::size_t const bytes = 32 * sizeof(float);
  auto* const there = static_cast<float*>(runtime.device().allocate(bytes, device(0)));
  std::span<float> const x(there, 24), w(there, 32);
  std::vector<float> const values(32, 1);
  for (bool const adopted : {false, true}) {
    TensorStore<decltype(runtime)> store(runtime);
    PlanOptions options{.place = {all_on(0)}};
    if (adopted) options.adopted = {"x"}, options.place.clear();
    auto step = compile(layer.graph, store, options);
    auto const refused = [&](auto call) {
      std::string const text = message_of<ValueError>(call);
      INFO(text);
      return contains(text, "memory of device 0");
    };
    CHECK(refused([&] { step.bind_input("x", x); }));
    CHECK(refused([&] { store.write<float>("w", w); }));
    CHECK(refused([&] { store.write_tile<float>("w", 0, w); }));
    step.bind_input("x", std::span(values).first(24));
    store.write<float>("w", values);
    CHECK(refused([&] { store.read(store.at("w"), w); }));
    step.execute();
    CHECK(step.get_output<float>("y").size() == 48);
  }
  runtime.device().free(there, bytes, device(0));
}
