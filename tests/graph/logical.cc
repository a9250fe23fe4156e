// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/graph/logical.hh"

#include "nntile/graph/apply.hh"
#include "nntile/ops/adamw_step.hh"
#include "nntile/ops/add.hh"
#include "nntile/ops/add_fiber.hh"
#include "nntile/ops/add_slice.hh"
#include "nntile/ops/copy.hh"
#include "nntile/ops/cross_entropy.hh"
#include "nntile/ops/embedding.hh"
#include "nntile/ops/fill.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/ops/layer_norm.hh"
#include "nntile/ops/softmax.hh"
#include "nntile/ops/sum_slice.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

TEST_CASE("a product's result has the shape that its axes say", "[graph][logical]") {
  LogicalGraph graph;
  Node const w = graph.parameter({.shape = {64, 12, 3, 768}}, "w");
  Node const x = graph.input({.shape = {768, 32, 4}}, "x");
  CHECK(gemm(w, x).shape() == Shape{64, 12, 3, 32, 4});
}

TEST_CASE("contracted groups of several dimensions are matched in order", "[graph][logical]") {
  LogicalGraph graph;
  Node const w = graph.parameter({.shape = {768, 64, 12}}, "w");
  Node const x = graph.input({.shape = {64, 12, 32, 4}}, "x");
  CHECK(gemm({.ndim = 2}, w, x).shape() == Shape{768, 32, 4});
}

TEST_CASE("a shape error names op, axis, values and both tensors", "[graph][logical]") {
  LogicalGraph graph;
  Node const w = graph.parameter({.shape = {16, 512}}, "h1");
  Node const x = graph.input({.shape = {768, 4}}, "w2");
  CHECK(message_of<ShapeError>([&] { gemm(w, x); }) == "gemm: a[k]=512 ('h1') but b[k]=768 ('w2')");
}

TEST_CASE("a rank that does not fit is refused with the axes that are wanted", "[graph][logical]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {8, 4}}, "x");
  Node const gamma = graph.parameter({.shape = {8, 4}}, "gamma");
  Node const beta = graph.parameter({.shape = {8}}, "beta");
  auto const text = message_of<ShapeError>([&] { layer_norm(x, gamma, beta); });
  CHECK(text.find("'gamma'") != std::string::npos);
  CHECK(text.find("{8, 4}") != std::string::npos);
}

TEST_CASE("mixed dtypes are refused and a cast is proposed", "[graph][logical]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {8}, .dtype = DType::fp32}, "x");
  Node const y = graph.input({.shape = {8}, .dtype = DType::bf16}, "y");
  CHECK(message_of<TypeError>([&] { add(x, y); }) ==
        "add: x ('x') is fp32 but y ('y') is bf16; insert a cast");
}

TEST_CASE("a pair of dtypes without a kernel is refused with those that have one",
          "[graph][logical]") {
  LogicalGraph graph;
  auto const tensor = [&](DType dtype, char const* name) {
    return graph.state({.shape = {8}, .dtype = dtype}, name);
  };
  Node const rate = graph.input({.shape = {}}, "rate"),
             count = graph.input({.shape = {}, .dtype = DType::int64}, "count");
  auto const step = [&](Node const& p, Node const& g, Node const& m, Node const& v) {
    adamw_step(p, g, m, v, rate, count);
  };
  Node const p = tensor(DType::bf16, "p"), g = tensor(DType::fp64, "g");
  CHECK(message_of<TypeError>([&] { step(p, g, g, g); }) ==
        "adamw_step: p ('p') is bf16 and g ('g') is fp64, but with bf16 g must be fp32 or bf16; "
        "insert a cast");
  step(p, tensor(DType::fp32, "g32"), tensor(DType::fp32, "m"), tensor(DType::fp32, "v"));
}

TEST_CASE("labels that are no integers are refused", "[graph][logical]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {8, 4}}, "x");
  Node const y = graph.input({.shape = {4}}, "y");
  CHECK_THROWS_AS(cross_entropy(x, y), TypeError);
}

TEST_CASE("a dtype without a kernel is refused with those that have one", "[graph][logical]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {8}, .dtype = DType::int32}, "x");
  auto const text = message_of<TypeError>([&] { gelutanh(x); });
  CHECK(text.find("no kernel for int32 ('x')") != std::string::npos);
  CHECK(text.find("fp32") != std::string::npos);
}

TEST_CASE("a name is taken once", "[graph][logical]") {
  LogicalGraph graph("g");
  graph.input({.shape = {8}}, "x");
  CHECK(
      message_of<GraphError>([&] { graph.input({.shape = {4}}, "x"); }) ==
      "graph 'g': a tensor 'x' exists already, of shape {8} in fp32; use it by at(\"x\"), or give "
      "the new one another name, such as unique(\"x\")");
  auto const prefix = graph.prefix("h.");
  graph.input({.shape = {8, "seq"}, .dtype = DType::bf16}, "x");
  CHECK(contains(
      message_of<GraphError>([&] { graph.input({.shape = {4}}, "x"); }),
      "a tensor 'h.x' exists already, of shape {8, seq} in bf16; use it by at(\"h.x\"), or "
      "give the new one another name, such as unique(\"x\")"));
}

TEST_CASE("a mode of numerics that there is not is refused", "[graph][logical]") {
  CHECK(message_of<GraphError>([] { LogicalGraph("g", {.mode = static_cast<Mode>(77)}); }) ==
        "graph 'g': Numerics::mode is 77; exact (0) or fast (1)");
}

TEST_CASE("a file shape that cannot be is refused with the tensor's name", "[graph][logical]") {
  LogicalGraph graph("g");
  auto const text = [&](Shape const& file) {
    return message_of<ShapeError>([&] { graph.input({.shape = {4}, .file_shape = file}, "x"); });
  };
  std::string const begin = "graph 'g': tensor 'x' has shape {4} but file shape ";
  CHECK(text({3}) == begin + "{3}");
  CHECK(text({-2, -2}) == begin + "{-2, -2}: shape: negative extent -2");
  CHECK(text({Index{1} << 40, Index{1} << 40}) ==
        begin + "{1099511627776, 1099511627776}: shape: more than 2^63 - 1 elements");
  CHECK(graph.tensor_count() == 0);
}

TEST_CASE("a prefix alone is no name", "[graph][logical]") {
  LogicalGraph graph("g");
  auto const prefix = graph.prefix("h.");
  std::string const text =
      "graph 'g': a tensor without a name behind the prefix 'h.'; give it one, such as "
      "unique(\"x\")";
  CHECK(message_of<GraphError>([&] { graph.input({.shape = {8}}, ""); }) == text);
  Node const x = graph.input({.shape = {8}}, "x");
  CHECK(message_of<GraphError>([&] { (void)x.named(""); }) == text);
  CHECK(graph.slice(x, 0, 0).name() == "h.slice");
  CHECK(graph.tensor_count() == 2);
}

TEST_CASE("a name is something that errors and files can tell", "[graph][logical]") {
  LogicalGraph graph("g");
  CHECK(message_of<GraphError>([&] { graph.input({.shape = {8}}, ""); }) ==
        "graph 'g': a tensor without a name; give it one, such as unique(\"x\")");
  for (auto const& name : {std::string("a\nb"), std::string("a\0b", 3), std::string("\x7f")})
    CHECK(contains(message_of<GraphError>([&] { graph.input({.shape = {8}}, name); }),
                   "holds the control character"));
  CHECK(message_of<GraphError>([&] { graph.input({.shape = {8}}, "w\xf6rter"); }) ==
        "graph 'g': the name of a tensor, 6 bytes, is no UTF-8 from byte 1 on; no file could name "
        "it");
  Node const x = graph.input({.shape = {8}}, "\xc3\xa4 [h.0]");
  CHECK_THROWS_AS(x.named("a\tb"), GraphError);
  CHECK(x.name() == "\xc3\xa4 [h.0]");
  CHECK(graph.tensor_count() == 1);
}

TEST_CASE("a graph, a phase and an axis have names that files can tell", "[graph][logical]") {
  LogicalGraph graph("g");
  for (auto const& [name, words] : {std::pair("a\nb", "3 bytes, holds the control character 10"),
                                    {"w\xf6rter", "6 bytes, is no UTF-8 from byte 1 on"}}) {
    CHECK(message_of<GraphError>([&, name = name] { LogicalGraph{name}; }) ==
          concat("graph: its name, ", words, "; no file could name it"));
    CHECK(message_of<GraphError>([&, name = name] { graph.set_phase(name); }) ==
          concat("graph 'g': the name of a phase, ", words, "; no file could name it"));
    CHECK(message_of<GraphError>([&, name = name] {
            graph.input({.shape = {8}, .axes = name}, "x");
          }) == concat("graph 'g': the axes of tensor 'x', ", words, "; no file could name it"));
  }
  CHECK(graph.phases() == LogicalGraph("other").phases());
  CHECK(graph.tensor_count() == 0);
}

TEST_CASE("results are named after their op, and counted", "[graph][logical]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {8}}, "x");
  CHECK(gelutanh(x).name() == "gelutanh");
  CHECK(gelutanh(x).name() == "gelutanh.1");
}

TEST_CASE("a prefix goes before every name while its guard lives", "[graph][logical]") {
  LogicalGraph graph;
  {
    auto const outer = graph.prefix("h.0.");
    auto const inner = graph.prefix("attn.");
    CHECK(graph.input({.shape = {8}}, "x").name() == "h.0.attn.x");
  }
  CHECK(graph.input({.shape = {8}}, "x").name() == "x");
}

TEST_CASE("a change that throws gives older tensors their names and marks back",
          "[graph][logical]") {
  LogicalGraph graph;
  Node const a = graph.input({.shape = {8}}, "a"), b = graph.input({.shape = {8}}, "b");
  b.mark_output();
  auto const fail = [&] {
    graph.rename(a, "c");
    graph.input({.shape = {8}}, "a").named("d").mark_output();
    graph.all_or_nothing([&] { graph.rename(b, "a"); });
    a.mark_output();
    graph.rename(a, "b");
    throw 1;
  };
  CHECK_THROWS_AS(graph.all_or_nothing(fail), int);
  CHECK(graph.tensor_count() == 2);
  CHECK(graph.at("a").id() == a.id());
  CHECK(graph.at("b").id() == b.id());
  CHECK_FALSE(graph.find("c"));
  CHECK_FALSE(graph.tensor_of(a).attributes.output);
  CHECK(graph.tensor_of(b).attributes.output);
}

TEST_CASE("a node whose tensor was taken back is refused", "[graph][logical]") {
  LogicalGraph graph("g");
  Node const x = graph.input({.shape = {8}}, "x");
  Node gone;
  auto const fail = [&] {
    gone = gelutanh(x);
    throw 1;
  };
  CHECK_THROWS_AS(graph.all_or_nothing(fail), int);
  std::string const end =
      "a Node of a tensor that its graph took back with a change that threw; make it anew";
  for (bool const again : {false, true}) {  // the number of the tensor is another's then
    if (again) CHECK(add(x, x).id() == 1);
    CHECK(message_of<GraphError>([&] { add(x, gone); }) == "add: operand y is " + end);
    CHECK(message_of<GraphError>([&] { gone.mark_output(); }) ==
          "graph 'g': mark_output: the tensor is " + end);
    CHECK(message_of<GraphError>([&] { (void)gone.name(); }) == "node: name() of " + end);
    CHECK(message_of<GraphError>([&] { (void)gone.id(); }) == "node: id() of " + end);
    CHECK(gone.is_gone());
  }
  CHECK(message_of<GraphError>([&] { (void)Node(graph, 9).shape(); }) == "node: shape() of " + end);
  CHECK_FALSE(x.is_gone());
  CHECK_FALSE(Node().is_gone());
  CHECK(graph.op_count() == 1);
}

TEST_CASE("a tensor of another graph is refused", "[graph][logical]") {
  LogicalGraph one("one"), two("two");
  Node const x = one.input({.shape = {8}}, "x");
  Node const y = two.input({.shape = {8}}, "y");
  CHECK(message_of<GraphError>([&] { add(x, y); }) ==
        "add: operand y is 'y' of graph 'two', but x is 'x' of graph 'one'; give it nodes of one "
        "graph");
}

TEST_CASE("a slice drops its dimension and stays inside it", "[graph][logical]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {8, 3, 5}}, "x");
  CHECK(graph.slice(x, 1, 2).shape() == Shape{8, 5});
  CHECK_THROWS_AS(graph.slice(x, 1, 3), ShapeError);
  CHECK_THROWS_AS(graph.slice(graph.slice(x, 1, 0), 0, 0), GraphError);
}

TEST_CASE("flops are twice the products' elements", "[graph][logical]") {
  LogicalGraph graph;
  gemm(graph.parameter({.shape = {16, 32}}, "w"), graph.input({.shape = {32, 8}}, "x"));
  CHECK(graph.estimate_flops() == 2 * 16 * 32 * 8);
}

TEST_CASE("flops that 63 bits do not hold are the most that they do", "[graph][logical]") {
  LogicalGraph graph;
  Index const side = Index{1} << 20;
  Node const w = graph.parameter({.shape = {side, side}, .dtype = DType::bf16}, "w");
  Node x = gemm(w, w);
  CHECK(graph.estimate_flops() == std::int64_t{1} << 61);
  for (int i = 1; i < 5; ++i) x = gemm(w, x);
  CHECK(graph.estimate_flops() == INT64_MAX);
}

TEST_CASE("an error of shapes has the attributes that the call gives", "[graph][logical]") {
  LogicalGraph graph;
  Node const a = graph.input({.shape = {8, 4}}, "a"), b = graph.input({.shape = {4, 3}}, "b");
  CHECK(message_of<ShapeError>([&] { gemm({.trans_a = true, .alpha = 2}, a, b); }) ==
        "gemm: a[k]=8 ('a') but b[k]=4 ('b'); the call has trans_a=true, alpha=2");
  CHECK(message_of<ShapeError>([&] { gemm(b, a); }) == "gemm: a[k]=3 ('b') but b[k]=8 ('a')");
  // What the text names already is not said again.
  CHECK(contains(message_of<ShapeError>([&] { sum_slice({.axis = -1}, a); }), "axis=-1"));
  CHECK(!contains(message_of<ShapeError>([&] { sum_slice({.axis = -1}, a); }), "the call has"));
}

TEST_CASE("a result may not overwrite an operand that the op still reads", "[graph][logical]") {
  LogicalGraph graph;
  Node const a = graph.input({.shape = {8, 8}}, "a"), b = graph.input({.shape = {8, 8}}, "b");
  CHECK(message_of<ValueError>([&] { gemm(a, b, a); }) ==
        "gemm: its result c ('a') is also its operand a ('a'), which it may not overwrite; give c "
        "a tensor of its own");
  CHECK(graph.op_count() == 0);
  CHECK(gemm(a, a, graph.tensor({.shape = {8, 8}}, "c")).name() == "c");
}

TEST_CASE("an op states what it may overwrite", "[graph][logical]") {
  LogicalGraph graph;
  Node const x = graph.state({.shape = {8}}, "x"), f = graph.state({.shape = {8}}, "f");
  CHECK(contains(message_of<ValueError>([&] { add_fiber(x, f, f); }),
                 "give z a tensor of its own or the one of x"));
  CHECK(add_fiber(x, f, x).name() == "x");
}

TEST_CASE("two results of one call are two tensors", "[graph][logical]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {8, 4}}, "x"), g = graph.parameter({.shape = {8}}, "g");
  Node const y = graph.tensor({.shape = {8, 4}}, "y"), mean = graph.tensor({.shape = {4}}, "mean");
  CHECK(contains(message_of<ValueError>([&] { layer_norm(x, g, g, y, mean, mean); }),
                 "result mean ('mean') is also its result rstd ('mean')"));
}

TEST_CASE("a view may not be written over what overlaps it", "[graph][logical]") {
  LogicalGraph graph;
  Node const base = graph.parameter({.shape = {8, 8, 2}}, "base");
  Node const one = graph.slice(base, 2, 0, "one"), two = graph.slice(base, 2, 1, "two"),
             again = graph.slice(base, 2, 0, "again"), across = graph.slice(base, 1, 0, "across");
  CHECK(contains(message_of<ValueError>([&] { gemm(one, two, again); }), "'again'"));
  CHECK(contains(message_of<ValueError>([&] { add_slice({.axis = 2}, base, one, base); }),
                 "overlaps its operand s ('one')"));
  CHECK(contains(message_of<ValueError>([&] { ops::copy(across, graph.slice(base, 0, 0, "row")); }),
                 "overlaps"));
  CHECK(ops::copy(one, again).name() == "again");
  CHECK(ops::copy(one, two).name() == "two");
}

TEST_CASE("an empty node is distinguished from another graph's", "[graph][logical]") {
  LogicalGraph graph("g");
  Node const x = graph.input({.shape = {4}}, "x");
  char const* const empty =
      "an empty Node; find() gives one where the graph has no tensor of that name, at() says so";
  CHECK(message_of<GraphError>([&] { gelutanh(graph.find("X")); }) ==
        concat("gelutanh: operand x is ", empty));
  CHECK(message_of<GraphError>([&] { add(x, Node{}); }) == concat("add: operand y is ", empty));
  CHECK(message_of<GraphError>([&] { graph.slice(Node{}, 0, 0); }) ==
        concat("graph 'g': slice: the base is ", empty));
  CHECK(message_of<GraphError>([&] { (void)Node{}.name(); }) == concat("node: name() of ", empty));
  CHECK_THROWS_AS(Node{}.shape(), GraphError);
  CHECK_THROWS_AS(Node{}.dtype(), GraphError);
  CHECK_THROWS_AS(Node{}.id(), GraphError);
  CHECK_THROWS_AS(Node{}.graph(), GraphError);
  CHECK_THROWS_AS(Node{}.mark_output(), GraphError);
}

TEST_CASE("an axes string that contradicts the shape is refused", "[graph][logical]") {
  LogicalGraph graph("g");
  CHECK(message_of<ShapeError>([&] { graph.input({.shape = {4, 4, 4}, .axes = "a b"}, "x"); }) ==
        "graph 'g': tensor 'x' has axes \"a b\", 2 names, but its shape {4, 4, 4} has 3 "
        "dimensions; a blank parts two names");
  CHECK_THROWS_AS(graph.input({.shape = {4}, .axes = "a b"}, "x"), ShapeError);
  auto const twice =
      message_of<ShapeError>([&] { graph.input({.shape = {4, 4}, .axes = "a a"}, "x"); });
  CHECK(contains(twice, "axes \"a a\", which name 'a' twice"));
  CHECK_THROWS_AS(graph.input({.shape = {}, .axes = "a"}, "x"), ShapeError);
  CHECK(graph.input({.shape = {4, 4}, .axes = "a b"}, "x").name() == "x");
  CHECK(graph.input({.shape = {4, 4}, .axes = " b"}, "half").name() == "half");
  CHECK_NOTHROW(graph.input({.shape = {4, 4}, .axes = "a "}, "other half"));
  CHECK_NOTHROW(graph.input({.shape = {4}, .axes = "a "}, "as it is written in lists"));
  CHECK_THROWS_AS(graph.input({.shape = {4}, .axes = "a  "}, "more"), ShapeError);
}

TEST_CASE("extents that are no counts are refused with the tensor's name", "[graph][logical]") {
  LogicalGraph graph("g");
  CHECK(message_of<ShapeError>([&] { graph.input({.shape = {4, -1}}, "x"); }) ==
        "graph 'g': tensor 'x' has shape {4, -1}: shape: negative extent -1");
  Index const huge = Index{1} << 40;
  CHECK(contains(message_of<ShapeError>([&] { graph.input({.shape = {huge, huge}}, "x"); }),
                 "tensor 'x' has shape {1099511627776, 1099511627776}: "));
  CHECK(graph.tensor_count() == 0);
}

TEST_CASE("a graph does not overwrite what the caller binds", "[graph][logical]") {
  LogicalGraph graph("g");
  Node const x = graph.input({.shape = {4, 2}}, "x"), c = graph.constant({.shape = {4}}, "c");
  CHECK(message_of<GraphError>([&] { gelutanh(x, x); }) ==
        "gelutanh: its result y would overwrite 'x', an input of graph 'g', and the next run would "
        "start from that; give y a tensor of its own, or declare 'x' a state");
  CHECK_THROWS_AS(gelutanh(graph.slice(x, 1, 0), graph.slice(x, 1, 1)), GraphError);
  CHECK(contains(message_of<GraphError>([&] { gelutanh(c, c); }), "'c', a constant"));
  Node const s = graph.state({.shape = {4}}, "s");
  CHECK(gelutanh(s, s).name() == "s");
}

TEST_CASE("a view is not an output", "[graph][logical]") {
  LogicalGraph graph;
  Node const x = graph.parameter({.shape = {4, 2}}, "x");
  CHECK(contains(message_of<GraphError>([&] { graph.slice(x, 1, 0, "q").mark_output(); }),
                 "'q' is a view of 'x'"));
}

TEST_CASE("an axis that an operand lacks is refused with what it has", "[graph][logical]") {
  LogicalGraph graph;
  Node const x = graph.parameter({.shape = {4, 3}}, "x"), s = graph.parameter({.shape = {}}, "s");
  CHECK(message_of<ShapeError>([&] { sum_slice({.axis = 5}, x); }) ==
        "sum_slice: axis=5, but x ('x') has shape {4, 3}, and axes \"i... k j...\" of 6 dimensions "
        "or more are needed; axis is at most 1 here");
  CHECK(message_of<ShapeError>([&] { sum_slice({.axis = -1}, x); }) ==
        "sum_slice: axis=-1, but dimensions are counted upwards from 0, the innermost");
  CHECK(contains(message_of<ShapeError>([&] { sum_slice({.axis = 100}, x); }), "at most 1 here"));
  CHECK(contains(message_of<ShapeError>([&] { gemm({.ndim = 3}, x, x); }), "gemm: ndim=3, but a"));
  CHECK(contains(message_of<ShapeError>([&] { gemm({.ndim = 1, .batch_ndim = -2}, x, x); }),
                 "gemm: batch_ndim=-2"));
  CHECK(message_of<ShapeError>([&] { softmax(s); }) ==
        "softmax: x ('s') has shape {}, and axes \"v i...\" of 1 dimension or more are needed");
  CHECK(sum_slice({.axis = 1}, x).shape() == Shape{4});
}

TEST_CASE("swapped operands are recognised by their dtypes", "[graph][logical]") {
  LogicalGraph graph;
  Node const table = graph.parameter({.shape = {4, 10}}, "table"),
             tokens = graph.input({.shape = {3}, .dtype = DType::int64}, "tokens");
  CHECK(message_of<TypeError>([&] { embedding(table, tokens); }) ==
        "embedding: index ('table') is fp32 but must be int64 or int32; table ('tokens') is int64: "
        "are they swapped?");
  CHECK(message_of<TypeError>([&] { embedding(table, table); }) ==
        "embedding: index ('table') is fp32 but must be int64 or int32");
  CHECK(contains(message_of<TypeError>([&] { cross_entropy(tokens, table); }), "swapped?"));
}

TEST_CASE("a call of too few or too many operands lists those that it takes", "[graph][logical]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {4, 4}}, "x");
  CHECK(message_of<GraphError>([&] { gemm(x); }) ==
        "gemm: 1 operand given, but it takes 2 to 3: a, b, c");
  CHECK(message_of<GraphError>([&] { gelutanh(x, x, x); }) ==
        "gelutanh: 3 operands given, but it takes 1 to 2: x, y");
}

TEST_CASE("a call without operands is of no graph", "[graph][logical]") {
  LogicalGraph graph;
  ops::Fill::Attrs const attrs{.value = 1};
  CHECK(contains(
      message_of<GraphError>([&] { graph.add_op(op_info<ops::Fill>, &attrs, nullptr, {}); }),
      "fill: 0 operands given, but it takes 1: "));
}

TEST_CASE("more bytes than can be counted are refused", "[graph][logical]") {
  LogicalGraph graph("g");
  CHECK(contains(message_of<ShapeError>([&] { graph.parameter({.shape = {Index{1} << 61}}, "x"); }),
                 "tensor 'x' has shape {2305843009213693952}: shape: more than 2^63 - 64 bytes"));
}

TEST_CASE("a number that is no dtype is refused with the tensor's name", "[graph][logical]") {
  LogicalGraph graph("g");
  CHECK(message_of<TypeError>([&] {
          (void)graph.tensor({.shape = {2, 3}, .dtype = static_cast<DType>(99)}, "x");
        }) == "graph 'g': tensor 'x' is of dtype 99, which is none");
}
