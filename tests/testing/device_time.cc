// SPDX-License-Identifier: BSD-3-Clause
// Virtual time of emulated devices: by hand, and against the simulator of plans.
#include <cstdio>
#include <type_traits>

#include "nntile/graph/simulate_places.hh"
#include "tests/support/catch.hh"
#include "tests/support/device_runtimes.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;
using testing::EmulatedClock;
using testing::EmulatedOptions;

namespace {

constexpr MachineModel one_byte_a_second{.bandwidth = 1, .task_overhead = 0};
constexpr LinkModel two_and_a_byte_a_second{.latency = 2, .bandwidth = 1};

/// A slow device: at 0.4 of the arena, copies over 0.5 GB/s take half as long as the kernels, over
/// 0.2 GB/s longer.
PlacesModel model_of(double link_bandwidth) {
  return {.host = {},
          .device = {.workers = 1, .peak = 50e9, .bandwidth = 3e9, .task_overhead = 3e-6},
          .link = {.latency = 5e-6, .bandwidth = link_bandwidth}};
}
PlanOptions options_of(LogicalGraph const& graph, double share) {
  PlanOptions options{.tile = 64, .place = {{.place = device(0)}}};
  MemoryReport const memory = Plan(graph, options).memory({0, device(0)});
  options.capacity = {
      {device(0), memory.stored + static_cast<Index>(share * static_cast<double>(memory.arena))}};
  return options;
}

/// Seconds of a training step of the tiny GPT: on devices, and simulated.
struct Step {
  double took, simulated, copying;
};
template <class R> Step step(double link_bandwidth, double share) {
  TinyGptGraph const of;
  PlacesModel const model = model_of(link_bandwidth);
  testing::Timed<R> runtime(
      RuntimeOptions{.workers = 1},
      EmulatedOptions{.machine = model.device, .link = model.link, .virtual_order = true});
  TinyGptRun run(runtime, of, options_of(of.graph, share), {.replay = false});
  PlacesSimulation const expected = simulate(run.step.plan(), model);
  run.bind(1);
  double const begin = runtime.device().clock().wait_all();
  run.step.execute();
  return {runtime.device().clock().wait_all() - begin, expected.elapsed,
          expected.places.at(0).copying};
}

}  // namespace

TEST_CASE("a job begins when its stream is free and its buffers are ready",
          "[testing][device_time]") {
  EmulatedClock clock(one_byte_a_second, two_and_a_byte_a_second, false);
  constexpr Codelet codelet{.name = "job"};
  char memory[5];
  void *const a = &memory[0], *const b = &memory[1], *const c = &memory[2], *const d = &memory[3],
              *const e = &memory[4];
  Access const reading[] = {Access::read, Access::write};
  Codelet const& job = clock.priced(codelet, {.bytes = 10}, reading);
  CHECK(&clock.priced(codelet, {.bytes = 10}, reading) == &job);
  CHECK(&clock.priced(codelet, {.bytes = 11}, reading) != &job);
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
  for (double const bandwidth : {3e9, 0.5e9, 0.2e9}) {
    Step const whole = step<TestType>(bandwidth, 1), cramped = step<TestType>(bandwidth, 0.4);
    INFO(bandwidth << " bytes/s: " << cramped.took << " s, and simulated " << cramped.simulated
                   << " s, of which copies " << cramped.copying << " s");
    CHECK(whole.took == Approx(whole.simulated).epsilon(0.05));
    // Behind a link that takes longer than the kernels, each order of ready copies counts.
    bool const link_bound = bandwidth < 0.5e9;
    CHECK(cramped.took == Approx(cramped.simulated).epsilon(link_bound ? 0.15 : 0.05));
    if (link_bound) CHECK(cramped.took > 1.4 * whole.took);
  }
}

TEMPLATE_LIST_TEST_CASE("what eviction costs, as a table", "[.][eviction]", DeviceRuntimes) {
  static constexpr char const* names[] = {"serial", "engine", "ring"};
  char const* const name = names[std::is_same_v<TestType, EngineOn<testing::EmulatedDevice>> +
                                 2 * std::is_same_v<TestType, RingOn<testing::EmulatedDevice>>];
  for (double const bandwidth : {3e9, 1e9, 0.5e9, 0.2e9})
    for (double const share : {1.0, 0.6, 0.4}) {
      Step const of = step<TestType>(bandwidth, share);
      std::printf("%-6s %5.1f %6.1f %10.3f %10.3f %10.3f %8.4f\n", name, bandwidth / 1e9, share,
                  of.copying * 1e3, of.simulated * 1e3, of.took * 1e3, of.took / of.simulated);
    }
}
