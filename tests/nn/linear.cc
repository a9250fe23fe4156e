// SPDX-License-Identifier: BSD-3-Clause
// Linear in its layouts and dtypes, against sums by hand.
#include "nntile/nn/linear.hh"

#include "nntile/graph/graph.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

constexpr Index outs = 3, ins = 2, columns = 2;

float weight(Index out, Index in) { return static_cast<float>(1 + out + 10 * in); }

/// y of x = {1, 2, 3, 4} (columns {1, 2} and {3, 4}), bias {100, 200, 300}.
template <class T> std::vector<T> product(nn::LinearOptions const& options) {
  LogicalGraph graph;
  nn::ParameterList parameters(graph);
  nn::Linear const linear(parameters, "linear", {{outs}, "out"}, {{ins}, "in"}, options);
  Node const x = graph.input({.shape = {ins, columns}, .dtype = options.dtype}, "x");
  Node const y = linear(x).named("y").mark_output();
  Serial runtime;
  Graph<Serial> run(graph, runtime);
  std::vector<T> w(outs * ins), b, given;
  for (Index out = 0; out < outs; ++out) {
    b.push_back(T(static_cast<float>(100 * (out + 1))));
    for (Index in = 0; in < ins; ++in)
      w[static_cast<std::size_t>(options.transposed ? in + ins * out : out + outs * in)] =
          T(weight(out, in));
  }
  for (int i = 1; i <= 4; ++i) given.push_back(T(static_cast<float>(i)));
  run[linear.weight()] = w;
  if (options.bias) run[linear.bias()] = b;
  run[x] = given;
  run();
  return run[y].template read<T>();
}

template <class T> void check(nn::LinearOptions const& options) {
  auto const y = product<T>(options);
  for (Index column = 0; column < columns; ++column)
    for (Index out = 0; out < outs; ++out) {
      float const first = static_cast<float>(1 + 2 * column);
      float const expected = weight(out, 0) * first + weight(out, 1) * (first + 1) +
                             (options.bias ? static_cast<float>(100 * (out + 1)) : 0.0f);
      CHECK(static_cast<float>(y[static_cast<std::size_t>(out + outs * column)]) == expected);
    }
}

}  // namespace

TEST_CASE("a linear layer has a layout, a dtype, and a bias if wanted", "[nn][linear]") {
  for (bool const transposed : {false, true})
    for (bool const bias : {false, true}) {
      INFO("transposed " << transposed << ", bias " << bias);
      check<float>({.bias = bias, .transposed = transposed});
      check<double>({.bias = bias, .dtype = DType::fp64, .transposed = transposed});
    }
  check<bf16_t>({.bias = false, .dtype = DType::bf16, .transposed = true});
}

TEST_CASE("a linear layer without a bias has no such parameter", "[nn][linear]") {
  LogicalGraph graph;
  nn::ParameterList parameters(graph);
  nn::Linear const linear(parameters, "linear", {{3}, "out"}, {{2}, "in"}, {.bias = false});
  CHECK(parameters.all().size() == 1);
  CHECK_FALSE(linear.bias());
  CHECK_FALSE(graph.find("linear.bias"));
}

TEST_CASE("a linear layer has groups without names, and one without dimensions", "[nn][linear]") {
  LogicalGraph graph;
  nn::ParameterList parameters(graph);
  Node const x = graph.input({.shape = {2, 3, 5}}, "x");
  auto const layer = [&](char const* name, nn::Group const& out, nn::Group const& in) {
    return nn::Linear(parameters, name, out, in)(x).shape();
  };
  CHECK(layer("nameless", {{4, 6}}, {{2, 3}}) == Dims{4, 6, 5});
  CHECK(layer("nameless in", {{4}, "out"}, {{2, 3}}) == Dims{4, 5});
  CHECK(layer("nameless out", {{4, 6}}, {{2, 3}, "head_dim head"}) == Dims{4, 6, 5});
  CHECK(layer("scalar", {{}}, {{2, 3}, "head_dim head"}) == Dims{5});
  CHECK(graph.tensor_of(graph.at("nameless out.weight")).spec.axes == "  head_dim head");
}

TEST_CASE("parameters that no number counts are the most that one does", "[nn]") {
  LogicalGraph graph;
  nn::ParameterList parameters(graph);
  for (int i = 0; i < 9; ++i)
    parameters.add({.shape = {Index{1} << 60}}, concat("p", i), 0, 1, true);
  CHECK(parameters.count() == INT64_MAX);
}
