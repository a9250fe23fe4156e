// SPDX-License-Identifier: BSD-3-Clause
// Every op and its derivative with operands on the host and on 1, 2 and 4 emulated devices, cut
// into tiles: the bits of the host alone. NNTILE_PLACED_OPS says in how many ways each is
// scattered.
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>

#include "tests/support/catch.hh"
#include "tests/support/copied.hh"
#include "tests/support/device_runtimes.hh"
#include "tests/support/sharded_op.hh"

namespace {

using namespace nntile;
using namespace nntile::test;
using testing::EmulatedDevice;
using testing::EmulatedOptions;

int ways() {
  char const* const asked = std::getenv("NNTILE_PLACED_OPS");
  return asked != nullptr ? std::atoi(asked) : 1;
}

/// How much was tried.
struct Tried {
  int runs = 0;
  std::int64_t copies = 0, on_devices = 0;
};

/// The tiles of all that a graph of a case keeps, and what was copied by its run.
template <class R>
Tiles run_placed(R& runtime, LogicalGraph const& graph, std::vector<Array> const& operands,
                 PlanOptions const& options, Tried& tried) {
  TensorStore<R> store(runtime);
  CompiledGraph<R> step = compile(graph, store, options);
  give(store, operands);
  if constexpr (requires { runtime.device(); }) (void)runtime.device().copies().take();
  step.execute();
  if constexpr (requires { runtime.device(); }) {
    Copied const copied = copied_on(runtime);
    CHECK(copied == copied_by(step.plan()));
    for (auto const& [way, count] : copied) tried.copies += count.first;
    for (PlannedTask const& task : step.plan().tasks())
      tried.on_devices += is_on_device(task.location.place);
  }
  Tiles tiles;
  collect(store, tiles);
  return tiles;
}

template <class R>
void check_on(LogicalGraph const& graph, std::vector<Array> const& operands,
              PlanOptions const& options, int devices, Tiles const& expected, Tried& tried) {
  std::uint64_t const seed = tried.runs % 3 == 0 ? static_cast<std::uint64_t>(tried.runs + 1) : 0;
  R runtime(RuntimeOptions{.workers = 1},
            EmulatedOptions{.devices = devices, .seed = seed, .longest_delay_ns = 10'000});
  CHECK(run_placed(runtime, graph, operands, options, tried) == expected);
  ++tried.runs;
}

/// Every tensor of a graph goes to the host or to one of the devices.
void check_scattered(LogicalGraph const& graph, OpCase const& c, std::vector<Array> const& operands,
                     unsigned seed, Tried& tried) {
  PlanOptions options{.tile = 0, .cuts = plan_cuts(canonical_cuts(c)), .check = true};
  for (AxisGroups const& each : c.groups)  // borders of blocks are not canonical there
    std::erase_if(options.cuts, [&](AxisCut const& cut) { return cut.axis == each.axis; });
  Serial serial;
  Tiles const expected = run_placed(serial, graph, operands, options, tried);
  std::mt19937 draw(seed);
  for (int const devices : {1, 2, 4}) {
    options.place.clear();
    for (std::uint32_t id = 0; id < graph.tensor_count(); ++id) {
      int const at = static_cast<int>(draw() % static_cast<unsigned>(devices + 1)) - 1;
      options.place.push_back(
          {graph.tensor_at(id).name, Role::any, at < 0 ? host : device(at), true});
    }
    INFO(graph.name() << " " << to_string(c.shapes[0]) << " on " << devices << " devices, seed "
                      << seed);
    if (tried.runs % 2 == 0)
      check_on<SerialOn<EmulatedDevice>>(graph, operands, options, devices, expected, tried);
    else
      check_on<RingOn<EmulatedDevice>>(graph, operands, options, devices, expected, tried);
  }
}

}  // namespace

TEST_CASE("an op has the bits of the host wherever its operands live", "[ops][placed]") {
  Tried tried;
  unsigned seed = 0;
  for (OpCase const& c : every_op())
    for (DType const element : c.op->dtypes) {
      if (ways() == 1 && element != c.op->dtypes[0] && element != DType::fp32) continue;
      auto const operands = make_operands(c, element);
      std::deque<LogicalGraph> graphs;
      build(graphs.emplace_back(c.op->name, Numerics{.groups = c.groups}), c, element);
      (void)add_with_gradients(graphs, c, element);
      for (LogicalGraph const& graph : graphs)
        for (int way = 0; way < ways(); ++way) check_scattered(graph, c, operands, ++seed, tried);
    }
  if (std::getenv("NNTILE_PLACED_OPS") != nullptr)
    std::printf("placed ops: %d runs, %lld tasks on devices, %lld copies\n", tried.runs,
                static_cast<long long>(tried.on_devices), static_cast<long long>(tried.copies));
  CHECK(tried.runs >= 200);
  CHECK(tried.copies > tried.runs);
  CHECK(tried.on_devices > 2 * tried.copies);
}
