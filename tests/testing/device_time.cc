// SPDX-License-Identifier: BSD-3-Clause
// Virtual time of emulated devices: by hand, and against the simulator of plans.
#include <cstdio>
#include <optional>
#include <type_traits>
#include <utility>

#include "nntile/graph/simulate_places.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"
#include "tests/support/disk_runtimes.hh"
#include "tests/support/sanitized.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;
using testing::EmulatedClock;
using testing::EmulatedOptions;

namespace {

constexpr MachineModel one_byte_a_second{.bandwidth = 1, .task_overhead = 0};
constexpr LinkModel two_and_a_byte_a_second{.latency = 2, .bandwidth = 1};

/// A slow host, and a device: at 0.4 of the arena, copies over 0.5 GB/s take half as long as the
/// kernels, over 0.2 GB/s longer.
PlacesModel model_of(double link_bandwidth) {
  return {.host = {.workers = 2, .peak = 10e9, .bandwidth = 1e9, .task_overhead = 1e-6},
          .device = {.workers = 1, .peak = 50e9, .bandwidth = 3e9, .task_overhead = 3e-6},
          .link = {.latency = 5e-6, .bandwidth = link_bandwidth}};
}
/// `mixed`: the host computes what needs its share of the tensors; `disk_bandwidth`: the states
/// live on a disk.
struct Case {
  double link_bandwidth, share;
  bool mixed = false, replay = true;
  double disk_bandwidth = 0;
};
PlanOptions options_of(LogicalGraph const& graph, Case const& of) {
  PlanOptions options{.tile = 64, .place = {{.place = device(0)}}};
  if (of.disk_bandwidth != 0)
    options.place.insert(options.place.begin(), {.role = Role::state, .place = disk});
  if (of.mixed) options.place.insert(options.place.begin(), {.tensors = "h.0.mlp*"});
  MemoryReport const memory = Plan(graph, options).memory({0, device(0)});
  auto const arena = static_cast<double>(memory.arena);
  options.capacity = {{device(0), memory.stored + static_cast<Index>(of.share * arena)}};
  return options;
}

template <class R>
constexpr bool has_disk = DiskDevice<std::remove_cvref_t<decltype(std::declval<R&>().device())>>;

template <class R>
constexpr bool is_serial = std::is_same_v<R, SerialOn<testing::EmulatedDevice>> ||
                           std::is_same_v<R, SerialOn<EmulatedWithDisk>>;

/// Seconds of a training step of the tiny GPT: on devices, and simulated.
struct Step {
  double took, simulated, copying, on_host, on_disk;
};
template <class R> Step step(Case const& what) {
  TinyGptGraph const of;
  PlacesModel model = model_of(what.link_bandwidth);
  model.readers_wait = is_serial<R>;
  EmulatedOptions const options{
      .machine = model.device, .host = model.host, .link = model.link, .virtual_order = true};
  std::optional<testing::Timed<R>> made;
  if constexpr (has_disk<R>) {
    model.disk = {.latency = 20e-6, .bandwidth = what.disk_bandwidth};
    made.emplace(RuntimeOptions{.workers = 1}, DiskOptions{.capacity = 1 << 24}, options,
                 model.disk);
  } else {
    made.emplace(RuntimeOptions{.workers = 1}, options);
  }
  testing::Timed<R>& runtime = *made;
  TinyGptRun run(runtime, of, options_of(of.graph, what), {.replay = what.replay});
  PlacesSimulation const expected = simulate(run.step.plan(), model);
  run.bind(1);
  double const begin = runtime.device().clock().wait_all();
  run.step.execute();
  Step step{runtime.device().clock().wait_all() - begin, expected.elapsed, 0, 0, 0};
  for (PlaceSimulation const& place : expected.places)
    (place.place == host   ? step.on_host
     : place.place == disk ? step.on_disk
                           : step.copying) += place.place == host ? place.computing : place.copying;
  return step;
}

}  // namespace

TEST_CASE("a job begins when its stream is free and its buffers are ready",
          "[testing][device_time]") {
  EmulatedClock clock(one_byte_a_second, one_byte_a_second, two_and_a_byte_a_second, false);
  constexpr Codelet codelet{.name = "job"};
  char memory[5];
  void *const a = &memory[0], *const b = &memory[1], *const c = &memory[2], *const d = &memory[3],
              *const e = &memory[4];
  Access const reading[] = {Access::read, Access::write};
  Codelet const& job = clock.timed(codelet, {.bytes = 10}, reading).codelet;
  CHECK(&clock.timed(codelet, {.bytes = 10}, reading).codelet == &job);
  CHECK(&clock.timed(codelet, {.bytes = 11}, reading).codelet != &job);
  std::int64_t const bytes = 4;
  auto const run = [&](Codelet const& what, void* from, void* to, double free) {
    void* const buffers[] = {from, to};
    return clock.run({what, buffers, &bytes}, free);
  };
  CHECK(run(job, a, b, 0) == 10);
  CHECK(run(job, a, c, 10) == 20);          // one stream
  CHECK(run(copy_codelet, a, c, 0) == 26);  // another: behind the writer of c
  CHECK(run(copy_codelet, b, a, 0) == 32);  // behind the last reader of a
  CHECK(run(copy_codelet, b, d, 0) == 16);  // readers of b overlap
  CHECK(run(codelet, b, c, 0) == 32);       // unknown: no cost, and updates both
  CHECK(run(copy_codelet, b, e, 0) == 38);
  CHECK(clock.now() == 38);
  CHECK(clock.wait_all() == 38);
  CHECK(run(job, b, c, 0) == 48);
}

TEMPLATE_LIST_TEST_CASE("eviction costs what the plan says", "[testing][device_time]",
                        DeviceRuntimes) {
  for (double const bandwidth : {0.5e9, 0.2e9})
    for (bool const replay : {false, true}) {
      if (replay && !ReplayingRuntime<TestType>) continue;
      if (sanitized && (replay || bandwidth == 0.5e9)) continue;
      Step const whole = step<TestType>({bandwidth, 1, false, replay}),
                 cramped = step<TestType>({bandwidth, 0.4, false, replay});
      INFO(bandwidth << " bytes/s: " << cramped.took << " s, and simulated " << cramped.simulated
                     << " s, of which copies " << cramped.copying << " s");
      CHECK(whole.took == Approx(whole.simulated).epsilon(0.001));
      CHECK(cramped.took == Approx(cramped.simulated).epsilon(0.02));
      if (bandwidth < 0.5e9) CHECK(cramped.took > 1.4 * whole.took);
    }
}

TEMPLATE_LIST_TEST_CASE("a disk costs what the plan says", "[testing][device_time]", DiskRuntimes) {
  for (double const bandwidth : {2e9, 0.05e9})
    for (bool const replay : {false, true}) {
      if (replay && !ReplayingRuntime<TestType>) continue;
      if (sanitized && (replay || bandwidth == 2e9)) continue;
      Step const of = step<TestType>({0.5e9, 1, false, replay, bandwidth});
      INFO(bandwidth << " bytes/s: " << of.took << " s, and simulated " << of.simulated
                     << " s, of which the disk " << of.on_disk << " s");
      CHECK(of.on_disk > (bandwidth < 1e9 ? 0.5 : 0.05) * of.simulated);
      CHECK(of.took == Approx(of.simulated).epsilon(0.02));
    }
}

TEMPLATE_LIST_TEST_CASE("tasks of the host take virtual time", "[testing][device_time]",
                        DeviceRuntimes) {
  for (double const bandwidth : {1e9, 0.5e9})
    for (bool const replay : {false, true}) {
      if (sanitized && (replay || bandwidth == 0.5e9)) continue;
      if (replay && !ReplayingRuntime<TestType>) continue;
      Step const mixed = step<TestType>({bandwidth, 0.4, true, replay});
      INFO(bandwidth << " bytes/s: " << mixed.took << " s, and simulated " << mixed.simulated);
      CHECK(mixed.on_host > (bandwidth < 1e9 ? 0.4 : 0.45) * mixed.took);
      CHECK(mixed.took == Approx(mixed.simulated).epsilon(0.02));
    }
}

TEST_CASE("tasks of a timed program take their parameters, and turns on the host",
          "[testing][device_time]") {
  MachineModel model = one_byte_a_second;
  model.workers = 1;
  testing::Timed<RingOn<testing::EmulatedDevice>> runtime(
      RuntimeOptions{.workers = 1}, EmulatedOptions{.host = model, .virtual_order = true});
  long const value = 1;
  Use<Binding> const first[] = {{0, Access::write}}, second[] = {{1, Access::write}};
  auto const argument = std::as_bytes(std::span(&value, 1));
  ProgramTask const tasks[] = {{&put_codelet, first, argument, {}, {}, {.bytes = 3}},
                               {&put_codelet, second, argument, {}, {}, {.bytes = 4}}};
  ProgramParameter const parameters[] = {{1, 0, 8, sizeof value}};
  auto const program = runtime.record(tasks, 2, parameters);
  DataHandle const cells[] = {runtime.allocate(sizeof value), runtime.allocate(sizeof value)};
  long const block[] = {5, 42};
  runtime.replay(program, cells, std::as_bytes(std::span(block)));
  CHECK(read(runtime, cells[0]) == 1);
  CHECK(read(runtime, cells[1]) == 42);
  CHECK(runtime.device().clock().now() == 7);
}

TEMPLATE_LIST_TEST_CASE("what eviction costs, as a table", "[.][eviction]", DeviceRuntimes) {
  static constexpr char const* names[] = {"serial", "engine", "ring"};
  char const* const name = names[std::is_same_v<TestType, EngineOn<testing::EmulatedDevice>> +
                                 2 * std::is_same_v<TestType, RingOn<testing::EmulatedDevice>>];
  for (bool const mixed : {false, true})
    for (double const bandwidth : {3e9, 1e9, 0.5e9, 0.2e9})
      for (double const share : {1.0, 0.6, 0.4}) {
        Step const once = step<TestType>({bandwidth, share, mixed, false}),
                   of = step<TestType>({bandwidth, share, mixed, true});
        std::printf("%-6s %5s %6.1f %6.1f %9.3f %9.3f %9.3f %9.3f %8.4f\n", name,
                    mixed ? "both" : "", bandwidth / 1e9, share, of.copying * 1e3,
                    of.simulated * 1e3, once.took * 1e3, of.took * 1e3, of.took / of.simulated);
      }
}
