// SPDX-License-Identifier: BSD-3-Clause
// Models whose batch and length are open: one graph, planned for several shapes.
#include <iterator>
#include <map>

#include "nntile/graph/compile.hh"
#include "nntile/nn/gpt2.hh"
#include "nntile/nn/language_model.hh"
#include "nntile/runtime/ring/ring.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

using Purpose = nn::LanguageModelOptions::Purpose;

/// A tiny GPT's step, declared for these two dimensions.
struct TinyStep {
  LogicalGraph graph{"tiny"};
  nn::Gpt2 model;
  nn::LanguageModelStep step;

  TinyStep(Dim const& seq, Dim const& batch, Purpose purpose = Purpose::training)
      : model(graph,
              {.vocab = 40, .positions = 96, .width = 64, .layers = 1, .heads = 2, .stddev = 0.2}),
        step(model, {.seq = seq, .batch = batch, .purpose = purpose, .adamw = {.clip = 1}}) {}
};

struct BatchShape {
  Index seq, batch;
};

/// Runs a step on the tokens of a fixed text and returns the loss.
float train(CompiledGraph<Ring>& step, BatchShape shape, Index number) {
  std::vector<Index> tokens, labels;
  for (Index i = 0; i < shape.seq * shape.batch; ++i) {
    tokens.push_back((i * 7 + 3 * (i / 5) + number) % 40);
    labels.push_back(i % 9 == number ? -100 : (tokens.back() + 1) % 40);
  }
  step.bind_input("tokens", tokens);
  step.bind_input("labels", labels);
  step.bind_input("positions", nn::LanguageModelStep::position_values(shape.seq));
  step.bind_input("lr", std::vector<float>{0.01f});
  step.bind_input("step", std::vector<Index>{number});
  step.execute();
  return step.get_output<float>("loss")[0];
}

/// Parameters and optimizer states by name.
std::map<std::string, std::vector<float>> kept(TensorStore<Ring> const& store) {
  std::map<std::string, std::vector<float>> result;
  for (auto const& stored : store.tensors())
    if (stored->spec.attributes.persistent && !stored->spec.attributes.external)
      result.emplace(stored->spec.name, store.read<float>(stored->spec.name));
  return result;
}

}  // namespace

TEST_CASE("one open graph trains at three shapes in one store, with the bits of numbers",
          "[nn][dims]") {
  constexpr BatchShape shapes[] = {{48, 2}, {64, 1}, {20, 3}};
  for (PlanOptions const& options : {PlanOptions{.tile = 64}, PlanOptions{}}) {
    Ring runtime({.workers = 2});
    TinyStep const open("seq", "batch");
    TensorStore<Ring> store(runtime);
    std::vector<CompiledGraph<Ring>> steps;
    for (auto const& [seq, batch] : shapes) {
      PlanOptions bound = options;
      bound.dims = {{"seq", seq}, {"batch", batch}};
      steps.push_back(compile(open.graph, store, bound));
    }
    LogicalGraph init("init");
    nn::initialize(init, open.step, 1);
    compile(init, store, options).execute();
    for (Index number = 1; number <= 6; ++number) {
      std::size_t const at = static_cast<std::size_t>(number - 1) % std::size(shapes);
      TinyStep const closed(shapes[at].seq, shapes[at].batch);
      TensorStore<Ring> own(runtime);
      CompiledGraph<Ring> step = compile(closed.graph, own, options);
      for (auto const& [name, values] : kept(store)) own.write<float>(name, values);
      INFO("step " << number);
      CHECK(train(steps[at], shapes[at], number) == train(step, shapes[at], number));
      CHECK((kept(store) == kept(own)));
    }
  }
}

TEST_CASE("an open sequence beyond the positions fails where it is embedded", "[nn][dims]") {
  TinyStep const open("seq", "batch");
  Ring runtime({.workers = 1});
  TensorStore<Ring> store(runtime);
  CompiledGraph<Ring> step = compile(open.graph, store, {.dims = {{"seq", 97}, {"batch", 1}}});
  LogicalGraph init("init");
  nn::initialize(init, open.step, 1);
  compile(init, store).execute();
  CHECK(contains(message_of<TaskError>([&] { (void)train(step, {97, 1}, 1); }),
                 "index 96 at position 32 of the tile is outside [0, 96)"));
}

TEST_CASE("a text has the same logits in any window that it fits in", "[nn][dims]") {
  TinyStep const open("seq", 1, Purpose::inference);
  Ring runtime({.workers = 1});
  for (Index const tile : {Index{0}, Index{64}, PlanOptions::automatic}) {
    TensorStore<Ring> store(runtime);
    std::vector<float> first;
    for (Index const seq : {20, 21, 64, 96}) {
      CompiledGraph<Ring> forward =
          compile(open.graph, store, {.tile = tile, .dims = {{"seq", seq}}});
      if (first.empty()) {
        LogicalGraph init("init");
        nn::initialize(init, open.step, 1);
        compile(init, store).execute();
      }
      std::vector<Index> tokens;
      for (Index i = 0; i < seq; ++i) tokens.push_back(i < 20 ? i * 7 % 40 : seq % 40);
      forward.bind_input("tokens", tokens);
      forward.bind_input("positions", nn::LanguageModelStep::position_values(seq));
      forward.execute();
      auto logits = forward.get_output<float>(open.step.logits().name());
      logits.resize(20 * 40);
      if (first.empty()) first = logits;
      INFO("tile " << tile << ", seq " << seq);
      CHECK(logits == first);
    }
  }
}
