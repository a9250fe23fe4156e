// SPDX-License-Identifier: BSD-3-Clause
// Plans whose tiles have padded columns: the same values, memory counted, copies that skip padding,
// and one clear error where an op or an option forbids it.
#include "nntile/graph/passes/pad.hh"

#include <limits>
#include <optional>

#include "nntile/graph/compile.hh"
#include "nntile/graph/dump.hh"
#include "nntile/io/store.hh"
#include "nntile/ops/attention.hh"
#include "tests/graph/random_graph.hh"
#include "tests/support/catch.hh"
#include "tests/support/differences.hh"
#include "tests/support/message.hh"
#include "tests/support/padding.hh"
#include "tests/support/runtimes.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// Logits of 77 classes, as a gradient step would have them, in bf16.
struct Logits {
  LogicalGraph graph{"logits"};
  Logits() {
    Node const w = graph.parameter({.shape = {77, 10}, .dtype = DType::bf16}, "w");
    Node const x = graph.input({.shape = {10, 6}, .dtype = DType::bf16}, "x");
    Node const z = gemm(w, x).named("z");
    gelutanh(z, graph.tensor({.shape = {77, 6}, .dtype = DType::bf16}, "y")).mark_output();
  }
  std::string error(std::vector<TilePadding> const& pad) const {
    return message_of<PlanError>([&] { Plan(graph, {.tile = 0, .pad = pad}); });
  }
};

/// The hash of all that a run of the graph leaves in its store.
std::uint64_t trained(TinyGptGraph const& gpt, PlanOptions const& options) {
  Ring runtime({.workers = 2});
  TinyGptRun<Ring> run(runtime, gpt, options);
  run.train(2);
  return io::hash_tensors(io::sources_of(run.store, [](auto const&) { return true; }));
}

/// What the loss of a random graph and its gradients are, element by element.
std::vector<double> results(LogicalGraph& graph, Node const& loss, std::vector<Node> const& values,
                            std::uint64_t seed, PlanOptions const& options) {
  Evaluation evaluation(graph, loss, seed, options);
  std::vector<double> result{evaluation.loss()};
  for (Node const& node : values)
    for (double const value : evaluation.read(node)) result.push_back(value);
  return result;
}

}  // namespace

TEST_CASE("random graphs with one tensor in four padded have the same bits",
          "[graph][pad][single-threaded]") {
  int compared = 0, padded = 0;
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    RandomGraph random(seed);
    LogicalGraph& graph = random.graph;
    INFO("seed " << seed << "\n" << random.listing());
    std::vector<Node> const values = mark_gradients(random);
    PlanOptions options{.tile = static_cast<Index>(seed % 3)};
    std::vector<double> dense;
    try {
      dense = results(graph, random.loss, values, seed, options);
    } catch (PlanError const&) {  // attention, for one, takes no sliced heads
      continue;
    }
    options.pad = some_padding(graph, seed, options);
    ++compared;
    padded += static_cast<int>(options.pad.size());
    auto const got = results(graph, random.loss, values, seed, options);
    REQUIRE(got.size() == dense.size());
    CHECK(std::memcmp(got.data(), dense.data(), got.size() * sizeof(double)) == 0);
  }
  INFO(compared << " graphs, " << padded << " padded tensors");
  CHECK(compared >= 80);
  CHECK(padded >= 2 * compared);
}

TEST_CASE("a training step with padded tiles has the same bits", "[graph][pad]") {
  TinyGptGraph const gpt;
  std::uint64_t const dense = trained(gpt, {.tile = 64});
  CHECK(trained(gpt, {.tile = 64, .pad = {{"", 1024}}}) == dense);
  CHECK(trained(gpt, {.tile = 64, .pad = {{"wte.weight", 640}, {"wpe.weight", 12}}}) == dense);
}

TEST_CASE("a plan prints padding where there is some, and counts it", "[graph][pad]") {
  Logits const logits;
  Plan const dense(logits.graph, {.tile = 0});
  Plan const padded(logits.graph, {.tile = 0, .pad = {{"y", 64}, {"z", 32}}});
  CHECK(!contains(dump(dense), "columns at"));
  CHECK(contains(dump(padded),
                 "tensor y bf16 {77, 6} in {1, 1} tiles, stored, columns at "
                 "multiples of 32\n"));
  CHECK(contains(dump(padded),
                 "tensor z bf16 {77, 6} in {1, 1} tiles, arena, columns at "
                 "multiples of 16\n"));
  // 77 rows of 2 bytes become 96 and 80: 6 columns, in whole lines of 64 bytes.
  CHECK(dense.memory().arena == 960);
  CHECK(padded.memory().arena == 960);
  CHECK(padded.memory().stored - dense.memory().stored == 6 * 96 * 2 - 960);
  CHECK(padded.flops() == dense.flops());
  CHECK(!(padded == dense));
  CHECK(contains(diff(dense, padded), "+ tensor y bf16 {77, 6} in {1, 1} tiles, stored, columns"));
}

TEST_CASE("a result takes no operand's memory whose columns stand elsewhere", "[graph][pad]") {
  LogicalGraph graph("chain");
  TensorSpec const spec{.shape = {15, 4}};  // 240 bytes, or 256 with columns of 16
  Node const x = graph.input(spec, "x");
  Node const a = scale({.alpha = 2}, x).named("a");
  Node const b = gelutanh(a).named("b");
  gelutanh(b).named("c").mark_output();
  auto const slots = [&](std::vector<TilePadding> const& pad) {
    return Plan(graph, {.tile = 0, .pad = pad}).slots().size();
  };
  CHECK(slots({}) == 1);
  CHECK(slots({{"a"}, {"b"}}) == 1);
  CHECK(slots({{"a"}}) == 2);
  PlanData plan = Plan(graph, {.tile = 0, .pad = {{"a"}, {"b"}}}).data();
  PlannedBuffer& result = plan.buffers[plan.uses_of(plan.tasks[1])[1].handle];
  plan.tensors[result.tensor].column_unit = 1;
  result.tail = 16;
  CHECK(contains(message_of<PlanError>([&] { passes::check(plan); }), "may not write"));
}

TEST_CASE("padding that cannot be is refused with the reason", "[graph][pad]") {
  Logits const logits;
  CHECK(logits.error({{"y", 0}}) ==
        "pad: graph 'logits': columns of 'y' at multiples of 0 bytes; from 2 to 4096 in whole "
        "elements of bf16 is possible");
  CHECK(contains(logits.error({{"y", 3}}), "at multiples of 3 bytes"));
  CHECK(contains(logits.error({{"y", 8192}}), "at multiples of 8192 bytes"));
  CHECK(contains(logits.error({{"", 5}}), "at multiples of 5 bytes"));
  Tiling const whole(Shape{77, 6});
  for (Index const unit : {std::numeric_limits<Index>::min(), std::numeric_limits<Index>::max()})
    CHECK(contains(message_of<PlanError>([&] {
                     Plan(logits.graph, {.tile = 0, .keep = {{"z", whole, Storage::stored, unit}}});
                   }),
                   unit < 0 ? "at multiples of 0 bytes" : "at multiples of 8194 bytes"));
  CHECK(logits.error({{"zz", 64}}) ==
        "pad: graph 'logits': no op needs a tensor 'zz'; did you mean 'z'?");

  LogicalGraph graph("heads");
  Node const q = graph.input({.shape = {8, 2, 16, 1}}, "q");
  Node const row = graph.slice(q, 0, 3, "row");
  gelutanh(row).named("of_row").mark_output();
  Node const k = graph.input({.shape = {8, 2, 16, 1}}, "k");
  attention(k, k, k).named("out").mark_output();
  auto const error = [&](char const* name) {
    return message_of<PlanError>([&] { Plan(graph, {.tile = 0, .pad = {{name}}}); });
  };
  CHECK(error("row") == "pad: graph 'heads': 'row' is a view; name 'q', whose tiles it has");
  CHECK(error("q") ==
        "pad: graph 'heads': columns of 'q' cannot be padded: 'row' is a view along its dimension "
        "0");
  CHECK(error("k") ==
        "pad: graph 'heads': columns of 'k' cannot be padded: attention takes its operand q ('k') "
        "without padding alone");
  CHECK_NOTHROW(Plan(graph, {.tile = 0, .pad = {{"", 64}}}));  // none of these
  for (Index const bytes : {-64, 0, 4097})
    CHECK(contains(
        message_of<PlanError>([&] { Plan(graph, {.tile = 0, .pad = {{"", bytes}}}); }),
        concat("columns of all tensors at multiples of ", bytes, " bytes; from 1 to 4096")));
  CHECK(contains(message_of<PlanError>([&] {
                   Plan(logits.graph, {.tile = 0, .adopted = {"x"}, .pad = {{"x", 64}}});
                 }),
                 "columns of 'x' cannot be padded: it is adopted"));
}

TEST_CASE("a view has the columns of what it is a view of", "[graph][pad]") {
  LogicalGraph graph("view");
  Node const x = graph.input({.shape = {5, 3, 2}}, "x");
  gelutanh(graph.slice(x, 1, 2, "part")).named("y").mark_output();
  auto const run = [&](std::vector<TilePadding> const& pad) {
    Serial runtime;
    TensorStore<Serial> store(runtime);
    auto step = compile(graph, store, {.tile = 2, .pad = pad});
    std::vector<float> values(30);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    step.bind_input("x", values);
    step.execute();
    CHECK(store.read<float>("x") == values);
    return step.get_output<float>("y");
  };
  CHECK(run({{"x", 64}, {"y", 24}}) == run({}));
  PlanData plan = Plan(graph, {.tile = 2, .pad = {{"x"}}}).data();
  for (PlannedTensor& tensor : plan.tensors)
    if (tensor.storage == Storage::view) tensor.column_unit = 1;
  CHECK(message_of<PlanError>([&] { passes::check(plan); }) ==
        "check: plan 'view': the view 'part' has columns at multiples of 1 in those of 'x', at 16");
}

TEST_CASE("a graph takes over the padding of tensors that exist", "[graph][pad]") {
  Logits const logits;
  Serial runtime;
  TensorStore<Serial> store(runtime);
  (void)compile(logits.graph, store, {.tile = 0, .pad = {{"w", 64}}});
  LogicalGraph next("next");
  Node const w = next.parameter({.shape = {77, 10}, .dtype = DType::bf16}, "w");
  gelutanh(w).named("g").mark_output();
  auto const step = compile(next, store, {.tile = 0});
  CHECK(step.plan().tensors()[step.plan().tensor("w")].column_unit == 32);
  CHECK(message_of<PlanError>([&] {
          CompiledGraph<Serial>(std::make_shared<Plan const>(next, PlanOptions{.tile = 0}), store);
        }) ==
        "store: columns of 'w' begin at multiples of 32 elements here but of 1 in the new graph; "
        "plan both with the same padding, or the new one around TensorStore::tilings()");
}

TEMPLATE_LIST_TEST_CASE("padded tensors are bound, read, watched and streamed without padding",
                        "[graph][pad]", AllRuntimes) {
  LogicalGraph graph("copy");
  Node const x = graph.input({.shape = {7, 5}}, "x");
  scale({.alpha = 2}, x).named("y").mark_output();
  TestType runtime;
  TensorStore<TestType> store(runtime);
  auto step = compile(graph, store, {.tile = 3, .pad = {{"x", 64}, {"y", 20}}});
  std::vector<float> values(35), twice(35);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i);
    twice[i] = 2 * values[i];
  }
  for (auto const& target :
       io::targets_of(store, [](auto const& spec) { return spec.name == "x"; }))
    target.write(0, std::as_bytes(std::span(values)));
  auto const watch = step.template watch<float>("y");
  step.execute();
  CHECK(step.template get_output<float>("y") == twice);
  CHECK(watch.latest().values == twice);
  std::vector<float> streamed(35);
  for (auto const& source :
       io::sources_of(store, [](auto const& spec) { return spec.name == "y"; }))
    source.read(0, std::as_writable_bytes(std::span(streamed)));
  CHECK(streamed == twice);
  step.bind_input("x", twice);
  CHECK(store.template read<float>("x") == twice);
}
