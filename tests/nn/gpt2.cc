// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/nn/gpt2.hh"

#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "nntile/graph/compile.hh"
#include "nntile/nn/optim.hh"
#include "nntile/nn/schedule.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

TEST_CASE("the smallest published GPT-2 has its 124,439,808 parameters in 148 tensors",
          "[nn][gpt2]") {
  LogicalGraph graph;
  nn::Gpt2 const model(graph, {});
  CHECK(model.parameters().count() == 124'439'808);
  CHECK(model.parameters().all().size() == 148);
}

TEST_CASE("parameters have Hugging Face's names and file shapes", "[nn][gpt2]") {
  LogicalGraph graph;
  nn::Gpt2 const model(graph, {});
  auto const spec = [&](char const* name) { return graph.tensor_of(graph.at(name)).spec; };
  CHECK(spec("h.11.attn.c_attn.weight").file_shape == Shape{768, 2304});
  CHECK(spec("h.0.attn.c_attn.bias").file_shape == Shape{2304});
  CHECK(spec("h.0.attn.c_proj.weight").file_shape == Shape{768, 768});
  CHECK(spec("h.0.mlp.c_fc.weight").file_shape == Shape{768, 3072});
  CHECK(spec("h.0.mlp.c_proj.weight").file_shape == Shape{3072, 768});
  CHECK(spec("wte.weight").shape == Shape{768, 50257});
  for (char const* name :
       {"wpe.weight", "h.3.ln_1.weight", "h.3.ln_2.bias", "ln_f.weight", "ln_f.bias"})
    CHECK(bool(graph.find(name)));
}

TEST_CASE("a rule by name takes all that a layer computes along", "[nn][gpt2]") {
  TinyGptGraph const of(
      {.config = {.vocab = 96, .positions = 128, .width = 128, .layers = 2, .heads = 2}});
  Plan const plan(of.graph, {.tile = 0,
                             .place = {{.tensors = "h.1.*", .place = device(1)},
                                       {.tensors = "optim.*h.1.*", .place = device(1)},
                                       {.place = device(0)}}});
  std::map<std::string, int> first, second;
  for (PlannedTask const& task : plan.tasks()) {
    std::string const name = plan.kernels()[task.kernel].name;
    ++(task.location.place == device(1) ? second : first)[name];
  }
  // A layer of two on each; the gradient of what the last one gives begins at its device.
  CHECK(second["attention"] == 1);
  CHECK(second["attention_backward"] == 1);
  CHECK(second["gelutanh_backward"] == 1);
  CHECK(second["layer_norm_backward"] == 3);
  CHECK(second["adamw_step"] == 16);
  CHECK(first["attention"] == 1);
  CHECK(first["layer_norm_backward"] == 2);
  CHECK(first["adamw_step"] == 20);
  MemoryReport const one = plan.memory({0, device(0)}), other = plan.memory({0, device(1)});
  CHECK(other.arena > one.arena / 2);
}

TEST_CASE("a sequence longer than the positions is refused", "[nn][gpt2]") {
  LogicalGraph graph;
  nn::Gpt2 const model(graph, {.vocab = 16, .positions = 8, .width = 8, .layers = 1, .heads = 2});
  Node const tokens = graph.input({.shape = {9, 1}, .dtype = DType::int64}, "tokens");
  Node const positions = graph.input({.shape = {9}, .dtype = DType::int64}, "positions");
  CHECK(contains(message_of<ShapeError>([&] { model.logits(tokens, positions); }),
                 "9 tokens ('tokens') but the model has 8"));
}

TEST_CASE("tokens and positions of other ranks are refused by their names", "[nn][gpt2]") {
  LogicalGraph graph;
  nn::Gpt2 const model(graph, {.vocab = 16, .positions = 8, .width = 8, .layers = 1, .heads = 2});
  Node const tokens = graph.input({.shape = {4}, .dtype = DType::int64}, "tokens");
  Node const positions = graph.input({.shape = {4}, .dtype = DType::int64}, "positions");
  std::size_t const ops = graph.op_count();
  CHECK(message_of<ShapeError>([&] { model.logits(tokens, positions); }) ==
        "gpt2: tokens ('tokens') of shape {4} and positions ('positions') of shape {4}, but they "
        "are {seq, batch} and {seq}");
  CHECK(graph.op_count() == ops);
}

TEST_CASE("a model of no sense is refused by what makes none of it", "[nn][gpt2]") {
  LogicalGraph graph;
  auto const refused = [&](nn::Gpt2Config const& config) {
    return message_of([&] { nn::Gpt2(graph, config); });
  };
  CHECK(refused({.vocab = 0}) == "gpt2: vocab=0; 1 or more");
  CHECK(refused({.positions = -4}) == "gpt2: positions=-4; 1 or more");
  CHECK(refused({.width = 0}) == "gpt2: width=0; 1 or more");
  CHECK(refused({.layers = -1}) == "gpt2: layers=-1; 0 or more");
  for (Index const layers : {0, 1}) {
    CHECK(refused({.layers = layers, .heads = 0}) == "gpt2: heads=0; 1 or more");
    CHECK(refused({.width = 10, .layers = layers, .heads = 3}) ==
          "gpt2: heads=3 do not divide width=10");
  }
  CHECK(refused({.layers = 0, .eps = -1}) == "gpt2: eps=-1; 0 or more, such as 1e-5");
  CHECK(contains(refused({.layers = 0, .stddev = std::nan("")}), "gpt2: stddev="));
  CHECK(refused({.dtype = DType::int64}) ==
        "gpt2: dtype=int64; activations are floats, such as fp32 or bf16");
  CHECK(refused({.dtype = DType::boolean}) ==
        "gpt2: dtype=bool; activations are floats, such as fp32 or bf16");
  CHECK(contains(refused({.dtype = static_cast<DType>(99)}), "gpt2: dtype=99; "));
  CHECK(graph.tensor_count() == 0);
}

TEST_CASE("a model that was moved elsewhere has all of its layers", "[nn][gpt2]") {
  LogicalGraph graph;
  nn::Gpt2 model(graph, {.vocab = 16, .positions = 8, .width = 8, .layers = 2, .heads = 2});
  Node const tokens = graph.input({.shape = {4, 1}, .dtype = DType::int64}, "tokens");
  Node const positions = graph.input({.shape = {4}, .dtype = DType::int64}, "positions");
  (void)model.logits(tokens, positions);
  std::size_t const ops = graph.op_count();
  nn::Gpt2 const other = std::move(model);
  (void)model.logits(tokens, positions);
  CHECK(graph.op_count() == 2 * ops);
  (void)other.logits(tokens, positions);
  CHECK(graph.op_count() == 3 * ops);
}

TEST_CASE("a model that was just initialised predicts every token alike", "[nn][gpt2]") {
  Serial runtime;
  TinyGptGraph const gpt;
  TinyGptRun<Serial> run(runtime, gpt, {.tile = 64});
  // Logits of deviation 0.02 sqrt(128) = 0.23 raise the expected loss by half their variance, 0.03.
  CHECK_THAT(double(run.train(1)), Catch::Matchers::WithinAbs(std::log(96.0), 0.1));
}

TEST_CASE("initial values depend on seed and name, not on tiles", "[nn][gpt2]") {
  Serial runtime;
  TinyGptGraph const gpt;
  TinyGptRun<Serial> const a(runtime, gpt, {.tile = 0}), b(runtime, gpt, {.tile = 64});
  CHECK(a.parameters() == b.parameters());
  CHECK(a.parameters().at("h.0.mlp.c_fc.weight") != a.parameters().at("h.0.mlp.c_proj.weight"));
}

TEST_CASE("initial weights have mean 0 and the deviation that is asked for", "[nn][gpt2]") {
  Serial runtime;
  TinyGptGraph const gpt;
  TinyGptRun<Serial> const run(runtime, gpt, {.tile = 64});
  auto const parameters = run.parameters();
  auto const& values = parameters.at("h.0.mlp.c_fc.weight");
  double sum = 0, squares = 0;
  for (float const value : values) {
    sum += double(value);
    squares += double(value) * double(value);
  }
  double const n = static_cast<double>(values.size());
  CHECK(std::abs(sum / n) < 5 * 0.02 / std::sqrt(n));  // five standard errors
  CHECK_THAT(std::sqrt(squares / n), Catch::Matchers::WithinRel(0.02, 5 / std::sqrt(2 * n)));
  for (float const value : parameters.at("h.0.ln_1.weight")) CHECK(value == 1);
}

TEST_CASE("the fused activation of inference has the bits of the separate one", "[nn][gpt2]") {
  Serial runtime;
  TinyGpt const sizes;
  TinyGptGraph const gpt(sizes);
  TinyGptRun<Serial> run(runtime, gpt, {.tile = 64});
  auto const logits = [&](bool inference) {
    LogicalGraph graph(inference ? "fused" : "separate");
    nn::Gpt2 const model(graph, sizes.config);
    Node const tokens = graph.input(
        {.shape = {sizes.seq, sizes.batch}, .dtype = DType::int64, .axes = "seq batch"}, "tokens");
    Node const positions =
        graph.constant({.shape = {sizes.seq}, .dtype = DType::int64, .axes = "seq"}, "positions");
    std::string const name = model.logits(tokens, positions, inference).mark_output().name();
    auto forward = compile(graph, run.store, {.tile = 64});
    run.bind(1);
    forward.execute();
    auto const values = forward.template get_output<float>(name);
    return values;
  };
  CHECK(logits(true) == logits(false));
}

TEST_CASE("the learning rate rises linearly and falls along a half cosine", "[nn][gpt2]") {
  nn::WarmupCosine const schedule{.peak = 1, .warmup = 10, .steps = 110, .floor = 0.1};
  CHECK(schedule.at(1) == 0.1);
  CHECK(schedule.at(10) == 1);
  CHECK_THAT(schedule.at(60), Catch::Matchers::WithinAbs(0.55, 1e-12));
  CHECK_THAT(schedule.at(110), Catch::Matchers::WithinAbs(0.1, 1e-12));
  CHECK(schedule.at(1000) == 0.1);
  CHECK(schedule.at(0) == 0);
  CHECK(nn::WarmupCosine{.peak = 1, .warmup = 0, .steps = 10}.at(0) == 1);
  CHECK(nn::WarmupCosine{.peak = 1, .warmup = 10, .steps = 10, .floor = 0}.at(10) == 1);
}

TEST_CASE("numbers that make no learning rate are refused", "[nn][schedule]") {
  auto const refused = [](nn::WarmupCosine const& schedule, std::int64_t step = 1) {
    return test::message_of<ValueError>([&] { (void)schedule.at(step); });
  };
  double const none = std::nan("");
  CHECK(refused({.peak = none}) == "schedule: a peak of nan; 0 or more, such as 3e-3");
  CHECK(test::contains(refused({.peak = -1}), "a peak of -1"));
  CHECK(test::contains(refused({.peak = HUGE_VAL}), "a peak of inf"));
  CHECK(refused({.floor = 1.5}) == "schedule: a floor of 1.5; from 0 to 1, a share of the peak");
  CHECK(test::contains(refused({.floor = none}), "a floor of nan"));
  CHECK(refused({.warmup = -1}) == "schedule: a warm-up of -1 steps; 0 (none) or more");
  CHECK(refused({.warmup = 50, .steps = 20}) ==
        "schedule: its end at step 20 is before that of its warm-up at 50; give a later end, or a "
        "warm-up of 20 steps or less");
  CHECK(refused({.warmup = 0, .steps = -5}) ==
        "schedule: its end at step -5 is before that of its warm-up at 0; give a later end");
  CHECK(refused({}, -1) == "schedule: step -1; steps count from 1");
}
