// SPDX-License-Identifier: BSD-3-Clause
// A GPT whose keys and values are kept from one run to the next.
#include "nntile/graph/compile.hh"
#include "nntile/nn/gpt2.hh"
#include "nntile/nn/language_model.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

using Purpose = nn::LanguageModelOptions::Purpose;
constexpr Index vocab = 40, length = 90, slots = 96, batch = 2;

nn::Gpt2Config tiny(DType dtype) {
  return {.vocab = vocab,
          .positions = slots,
          .width = 64,
          .layers = 2,
          .heads = 2,
          .stddev = 0.2,
          .dtype = dtype};
}

/// A forward pass of a tiny GPT.
struct Pass {
  LogicalGraph graph{"tiny"};
  nn::Gpt2 model;
  nn::LanguageModelStep step;

  Pass(DType dtype, Purpose purpose, Dim const& seq, Index with_slots)
      : model(graph, tiny(dtype)),
        step(model, {.seq = seq, .batch = batch, .purpose = purpose, .slots = with_slots}) {}
};

Index token(Index position, Index sequence) { return (7 * position + 3 * sequence) % vocab; }

/// Runs a pass on the tokens at `start` and following; what is behind `end` is another token.
template <class R>
void run(CompiledGraph<R>& pass, Index start, Index count, bool cached, Index end = length) {
  std::vector<Index> tokens;
  for (Index b = 0; b < batch; ++b)
    for (Index i = start; i < start + count; ++i) tokens.push_back(i < end ? token(i, b) : 5);
  pass.bind_input("tokens", tokens);
  pass.bind_input("positions", nn::LanguageModelStep::position_values(count, start));
  if (cached) pass.bind_input("start", std::vector<Index>{start});
  pass.execute();
}

/// Of [vocab, seq, batch], those of a position.
template <class T> std::vector<T> at(std::vector<T> const& logits, Index seq, Index position) {
  std::vector<T> result;
  for (Index b = 0; b < batch; ++b)
    for (Index v = 0; v < vocab; ++v)
      result.push_back(logits[static_cast<std::size_t>(v + vocab * (position + seq * b))]);
  return result;
}

template <class T, class R> void check(R& runtime, DType dtype, PlanOptions options) {
  Pass const whole(dtype, Purpose::inference, "seq", 0),
      prefill(dtype, Purpose::prefill, "seq", slots), rest(dtype, Purpose::inference, "seq", slots);
  TensorStore<R> store(runtime);
  auto const with = [&](Index seq) {
    PlanOptions bound = options;
    bound.dims = {{"seq", seq}};
    return bound;
  };
  auto all = compile(whole.graph, store, with(length));
  auto context = compile(prefill.graph, store, with(64));
  auto next = compile(rest.graph, store, with(1));
  auto three = compile(rest.graph, store, with(3));
  LogicalGraph init("init");
  nn::initialize(init, rest.step, 1);
  compile(init, store, options).execute();
  run(all, 0, length, false);
  auto const expected = all.template get_output<T>(whole.step.logits().name());
  for (Index const known : {64, 20, 0}) {  // tokens that are taken at once
    if (known > 0) run(context, 0, 64, true, known);
    Index position = known;
    for (; position < length - 3; ++position) {
      run(next, position, 1, true);
      INFO(name_of(dtype) << ", " << known << " known, position " << position);
      CHECK(next.template get_output<T>(rest.step.logits().name()) ==
            at(expected, length, position));
    }
    run(three, position, 3, true);
    auto const last = three.template get_output<T>(rest.step.logits().name());
    for (Index i = 0; i < 3; ++i) CHECK(at(last, 3, i) == at(expected, length, position + i));
  }
}

}  // namespace

TEST_CASE("tokens behind a cache have the logits of the whole text, to the bit", "[nn][cache]") {
  Serial serial;
  check<float>(serial, DType::fp32, {});
  for (int const workers : {1, 2}) {
    Ring ring({.workers = workers});
    check<float>(ring, DType::fp32, {.tile = 64});
    check<float>(ring, DType::fp32, {.tile = PlanOptions::automatic});
    check<bf16_t>(ring, DType::bf16, {.tile = 64, .cuts = {{"head", {1}}, {"batch", {1}}}});
  }
}

TEST_CASE("caches are refused where they mean nothing", "[nn][cache]") {
  struct Wrong {
    Purpose purpose;
    Dim batch;
    Index slots;
    char const* says;
  };
  for (Wrong const& wrong :
       {Wrong{Purpose::prefill, 1, 0, "a prefill without slots leaves nothing"},
        Wrong{Purpose::training, 1, 8, "8 slots, but caches are of prefill and inference alone"},
        Wrong{Purpose::inference, "batch", 8, "batch must be a number, not 'batch'"},
        Wrong{Purpose::inference, 1, slots + 1, "caches of 97 slots; from 1 to 96"},
        Wrong{Purpose::inference, 1, -1, "caches of -1 slots; from 1 to 96"},
        Wrong{Purpose::inference, 1, 4, "5 tokens [i], but the cache has 4 slots [j]"}}) {
    LogicalGraph graph("wrong");
    nn::Gpt2 const model(graph, tiny(DType::fp32));
    std::size_t const tensors = graph.tensor_count();
    CHECK(contains(
        message_of<Error>([&] {
          nn::LanguageModelStep(
              model,
              {.seq = 5, .batch = wrong.batch, .purpose = wrong.purpose, .slots = wrong.slots});
        }),
        wrong.says));
    CHECK(graph.tensor_count() == tensors);
  }
}

TEST_CASE("a model takes a cache of each layer", "[nn][cache]") {
  LogicalGraph graph("few");
  nn::Gpt2 const model(graph, tiny(DType::fp32));
  Node const start = graph.input({.shape = {}, .dtype = DType::int64}, "start");
  auto caches = model.caches(start, 8, 1);
  CHECK(caches.size() == 2);
  caches.pop_back();
  Node const tokens = graph.input({.shape = {1, 1}, .dtype = DType::int64}, "tokens");
  Node const positions = graph.input({.shape = {1}, .dtype = DType::int64}, "positions");
  CHECK(contains(message_of<ShapeError>([&] { (void)model.logits(tokens, positions, caches); }),
                 "gpt2: 1 caches for 2 layers"));
}

TEST_CASE("caches are of the model's graph, as their start is", "[nn][cache]") {
  LogicalGraph graph("model"), elsewhere("elsewhere");
  nn::Gpt2 const model(graph, tiny(DType::fp32));
  Node const start = elsewhere.input({.shape = {}, .dtype = DType::int64}, "start");
  CHECK(message_of<GraphError>([&] { (void)model.caches(start, 8, 1); }) ==
        "graph 'model': gpt2's start of the caches is 'start' of another graph, 'elsewhere'");
  CHECK(elsewhere.tensor_count() == 1);
}

TEST_CASE("what was computed from a cache has no gradient", "[nn][cache]") {
  LogicalGraph graph("cached");
  nn::ParameterList parameters(graph);
  nn::CausalSelfAttention const layer(parameters, "attn", 8, 2);
  Node const start = graph.input({.shape = {}, .dtype = DType::int64}, "start");
  Node const keys = graph.state({.shape = {4, 2, 16, 3}}, "keys");
  Node const values = graph.state({.shape = {4, 2, 16, 3}}, "values");
  Node const x = graph.input({.shape = {8, 5, 3}}, "x");
  Node const y = layer(x, {keys, values, start});
  Node const labels = graph.input({.shape = {5, 3}, .dtype = DType::int64}, "labels");
  Node const loss = nn::mean_cross_entropy(y, labels);
  CHECK(contains(message_of<GraphError>([&] { add_gradients(graph, loss); }),
                 "no gradient, since keys and values of a cache are of inference"));
}

TEST_CASE("caches that nothing was written to are named before a run", "[nn][cache]") {
  Pass const one(DType::fp32, Purpose::inference, 1, slots);
  Serial runtime;
  TensorStore<Serial> store(runtime);
  auto next = compile(one.graph, store, {});
  LogicalGraph init("init");
  nn::initialize(init, one.step.parameters(), 1);
  compile(init, store, {}).execute();
  CHECK(contains(message_of<Error>([&] { run(next, 0, 1, true); }), "h.0.attn.keys"));
}

TEST_CASE("a run beyond the slots of a cache fails, and says which token", "[nn][cache]") {
  Pass const one(DType::fp32, Purpose::inference, 1, 64);
  Serial runtime;
  TensorStore<Serial> store(runtime);
  auto next = compile(one.graph, store, {});
  LogicalGraph init("init");
  nn::initialize(init, one.step, 1);
  compile(init, store, {}).execute();
  run(next, 63, 1, true);
  CHECK(contains(message_of<TaskError>([&] { run(next, 64, 1, true); }),
                 "start 64 is outside [0, 63]"));
}

TEST_CASE("models with prefixes have caches of their own in one store", "[nn][cache]") {
  struct Prefixed {
    LogicalGraph graph{"prefixed"};
    LogicalGraph::PrefixGuard guard;
    nn::Gpt2 model;
    nn::LanguageModelStep step;
    explicit Prefixed(std::string const& prefix)
        : guard(graph.prefix(prefix)),
          model(graph, tiny(DType::fp32)),
          step(model, {.seq = 1, .purpose = Purpose::inference, .slots = slots}) {}
  };
  Prefixed const one("one."), other("other.");
  CHECK(one.step.caches()[1].values.name() == "one.h.1.attn.values");
  Serial runtime;
  auto const logits = [&](bool both) {
    TensorStore<Serial> store(runtime);
    auto first = compile(one.graph, store, {}), second = compile(other.graph, store, {});
    for (Prefixed const* const each : {&one, &other}) {
      LogicalGraph init("init");
      nn::initialize(init, each->step, 1);
      compile(init, store, {}).execute();
    }
    auto const next = [&](auto& pass, std::string const& prefix, Index position) {
      pass.bind_input(prefix + "tokens", std::vector<Index>{token(position, 0)});
      for (char const* const name : {"positions", "start"})
        pass.bind_input(prefix + name, std::vector<Index>{position});
      pass.execute();
    };
    for (Index position = 0; position < 4; ++position) {
      next(first, "one.", position);
      if (both) next(second, "other.", position);
    }
    return first.get_output<float>(one.step.logits().name());
  };
  CHECK(logits(true) == logits(false));
}

TEST_CASE("caches have full names, and a refused call leaves the graph as it was", "[nn][cache]") {
  LogicalGraph graph("prefixed");
  nn::Gpt2 const model(graph, tiny(DType::fp32));
  auto const guard = graph.prefix("later.");
  nn::LanguageModelStep const step(model, {.seq = 1, .purpose = Purpose::inference, .slots = 8});
  CHECK(step.caches()[1].values.name() == "h.1.attn.values");
  LogicalGraph init("init");
  auto const other = init.prefix("other.");
  nn::initialize_caches(init, step);
  CHECK(init.tensor_at(0).name == "h.0.attn.keys");

  std::size_t const tensors = graph.tensor_count(), ops = graph.op_count();
  nn::ParameterList parameters(graph);
  nn::CausalSelfAttention const layer(parameters, "attn", 8, 2);
  std::size_t const with_layer = graph.tensor_count();
  Node const x = graph.input({.shape = {8, 5, 3}}, "x");
  CHECK_THROWS_AS(layer(x, step.caches()[0]), ShapeError);
  CHECK(graph.tensor_count() == with_layer + 1);
  CHECK(graph.op_count() == ops);
  CHECK(with_layer > tensors);
}
