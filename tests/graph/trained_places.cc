// SPDX-License-Identifier: BSD-3-Clause
// Training with tensors in several places: memory at each, copies, and the same bits.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nntile/graph/graph.hh"
#include "nntile/graph/places.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/comm/part_tiles.hh"
#include "tests/graph/placed_layer.hh"
#include "tests/support/catch.hh"
#include "tests/support/copied.hh"
#include "tests/support/device_runtimes.hh"
#include "tests/support/disk_runtimes.hh"
#include "tests/support/places.hh"
#include "tests/support/sanitized.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

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
      if (sanitized && replay != (each.capacity != 0)) continue;  // each case once
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
