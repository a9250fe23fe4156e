// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/graph/simulate.hh"

#include <limits>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/apply.hh"
#include "nntile/graph/compile.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/ops/sum_slice.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// A task takes a second for every 1,000 bytes.
constexpr MachineModel slow{.workers = 1, .peak = 1, .bandwidth = 1000, .task_overhead = 0};

MachineModel with(int workers) {
  MachineModel machine = slow;
  machine.workers = workers;
  return machine;
}

/// `count` independent chains of two gelu tasks of 8 bytes an element.
Plan chains(Index count) {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {125 * count}, .axes = "n"}, "x");
  gelutanh(gelutanh(x)).mark_output();
  return Plan(graph, {.tile = 0, .cuts = {{"n", {125}}}});
}

/// y = x, by tiles that are large.
struct Large {
  static constexpr char const* name = "large";
  static constexpr DType dtypes[] = {DType::fp32};
  enum class Operand : std::uint8_t { x, y };
  static constexpr Operands operands{{"x", "i"}, {"y", "i", Access::write}};
  struct Attrs {};
  struct Args {
    Index count;
  };
  static constexpr Fields fields{};
  static constexpr Hooks<Attrs> hooks{};
  static constexpr char const* no_gradient = "for tests";

  static Args args(Attrs const&, TileRange const& range) {
    if (range.extent('i') < 512) throw PlanError("large: tiles of 512 or more");
    return {range.extent('i')};
  }
  template <Element T> static void reference(Args const& args, Buffers<Large> buffers) {
    std::copy_n(buffers.at<T>(Operand::x), args.count, buffers.at<T>(Operand::y));
  }
};
constexpr Call<Large> large{};

}  // namespace

TEST_CASE("one worker takes the time of all tasks", "[graph][simulate]") {
  Simulation const result = simulate(chains(4), with(1));
  CHECK(result.elapsed == 8);
  CHECK(result.busy == 8);
}

TEST_CASE("independent chains run side by side, and a chain does not", "[graph][simulate]") {
  CHECK(simulate(chains(4), with(2)).elapsed == 4);
  CHECK(simulate(chains(4), with(3)).elapsed == 3);
  CHECK(simulate(chains(4), with(100)).elapsed == 2);
  CHECK(simulate(chains(4), with(INT32_MAX)).elapsed == 2);  // those without tasks cost nothing
  CHECK(simulate(chains(1), with(2)).elapsed == 2);
}

TEST_CASE("no worker begins a task before what it waits for has ended", "[graph][simulate]") {
  LogicalGraph graph;
  Node const first = gelutanh(graph.input({.shape = {125}}, "x"));
  gelutanh(first).mark_output();
  Node last = first;
  for (int i = 0; i < 3; ++i) last = gelutanh(last).mark_output();  // slots have no part in it
  first.mark_output();
  Plan const plan(graph, {.tile = 0});
  for (int const workers : {2, 3, 4}) CHECK(simulate(plan, with(workers)).elapsed == 4);
}

TEST_CASE("a task on the only path has no slack, another one has", "[graph][simulate]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {125}}, "x");
  Node const path = gelutanh(gelutanh(gelutanh(x)));
  Node const aside = gelutanh(x);
  path.mark_output();
  aside.mark_output();
  Plan const plan(graph, {.tile = 0});
  auto slack = slack_of(plan, order_of(plan), slow);
  std::sort(slack.begin(), slack.end());
  CHECK(slack == DynamicArray<double>{0, 0, 0, 2});
}

TEST_CASE("a higher priority goes first", "[graph][simulate]") {
  TinyGptGraph const gpt;
  MachineModel machine;
  machine.workers = 8;
  Plan const plan(gpt.graph, {.machine = machine});
  bool const some = std::any_of(plan.tasks().begin(), plan.tasks().end(),
                                [](PlannedTask const& task) { return task.priority > 0; });
  Plan const plain(gpt.graph, {.tile = plan.tile(), .even = true});
  CHECK(simulate(plan, machine).elapsed <= simulate(plain, machine).elapsed);
  CHECK(some == (simulate(plan, machine).elapsed < simulate(plain, machine).elapsed));
}

TEST_CASE("an automatic tile is the one that a simulation ends first", "[graph][simulate]") {
  TinyGptGraph const gpt;
  MachineModel machine;
  machine.workers = GENERATE(1, 2, 8);
  Plan const chosen(gpt.graph, {.machine = machine});
  CHECK(chosen.canonical());
  for (Index const tile : {64, 128, 256, 512})
    CHECK(simulate(chosen, machine).elapsed <=
          simulate(Plan(gpt.graph, {.tile = tile, .even = true}), machine).elapsed);
}

TEST_CASE("an automatic tile is canonical for sums over an axis outside another",
          "[graph][simulate]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {256, 128, 200}, .axes = "embed seq batch"}, "x");
  Node sum = gemm(graph.parameter({.shape = {256, 256}}, "w"), x);  // seq inside batch
  while (!sum.shape().empty()) sum = sum_slice({.axis = 0}, sum);   // batch in blocks of 64
  sum.mark_output();
  MachineModel machine;
  machine.workers = GENERATE(1, 2, 8);
  CHECK(Plan(graph, {.machine = machine}).uncanonical() == "");
  for (Index const tile : {64, 128, 192})
    CHECK(Plan(graph, {.tile = tile, .even = true}).uncanonical() == "");
}

TEST_CASE("a smaller cache bounds an automatic tile", "[graph][simulate]") {
  LogicalGraph graph;
  Node const a = graph.input({.shape = {2048, 2048}}, "a");
  gemm(a, graph.input({.shape = {2048, 2048}}, "b")).mark_output();
  MachineModel machine{.workers = 1};
  CHECK(Plan(graph, {.machine = machine}).tile() == 512);
  machine.cache = 256 << 10;
  CHECK(Plan(graph, {.machine = machine}).tile() == 256);
}

TEST_CASE("smaller tiles are not planned where workers have no time left", "[graph][simulate]") {
  if (!allocations_are_counted()) return;
  LogicalGraph graph;  // a product of 512 tasks, or of 262,144 with the smallest tiles
  Node const a = graph.input({.shape = {4096, 4096}}, "a");
  gemm(a, graph.input({.shape = {4096, 4096}}, "b")).mark_output();
  auto const bytes_to_plan = [&](Index tile) {
    AllocationCount const count;
    CHECK(Plan(graph, {.tile = tile, .machine = {.workers = 2}, .even = true}).tile() == 512);
    return count.bytes();
  };
  CHECK(bytes_to_plan(PlanOptions::automatic) < 4 * bytes_to_plan(512));
}

TEST_CASE("a tile that can be planned is kept where a smaller one cannot", "[graph][simulate]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {2048}}, "x");
  large(x).mark_output();
  MachineModel machine;
  machine.workers = 8;  // smaller tiles end sooner, and are tried
  CHECK(Plan(graph, {.machine = machine}).tile() == 512);
  CHECK(contains(message_of<PlanError>([&] { Plan(graph, {.tile = 256}); }), "512 or more"));
}

TEST_CASE("a tile that can be planned is kept where a smaller one takes too much memory",
          "[graph][simulate][memory]") {
  LogicalGraph graph;
  gelutanh(graph.input({.shape = {2048}}, "x")).mark_output();
  PlanOptions const options{.machine = {.workers = 8}};
  Index const chosen = Plan(graph, options).tile();
  REQUIRE(chosen < 512);
  bool more = allocations_are_counted(), kept = !more;
  for (long count = 0; more; ++count) {
    Index tile = 0;
    (void)fail_new_after(count);
    try {
      tile = Plan(graph, options).tile();
    } catch (OutOfMemory const&) {
    }
    more = fail_new_after(-1) < 0;
    REQUIRE((more ? tile == 0 || tile >= chosen : tile == chosen));
    kept |= tile > chosen;
  }
  CHECK(kept);
}

TEST_CASE("even cuts are equal multiples of 64", "[graph][simulate]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {768}}, "x");
  gelutanh(x).mark_output();
  Plan const plan(graph, {.tile = 512, .even = true});
  CHECK(plan.tensors()[x.id()].tiling.axis(0).size(0) == 384);
}

TEST_CASE("a tile below 0 is refused", "[graph][simulate]") {
  LogicalGraph graph;
  gelutanh(graph.input({.shape = {8}}, "x")).mark_output();
  CHECK(contains(message_of<PlanError>([&] { Plan(graph, {.tile = -5}); }), "a tile of -5"));
}

TEST_CASE("a machine that cannot be is refused by plans and simulations", "[graph][simulate]") {
  LogicalGraph graph("g");
  gelutanh(graph.input({.shape = {8}}, "x")).mark_output();
  Plan const plan(graph, {.tile = 0});
  double const nan = std::numeric_limits<double>::quiet_NaN();
  for (MachineModel const& machine :
       {MachineModel{.peak = 0}, MachineModel{.peak = nan}, MachineModel{.bandwidth = -1},
        MachineModel{.task_overhead = nan}, MachineModel{.workers = 0}, MachineModel{.workers = -5},
        MachineModel{.cache = 0}, MachineModel{.cache = INT64_MIN}}) {
    CHECK(message_of<PlanError>([&] { Plan(graph, {.machine = machine}); }) ==
          "plan 'g': PlanOptions::machine has " + fault_of(machine));
    CHECK_THROWS_AS(Plan(graph, {.tile = 0, .machine = machine}), PlanError);
    CHECK(message_of<ValueError>([&] { (void)simulate(plan, machine); }) ==
          "simulate: plan 'g': a machine of " + fault_of(machine));
  }
  CHECK(fault_of(MachineModel{.peak = -2}) == "a peak of -2 flop/s; above 0");
  CHECK(fault_of(MachineModel{.workers = 0}) == "0 workers; at least 1");
  CHECK(fault_of(MachineModel{.cache = -1}) == "a cache of -1 bytes; at least 1");
}
