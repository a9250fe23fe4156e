// SPDX-License-Identifier: BSD-3-Clause
// Gradients where ops overwrite tensors, add to them, or have no derivative: right, or refused.
#include "nntile/graph/gradient.hh"
#include "nntile/ops/add.hh"
#include "nntile/ops/argmax.hh"
#include "nntile/ops/copy.hh"
#include "nntile/ops/embedding.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/ops/global_norm.hh"
#include "nntile/ops/layer_norm.hh"
#include "nntile/ops/scale.hh"
#include "nntile/ops/softmax.hh"
#include "tests/graph/gradient_check.hh"
#include "tests/support/catch.hh"
#include "tests/support/differences.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

TEST_CASE("a loss with an L2 term has the gradients of both terms", "[graph][gradient]") {
  check_right([](LogicalGraph&, Node const& w) {
    return add({.alpha = 1, .beta = 0.5}, sum(gelutanh(w)), sum_squares(w));
  });
}

TEST_CASE("a sum of squares is a loss", "[graph][gradient]") {
  check_right([](LogicalGraph&, Node const& w) { return sum_squares(w); });
  check_right(
      [](LogicalGraph&, Node const& w) { return sum(sum_slice({.axis = 1}, sum_squares(w))); },
      {4, 3, 2});
}

TEST_CASE("a product of a tensor with itself is differentiated", "[graph][gradient]") {
  check_right(
      [](LogicalGraph& g, Node const& w) { return gemm({.trans_a = true}, w, w, tensor(g, {})); });
}

TEST_CASE("an op that overwrites what its own gradient reads is refused", "[graph][gradient]") {
  std::string const text = refusal([](LogicalGraph&, Node const& w) {
    Node const y = gelutanh(w);
    gelutanh(y, y);
    return sum(y);
  });
  CHECK(text ==
        "gelutanh ('gelutanh'): its gradient reads x ('gelutanh'), which node 1, gelutanh "
        "('gelutanh'), has overwritten since; write that to a tensor of its own");
}

TEST_CASE("an op that overwrites a parameter which a gradient reads is refused",
          "[graph][gradient]") {
  CHECK(contains(refusal([](LogicalGraph&, Node const& w) {
                   gelutanh(w, w);
                   return sum(w);
                 }),
                 "reads x ('w'), which node 0, gelutanh ('w'), has overwritten"));
}

TEST_CASE("a later op that overwrites what a gradient reads is named", "[graph][gradient]") {
  CHECK(contains(refusal([](LogicalGraph& g, Node const& w) {
                   Node const y = add(w, input(g, "c"));
                   Node const loss = sum(gelutanh(y));
                   ops::fill({.value = 0}, y);
                   gelutanh(g.at("c"), y);
                   return loss;
                 }),
                 "reads x ('add'), which node 3, fill ('add'), has overwritten"));
  CHECK(contains(refusal([](LogicalGraph&, Node const& w) {
                   Node const y = gelutanh(w);
                   Node const loss = sum(gelutanh(y));
                   ops::fill({.value = 0}, y);
                   return add(loss, sum(y));
                 }),
                 "reads x ('gelutanh'), which node 3, fill ('gelutanh'), has overwritten"));
  CHECK(contains(refusal([](LogicalGraph&, Node const& w) {
                   Node const y = scale({.alpha = 1}, w);
                   Node const loss = sum(gelutanh(y));
                   gelutanh(y, y);
                   return add(loss, sum(y));
                 }),
                 "gelutanh ('scale')"));
}

TEST_CASE("a value is gone where a gradient reads the result that was overwritten",
          "[graph][gradient]") {
  CHECK(contains(refusal([](LogicalGraph& g, Node const& w) {
                   Node const y = softmax(w);
                   Node const loss = gemm({.trans_a = true}, y, input(g, "c"), tensor(g, {}));
                   scale({.alpha = 2}, y, y);
                   return add(loss, sum(y));
                 }),
                 "which node 2, scale ('softmax'), has overwritten"));
}

TEST_CASE("ops whose gradients read nothing work in place", "[graph][gradient]") {
  check_right([](LogicalGraph&, Node const& w) {
    Node const y = gelutanh(w);
    scale({.alpha = 3}, y, y);
    add(y, y, y);
    add({.alpha = 2, .beta = -0.5}, w, y, y);
    return sum(gelutanh(y));
  });
}

TEST_CASE("an op whose gradient reads its result alone works in place", "[graph][gradient]") {
  check_right([](LogicalGraph& g, Node const& w) {
    Node const y = scale({.alpha = 2}, w);
    softmax(y, y);
    return gemm({.trans_a = true}, y, input(g, "c"), tensor(g, {}));
  });
}

TEST_CASE("a parameter that is scaled in place has the gradient of its first value",
          "[graph][gradient]") {
  check_right([](LogicalGraph&, Node const& w) {
    scale({.alpha = 2}, w, w);
    return sum(gelutanh(w));
  });
}

TEST_CASE("a tensor scaled by data in place is differentiated", "[graph][gradient]") {
  check_right([](LogicalGraph& g, Node const& w) {
    Node const y = gelutanh(w);
    scale_by(g.input({.shape = {}}, "s"), y);
    return add(sum(y), sum(w));
  });
}

TEST_CASE("a result begun from a multiple of its old value keeps that of its gradient",
          "[graph][gradient]") {
  double const beta = GENERATE(1.0, 2.0, 0.5, -1.0);
  check_right([&](LogicalGraph& g, Node const& w) {
    Node const y = gelutanh(w);
    gemm({.beta = beta}, input(g, "a", {8, 8}), w, y);
    return sum(gelutanh(y));
  });
  check_right([&](LogicalGraph&, Node const& w) {
    Node const y = sum(gelutanh(w));
    sum_slice({.axis = 0, .beta = beta}, w, y);
    return y;
  });
  check_right([&](LogicalGraph&, Node const& w) {
    Node const y = gelutanh(w);
    broadcast_slice({.axis = 0, .beta = beta}, sum(w), y);
    scale({.alpha = 3, .beta = beta}, w, y);
    return sum(gelutanh(y));
  });
}

TEST_CASE("a result that is added to without a gradient of the old value counts anew",
          "[graph][gradient]") {
  check_right([](LogicalGraph& g, Node const& w) {
    Node const y = tensor(g);
    ops::fill({.value = 2}, y);
    scale({.alpha = 3, .beta = 0.5}, w, y);
    return sum(gelutanh(y));
  });
}

TEST_CASE("what a constant overwrites has no gradient", "[graph][gradient]") {
  check_right([](LogicalGraph&, Node const& w) {
    Node const y = gelutanh(w);
    Node const loss = sum(y);
    ops::fill({.value = 3}, y);
    return add(loss, sum(y));
  });
  check_right([](LogicalGraph&, Node const& w) {
    Node const a = gelutanh(w), b = scale({.alpha = 2}, w), y = add(a, b);
    add(b, b, y);
    return sum(y);
  });
}

TEST_CASE("an op without a gradient on a way to the loss is refused", "[graph][gradient]") {
  Build const derivative = [](LogicalGraph& g, Node const& w) {
    Node const d = tensor(g);
    gelutanh_backward({.beta = 0}, w, input(g, "c"), d);
    return sum(d);
  };
  std::string const expected =
      "gelutanh_backward ('t'): no gradient, since second derivatives are not there yet, and it is "
      "on a way to the loss; compute 't' in a graph of its own and bind it here as an input, which "
      "counts as a constant, or use ops that have gradients";
  CHECK(refusal(derivative) == expected);
  CHECK(refusal([&](LogicalGraph& g, Node const& w) {
          return add(sum(gelutanh(w)), derivative(g, w));
        }) == expected);
}

TEST_CASE("an op without a gradient beside the way to the loss is no obstacle",
          "[graph][gradient]") {
  check_right([](LogicalGraph& g, Node const& w) {
    Node const unused = tensor(g), constant = tensor(g);
    gelutanh_backward({.beta = 0}, w, input(g, "c"), unused);        // not on the way
    gelutanh_backward({.beta = 0}, g.at("c"), g.at("c"), constant);  // a constant
    return sum(add(gelutanh(w), constant));
  });
}

TEST_CASE("what an index selects is differentiated, the index is not", "[graph][gradient]") {
  check_right(
      [](LogicalGraph&, Node const& w) {
        Node const rows = embedding(argmax({.axis = 0}, w), w);  // [4, 2], of w[4, 2]
        return sum(sum_slice({.axis = 1}, gelutanh(rows)));
      },
      {2, 2});
}

TEST_CASE("a result whose gradient an op leaves out is refused", "[graph][gradient]") {
  CHECK(contains(refusal(
                     [](LogicalGraph& g, Node const& w) {
                       Node const y = tensor(g, {4, 2}), mean = tensor(g, {2}),
                                  rstd = tensor(g, {2});
                       layer_norm(w, input(g, "gamma", {4}), input(g, "beta", {4}), y, mean, rstd);
                       return add(sum(sum(y)), sum(mean));
                     },
                     {4, 2}),
                 "layer_norm ('t.2'): its gradient leaves out mean ('t.1')"));
}

TEST_CASE("a loss may be a part of a tensor, or a parameter", "[graph][gradient]") {
  auto const check = [](Shape const& shape, auto const& build) {
    LogicalGraph graph;
    Node const loss = build(graph, weights(graph, shape));
    Gradients const gradients = add_gradients(graph, loss);
    CHECK(deviation(graph, ops::copy(loss), gradients, 7).error < 1e-8);  // a view is no output
  };
  check({8}, [](LogicalGraph& g, Node const& w) { return g.slice(gelutanh(w), 0, 3); });
  check({8}, [](LogicalGraph& g, Node const& w) { return g.slice(w, 0, 3); });
  check({1}, [](LogicalGraph&, Node const& w) { return w; });
}

TEST_CASE("a graph is differentiated once for each of its losses", "[graph][gradient]") {
  LogicalGraph graph;
  Node const w = weights(graph), y = gelutanh(w);
  Node const one = sum(y), other = sum_squares(y);
  Node const first = add_gradients(graph, one).find(w);
  CHECK(deviation(graph, other, add_gradients(graph, other), 7).error < 1e-8);
  CHECK(first.name() == "w.grad");
}

TEST_CASE("gradients pass through sums without copies", "[graph][gradient]") {
  LogicalGraph graph;
  Node const w = weights(graph);
  Node x = scale({.alpha = 2}, w);
  for (int layer = 0; layer < 3; ++layer) x = add(x, gelutanh(scale({.alpha = 3}, x)));
  add_gradients(graph, sum(x));
  for (std::size_t i = 0; i < graph.op_count(); ++i)
    CHECK(std::string(graph.op_at(i).info->name) != "copy");
}

TEST_CASE("accumulated gradients of slices add up, and leave the rest", "[graph][gradient]") {
  auto const build = [](LogicalGraph& graph, bool accumulate) {
    Node const w = weights(graph, {2, 2});
    Node const loss = sum(scale({.alpha = 2}, graph.slice(w, 1, accumulate ? 1 : 0)));
    add_gradients(graph, loss, {.persistent = true, .accumulate = accumulate});
  };
  AccumulatedGradients run(build);
  run.first.execute();
  run.later.execute();
  run.later.execute();
  CHECK(run.store.read<double>("w.grad") == std::vector<double>{2, 2, 4, 4});
}

TEST_CASE("a parameter that is overwritten before the loss reads it has no gradient",
          "[graph][gradient]") {
  LogicalGraph graph;
  Node const w = weights(graph), x = graph.tensor({.shape = {8}}, "x", {.requires_grad = true});
  ops::fill({.value = 1}, w);
  Node const of_w = sum(gelutanh(w));
  CHECK(contains(message_of<GraphError>([&] { add_gradients(graph, of_w); }), "no parameter"));
  ops::fill({.value = 1}, x);  // has no other value
  CHECK(bool(add_gradients(graph, sum(gelutanh(x))).find(x)));
}

TEST_CASE("a persistent gradient is that of a parameter's first value", "[graph][gradient]") {
  auto const build = [](LogicalGraph& graph, bool accumulate) {
    Node const w = weights(graph, {2, 2});
    scale({.alpha = 2}, graph.slice(w, 1, 0), graph.slice(w, 1, 1));
    Node const loss = sum(sum_slice({.axis = 1}, scale({.alpha = 3}, w)));
    add_gradients(graph, loss, {.persistent = true, .accumulate = accumulate});
  };
  AccumulatedGradients run(build);
  run.store.write<double>("w", std::vector<double>{1, 2, 3, 4});
  run.first.execute();
  CHECK(run.store.read<double>("w.grad") == std::vector<double>{9, 9, 0, 0});
  run.later.execute();
  CHECK(run.store.read<double>("w.grad") == std::vector<double>{18, 18, 0, 0});
}

TEST_CASE("the gradient of a tensor is kept where it is asked for", "[graph][gradient]") {
  bool const asked = GENERATE(false, true);
  LogicalGraph graph;
  Node const w = weights(graph), x = scale({.alpha = 2}, w);
  Node const early = sum(gelutanh(x));
  Node const y = graph.tensor({.shape = {8}, .dtype = DType::fp64}, "y", {.requires_grad = asked});
  add(x, w, y);
  Node const loss = add(early, sum(y));
  Gradients const gradients = add_gradients(graph, loss);
  CHECK(bool(gradients.find(x)));
  if (!asked) {
    CHECK(contains(message_of<GraphError>([&] { gradients.find(y); }), "give 'y' requires"));
    return;
  }
  gradients.find(y).mark_output();
  Evaluation evaluation(graph, loss, 7);
  evaluation.loss();
  CHECK(evaluation.read(gradients.find(y)) == std::vector<double>(8, 1.0));
}

TEST_CASE("a gradient is asked of the graph's own tensors", "[graph][gradient]") {
  LogicalGraph graph, other;
  Gradients const gradients = add_gradients(graph, sum(weights(graph)));
  CHECK_THROWS_AS(gradients.find(weights(other)), GraphError);
  CHECK_THROWS_AS(gradients.find(Node{}), GraphError);
}

TEST_CASE("a sum of squares of narrow numbers is differentiated in their dtype",
          "[graph][gradient]") {
  LogicalGraph graph;
  Node const w = graph.parameter({.shape = {3}}, "w");
  Node const dw = add_gradients(graph, sum_squares(w)).find(w).mark_output();
  Serial runtime;
  TensorStore<Serial> store(runtime);
  auto run = compile(graph, store);
  store.write<float>("w", std::vector<float>{1, -2, 0.1f});
  run.execute();
  CHECK(store.read<float>(dw.name()) == std::vector<float>{2, -4, 0.2f});
}

TEST_CASE("a gradient that two operands share is filled up for one of them alone",
          "[graph][gradient]") {
  check_right(
      [](LogicalGraph& g, Node const& w) {  // a recurrence in slices, and a residual
        Node const h = tensor(g, {4, 2}), first = g.slice(h, 1, 0), second = g.slice(h, 1, 1);
        scale({.alpha = 3}, g.slice(w, 1, 0), first);
        scale({.alpha = 5}, first, second);
        return sum(sum_slice({.axis = 1}, add(scale({.alpha = 2}, w), h)));
      },
      {4, 2});
  check_right(
      [](LogicalGraph& g, Node const& w) {
        Node const a = gelutanh(w), b = scale({.alpha = 2}, w), c = add(a, b);
        ops::fill({.value = 0.5}, g.slice(a, 1, 0));
        return sum(sum_slice({.axis = 1}, gelutanh(add(add(a, b), c))));
      },
      {4, 2});
}

TEST_CASE("the gradient of a tensor of which an op writes a slice is found", "[graph][gradient]") {
  LogicalGraph graph;
  Node const w = weights(graph, {4});
  Node const y =
      graph.tensor({.shape = {4, 2}, .dtype = DType::fp64}, "y", {.requires_grad = true});
  Node const first = graph.slice(y, 1, 0, "first");
  gelutanh(w, first);
  Node const loss = sum(scale({.alpha = 3}, first));
  Node const of_y = add_gradients(graph, loss).find(y).mark_output();
  Evaluation evaluation(graph, loss, 7);
  evaluation.loss();
  CHECK(evaluation.read(of_y) == std::vector<double>{3, 3, 3, 3, 0, 0, 0, 0});
}

TEST_CASE("the gradient of a tensor of which constants write the slices is found",
          "[graph][gradient]") {
  LogicalGraph graph;
  Node const y =
      graph.tensor({.shape = {4, 2}, .dtype = DType::fp64}, "y", {.requires_grad = true});
  for (Index const i : {0, 1}) ops::fill({.value = 2}, graph.slice(y, 1, i));
  Node const loss = sum(sum_slice({.axis = 1}, scale({.alpha = 3}, y)));
  Node const of_y = add_gradients(graph, loss).find(y);
  REQUIRE(of_y);
  of_y.mark_output();
  Evaluation evaluation(graph, loss, 7);
  evaluation.loss();  // by what the first of them left: the second slice was not used
  CHECK(evaluation.read(of_y) == std::vector<double>{3, 3, 3, 3, 0, 0, 0, 0});
}

TEST_CASE("the gradient of a parameter's slice is by the parameter's first value",
          "[graph][gradient]") {
  for (int const overwritten : {1, 2}) {
    LogicalGraph graph;
    Node const w = weights(graph, {4, 2}), first = graph.slice(w, 1, 0);
    Node const v = graph.parameter({.shape = {4}, .dtype = DType::fp64}, "v");
    for (Index i = 0; i < overwritten; ++i) ops::copy(v, i == 0 ? first : graph.slice(w, 1, i));
    Node const loss = sum(sum_slice({.axis = 1}, scale({.alpha = 3}, w)));
    Node const of_first = add_gradients(graph, loss).find(first);
    REQUIRE(bool(of_first) == (overwritten == 1));
    if (!of_first) continue;
    Node const copied = ops::copy(of_first).mark_output();
    Evaluation evaluation(graph, loss, 7);
    evaluation.loss();
    CHECK(evaluation.read(copied) == std::vector<double>(4, 0.0));
  }
}

TEST_CASE("a gradient is found as it was, or not, where it is filled up later",
          "[graph][gradient]") {
  for (bool const asked : {true, false}) {
    LogicalGraph graph;
    Node const w = weights(graph, {4, 2});
    Node const v = graph.parameter({.shape = {4}, .dtype = DType::fp64}, "v");
    Node const y =
        graph.tensor({.shape = {4, 2}, .dtype = DType::fp64}, "y", {.requires_grad = asked});
    scale({.alpha = 3}, w, y);
    Node const first = graph.slice(y, 1, 0, "first");
    scale({.alpha = 2}, v, first);
    Node const loss = sum(sum_slice({.axis = 1}, gelutanh(y)));
    Gradients const gradients = add_gradients(graph, loss);
    if (!asked) {
      CHECK(message_of<GraphError>([&] { (void)gradients.find(first); }) ==
            "gradients: that of 'first' became part of another tensor's; give 'y' requires_grad to "
            "keep it, and slice what it has");
      continue;
    }
    // Of y as it was first, whose slice was not used; that of the slice is of what was written
    // later.
    Node const of_y = gradients.find(y).mark_output(), of_v = gradients.find(v).mark_output();
    Node const of_first = ops::copy(gradients.find(first)).mark_output();
    Evaluation evaluation(graph, loss, 7);
    evaluation.loss();
    auto const whole = evaluation.read(of_y), slice = evaluation.read(of_first);
    auto const twice = evaluation.read(of_v);
    for (std::size_t i = 0; i < slice.size(); ++i) {
      CHECK(whole[i] == 0);
      CHECK(whole[4 + i] != 0);
      CHECK(twice[i] == 2 * slice[i]);
    }
  }
}

namespace {

/// x + y, whose gradient forgets y, or the old value where it adds to it.
struct Forgetful {
  static constexpr char const* name = "forgetful";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  enum class Operand : std::uint8_t { x, y, z };
  static constexpr Operands operands{{"x", "i..."}, {"y", "i..."}, {"z", "i...", Access::update}};
  struct Attrs {};
  struct Args {};
  static constexpr Fields fields{};
  static constexpr Hooks<Attrs> hooks{};
  static constexpr char const* no_reference = "it is never run";
  static Args args(Attrs const&, TileRange const&) { return {}; }
  template <class Builder> static void gradient(Builder& b) {
    if (b.wants(Operand::x)) b.pass(Operand::x, Operand::z);
  }
};

}  // namespace

TEST_CASE("an operand that an op's gradient leaves out is refused", "[graph][gradient]") {
  LogicalGraph graph;
  Node const w = weights(graph), c = input(graph, "c"), z = gelutanh(w), other = tensor(graph);
  Call<Forgetful>{}(c, w, other);
  CHECK(contains(message_of<GraphError>([&] { add_gradients(graph, sum(other)); }),
                 "forgetful ('t'): its gradient leaves out y ('w')"));
  Call<Forgetful>{}(w, c, z);
  CHECK(contains(message_of<GraphError>([&] { add_gradients(graph, sum(z)); }),
                 "leaves out the old value of z ('gelutanh')"));
}
