// error: run\[y\] = run\[x\] copies no values: write run\[y\] = run\[x\]\.read<T>\(\)
// error: run\[x\] = values: an array, vector or span of the C\+\+ type of a dtype, or, for a tensor of one element, a number; of a pointer std::span\(pointer, count\)
// error: run\[x\] = values: an array, vector or span
// error: run\[x\] = values: an array, vector or span
// error: a Graph<R> is on an R or a TensorStore<R>, a variable that outlives it: this is another type, or const, or a temporary; name the type of the runtime, as Graph<Serial>, or leave it out
// error: a Graph<R> is on an R or a TensorStore<R>
// error: an_option_is_misspelt_or_of_another_type|no matching constructor for initialization of .*Graph<
// error: an_option_is_misspelt_or_of_another_type|no viable constructor or deduction guide for deduction of template arguments of 'Graph'
// error: a Graph<R> is on an R or a TensorStore<R>, .* or a temporary
// error: tensors of a Graph go by their nodes: of a name it is run\[graph\.at
// error: options of a Graph stand in braces, by their names: Graph run\(graph, runtime, \{\.tile = 128\}\)
// error: options of a Graph stand in braces, by their names
// error: an_option_is_misspelt_or_of_another_type|no matching constructor for initialization of .*Graph<
// SPDX-License-Identifier: BSD-3-Clause
// Mistakes with tensors of a Graph.
#include "nntile/graph/graph.hh"
#include "nntile/runtime/adaptors/record.hh"
#include "nntile/runtime/serial/serial.hh"

using namespace nntile;

int main() {
  Serial runtime;
  LogicalGraph graph;
  Node const x = graph.input({.shape = {3}}, "x"), y = graph.input({.shape = {3}}, "y");
  Graph<Serial> run(graph, runtime);
#if NNTILE_FAIL == 1
  run[y] = run[x];
#elif NNTILE_FAIL == 2
  run[x] = "abc";
#elif NNTILE_FAIL == 3
  float* const values = nullptr;
  run[x] = values;
#elif NNTILE_FAIL == 4
  run[x] = std::vector<bool>(3);
#elif NNTILE_FAIL == 5
  Record<Serial> recorded;
  Graph<Serial> const other(graph, recorded);
#elif NNTILE_FAIL == 6
  Serial const& same = runtime;
  Graph<Serial> const other(graph, same);
#elif NNTILE_FAIL == 7
  Graph<Serial> const other(graph, runtime, {.tiles = 3});
#elif NNTILE_FAIL == 8
  Graph const other(graph, runtime, {.tiles = 3});
#elif NNTILE_FAIL == 9
  Graph<Serial> const other(graph, Serial());
#elif NNTILE_FAIL == 10
  run["x"] = std::vector<float>(3);
#elif NNTILE_FAIL == 11
  Graph<Serial> const other(graph, runtime, 128);
#elif NNTILE_FAIL == 12
  TensorStore<Serial> store(runtime);
  Graph const other(graph, store, 128);
#elif NNTILE_FAIL == 13
  Graph<Serial> const other(graph, runtime, {.tile = 3}, {.traced = true});
#else
  run[y] = run[x].read<float>();
  Graph const other(graph, runtime, {.tile = 3}, {.trace = true});
#endif
}
