// SPDX-License-Identifier: BSD-3-Clause
// Mixed precision: parameters that are kept in another dtype than they are used in.
#include <string>
#include <vector>

#include "nntile/graph/gradient.hh"
#include "nntile/graph/graph.hh"
#include "nntile/nn/linear.hh"
#include "nntile/nn/norm.hh"
#include "nntile/ops/add.hh"
#include "nntile/ops/cast.hh"
#include "nntile/ops/sum_slice.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/support/catch.hh"
#include "tests/support/runtimes.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

TinyGpt sizes_in(DType dtype) {
  TinyGpt sizes;
  sizes.config.dtype = dtype;
  return sizes;
}

/// The sum of the results of a layer of one weight, kept in fp32 and used in bf16, on each of `xs`.
struct Scaled {
  explicit Scaled(std::vector<float> const& xs)
      : linear(parameters, "linear", {{1}, "out"}, {{1}, "in"},
               {.bias = false, .dtype = DType::bf16, .kept = DType::fp32}) {
    Node sum;
    for (float const x : xs) {
      Node const filled = graph.tensor({.shape = {1, 1}, .dtype = DType::bf16}, graph.unique("x"));
      Node const y = linear(ops::fill({.value = static_cast<double>(x)}, filled));
      sum = sum ? add(sum, y) : y;
    }
    result = sum.mark_output();
    Node const loss = sum_slice(sum_slice(cast(sum, DType::fp32)));
    gradient = add_gradients(graph, loss).find(linear.weight()).mark_output();
  }

  LogicalGraph graph;
  nn::ParameterList parameters{graph};
  nn::Linear linear;
  Node result, gradient;
};

}  // namespace

TEST_CASE("a layer multiplies by its weight as a cast rounds it", "[nn][mixed]") {
  Scaled of({4});
  CHECK(of.linear.weight().dtype() == DType::fp32);
  Serial runtime;
  Graph<Serial> run(of.graph, runtime);
  run[of.linear.weight()] =
      std::vector<float>{1.0f + 0x1p-10f};  // lies between bf16's 1 and 1 + 2^-7
  run();
  CHECK(static_cast<float>(run[of.result].read<bf16_t>()[0]) == 4);
}

TEST_CASE("gradients of several calls are added up in the dtype that is kept", "[nn][mixed]") {
  Scaled of({256, 1});
  Serial runtime;
  Graph<Serial> run(of.graph, runtime);
  run[of.linear.weight()] = std::vector<float>{1};
  run();
  CHECK(run[of.gradient].read<float>()[0] == 257);  // bf16 has 256 and 258
}

TEST_CASE("a norm casts what it keeps, and what it fills is of its dtype", "[nn][mixed]") {
  LogicalGraph graph;
  nn::ParameterList parameters(graph);
  nn::LayerNorm const norm(parameters, "norm", 6, "embed",
                           {.bias = false, .dtype = DType::bf16, .kept = DType::fp32});
  Node const x = graph.input({.shape = {6, 4}, .dtype = DType::bf16}, "x");
  CHECK(norm(x).dtype() == DType::bf16);
  CHECK(norm.weight().dtype() == DType::fp32);
  CHECK(norm.bias().dtype() == DType::bf16);
}

TEST_CASE("a model in bf16 keeps parameters and states in fp32, and casts each where it is used",
          "[nn][mixed]") {
  TinyGptGraph of(sizes_in(DType::bf16));
  auto const dtype = [&](std::string const& name) { return of.graph.at(name).dtype(); };
  for (auto const& parameter : of.model.parameters().all()) {
    std::string const& name = parameter.node.name();
    CHECK(parameter.node.dtype() == DType::fp32);
    CHECK(dtype(name + ".bf16") == DType::bf16);
    CHECK(dtype(name + ".bf16.grad") == DType::bf16);
    CHECK(dtype(name + ".grad") == DType::fp32);
    CHECK(dtype("optim.exp_avg/" + name) == DType::fp32);
  }
  CHECK(of.step.logits().dtype() == DType::bf16);
  CHECK(of.step.loss().dtype() == DType::fp32);
}

TEST_CASE("a model in another width than 16 bits has no casts", "[nn][mixed]") {
  for (DType const dtype : {DType::fp64, DType::fp32, DType::fp32_fast_tf32}) {
    LogicalGraph graph;
    nn::Gpt2 const model(
        graph, {.vocab = 16, .positions = 8, .width = 8, .layers = 1, .heads = 2, .dtype = dtype});
    nn::LanguageModelStep const step(model, {.seq = 8, .batch = 1});
    for (OpInfo const* const op : graph.ops()) CHECK(op->name != std::string("cast"));
    CHECK(model.parameters().all()[0].node.dtype() == dtype);
    CHECK(step.logits().dtype() == dtype);
  }
}

TEMPLATE_LIST_TEST_CASE("a model in bf16 has equal bits on runtimes and tilings", "[nn][mixed]",
                        AllRuntimes) {
  TinyGptGraph const of(sizes_in(DType::bf16));
  Serial serial;
  TinyGptRun<Serial> whole(serial, of, {.tile = 0});
  float const loss = whole.train(2);
  TestType runtime;
  TinyGptRun<TestType> tiles(runtime, of, {.tile = 64});
  CHECK(tiles.train(2) == loss);
  CHECK(tiles.parameters() == whole.parameters());
}

TEST_CASE("a model in bf16 learns about as one in fp32", "[nn][mixed]") {
  Serial runtime;
  TinyGptGraph const narrow(sizes_in(DType::bf16)), wide(sizes_in(DType::fp32));
  TinyGptRun<Serial> a(runtime, narrow, {.tile = 0}), b(runtime, wide, {.tile = 0});
  float const first = a.train(1), expected = b.train(5);
  CHECK_THAT(a.train(5), Catch::Matchers::WithinAbs(expected, 0.05));
  CHECK(expected < first - 0.5f);
}
