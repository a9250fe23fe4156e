// SPDX-License-Identifier: BSD-3-Clause
// Graphs with open dimensions: names that inference carries and planning binds.
#include "nntile/graph/bound_dims.hh"

#include "nntile/graph/apply.hh"
#include "nntile/graph/draw.hh"
#include "nntile/graph/dump.hh"
#include "nntile/graph/gradient.hh"
#include "nntile/graph/graph.hh"
#include "nntile/ops/add.hh"
#include "nntile/ops/add_fiber.hh"
#include "nntile/ops/attention.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/ops/scale.hh"
#include "nntile/ops/sum_slice.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// y[out, seq, batch] = w x + bias, a loss and the gradients, declared with these two dimensions.
struct Layer {
  LogicalGraph graph{"layer"};
  Node w, bias, x, y, loss, dw, dbias;

  Layer(Dim const& seq, Dim const& batch) {
    w = graph.parameter({.shape = {3, 4}, .axes = "out in"}, "w");
    bias = graph.parameter({.shape = {3}, .axes = "out"}, "bias");
    x = graph.input({.shape = {4, seq, batch}, .axes = "in seq batch"}, "x");
    y = add_fiber(gemm(w, x), bias).named("y").mark_output();
    Node const ones = graph.input({.shape = {3, seq, batch}}, "ones");
    loss = gemm({.trans_a = true, .ndim = 3}, y, ones, graph.tensor({.shape = {}}, "loss"));
    loss.mark_output();
    Gradients const gradients = add_gradients(graph, loss, {.persistent = true});
    dw = gradients.find(w);
    dbias = gradients.find(bias);
  }
};

std::string plan_error(LogicalGraph const& graph, std::vector<BoundDim> const& dims) {
  return message_of<PlanError>([&] { (void)Plan(graph, {.tile = 2, .dims = dims}); });
}

template <class Call> std::string graph_error(Call&& call) {
  return message_of<GraphError>(std::forward<Call>(call));
}

}  // namespace

TEST_CASE("inference carries names through products, sums and gradients", "[graph][dims]") {
  Layer const layer("seq", "batch");
  CHECK(to_string(layer.y.shape()) == "{3, seq, batch}");
  CHECK(layer.dw.shape() == Shape{3, 4});
  CHECK(layer.dbias.shape() == Shape{3});
}

TEST_CASE("equal names alone are equal extents", "[graph][dims]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {4, "seq"}}, "x");
  Node const y = graph.input({.shape = {4, 8}}, "y"), z = graph.input({.shape = {4, "time"}}, "z");
  CHECK(message_of<ShapeError>([&] { add(x, y); }) ==
        "add: x[i1]=seq ('x') but y[i1]=8 ('y'); an open dimension equals that of the same name "
        "alone");
  CHECK(contains(message_of<ShapeError>([&] { add(x, z); }), "x[i1]=seq ('x') but y[i1]=time"));
  CHECK(add(x, x).shape() == Dims{4, "seq"});
}

TEST_CASE("what is kept between runs has numbers alone", "[graph][dims]") {
  LogicalGraph graph("g");
  auto const text = [&](TensorAttributes attributes) {
    return graph_error([&] { (void)graph.tensor({.shape = {2, "seq"}}, "t", attributes); });
  };
  CHECK(text({.requires_grad = true, .persistent = true}) ==
        "graph 'g': a parameter 't' has shape {2, seq}, but what is kept between runs has numbers "
        "alone; only inputs and results may be open");
  CHECK(contains(text({.persistent = true}), "a state 't'"));
  CHECK(contains(text({.persistent = true, .external = true}), "a constant 't'"));
  CHECK(graph.find("t").operator bool() == false);
  CHECK(
      contains(graph_error([&] { (void)graph.input({.shape = {"seq"}, .file_shape = {3}}, "u"); }),
               "an open one has no file shape"));
}

TEST_CASE("a view is not of an open dimension", "[graph][dims]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {2, "seq"}}, "x");
  CHECK(graph_error([&] { (void)graph.slice(x, 1, 0); }) ==
        "slice: dimension 1 of 'x' of shape {2, seq} is open, so that index 0 may lie outside; "
        "declare 'seq' as a number, or slice another dimension");
  CHECK(graph.slice(x, 0, 1).shape() == Dims{"seq"});
}

TEST_CASE("an open loss is refused with its shape", "[graph][dims]") {
  LogicalGraph graph;
  Node const p = graph.parameter({.shape = {2}}, "p");
  Node const x = graph.input({.shape = {2, "seq"}}, "x");
  CHECK(contains(message_of<ShapeError>([&] { add_gradients(graph, add_fiber(x, p).named("y")); }),
                 "'y' has shape {2, seq}; a loss has one element"));
}

TEST_CASE("flops are counted at the numbers that are given", "[graph][dims]") {
  LogicalGraph product;
  gemm(product.parameter({.shape = {3, 4}}, "w"), product.input({.shape = {4, "seq", "b"}}, "x"));
  CHECK(product.estimate_flops({{"seq", 5}, {"b", 2}}) == 2 * 3 * 4 * 5 * 2);
  Layer const open("seq", "batch"), closed(5, 2);
  CHECK(open.graph.estimate_flops({{"seq", 5}, {"batch", 2}}) == closed.graph.estimate_flops());
  CHECK(graph_error([&] { (void)open.graph.estimate_flops(); }) ==
        "estimate_flops: dimension 'seq' of graph 'layer' is open; give its number: "
        "estimate_flops({{\"seq\", 512}, {\"batch\", ...}})");
  CHECK_THROWS_AS(open.graph.estimate_flops({{"seq", 5}}), PlanError);
}

TEST_CASE("a bound plan is that of the graph in numbers", "[graph][dims]") {
  Layer const open("seq", "batch");
  for (auto const& [seq, batch] : {std::pair<Index, Index>{5, 2}, {2, 3}, {1, 1}, {0, 2}}) {
    Layer const closed(seq, batch);
    for (Index const tile : {Index{0}, Index{2}, PlanOptions::automatic}) {
      INFO(seq << " " << batch << " " << tile);
      Plan const bound(open.graph, {.tile = tile, .dims = {{"batch", batch}, {"seq", seq}}});
      Plan const numbers(closed.graph, {.tile = tile});
      CHECK(dump(bound) == dump(numbers));
      PlanData data = bound.data();
      for (std::size_t t = 0; t < data.tensors.size(); ++t)
        data.tensors[t].open = numbers.data().tensors[t].open;
      CHECK(data == numbers.data());
    }
  }
}

TEST_CASE("each open dimension is bound once, by its name", "[graph][dims]") {
  Layer const layer("seq", "batch");
  CHECK(plan_error(layer.graph, {}) ==
        "plan 'layer': dimension 'seq' is open; bind it: "
        "PlanOptions::dims = {{\"seq\", ...}, {\"batch\", ...}}");
  CHECK(plan_error(layer.graph, {{"seq", 5}}) ==
        "plan 'layer': dimension 'batch' is open; bind it: PlanOptions::dims = {{\"seq\", 5}, "
        "{\"batch\", ...}}");
  CHECK(plan_error(layer.graph, {{"seq", 5}, {"batch", 2}, {"seq", 6}}) ==
        "plan 'layer': dimension 'seq' is bound twice, to 5 and to 6; list it once");
  CHECK(plan_error(layer.graph, {{"seq", 5}, {"bach", 2}}) ==
        "plan 'layer': no dimension 'bach' to bind to 2; did you mean 'batch'?");
  CHECK(plan_error(layer.graph, {{"", 5}}) ==
        "plan 'layer': no dimension '' to bind to 5; it has 'seq', 'batch'");
  CHECK(plan_error(layer.graph, {{"seq", -5}, {"batch", 2}}) ==
        "plan 'layer': dimension 'seq' is bound to -5; 0 or more elements are needed");
  CHECK(contains(plan_error(layer.graph, {{"seq", Index{1} << 61}, {"batch", 2}}),
                 "'x' of shape {4, seq, batch} is bound to {4, 2305843009213693952, 2}: shape: "));
  Layer const closed(5, 2);
  CHECK(plan_error(closed.graph, {{"seq", 5}}) ==
        "plan 'layer': no dimension 'seq' to bind to 5; all of the graph's are numbers");
}

TEST_CASE("what an op asks of extents is checked when they are bound", "[graph][dims]") {
  LogicalGraph graph("g");
  Node const q = graph.input({.shape = {4, 1, "new"}}, "q");
  Node const k = graph.input({.shape = {4, 1, "past"}}, "k");
  attention({.causal = true}, q, k, k).mark_output();
  CHECK(contains(plan_error(graph, {{"new", 3}, {"past", 2}}),
                 "plan 'g': with new=3, past=2: attention: causal with q[i]=3 queries but k[j]=2"));
  CHECK(plan_error(graph, {{"new", 2}, {"past", 3}}) == "(nothing was thrown)");
}

TEST_CASE("a picture and a file of a graph have its names", "[graph][dims]") {
  Layer const layer("seq", "batch");
  CHECK(contains(to_dot(layer.graph), "x {4, seq, batch} fp32"));
}

namespace {

/// Values that differ from element to element, and with `salt`.
std::vector<float> numbers(Dims const& shape, int salt) {
  std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((7 * i + static_cast<std::size_t>(salt)) % 11) / 8 - 0.5f;
  return values;
}

/// Binds the inputs of a layer and runs it: y, loss and both gradients, one after another.
template <Runtime R>
std::vector<float> run(CompiledGraph<R>& step, Index seq, Index batch, int salt) {
  step.bind_input("x", numbers({4, seq, batch}, salt));
  step.bind_input("ones", std::vector<float>(static_cast<std::size_t>(3 * seq * batch), 1.f));
  step.execute();
  std::vector<float> all;
  for (char const* const name : {"y", "loss", "w.grad", "bias.grad"})
    for (float const value : step.template get_output<float>(name)) all.push_back(value);
  return all;
}

template <Runtime R> void check_shapes(R& runtime, PlanOptions const& options) {
  constexpr std::pair<Index, Index> shapes[] = {{5, 2}, {2, 3}, {7, 1}};
  Layer const open("seq", "batch");
  TensorStore<R> store(runtime);
  std::vector<CompiledGraph<R>> steps;
  for (auto const& [seq, batch] : shapes) {
    PlanOptions bound = options;
    bound.dims = {{"seq", seq}, {"batch", batch}};
    steps.push_back(compile(open.graph, store, bound));
  }
  store.template write<float>("w", numbers({3, 4}, 1));
  store.template write<float>("bias", numbers({3}, 2));
  for (int round = 0; round < 2; ++round)
    for (std::size_t i = 0; i < steps.size(); ++i) {
      auto const [seq, batch] = shapes[i];
      Layer const closed(seq, batch);
      TensorStore<R> own(runtime);
      CompiledGraph<R> step = compile(closed.graph, own, options);
      own.template write<float>("w", numbers({3, 4}, 1));
      own.template write<float>("bias", numbers({3}, 2));
      INFO(seq << " " << batch);
      CHECK(run(steps[i], seq, batch, round) == run(step, seq, batch, round));
    }
}

}  // namespace

TEST_CASE("several shapes of one graph run in one store, with the bits of numbers",
          "[graph][dims]") {
  Serial serial;
  Ring ring({.workers = 2});
  for (Index const tile : {Index{2}, PlanOptions::automatic}) {
    check_shapes(serial, {.tile = tile});
    check_shapes(ring, {.tile = tile});
  }
}

TEST_CASE("a mean is one at each number, forward and backward", "[graph][dims]") {
  auto const results = [](Dim const& seq, ops::SumSliceAttrs const& mean, PlanOptions options) {
    LogicalGraph graph;
    Node const p = graph.parameter({.shape = {3}}, "p");
    Node const x = graph.input({.shape = {3, seq}}, "x");
    Node const y = add_fiber(x, p);
    Node const loss = sum_slice({.axis = 0}, sum_slice(mean, y)).named("loss").mark_output();
    add_gradients(graph, loss, {.persistent = true});
    Serial runtime;
    TensorStore<Serial> store(runtime);
    auto step = compile(graph, store, options);
    store.write<float>("p", numbers({3}, 1));
    step.bind_input("x", numbers({3, 7}, 2));
    step.execute();
    return std::pair(step.get_output<float>("loss"), step.get_output<float>("p.grad"));
  };
  for (Index const tile : {Index{0}, Index{2}})
    CHECK(results("seq", {.axis = 1, .mean = true}, {.tile = tile, .dims = {{"seq", 7}}}) ==
          results(7, {.axis = 1, .alpha = 1.0 / 7}, {.tile = tile}));
}

TEST_CASE("plans of equal bindings share what they bind", "[graph][dims]") {
  Layer const layer("seq", "batch");
  Serial runtime;
  TensorStore<Serial> store(runtime);
  std::size_t counts[3];
  Index const lengths[] = {5, 5, 6};
  for (std::size_t i = 0; i < 3; ++i) {
    (void)compile(layer.graph, store, {.tile = 2, .dims = {{"seq", lengths[i]}, {"batch", 2}}});
    counts[i] = store.tensors().size();
  }
  CHECK(counts[1] == counts[0]);
  CHECK(counts[2] == counts[0] + 3);  // x, ones and y
}

TEST_CASE("a tensor of several shapes goes by a compiled graph", "[graph][dims]") {
  Layer const layer("seq", "batch");
  Serial runtime;
  TensorStore<Serial> store(runtime);
  auto const step = [&](Index seq) {
    return compile(layer.graph, store, {.tile = 2, .dims = {{"seq", seq}, {"batch", 2}}});
  };
  CompiledGraph<Serial> first = step(5);
  store.write<float>("x", numbers({4, 5, 2}, 0));
  CompiledGraph<Serial> second = step(6);
  CHECK(graph_error([&] { (void)store.read<float>("x"); }) ==
        "store: 'x' has several shapes, {4, 5, 2}, {4, 6, 2}; use that of one compiled graph, by "
        "its bind_input or get_output");
  CHECK(message_of<ShapeError>([&] { second.bind_input("x", std::vector<float>(40)); }) ==
        "bind_input: 40 values for 'x' of shape {4, 6, 2}");
  second.bind_input("x", std::vector<float>(48));
  CHECK(first.get_output<float>("x") == numbers({4, 5, 2}, 0));
  store.write<float>("w", numbers({3, 4}, 1));
  store.write<float>("bias", numbers({3}, 2));
  CHECK(contains(message_of<LifetimeError>([&] { second.execute(); }),
                 "input 'ones' of graph 'layer' was never bound"));
}

TEST_CASE("a tensor that another graph declares in numbers keeps its shape", "[graph][dims]") {
  Layer const open("seq", "batch"), closed(5, 2);
  Serial runtime;
  TensorStore<Serial> store(runtime);
  (void)compile(closed.graph, store, {.tile = 2});
  std::size_t const count = store.tensors().size();
  (void)compile(open.graph, store, {.tile = 2, .dims = {{"seq", 5}, {"batch", 2}}});
  CHECK(store.tensors().size() == count);
  CHECK(contains(message_of<PlanError>([&] {
                   (void)compile(open.graph, store,
                                 {.tile = 2, .dims = {{"seq", 6}, {"batch", 2}}});
                 }),
                 "store: 'x' has shape {4, 5, 2} here but {4, 6, 2} in the new graph; give one "
                 "another name, or both an open dimension, as in {2, \"batch\"}"));
}

TEST_CASE("a graph object takes numbers by its options", "[graph][dims]") {
  Layer layer("seq", "batch");
  Serial runtime;
  TensorStore<Serial> store(runtime);
  Graph<Serial> small(layer.graph, store, {.tile = 2, .dims = {{"seq", 1}, {"batch", 1}}});
  Graph<Serial> large(layer.graph, store, {.tile = 2, .dims = {{"seq", 2}, {"batch", 2}}});
  small[layer.w] = numbers({3, 4}, 1);
  small[layer.bias] = numbers({3}, 2);
  for (auto* const run : {&small, &large}) {
    std::size_t const tokens = run == &small ? 1 : 4;
    (*run)[layer.x] = std::vector<float>(4 * tokens, 0.f);
    (*run)[layer.graph.at("ones")] = std::vector<float>(3 * tokens, 1.f);
    (*run)();
    CHECK((*run)[layer.y].read<float>().size() == 3 * tokens);
    CHECK((*run)[layer.dbias].read<float>() == std::vector<float>(3, static_cast<float>(tokens)));
  }
}

TEST_CASE("a graph in numbers has its own of several shapes", "[graph][dims]") {
  Layer const open("seq", "batch"), closed(5, 2);
  Serial runtime;
  TensorStore<Serial> store(runtime);
  auto const bound = [&](Index seq) {
    return compile(open.graph, store, {.tile = 2, .dims = {{"seq", seq}, {"batch", 2}}});
  };
  CompiledGraph<Serial> const first = bound(5);
  CompiledGraph<Serial> step = compile(closed.graph, store, {.tile = 2});
  CompiledGraph<Serial> const second = bound(6);
  store.write<float>("w", numbers({3, 4}, 1));
  store.write<float>("bias", numbers({3}, 2));
  step.bind_input("x", numbers({4, 5, 2}, 0));
  step.bind_input("ones", std::vector<float>(30, 1));
  step.execute();
  CHECK(step.get_output<float>("y") == first.get_output<float>("y"));
}

TEST_CASE("an input of another shape is stored as its own plan asks", "[graph][dims]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {4, "batch"}}, "x");
  scale({.alpha = 2}, x).named("z").mark_output();
  Serial runtime;
  TensorStore<Serial> store(runtime);
  auto const storage_of = [&](Index batch, std::vector<std::string> const& adopted) {
    PlanOptions const options{.tile = 2, .dims = {{"batch", batch}}, .adopted = adopted};
    return compile(graph, store, options).plan().tensors()[x.id()].storage;
  };
  CHECK(storage_of(8, {}) == Storage::stored);
  CHECK(storage_of(4, {"x"}) == Storage::adopted);
  CHECK(storage_of(8, {}) == Storage::stored);
  CHECK(storage_of(4, {}) == Storage::adopted);
  CHECK(storage_of(2, {}) == Storage::stored);
}
