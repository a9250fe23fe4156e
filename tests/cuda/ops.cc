// SPDX-License-Identifier: BSD-3-Clause
// Every op and its derivative in each dtype, its operands on a CUDA device: the bits of the host.
#include <cstdio>
#include <deque>

#include "nntile/runtime/ring/cuda.hh"
#include "tests/cuda/missing_device.hh"
#include "tests/support/catch.hh"
#include "tests/support/sharded_op.hh"
#include "tests/support/skip.hh"

namespace {

using namespace nntile;
using namespace nntile::test;

template <class R>
Tiles run_on(R& runtime, LogicalGraph const& graph, std::vector<Array> const& operands,
             PlanOptions const& options) {
  TensorStore<R> store(runtime);
  CompiledGraph<R> step = compile(graph, store, options);
  give(store, operands);
  step.execute();
  Tiles tiles;
  collect(store, tiles);
  return tiles;
}

}  // namespace

TEST_CASE("an op on a device has the bits of the host in each dtype", "[cuda][ops]") {
  if (!missing_device().empty()) return skip(missing_device());
  CudaRing devices(RuntimeOptions{.workers = 1}, CudaOptions{.devices = 1});
  int runs = 0;
  for (OpCase const& c : every_op())
    for (DType const element : c.op->dtypes) {
      auto const operands = make_operands(c, element);
      std::deque<LogicalGraph> graphs;
      build(graphs.emplace_back(c.op->name, Numerics{.groups = c.groups}), c, element);
      (void)add_with_gradients(graphs, c, element);
      for (LogicalGraph const& graph : graphs) {
        INFO(graph.name() << " " << name_of(element) << " " << to_string(c.shapes[0]));
        PlanOptions options{.tile = 0, .cuts = plan_cuts(canonical_cuts(c))};
        for (AxisGroups const& each : c.groups)  // borders of blocks are not canonical there
          std::erase_if(options.cuts, [&](AxisCut const& cut) { return cut.axis == each.axis; });
        Serial serial;
        Tiles const expected = run_on(serial, graph, operands, options);
        options.place = {{.place = device(0)}};
        CHECK(run_on(devices, graph, operands, options) == expected);
        ++runs;
      }
    }
  std::printf("ops on a device: %d graphs\n", runs);
  CHECK(runs >= 200);
}
