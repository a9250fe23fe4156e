// SPDX-License-Identifier: BSD-3-Clause
// Inputs that runs read in the caller's memory.
#include "nntile/graph/adopted.hh"

#include <atomic>
#include <set>
#include <vector>

#include "nntile/graph/dump.hh"
#include "nntile/graph/graph.hh"
#include "nntile/io/store.hh"
#include "nntile/nn/linear.hh"
#include "nntile/ops/add.hh"
#include "nntile/ops/scale.hh"
#include "tests/support/address_spy.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/runtimes.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// z = 2 x for x of shape {4, 6}, "in batch".
struct SpyGraph {
  LogicalGraph graph{"spy"};
  Node x = graph.input({.shape = {4, 6}, .axes = "in batch"}, "x");
  Node z = Call<Spy>{}(x, graph.tensor({.shape = {4, 6}}, "z")).mark_output();
};
/// z = x + y.
struct SumGraph {
  LogicalGraph graph{"sum"};
  Node x = graph.input({.shape = {4, 6}}, "x"), y = graph.input({.shape = {4, 6}}, "y");
  Node z = graph.tensor({.shape = {4, 6}}, "z").mark_output();
  SumGraph() { add(x, y, z); }
};
constexpr std::size_t elements = 24;

PlanOptions const adopt_x{.tile = 2, .adopted = {"x"}};
PlanOptions const adopt_both{.tile = 2, .adopted = {"x", "y"}};

std::vector<float> ramp(float first) {
  std::vector<float> values(elements);
  for (std::size_t i = 0; i < elements; ++i) values[i] = first + static_cast<float>(i);
  return values;
}
std::vector<float> doubled(std::vector<float> values) {
  for (float& value : values) value *= 2;
  return values;
}

/// Counts calls of a release.
struct Count {
  std::atomic<int> calls{0};
  Release release() {
    return {[](void* self) noexcept { ++static_cast<Count*>(self)->calls; }, this};
  }
};

}  // namespace

TEMPLATE_LIST_TEST_CASE("a kernel reads an adopted input where the caller has it",
                        "[graph][adopted]", AllRuntimes) {
  bool const replay = GENERATE(true, false);
  SpyGraph of;
  TestType runtime;
  Graph<TestType> run(of.graph, runtime, adopt_x, {.replay = replay});
  std::vector<float> const a = ramp(1), b = ramp(100);
  (void)Spy::take();
  for (std::vector<float> const* batch : {&a, &b, &a, &a, &b}) {
    run[of.x] = *batch;
    run();
    CHECK(run[of.z].template read<float>() == doubled(*batch));
    float const* const at = batch->data();
    CHECK(Spy::take() == std::set<void const*>{at, at + 8, at + 16});
  }
}

TEMPLATE_LIST_TEST_CASE("new memory for each run is read in turn", "[graph][adopted]",
                        AllRuntimes) {
  SpyGraph of;
  TestType runtime;
  Graph<TestType> run(of.graph, runtime, adopt_x);
  std::vector<std::vector<float>> batches;
  for (int i = 0; i < 8; ++i) batches.push_back(ramp(static_cast<float>(10 * i)));
  for (auto const& batch : batches) {
    run[of.x] = batch;
    run();
    CHECK(run[of.z].template read<float>() == doubled(batch));
  }
  CHECK(run[of.x].template read<float>() == batches.back());
}

TEMPLATE_LIST_TEST_CASE("the caller's release is called once, after the last run that reads",
                        "[graph][adopted]", AllRuntimes) {
  SpyGraph of;
  Count first, second, third;
  std::vector<float> const values = ramp(1);
  {
    TestType runtime;
    {
      Graph<TestType> run(of.graph, runtime, adopt_x);
      run[of.x].bind(values, first.release());
      for (int i = 0; i < 20; ++i) (void)run.async();
      CHECK(first.calls == 0);
      run[of.x].bind(values, second.release());  // the same memory, handed over again
      run();
      runtime.wait_all();
      CHECK(first.calls == 1);
      CHECK(second.calls == 0);
      std::vector<float> const other = ramp(5);
      run[of.x] = other;
      run();
      runtime.wait_all();
      CHECK(second.calls == 1);
      run[of.x].bind(values, third.release());
    }
  }
  CHECK(first.calls == 1);
  CHECK(second.calls == 1);
  CHECK(third.calls == 1);
}

TEST_CASE("without a release, two bindings are kept and a third ends the first",
          "[graph][adopted]") {
  SpyGraph of;
  Serial runtime;
  TensorStore<Serial> store(runtime);
  Graph<Serial> run(of.graph, store, adopt_x);
  std::vector<float> const a = ramp(1), b = ramp(2), c = ramp(3);
  auto const& stored = store.at("x");
  auto const bind = [&](std::vector<float> const& values) {
    run[of.x] = values;
    return stored.tiles[0];
  };
  auto const at_a = bind(a), at_b = bind(b);
  CHECK(bind(a) == at_a);
  CHECK(bind(b) == at_b);
  CHECK(stored.bindings == 4);
  CHECK(bind(b) == at_b);
  CHECK(stored.bindings == 4);
  auto const at_c = bind(c);
  CHECK_FALSE(at_c == at_a);
  CHECK_FALSE(bind(a) == at_a);
  CHECK(bind(c) == at_c);
}

TEST_CASE("graphs of one store read the input that one of them bound", "[graph][adopted]") {
  SpyGraph of;
  LogicalGraph other("other");
  Node const y = scale({.alpha = 3}, other.input({.shape = {4, 6}, .axes = "in batch"}, "x"))
                     .named("y")
                     .mark_output();
  Serial runtime;
  TensorStore<Serial> store(runtime);
  Graph<Serial> run(of.graph, store, adopt_x);
  Graph<Serial> second(other, store, {.tile = 2});  // takes the storage over, as it does the tiling
  std::vector<float> const a(elements, 1), b(elements, 2);
  for (auto const* values : {&a, &b}) {
    run[of.x] = *values;
    second();
    run();
    CHECK(second[y].read<float>()[23] == 3 * (*values)[0]);
    CHECK(run[of.z].read<float>()[23] == 2 * (*values)[0]);
  }
}

TEST_CASE("the plan cuts an adopted input along its outermost axis alone", "[graph][adopted]") {
  SpyGraph of;
  Plan const copied(of.graph, {.tile = 2}), plan(of.graph, adopt_x);
  auto const& x = plan.tensors()[plan.tensor("x")];
  CHECK(x.storage == Storage::adopted);
  CHECK(x.tiling.grid() == Shape{1, 3});
  CHECK(copied.tensors()[plan.tensor("x")].tiling.grid() == Shape{2, 3});
  CHECK(plan.memory().adopted == 96);
  CHECK(plan.memory().stored == 3 * 64);  // z alone
  CHECK(plan.memory().arena == 0);
  CHECK(contains(dump(plan), "slots (at least 0), and 96 of the caller's\n"));
  CHECK(contains(dump(plan), "tensor x fp32 {4, 6} in {1, 3} tiles, adopted\n"));
}

TEST_CASE("axes of one index do not count as outermost", "[graph][adopted]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {2, 6, 1}}, "x");
  scale(x).named("z").mark_output();
  Plan const plan(graph, adopt_x);
  CHECK(plan.tensors()[0].tiling.grid() == Shape{1, 3, 1});
}

TEST_CASE("a scalar and an empty input are adopted", "[graph][adopted]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {}}, "x"), y = graph.input({.shape = {0, 3}}, "y");
  Node const z = scale(x).named("z").mark_output(), w = scale(y).named("w").mark_output();
  Serial runtime;
  Graph<Serial> run(graph, runtime, adopt_both);
  float const one = 7;
  run[x] = std::span(&one, 1);
  run();
  CHECK(run[z].item<float>() == 7);
  run[y] = std::span<float>();
  run();
  CHECK(run[w].read<float>().empty());
}

TEST_CASE("what cuts an adopted input otherwise is a PlanError", "[graph][adopted]") {
  SpyGraph of;
  auto const message = [&](PlanOptions const& options) {
    return message_of<PlanError>([&] { Plan(of.graph, options); });
  };
  CHECK(message({.tile = 2, .cuts = {{"in", {2}}}, .adopted = {"x"}}) ==
        "tile: the adopted input 'x' can be cut along its outermost axis alone, but along "
        "dimension 0 ('in') PlanOptions::cuts cuts it; leave it out there, or leave 'x' out of "
        "PlanOptions::adopted, and it is copied in");
  CHECK(contains(message({.keep = {{"x", Tiling({4, 6}, {2, 2})}}, .adopted = {"x"}}),
                 "dimension 0 ('in') a tensor that exists has 2 tiles along it; plan with the "
                 "input adopted from the start, or leave 'x' out of"));
  LogicalGraph sliced;
  Node const x = sliced.input({.shape = {4, 6}}, "x");
  scale(sliced.slice(x, 0, 1)).named("z").mark_output();
  CHECK(contains(message_of<PlanError>([&] { Plan(sliced, adopt_x); }),
                 "along dimension 0 a slice cuts it into single indices; leave 'x' out of"));
  Plan const outer(of.graph, {.tile = 2, .cuts = {{"batch", {1, 2}}}, .adopted = {"x"}});
  CHECK(outer.tensors()[0].tiling.grid() == Shape{1, 4});
}

TEST_CASE("an option that names no input, or one twice, is a PlanError", "[graph][adopted]") {
  SpyGraph of;
  auto const message = [&](PlanOptions const& options) {
    return message_of<PlanError>([&] { Plan(of.graph, options); });
  };
  CHECK(message({.tile = 0, .adopted = {"tokens"}}) ==
        "plan 'spy': PlanOptions::adopted names 'tokens', which the graph does not have; its "
        "inputs are 'x'");
  CHECK(contains(message({.double_buffered = {"X"}}), "did you mean 'x'?"));
  CHECK(contains(message({.adopted = {"z"}}), "'z', which is no input: declare it by input()"));
  CHECK(contains(message({.adopted = {"x"}, .double_buffered = {"x"}}),
                 "PlanOptions::double_buffered names 'x', which is adopted already"));
  LogicalGraph state("state");
  scale(state.state({.shape = {4, 6}}, "x")).named("z").mark_output();
  Tiling const whole(Shape{4, 6});
  CHECK(contains(
      message_of<PlanError>([&] { Plan(state, {.keep = {{"x", whole, Storage::adopted}}}); }),
      "PlanOptions::keep names 'x', which is no input"));
}

TEMPLATE_LIST_TEST_CASE("memory of another size or alignment, and a temporary, are refused",
                        "[graph][adopted]", AllRuntimes) {
  SpyGraph of;
  TestType runtime;
  Graph<TestType> run(of.graph, runtime, adopt_x);
  std::vector<float> const values = ramp(1), few(elements - 1);
  CHECK(contains(message_of<LifetimeError>([&] { run(); }), "input 'x' of graph 'spy' was never"));
  CHECK_THROWS_AS(run[of.x].template read<float>(), LifetimeError);
  CHECK(contains(message_of<ShapeError>([&] { run[of.x] = few; }), "23 values for 'x' of shape"));
  CHECK(contains(message_of<TypeError>([&] { run[of.x] = std::span<double const>(); }), "fp64"));
  CHECK(contains(message_of<LifetimeError>([&] { run[of.x] = ramp(1); }),
                 "'x' is adopted, and these values end before a run could read them"));
  CHECK(contains(message_of<LifetimeError>([&] { run[of.x] = {1.0f, 2.0f}; }), "'x' is adopted"));
  CHECK(contains(message_of<GraphError>([&] { run.store().template write<float>("x", values); }),
                 "'x' is adopted, so that its values are in the caller's memory"));
  std::vector<std::byte> bytes(sizeof(float) * elements + 8);
  auto const odd = std::span(reinterpret_cast<float const*>(bytes.data() + 2), elements);
  CHECK(contains(message_of<ValueError>([&] { run[of.x] = odd; }),
                 "the memory for 'x' begins 2 bytes past a multiple of 4, which fp32 needs"));
  run[of.x] = values;
  CHECK_THROWS_AS((run[of.x] = odd), ValueError);
  run();
  CHECK(run[of.z].template read<float>() == doubled(values));
}

TEMPLATE_LIST_TEST_CASE("memory that another input may write over is refused", "[graph][adopted]",
                        AllRuntimes) {
  SumGraph of;
  TestType runtime;
  Graph<TestType> run(of.graph, runtime, adopt_both);
  std::vector<float> memory(elements + 4, 1);
  std::span<float> const low = std::span(memory).first(elements),
                         high = std::span(memory).last(elements);
  std::span<float const> const low_const = low, high_const = high;
  run[of.x] = low;
  CHECK(message_of<ValueError>([&] { run[of.y] = high; }) ==
        "bind_input: the 96 bytes for 'y' overlap the 96 that 'x' is bound to; bind both as spans "
        "of const elements, or memory that does not overlap");
  CHECK_THROWS_AS((run[of.y] = high_const), ValueError);
  Count count;
  CHECK_THROWS_AS(run[of.y].bind(high, count.release()), ValueError);
  CHECK(count.calls == 0);
  run[of.x] = low_const;
  run[of.y] = high_const;
  run();
  CHECK(run[of.z].template read<float>() == std::vector<float>(elements, 2));
}

TEST_CASE("memory that a tile may write is refused, and stays the caller's", "[graph][adopted]") {
  SpyGraph of;
  Serial runtime;
  Graph<Serial> run(of.graph, runtime, adopt_x);
  std::vector<float> memory(elements, 1);
  Tile<float, Serial> const tile(runtime, {4}, std::span(memory).last(4));
  Count count;
  CHECK(contains(message_of<ValueError>([&] { run[of.x].bind(memory, count.release()); }),
                 "bind_input: 'x': adopt: the 32 bytes overlap buffer"));
  CHECK(count.calls == 0);
}

TEST_CASE("the store's storage of an input is that of all its graphs", "[graph][adopted]") {
  SpyGraph of;
  Serial runtime;
  TensorStore<Serial> store(runtime);
  Graph<Serial> run(of.graph, store, {.tile = 0});
  CHECK(contains(message_of<PlanError>([&] { Graph<Serial>(of.graph, store, adopt_x); }),
                 "store: 'x' is stored here but adopted in the new graph"));
  CHECK(contains(message_of<GraphError>([&] {
                   TensorStore<Serial> other(runtime);
                   (void)compile(of.graph, other, adopt_x).watch<float>("x");
                 }),
                 "watch: 'x' is adopted"));
}

TEST_CASE("files are not loaded into the caller's memory", "[graph][adopted]") {
  SpyGraph of;
  Serial runtime;
  Graph<Serial> const run(of.graph, runtime, adopt_x);
  auto const all = [](StoredSpec const&) { return true; };
  CHECK(message_of<GraphError>([&] { (void)io::targets_of(run.store(), all); }) ==
        "load: 'x' is adopted, so that its values are in the caller's memory; leave it out, and "
        "bind memory that has been read into by bind_input(\"x\", span)");
}
