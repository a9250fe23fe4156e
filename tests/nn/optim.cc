// SPDX-License-Identifier: BSD-3-Clause
// The optimizer in a graph of its own, on the store of the graph that leaves gradients there.
#include "nntile/nn/optim.hh"

#include <cmath>

#include "nntile/graph/graph.hh"
#include "nntile/nn/language_model.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/runtimes.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

using Purpose = nn::LanguageModelOptions::Purpose;
using Parameters = std::map<std::string, std::vector<float>>;
constexpr int steps = 3;

Parameters trained_in_one_graph(TinyGpt const& sizes) {
  Serial runtime;
  TinyGptGraph const gpt(sizes);
  TinyGptRun<Serial> run(runtime, gpt, {.tile = 64});
  run.train(steps);
  return run.parameters();
}

/// The batches of TinyGptRun, by two graphs on one store.
template <class R>
Parameters trained_in_two_graphs(TinyGpt const& sizes, PlanOptions const& options) {
  R runtime;
  LogicalGraph graph("gradients"), update("update"), init("init");
  nn::Gpt2 const model(graph, sizes.config);
  nn::LanguageModelStep const step(
      model, {.seq = sizes.seq, .batch = sizes.batch, .purpose = Purpose::gradients});
  nn::AdamW const adamw(update, model.parameters(), step.gradients(), {.clip = sizes.clip});
  nn::initialize(init, model.parameters(), 1);
  nn::initialize_states(init, adamw);

  TensorStore<R> store(runtime);
  Graph<R> run(graph, store, options), optimizer(update, store, options);
  compile(init, store, options).execute();
  run[step.positions()] = step.position_values();
  for (int number = 1; number <= steps; ++number) {
    auto const [tokens, labels] = tiny_batch(sizes, number);
    run[step.tokens()] = tokens;
    run[step.labels()] = labels;
    optimizer[adamw.lr()] = 0.01;
    optimizer[adamw.step()] = number;
    run.async();
    optimizer.async();  // ordered by what both name
  }
  runtime.wait_all();
  Parameters result;
  for (auto const& parameter : model.parameters().all())
    result.emplace(parameter.node.name(), store.template read<float>(parameter.node.name()));
  return result;
}

/// A graph with its optimizer on Serial, the states initialised.
struct Updated {
  Serial runtime;
  TensorStore<Serial> store{runtime};
  Graph<Serial> run;

  Updated(LogicalGraph& graph, nn::AdamW const& adamw) : run(graph, store) {
    LogicalGraph init("init");
    nn::initialize_states(init, adamw);
    compile(init, store).execute();
  }
};

}  // namespace

TEMPLATE_LIST_TEST_CASE("an optimizer in a graph of its own has the bits of one graph",
                        "[nn][optim]", AllRuntimes) {
  for (double const clip : {0.0, 1.0}) {
    TinyGpt const sizes{.clip = clip};
    CHECK(trained_in_two_graphs<TestType>(sizes, {.tile = 64}) == trained_in_one_graph(sizes));
  }
}

TEST_CASE("gradients that are not kept have no optimizer in another graph", "[nn][optim]") {
  LogicalGraph graph("forward"), update("update");
  nn::ParameterList parameters(graph);
  Node const w = parameters.add({.shape = {4}}, "w", 0, 1, true);
  auto const gradients = add_gradients(graph, sum_slice(w));
  CHECK(message_of<GraphError>([&] { nn::AdamW(update, parameters, gradients); }) ==
        "adamw: graph 'forward' does not keep 'w.grad' for graph 'update'; give add_gradients "
        ".persistent = true");
}

TEST_CASE("a parameter without gradient is no part of the optimizer's graph", "[nn][optim]") {
  LogicalGraph graph, update;
  nn::ParameterList parameters(graph);
  Node const w = parameters.add({.shape = {4}}, "w", 0, 1, true);
  parameters.add({.shape = {4}}, "unused", 0, 1, true);
  nn::AdamW const adamw(update, parameters,
                        add_gradients(graph, sum_slice(w), {.persistent = true}));
  CHECK(adamw.states().size() == 2);
  CHECK_FALSE(update.find("unused"));
  CHECK(update.tensor_of(update.at("w")).attributes.requires_grad);
}

TEST_CASE("graphs share what they name, whatever prefix is open", "[nn][optim]") {
  LogicalGraph graph, update, init;
  auto const model = graph.prefix("model."), of_update = update.prefix("update."),
             of_init = init.prefix("init.");
  nn::ParameterList parameters(graph);
  Node const w = parameters.add({.shape = {4}}, "w", 0, 1, true);
  Gradients const gradients = add_gradients(graph, sum_slice(w), {.persistent = true});
  nn::AdamW const adamw(update, parameters, gradients);
  nn::initialize(init, parameters, 1);
  nn::initialize_states(init, adamw);
  CHECK(update.find("model.w"));
  CHECK(update.find(gradients.find(w).name()));
  CHECK(init.find("model.w"));
  for (char const* const name : {"optim.exp_avg/model.w", "optim.exp_avg_sq/model.w"}) {
    CHECK(update.find(name));
    CHECK(init.find(name));
  }
  CHECK(adamw.lr().name() == "update.lr");
  CHECK(update.input({.shape = {}}, "x").name() == "update.x");
}

TEST_CASE("a tensor that only has the name of what two graphs share is refused", "[nn][optim]") {
  LogicalGraph graph("forward");
  nn::ParameterList parameters(graph);
  Node const w = parameters.add({.shape = {4}}, "w", 0, 1, true);
  Gradients const gradients = add_gradients(graph, sum_slice(w), {.persistent = true});
  auto const refused = [&](TensorSpec const& spec, char const* name, TensorAttributes attributes) {
    LogicalGraph update("update");
    update.tensor(spec, name, attributes);
    std::string const text =
        message_of<GraphError>([&] { nn::AdamW(update, parameters, gradients); });
    CHECK(update.tensor_count() == 1);
    return text;
  };
  TensorAttributes const trained{.requires_grad = true, .persistent = true};
  CHECK(refused({.shape = {3}}, "w", trained) ==
        "adamw: 'w' is a parameter of shape {4} in fp32 in graph 'forward', but a parameter of "
        "shape {3} in fp32 in graph 'update', and both are to be one tensor; declare them alike, "
        "or give one of them another name");
  CHECK(contains(refused({.shape = {4}, .dtype = DType::fp64}, "w", trained),
                 "but a parameter of shape {4} in fp64 in graph 'update'"));
  CHECK(contains(refused({.shape = {4}}, "w", {.external = true}), "but an input of shape {4}"));
  CHECK(contains(refused({.shape = {4}}, "w.grad", {}), "but a result of shape {4}"));
  LogicalGraph update;
  update.state({.shape = {4}}, "w");
  CHECK_NOTHROW(nn::AdamW(update, parameters, gradients));
}

TEST_CASE("a graph that cannot initialize all is as it was", "[nn][optim]") {
  LogicalGraph graph, init;
  nn::ParameterList parameters(graph);
  Node const v = parameters.add({.shape = {4}}, "v", 0, 1, true);
  Node const w = parameters.add({.shape = {4}}, "w", 0, 1, true);
  nn::AdamW const adamw(parameters, add_gradients(graph, sum_slice(add(v, w))));
  init.state({.shape = {4}}, "w");
  init.state({.shape = {4}}, "optim.exp_avg/w");
  CHECK_THROWS_AS(nn::initialize(init, parameters, 1), GraphError);
  CHECK_THROWS_AS(nn::initialize_states(init, adamw), GraphError);
  CHECK(init.tensor_count() == 2);
  CHECK(init.op_count() == 0);
}

TEST_CASE("parameters and gradients that were moved elsewhere are not lost", "[nn][optim]") {
  LogicalGraph graph, update, init;
  nn::ParameterList parameters(graph);
  Node const w = parameters.add({.shape = {4}}, "w", 0, 1, true);
  Gradients gradients = add_gradients(graph, sum_slice(w), {.persistent = true});
  nn::ParameterList const other_parameters = std::move(parameters);
  Gradients const other_gradients = std::move(gradients);
  nn::AdamW adamw(update, parameters, gradients);
  CHECK(adamw.states().size() == 2);
  nn::AdamW const other_adamw = std::move(adamw);
  nn::initialize(init, parameters, 1);
  nn::initialize_states(init, adamw);
  CHECK(init.op_count() == 3);
}

TEST_CASE("gradients that nothing made are refused as such", "[nn][optim]") {
  LogicalGraph graph;
  nn::ParameterList parameters(graph);
  parameters.add({.shape = {4}}, "w", 0, 1, true);
  CHECK(message_of<GraphError>([&] { nn::AdamW(parameters, Gradients{}); }) ==
        "gradients: those of 'w' are asked of an object that has none; take one that add_gradients "
        "returned");
}

TEST_CASE("without gradients there is nothing to clip", "[nn][optim]") {
  LogicalGraph graph;
  Node const w = graph.parameter({.shape = {4}}, "w");
  nn::ParameterList others(graph);
  others.add({.shape = {4}}, "unused", 0, 1, true);
  Gradients const gradients = add_gradients(graph, sum_slice(w).mark_output());
  nn::AdamW const adamw(others, gradients, {.clip = 1});
  CHECK_FALSE(adamw.squared_norm());
  CHECK(adamw.states().empty());
  CHECK_NOTHROW(Plan(graph));
}

TEST_CASE("the norm that clips counts gradients of scalars", "[nn][optim]") {
  DType const dtype = GENERATE(DType::fp32, DType::bf16);
  LogicalGraph graph;
  nn::ParameterList parameters(graph);
  Node const scalar = parameters.add({.shape = {}, .dtype = dtype}, "scalar", 0, 1, false);
  Node const vector = parameters.add({.shape = {1}, .dtype = dtype}, "vector", 0, 1, false);
  Node const loss = add({.alpha = 3, .beta = 4}, scalar, sum_slice(vector));
  nn::AdamW const adamw(parameters, add_gradients(graph, loss), {.clip = 1});
  adamw.squared_norm().mark_output();
  Updated updated(graph, adamw);
  Graph<Serial>& run = updated.run;
  run[scalar] = 2;
  run[vector] = 2;
  run[adamw.lr()] = 0.1;
  run[adamw.step()] = 1;
  run();
  CHECK(run[adamw.squared_norm()].item<double>() == 25);
}

TEST_CASE("a first step is lr along the gradient, and decays what is to decay", "[nn][optim]") {
  LogicalGraph graph;
  nn::ParameterList parameters(graph);
  Node const w = parameters.add({.shape = {4}}, "w", 0, 1, true);
  Node const b = parameters.add({.shape = {4}}, "b", 0, 1, false);
  nn::AdamW const adamw(parameters, add_gradients(graph, sum_slice(add(w, b))),
                        {.weight_decay = 0.2});
  Updated updated(graph, adamw);
  Graph<Serial>& run = updated.run;
  for (Node const& parameter : {w, b}) run[parameter] = std::vector<float>(4, 2);
  run[adamw.lr()] = 0.1;
  run[adamw.step()] = 1;
  run();
  CHECK_THAT(run[b].read<float>()[3], Catch::Matchers::WithinRel(2 - 0.1f, 1e-6f));
  CHECK_THAT(run[w].read<float>()[3],
             Catch::Matchers::WithinRel(2 * (1 - 0.1f * 0.2f) - 0.1f, 1e-6f));
}

TEST_CASE("narrow parameters have states in fp32 where those are asked for", "[nn][optim]") {
  LogicalGraph graph;
  nn::ParameterList parameters(graph);
  Node const w = parameters.add({.shape = {4}, .dtype = DType::bf16}, "w", 0, 1, false);
  nn::AdamW const adamw(parameters, add_gradients(graph, sum_slice(w)), {.states = DType::fp32});
  Updated updated(graph, adamw);
  Graph<Serial>& run = updated.run;
  run[w] = std::vector<bf16_t>(4, bf16_t(2.0f));
  run[adamw.lr()] = 0.125;
  for (int step = 1; step <= 2; ++step) {
    run[adamw.step()] = step;
    run();
  }
  REQUIRE(adamw.states().size() == 2);
  for (Node const& state : adamw.states()) CHECK(state.dtype() == DType::fp32);
  CHECK(static_cast<float>(run[w].read<bf16_t>()[3]) == 1.75f);
  // 0.0199 has no bf16 neighbour as near as this
  CHECK_THAT(run[adamw.states()[1]].read<float>()[3], Catch::Matchers::WithinRel(0.0199f, 1e-6f));
}

TEST_CASE("a parameter used in bf16 is moved by the gradient there", "[nn][optim]") {
  enum class Gradient { kept, of_one_cast, of_two_casts, overwritten, source_overwritten };
  using Values = std::vector<float>;
  struct Trained {
    Values w, m;
    std::string ops;  // of the optimizer
  };
  DType const dtype = GENERATE(DType::bf16, DType::fp16);
  auto const train = [dtype](Gradient way, double clip) {
    LogicalGraph graph;
    nn::ParameterList parameters(graph);
    Node const w = parameters.add({.shape = {5}}, "w", 0, 1, true);
    Node const x = graph.input({.shape = {5}, .dtype = dtype}, "x");
    Node const narrow = nn::in_dtype(w, dtype);
    Node const other = way == Gradient::of_two_casts ? nn::in_dtype(w, dtype) : narrow;
    Node const loss = sum_slice(gelutanh(add(gelutanh(add(narrow, x)), other)));
    auto const gradients = add_gradients(graph, loss, {.persistent = way == Gradient::kept});
    if (way == Gradient::overwritten) ops::fill({.value = 0.5}, gradients.find(w));
    if (way == Gradient::source_overwritten)
      for (std::size_t i = graph.op_count(); i-- > 0;)
        if (OpNode const& op = graph.op_at(i);
            op.info == &op_info<ops::Cast> && op.operands[1] == gradients.find(w).id()) {
          ops::fill({.value = 0.5}, Node(graph, op.operands[0]));
          break;
        }
    std::size_t const before = graph.op_count();
    nn::AdamW const adamw(parameters, gradients, {.clip = clip, .states = DType::fp32});
    Trained result;
    for (std::size_t i = before; i < graph.op_count(); ++i)
      result.ops += concat(graph.op_at(i).info->name, " ");
    Updated updated(graph, adamw);
    Graph<Serial>& run = updated.run;
    run[w] = Values{0.3f, 1, -2, 0.7f, 3};
    if (dtype == DType::bf16)
      run[x] = std::vector(5, bf16_t(0.3f));
    else
      run[x] = std::vector(5, fp16_t(0.3f));
    run[adamw.lr()] = 0.125;
    for (int step = 1; step <= 2; ++step) {
      run[adamw.step()] = step;
      run();
    }
    result.w = run[w].template read<float>();
    result.m = run[adamw.states()[0]].template read<float>();
    return result;
  };
  for (double const clip : {0.0, 0.25}) {
    Trained const kept = train(Gradient::kept, clip), read = train(Gradient::of_one_cast, clip);
    CHECK_FALSE(contains(kept.ops, "adamw_step_narrow"));
    CHECK(contains(read.ops, "adamw_step_narrow"));
    CHECK(kept.w == read.w);
    CHECK(kept.m == read.m);
    CHECK(kept.w != Values{0.3f, 1, -2, 0.7f, 3});
    // Gradients of two casts are added in fp32; what is overwritten is not what was cast.
    CHECK_FALSE(contains(train(Gradient::of_two_casts, clip).ops, "adamw_step_narrow"));
    Trained const source = train(Gradient::source_overwritten, clip);
    CHECK_FALSE(contains(source.ops, "adamw_step_narrow"));
    CHECK(source.m == kept.m);
    Trained const overwritten = train(Gradient::overwritten, clip);
    CHECK_FALSE(contains(overwritten.ops, "adamw_step_narrow"));
    CHECK(overwritten.m == Values(5, overwritten.m[0]));
  }
}

TEST_CASE("states of a dtype without a kernel are refused with those that have one",
          "[nn][optim]") {
  LogicalGraph graph;
  nn::ParameterList parameters(graph);
  Node const w = parameters.add({.shape = {4}, .dtype = DType::bf16}, "w", 0, 1, false);
  auto const gradients = add_gradients(graph, sum_slice(w));
  CHECK(message_of<TypeError>([&] { nn::AdamW(parameters, gradients, {.states = DType::fp64}); }) ==
        "adamw: states of fp64, but parameter 'w' is bf16, and has states of bf16 or fp32");
}

TEST_CASE("an optimizer that is refused leaves nothing in its graph", "[nn][optim]") {
  LogicalGraph graph, other;
  nn::ParameterList parameters(graph);
  Node const w = parameters.add({.shape = {4}, .dtype = DType::bf16}, "w", 0, 1, false);
  auto const gradients = add_gradients(graph, sum_slice(w));
  std::size_t const tensors = graph.tensor_count(), ops = graph.op_count();
  auto const phases = graph.phases();
  CHECK_THROWS_AS(nn::AdamW(parameters, gradients, {.clip = 1, .states = DType::fp64}), TypeError);
  CHECK_THROWS_AS(nn::AdamW(other, parameters, gradients), GraphError);
  CHECK(graph.tensor_count() == tensors);
  CHECK(graph.op_count() == ops);
  CHECK(graph.phases() == phases);
  CHECK(other.tensor_count() == 0);
  gelutanh(w);
  CHECK(graph.phase_name(graph.op_at(ops).phase) == "backward");
  CHECK_NOTHROW(nn::AdamW(parameters, gradients));
}

TEST_CASE("numbers with which AdamW makes no step are refused", "[nn][optim]") {
  auto const refused = [](nn::AdamWOptions const& options) {
    LogicalGraph graph;
    nn::ParameterList const parameters(graph);
    std::string const text =
        message_of<ValueError>([&] { nn::AdamW(parameters, Gradients{}, options); });
    CHECK(graph.tensor_count() == 0);
    return text;
  };
  double const none = std::nan("");
  CHECK(refused({.beta1 = 1}) == "adamw: beta1 of 1; 0 or more, below 1, such as 0.9");
  CHECK(contains(refused({.beta2 = -0.5}), "beta2 of -0.5"));
  CHECK(contains(refused({.beta2 = none}), "beta2 of nan"));
  CHECK(contains(refused({.eps = -1}), "eps of -1"));
  CHECK(contains(refused({.weight_decay = none}), "weight_decay of nan"));
  CHECK(contains(refused({.clip = -1}), "clip of -1"));
  CHECK(contains(refused({.clip = HUGE_VAL}), "clip of inf"));
}
