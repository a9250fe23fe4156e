// SPDX-License-Identifier: BSD-3-Clause
// Layouts, dtypes and missing parameters of the modules that are made of others.
#include <cmath>
#include <iterator>

#include "nntile/graph/gradient.hh"
#include "nntile/graph/graph.hh"
#include "nntile/nn/attention.hh"
#include "nntile/nn/gpt2.hh"
#include "nntile/nn/loss.hh"
#include "nntile/nn/mlp.hh"
#include "nntile/nn/norm.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;

namespace {

constexpr Index width = 6, hidden = 10, seq = 4;

std::vector<double> waves(Index count, double frequency) {
  std::vector<double> values;
  for (Index i = 0; i < count; ++i) values.push_back(std::sin(frequency * static_cast<double>(i)));
  return values;
}

std::vector<std::string> names(nn::ParameterList const& parameters) {
  std::vector<std::string> result;
  for (auto const& parameter : parameters.all()) result.push_back(parameter.node.name());
  return result;
}

/// Column-major [rows, columns] with its dimensions exchanged.
std::vector<double> transposed(std::vector<double> const& values, Index rows) {
  auto const m = static_cast<std::size_t>(rows), n = values.size() / m;
  std::vector<double> result(values.size());
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) result[j + n * i] = values[i + m * j];
  return result;
}

/// A module's result in fp64; its weights {out, in} are written in the layout that options ask for.
template <class Module>
std::vector<double> result_of(Module const& module, nn::ParameterList const& parameters,
                              bool in_first) {
  LogicalGraph& graph = parameters.graph();
  Node const x = graph.input({.shape = {width, seq, 1}, .dtype = DType::fp64}, "x");
  Node const y = module(x).mark_output();
  Serial runtime;
  Graph<Serial> run(graph, runtime);
  for (auto const& parameter : parameters.all()) {
    Node const& node = parameter.node;
    bool const fc = node.name().find("c_fc") != std::string::npos;
    bool const attn = node.name().find("c_attn") != std::string::npos;
    Index const outs = fc ? hidden : attn ? 3 * width : width;
    auto values = waves(element_count(node.shape()), 0.3 + 0.1 * static_cast<double>(outs));
    bool const weight = node.name().find("weight") != std::string::npos;
    run[node] = weight && in_first ? transposed(values, outs) : values;
  }
  run[x] = waves(width * seq, 0.9);
  run();
  return run[y].template read<double>();
}

void check_close(std::vector<double> const& got, std::vector<double> const& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK_THAT(got[i], Catch::Matchers::WithinAbs(expected[i], 1e-12));
}

std::vector<double> mlp_result(bool bias, bool in_first) {
  LogicalGraph graph;
  nn::ParameterList parameters(graph);
  nn::Mlp const module(parameters, "mlp", width, hidden,
                       {.linear = {.bias = bias, .dtype = DType::fp64, .transposed = in_first}});
  return result_of(module, parameters, in_first);
}

std::vector<double> attention_result(bool bias, bool in_first) {
  LogicalGraph graph;
  nn::ParameterList parameters(graph);
  nn::CausalSelfAttention const module(
      parameters, "attn", width, 2,
      {.linear = {.bias = bias, .dtype = DType::fp64, .transposed = in_first}});
  return result_of(module, parameters, in_first);
}

}  // namespace

TEST_CASE("a perceptron has either layout and dtype, and biases if wanted", "[nn][options]") {
  for (bool const bias : {false, true})
    check_close(mlp_result(bias, true), mlp_result(bias, false));
  CHECK(mlp_result(true, false) != mlp_result(false, false));
}

TEST_CASE("attention has either layout and dtype, and biases if wanted", "[nn][options]") {
  for (bool const bias : {false, true})
    check_close(attention_result(bias, true), attention_result(bias, false));
  CHECK(attention_result(true, false) != attention_result(false, false));
}

TEST_CASE("attention of a width that its heads do not divide is refused", "[nn][options]") {
  LogicalGraph graph;
  nn::ParameterList parameters(graph);
  for (Index const heads : {0, 4})
    CHECK(test::message_of<ShapeError>([&] {
            nn::CausalSelfAttention(parameters, "attn", width, heads);
          }) == concat("attention: width 6 is not divided by ", heads, " heads"));
  CHECK(graph.tensor_count() == 0);
}

TEST_CASE("what an option leaves out is no parameter, and deviations are as asked for",
          "[nn][options]") {
  LogicalGraph graph;
  nn::ParameterList parameters(graph);
  nn::Mlp const mlp(parameters, "mlp", width, hidden,
                    {.linear = {.stddev = 0.5, .bias = false}, .projection_stddev = 0.25});
  nn::LayerNorm const norm(parameters, "norm", width, "embed", {.bias = false});
  CHECK(names(parameters) ==
        std::vector<std::string>{"mlp.c_fc.weight", "mlp.c_proj.weight", "norm.weight"});
  CHECK(parameters.all()[0].stddev == 0.5);
  CHECK(parameters.all()[1].stddev == 0.25);
}

TEST_CASE("a norm without weight and bias centres and scales, and passes gradients",
          "[nn][options]") {
  LogicalGraph graph;
  nn::ParameterList parameters(graph);
  nn::LayerNorm const norm(parameters, "norm", width, "embed",
                           {.eps = 0, .weight = false, .bias = false, .dtype = DType::fp64});
  Node const x = graph.parameter({.shape = {width, seq}, .dtype = DType::fp64}, "x");
  Node const y = norm(x).mark_output();
  Node const loss = sum_slice(sum_slice(y)).mark_output();
  Node const gradient = add_gradients(graph, loss).find(x).mark_output();
  Serial runtime;
  Graph<Serial> run(graph, runtime);
  run[x] = waves(width * seq, 0.9);
  run();
  auto const values = run[y].read<double>();
  for (std::size_t column = 0; column < seq; ++column) {
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < width; ++i) {
      sum += values[i + width * column];
      squares += values[i + width * column] * values[i + width * column];
    }
    CHECK_THAT(sum, Catch::Matchers::WithinAbs(0, 1e-12));
    CHECK_THAT(squares, Catch::Matchers::WithinRel(double{width}, 1e-12));
  }
  // What is centred does not change by what is added to all.
  for (double const value : run[gradient].read<double>())
    CHECK_THAT(value, Catch::Matchers::WithinAbs(0, 1e-12));
}

TEST_CASE("modules in bf16 have bf16 results", "[nn][options]") {
  LogicalGraph graph;
  nn::ParameterList parameters(graph);
  nn::BranchOptions const branch{.linear = {.bias = false, .dtype = DType::bf16}};
  nn::LayerNorm const norm(parameters, "norm", width, "embed", {.dtype = DType::bf16});
  nn::CausalSelfAttention const attend(parameters, "attn", width, 2, branch);
  nn::Mlp const mlp(parameters, "mlp", width, hidden, branch);
  Node const x = graph.input({.shape = {width, seq, 1}, .dtype = DType::bf16}, "x");
  CHECK(mlp(attend(norm(x))).dtype() == DType::bf16);
}

TEST_CASE("numbers that no module can have are refused by its name", "[nn][options]") {
  LogicalGraph graph;
  nn::ParameterList parameters(graph);
  double const none = std::nan("");
  for (double const stddev : {-1.0, none, HUGE_VAL})
    CHECK(test::contains(test::message_of<ValueError>([&] {
                           nn::Linear(parameters, "fc", {{4}, "out"}, {{4}, "in"},
                                      {.stddev = stddev});
                         }),
                         "parameter 'fc.weight': a mean of 0 and a deviation of "));
  for (double const eps : {-1e-5, none, HUGE_VAL})
    CHECK(test::contains(test::message_of<ValueError>(
                             [&] { nn::LayerNorm(parameters, "ln", 4, "embed", {.eps = eps}); }),
                         "norm 'ln': an eps of "));
  CHECK(parameters.all().empty());
  CHECK(graph.tensor_count() == 0);
}

TEST_CASE("a module without a name is refused", "[nn][options]") {
  LogicalGraph graph;
  nn::ParameterList parameters(graph);
  auto const refused = [](auto make) { return test::message_of<GraphError>(make); };
  CHECK(refused([&] { nn::Linear(parameters, "", {{4}, "out"}, {{4}, "in"}); }) ==
        "linear: its name is empty, and its parameters are called '<name>.weight' and the like; "
        "give it one");
  CHECK(test::contains(refused([&] { nn::LayerNorm(parameters, "", 4, "embed"); }), "norm: its"));
  CHECK(test::contains(refused([&] { nn::Mlp(parameters, "", 4, 16); }), "mlp: its name"));
  CHECK(test::contains(refused([&] { nn::CausalSelfAttention(parameters, "", 4, 2); }),
                       "attention: its name"));
  CHECK(graph.tensor_count() == 0);
}

TEST_CASE("a model leaves nothing behind of a call with tokens of another graph", "[nn][options]") {
  LogicalGraph graph, elsewhere;
  nn::Gpt2 const model(
      graph,
      {.vocab = 8, .positions = 4, .width = 4, .layers = 1, .heads = 2, .dtype = DType::bf16});
  std::size_t const tensors = graph.tensor_count();
  auto const input = [](LogicalGraph& of, Shape const& shape, char const* name) {
    return of.input({.shape = shape, .dtype = DType::int64}, name);
  };
  Node const tokens = input(elsewhere, {4, 1}, "tokens");
  CHECK_THROWS_AS(model.logits(tokens, input(elsewhere, {4}, "positions")), GraphError);
  CHECK(graph.tensor_count() == tensors);
  CHECK(graph.op_count() == 0);
}

TEST_CASE("a linear layer has a name for each dimension of a group, or none", "[nn][options]") {
  LogicalGraph graph;
  nn::ParameterList parameters(graph);
  auto const refused = [&](nn::Group const& out, nn::Group const& in) {
    return test::message_of<ShapeError>(
        [&] { nn::Linear(parameters, "fc", out, in, {.bias = false}); });
  };
  CHECK(refused({{4}, "a b"}, {{3, 5}, "c"}) ==
        "linear 'fc': its group out of shape {4} has axes \"a b\", 2 names; give each dimension "
        "one, with a blank between two, or none");
  CHECK(test::contains(refused({{4}, "a"}, {{3, 5}, "c"}), "its group in of shape {3, 5} has"));
  CHECK(refused({{4}, "a"}, {{3, -5}, "b c"}) ==
        "linear 'fc': its group in has shape {3, -5}; an extent is 0 or more");
  CHECK(graph.tensor_count() == 0);
  CHECK_NOTHROW(nn::Linear(parameters, "fc", {{4}}, {{3, 5}, "b c"}));
}

TEST_CASE("a call that is refused leaves nothing behind", "[nn][options]") {
  LogicalGraph graph, elsewhere;
  nn::ParameterList parameters(graph);
  nn::BranchOptions const mixed{
      .linear = {.bias = true, .dtype = DType::bf16, .kept = DType::fp32}};
  nn::Linear const linear(parameters, "fc", {{4}, "out"}, {{4}, "in"}, mixed.linear);
  nn::LayerNorm const norm(parameters, "ln", 4, "embed",
                           {.dtype = DType::bf16, .kept = DType::fp32});
  nn::Mlp const mlp(parameters, "mlp", 4, 16, mixed);
  nn::CausalSelfAttention const attention(parameters, "attn", 4, 2, mixed);
  Node const one = graph.input({.shape = {4}, .dtype = DType::bf16}, "one");
  Node const wrong[] = {graph.input({.shape = {5, 3, 1}, .dtype = DType::bf16}, "wide"),
                        graph.input({.shape = {4, 3, 1}}, "fp32"),
                        elsewhere.input({.shape = {4, 3, 1}, .dtype = DType::bf16}, "x"), Node()};
  std::size_t const tensors = graph.tensor_count();
  for (Node const& x : wrong) {
    CHECK_THROWS_AS(linear(x), Error);
    CHECK_THROWS_AS(norm(x), Error);
    CHECK_THROWS_AS(mlp(x), Error);
    CHECK_THROWS_AS(mlp.inference(x), Error);
    CHECK_THROWS_AS(attention(x), Error);
    CHECK_THROWS_AS(nn::mean_cross_entropy(one, x), Error);
  }
  CHECK_THROWS_AS(attention(one), Error);
  CHECK(graph.tensor_count() == tensors);
  CHECK(graph.op_count() == 0);
  CHECK(elsewhere.tensor_count() == 1);
}

TEST_CASE("a module that is refused leaves nothing behind", "[nn][options]") {
  LogicalGraph graph;
  nn::ParameterList parameters(graph);
  char const* const taken[] = {"fc.bias", "ln.bias", "mlp.c_proj.weight", "attn.c_proj.bias"};
  for (char const* const name : taken) parameters.add({.shape = {4}}, name, 0, 0, false);
  graph.input({.shape = {4}}, "h.1.mlp.c_proj.bias");
  std::size_t const tensors = graph.tensor_count();
  nn::Gpt2Config config{.vocab = 8, .positions = 4, .width = 4, .layers = 2, .heads = 2};
  CHECK_THROWS_AS(nn::Linear(parameters, "fc", {{4}, "out"}, {{4}, "in"}), GraphError);
  CHECK_THROWS_AS(nn::LayerNorm(parameters, "ln", 4, "embed"), GraphError);
  CHECK_THROWS_AS(nn::LayerNorm(parameters, "ln", 4, "embed", {.weight = false}), GraphError);
  CHECK_THROWS_AS(nn::Mlp(parameters, "mlp", 4, 16), GraphError);
  CHECK_THROWS_AS(nn::CausalSelfAttention(parameters, "attn", 4, 2), GraphError);
  CHECK_THROWS_AS(nn::Gpt2(graph, config), GraphError);
  CHECK(names(parameters) == std::vector<std::string>(std::begin(taken), std::end(taken)));
  CHECK(graph.tensor_count() == tensors);
  CHECK(graph.op_count() == 0);
  config.layers = 1;
  CHECK_NOTHROW(nn::Gpt2(graph, config));
}
