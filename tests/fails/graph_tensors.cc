// error: run\[y\] = run\[x\] copies no values: write run\[y\] = run\[x\]\.read<T>\(\)
// SPDX-License-Identifier: BSD-3-Clause
// Mistakes with tensors of a Graph.
#include "nntile/graph/graph.hh"
#include "nntile/runtime/serial/serial.hh"

using namespace nntile;

int main() {
  Serial runtime;
  LogicalGraph graph;
  Node const x = graph.input({.shape = {3}}, "x"), y = graph.input({.shape = {3}}, "y");
  Graph<Serial> run(graph, runtime);
#if NNTILE_FAIL == 1
  run[y] = run[x];
#else
  run[y] = run[x].read<float>();
#endif
}
