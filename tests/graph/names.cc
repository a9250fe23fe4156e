// SPDX-License-Identifier: BSD-3-Clause
// Both using-directives, as in a program that is the only one in its file.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "nntile/graph/compile.hh"
#include "nntile/nntile.hh"
#include "tests/support/catch.hh"

using namespace std;
using namespace nntile;

TEST_CASE("names of std and of nntile stand side by side", "[graph][names]") {
  vector<float> a(4), b(4);
  fill(a.begin(), a.end(), 1.0f);
  copy(a.begin(), a.end(), b.begin());
  sample(a.begin(), a.end(), b.begin(), 4, minstd_rand());
  CHECK(apply([](int x, int y) { return x + y; }, tuple(1, 2)) == 3);
  CHECK(to_string(2) + to_string(Shape{3}) == "2{3}");

  LogicalGraph graph;
  Node const x = graph.input({.shape = {4}}, "x"), y = graph.tensor({.shape = {4}}, "y");
  ops::fill({.value = 2}, y);
  add(gelutanh(ops::copy(x)), scale({.alpha = 3}, y)).mark_output();
  Serial runtime;
  TensorStore<Serial> store(runtime);
  auto run = compile(graph, store);
  run.bind_input("x", vector<float>(4));
  run.execute();
  CHECK(run.get_output<float>("add") == vector<float>(4, 6.0f));
}
