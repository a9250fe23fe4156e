// error: execute_async\(\) of a temporary graph: it ends with this statement; keep the graph in a variable
// error: bind_input: values are an array, vector or span of the C\+\+ type of a dtype, which is T where one is named
// error: a CompiledGraph<R> is bound to a TensorStore<R>: this store is on another type of runtime
// error: use of deleted function .*BasicSerial<D>::BasicSerial\(const .*BasicSerial|call to deleted constructor of '(const )?nntile::(Basic)?Serial
// error: template constraint failure for .*Runtime<R>.* nntile::TensorStore|constraints not satisfied for class template 'TensorStore'
// SPDX-License-Identifier: BSD-3-Clause
// Mistakes with stores and compiled graphs.
#include "nntile/graph/compile.hh"
#include "nntile/runtime/adaptors/record.hh"
#include "nntile/runtime/serial/serial.hh"

using namespace nntile;

struct NotARuntime : Serial {
  void wait_all() = delete;
};

int main() {
  Serial runtime;
  TensorStore<Serial> store(runtime);
  LogicalGraph const graph;
#if NNTILE_FAIL == 1
  auto const run = compile(graph, store).execute_async();
#elif NNTILE_FAIL == 2
  compile(graph, store).bind_input<float>("x", std::vector<double>(3));
#elif NNTILE_FAIL == 3
  CompiledGraph<Record<Serial>> const run(std::make_shared<Plan>(graph), store);
#elif NNTILE_FAIL == 4
  Serial const other = runtime;
#elif NNTILE_FAIL == 5
  NotARuntime mine;
  TensorStore<NotARuntime> const other(mine);
#else
  std::vector<CompiledGraph<Serial>> runs;
  runs.push_back(compile(graph, store));
  runs.back().bind_input("x", std::vector<float>(3));
  runs.back().bind_input<float>("x", {1, 2, 3});
  auto const run = runs.back().execute_async();
#endif
}
