// SPDX-License-Identifier: BSD-3-Clause
// The step of a language model, on a bigram: logits are a row of a table.
#include "nntile/nn/language_model.hh"

#include <cmath>
#include <concepts>
#include <limits>

#include "nntile/graph/embed.hh"
#include "nntile/graph/graph.hh"
#include "nntile/io/graph.hh"
#include "nntile/ops/all.hh"
#include "nntile/ops/embedding.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

using Purpose = nn::LanguageModelOptions::Purpose;
constexpr Index vocab = 5, seq = 3, batch = 2;

/// logits[., s, b] = table[., tokens[s, b]].
class Bigram {
 public:
  explicit Bigram(LogicalGraph& graph)
      : parameters_(graph),
        table_(parameters_.add({{vocab, vocab}, DType::fp32, "next vocab", {}}, "table", 0, 1,
                               true)) {}
  Node logits(Node const& tokens, Node const&, bool) const { return embedding(tokens, table_); }
  nn::ParameterList const& parameters() const { return parameters_; }

 private:
  nn::ParameterList parameters_;
  Node table_;
};

struct Bound {
  explicit Bound(Purpose purpose)
      : model(graph), step(model, {.seq = seq, .batch = batch, .purpose = purpose}) {}
  LogicalGraph graph;
  Bigram model;
  nn::LanguageModelStep step;
};

std::vector<Index> const tokens{0, 1, 2, 3, 4, 0}, labels{1, 2, 3, 4, 0, 4};

double expected_loss(std::vector<float> const& table) {
  double sum = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    float const* const row = table.data() + vocab * tokens[i];
    double powers = 0;
    for (Index v = 0; v < vocab; ++v) powers += std::exp(static_cast<double>(row[v]));
    sum += std::log(powers) - static_cast<double>(row[labels[i]]);
  }
  return sum / static_cast<double>(tokens.size());
}

}  // namespace

TEST_CASE("a language model's step has the loss of its formula and lowers it", "[nn][model]") {
  Bound of(Purpose::training);
  LogicalGraph init("initialize");
  nn::initialize(init, of.step, 1);
  Serial runtime;
  TensorStore<Serial> store(runtime);
  Graph<Serial> run(of.graph, store);
  compile(init, store).execute();
  auto const table = store.read<float>("table");
  run[of.step.tokens()] = tokens;
  run[of.step.labels()] = labels;
  run[of.step.optimizer()->lr()] = 0.1;
  run[of.step.optimizer()->step()] = 1;
  run();
  auto const loss = static_cast<double>(run[of.step.loss()].item<float>());
  CHECK_THAT(loss, Catch::Matchers::WithinRel(expected_loss(table), 1e-6));
  CHECK(expected_loss(store.read<float>("table")) < loss);
}

TEST_CASE("micro-batches have the gradient of the whole batch, which the update clears",
          "[nn][model]") {
  Bound whole(Purpose::gradients);
  LogicalGraph graph;
  Bigram const model(graph);
  nn::LanguageModelStep const step(model, {.seq = seq, .batch = 1, .accumulate = batch});
  Serial runtime, other;
  TensorStore<Serial> store(runtime), stored_whole(other);
  Graph<Serial> run(graph, store, {.by_phase = true}), at_once(whole.graph, stored_whole);
  using Filled = std::pair<nn::LanguageModelStep const*, TensorStore<Serial>*>;
  for (auto const& [of, to] : {Filled{&step, &store}, Filled{&whole.step, &stored_whole}}) {
    LogicalGraph init("initialize");
    nn::initialize(init, *of, 1);
    compile(init, *to).execute();
  }
  at_once[whole.step.tokens()] = tokens;
  at_once[whole.step.labels()] = labels;
  at_once();
  run[step.optimizer()->lr()] = 0.0;
  for (int number = 1; number <= 2; ++number) {  // the second begins from 0 again
    run[step.optimizer()->step()] = number;
    for (Index micro = 0; micro < batch; ++micro) {
      auto const first = tokens.begin() + micro * seq, label = labels.begin() + micro * seq;
      run[step.tokens()] = std::vector<Index>(first, first + seq);
      run[step.labels()] = std::vector<Index>(label, label + seq);
      run.phase("forward");
      run.phase("backward");
    }
    auto const sum = store.read<float>("table.grad"),
               expected = stored_whole.read<float>("table.grad");
    for (std::size_t i = 0; i < sum.size(); ++i) CHECK(std::abs(sum[i] - expected[i]) < 1e-7f);
    run.phase("optimizer");
    CHECK(store.read<float>("table.grad") == std::vector<float>(sum.size(), 0.0f));
  }
}

TEST_CASE("a step of several micro-batches is not planned without phases", "[nn][model]") {
  LogicalGraph graph("step");
  Bigram const model(graph);
  nn::LanguageModelStep const step(model, {.seq = seq, .batch = 1, .accumulate = batch});
  std::string const text =
      "plan 'step': its phases are run one by one, as those of several micro-batches; plan with "
      "PlanOptions::by_phase";
  CHECK(message_of<PlanError>([&] { Plan(graph, {.tile = 0}); }) == text);
  CHECK_NOTHROW(Plan(graph, {.tile = 0, .by_phase = true}));
  auto const loaded = io::graph_of(io::graph_text(graph), "here", io::known_ops(AllOps{}));
  CHECK(*loaded == graph);
  CHECK(message_of<PlanError>([&] { Plan(*loaded, {.tile = 0}); }) == text);

  LogicalGraph whole("whole"), kept("kept");
  CHECK_THROWS_AS(whole.all_or_nothing([&] { whole.embed(graph, "a.", {}), throw 1; }), int);
  CHECK_FALSE(whole.phases_apart());
  whole.embed(graph, "a.", {});
  CHECK(whole.phases_apart());
  Bigram const alone(kept);  // its optimizer is another graph's: each run adds to the gradients
  nn::LanguageModelStep const sums(
      alone, {.seq = seq, .batch = 1, .purpose = Purpose::gradients, .accumulate = batch});
  CHECK_NOTHROW(Plan(kept, {.tile = 0}));
}

TEST_CASE("a step without micro-batches is refused", "[nn][model]") {
  LogicalGraph graph;
  Bigram const model(graph);
  for (Purpose const purpose : {Purpose::training, Purpose::inference, Purpose::validation})
    for (int const count : {0, -3})
      CHECK(message_of<GraphError>([&] {
              nn::LanguageModelStep(
                  model, {.seq = seq, .batch = 1, .purpose = purpose, .accumulate = count});
            }) ==
            concat("language model: accumulate ", count, " micro-batches; there is 1 at least"));
  CHECK(graph.op_count() == 0);
  CHECK(graph.phases() == std::vector<std::string>{"forward"});
  CHECK_NOTHROW(nn::LanguageModelStep(model, {.seq = seq, .batch = 1}));
}

TEST_CASE("a step of no tokens is refused", "[nn][model]") {
  LogicalGraph graph;
  Bigram const model(graph);
  auto const refused = [&](nn::LanguageModelOptions const& options) {
    return message_of<ShapeError>([&] { nn::LanguageModelStep(model, options); });
  };
  CHECK(refused({}) == "language model: seq=0; 1 or more, or a name that planning binds");
  CHECK(refused({.seq = -2}) == "language model: seq=-2; 1 or more, or a name that planning binds");
  CHECK(refused({.seq = seq, .batch = 0}) ==
        "language model: batch=0; 1 or more, or a name that planning binds");
  CHECK(graph.tensor_count() == 1);
}

TEST_CASE("a purpose that there is not is refused with those that there are", "[nn][model]") {
  LogicalGraph graph;
  Bigram const model(graph);
  for (int const number : {-1, 5})
    CHECK(message_of<ValueError>([&] {
            nn::LanguageModelStep(model, {.seq = seq, .purpose = static_cast<Purpose>(number)});
          }) == concat("language model: purpose ", number, "; those from prefill (0) to training ",
                       "(4) are possible"));
  CHECK(graph.tensor_count() == 1);
}

TEST_CASE("gradients are set to 0 by their names, whatever prefix is open", "[nn][model]") {
  Bound const of(Purpose::gradients);
  LogicalGraph zero;
  auto const prefix = zero.prefix("zero.");
  of.step.zero_gradients(zero);
  of.step.zero_gradients(zero);
  CHECK(zero.tensor_count() == 1);
  CHECK(zero.tensor_at(0).name == "table.grad");
}

TEST_CASE("a graph that cannot initialize all of a step is as it was", "[nn][model]") {
  LogicalGraph graph, init;
  Bigram const model(graph);
  nn::LanguageModelStep const step(model, {.seq = seq, .accumulate = 2});
  init.input({.shape = {vocab, vocab}}, "table.grad");
  CHECK_THROWS_AS(nn::initialize(init, step, 1), GraphError);
  CHECK(init.tensor_count() == 1);
  CHECK(init.op_count() == 0);
}

TEST_CASE("a step has a model that outlives it", "[nn][model]") {
  CHECK(std::constructible_from<nn::LanguageModelStep, Bigram const&, nn::LanguageModelOptions>);
  CHECK_FALSE(std::constructible_from<nn::LanguageModelStep, Bigram, nn::LanguageModelOptions>);
}

TEST_CASE("validation ends at the loss and inference at the logits", "[nn][model]") {
  Bound const validation(Purpose::validation), inference(Purpose::inference);
  CHECK(validation.graph.phases() == std::vector<std::string>{"forward"});
  CHECK(validation.step.loss().name() == "loss");
  CHECK_FALSE(validation.step.optimizer());
  CHECK_FALSE(inference.step.labels());
  CHECK_FALSE(inference.step.loss());
  CHECK(inference.step.logits().shape() == Shape{vocab, seq, batch});
  CHECK(inference.graph.op_count() == 1);
}

TEST_CASE("positions count from 0 to the end of the sequence", "[nn][model]") {
  CHECK(Bound(Purpose::inference).step.position_values() == std::vector<Index>{0, 1, 2});
  CHECK(nn::LanguageModelStep::position_values(0).empty());
  CHECK(message_of<ShapeError>([] { (void)nn::LanguageModelStep::position_values(-3); }) ==
        "position_values: a sequence of -3 tokens; 0 or more");
  CHECK(message_of<ValueError>([] { (void)nn::LanguageModelStep::position_values(3, -2); }) ==
        "position_values: a start at position -2; 0 (the first) or more");
  constexpr Index last = std::numeric_limits<Index>::max();
  CHECK(nn::LanguageModelStep::position_values(2, last - 1) == std::vector<Index>{last - 1, last});
  CHECK(message_of<ValueError>([] { (void)nn::LanguageModelStep::position_values(2, last); }) ==
        "position_values: 2 tokens from position 9223372036854775807; the last is "
        "9223372036854775807 or before");
  CHECK(nn::LanguageModelStep::position_values(0, last).empty());
  CHECK(message_of<ShapeError>([] { (void)nn::LanguageModelStep::position_values(last); }) ==
        "position_values: a sequence of 9223372036854775807 tokens; no memory holds so many");
}

TEST_CASE("a model without caches is refused where one is asked for", "[nn][model]") {
  LogicalGraph graph;
  Bigram const model(graph);
  std::size_t const tensors = graph.tensor_count();
  CHECK(message_of<GraphError>([&] {
          nn::LanguageModelStep(
              model, {.seq = seq, .batch = batch, .purpose = Purpose::inference, .slots = 8});
        }) == "language model: this one has no caches; see CachedLanguageModel");
  CHECK(graph.tensor_count() == tensors);
}
