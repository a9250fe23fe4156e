// SPDX-License-Identifier: BSD-3-Clause
// Graphs and plans in files: what comes back is equal and runs to the same bits; what is wrong is
// named in one line.
#include "nntile/io/plan.hh"

#include "nntile/graph/dump.hh"
#include "nntile/graph/parts.hh"
#include "nntile/graph/places.hh"
#include "nntile/io/store.hh"
#include "nntile/ops/all.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/graph/random_graph.hh"
#include "tests/io/scratch.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/one_to_one.hh"
#include "tests/support/padding.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::io;
using namespace nntile::test;

namespace {

/// The hash of all parameters after two steps of that plan.
std::uint64_t trained(Plan const& plan) {
  Ring runtime({.workers = 2});
  TinyGptGraph const gpt;
  TinyGptRun<Ring> run(runtime, gpt, {.tile = 64});
  run.step = CompiledGraph<Ring>(std::make_shared<Plan const>(plan), run.store);
  run.train(2);
  return hash_tensors(sources_of(run.store, is_parameter));
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  std::size_t const at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}

/// An op that files would take for the library's.
struct Gelutanh : OneToOne {
  static constexpr char const* name = "gelutanh";
  template <class T> static void reference(Args const&, Buffers<Gelutanh> const&) {}
};

/// A layer in two tiles, as a file.
struct Layer {
  LogicalGraph graph{"layer"};
  Layer() {
    Node const w = graph.parameter({.shape = {128, 64}, .axes = "out in"}, "w");
    Node const x = graph.input({.shape = {64, 8}, .axes = "in batch"}, "x");
    gelutanh(gemm(w, x), graph.tensor({.shape = {128, 8}}, "y")).mark_output();
  }
  std::string text() const { return graph_text(graph); }
  std::string plan() const { return plan_text(Plan(graph, {.tile = 64}), graph); }
};

std::string graph_error(std::string const& text) {
  return message_of<FormatError>([&] { (void)graph_of(text, "g.json", known_ops(AllOps{})); });
}
std::string plan_error(std::string const& text) {
  Layer const layer;
  return message_of<FormatError>([&] { (void)plan_of(text, "p.json", layer.graph); });
}

}  // namespace

TEST_CASE("a graph and a plan that were saved are equal, and run to the same hash", "[io][plan]") {
  Scratch const scratch;
  std::string const graph_path = scratch.path() + "/g.json", plan_path = scratch.path() + "/p.json";
  TinyGptGraph const gpt;
  Plan const plan(gpt.graph, {.tile = 64});
  save_graph(graph_path, gpt.graph);
  save_plan(plan_path, plan, gpt.graph);
  auto const graph = load_graph(graph_path, known_ops(AllOps{}));
  CHECK((*graph == gpt.graph));
  CHECK(graph_text(*graph) == graph_text(gpt.graph));
  Plan const loaded = load_plan(plan_path, *graph);
  CHECK(diff(loaded, plan) == "");
  CHECK(loaded == plan);
  CHECK(Plan(*graph, {.tile = 64}) == plan);
  CHECK(trained(loaded) == trained(plan));
}

TEST_CASE("an automatic plan, its priorities and uneven cuts come back",
          "[io][plan][single-threaded]") {
  TinyGptGraph const gpt;
  for (PlanOptions const& options :
       {PlanOptions{.machine = {.workers = 8}}, PlanOptions{.tile = 0},
        PlanOptions{.tile = 64, .by_phase = true},
        PlanOptions{.tile = 64, .cuts = {{"hidden", {64, 192}}, {"batch", {1}}}}}) {
    Plan const plan(gpt.graph, options);
    CHECK(diff(plan_of(plan_text(plan, gpt.graph), "p", gpt.graph), plan) == "");
  }
}

TEST_CASE("inputs that are adopted or double-buffered come back", "[io][plan]") {
  TinyGptGraph const gpt;
  Plan const plan(gpt.graph, {.tile = 64, .adopted = {"tokens"}, .double_buffered = {"labels"}});
  std::string const text = plan_text(plan, gpt.graph);
  CHECK(diff(plan_of(text, "p", gpt.graph), plan) == "");
  CHECK(plan_of(text, "p", gpt.graph) == plan);
  CHECK_FALSE(digest(plan) == digest(Plan(gpt.graph, {.tile = 64, .adopted = {"tokens"}})));
  CHECK(contains(message_of<FormatError>([&] {
                   (void)plan_of(replaced(text, "\"double_buffered\"", "\"arena\""), "p.json",
                                 gpt.graph);
                 }),
                 "storage 'arena' of 'labels' is neither adopted nor double_buffered"));
}

TEST_CASE("an adopted or double-buffered input that no op reads is none of the plan's",
          "[io][plan]") {
  LogicalGraph graph("g");
  gelutanh(graph.input({.shape = {4}}, "x")).mark_output();
  for (char const* const name : {"adopted", "doubled", "kept"})
    (void)graph.input({.shape = {4}}, name);
  Tiling const whole({AxisTiling::whole(4)});
  Plan const plan(graph, {.keep = {{"kept", whole, Storage::adopted}},
                          .adopted = {"adopted"},
                          .double_buffered = {"doubled"}});
  CHECK(diff(plan, Plan(graph)) == "");
  CHECK(plan_of(plan_text(plan, graph), "p", graph) == plan);
}

TEST_CASE("random graphs with views and ops in place come back", "[io][plan][single-threaded]") {
  std::size_t padded = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    RandomGraph random(seed);
    random.loss.mark_output();
    std::string const text = graph_text(random.graph);
    auto const graph = graph_of(text, "g", known_ops(AllOps{}));
    CHECK((*graph == random.graph));
    CHECK(graph_text(*graph) == text);
    PlanOptions const options = padded_at_times(random.graph, seed, {.tile = 2});
    padded += options.pad.size();
    Plan const plan(random.graph, options);
    CHECK(diff(plan_of(plan_text(plan, random.graph), "p", *graph), plan) == "");
  }
  CHECK(padded >= 7);
}

TEST_CASE("canonical groups come back, in whatever order they were listed", "[io][plan]") {
  LogicalGraph graph("g", {.groups = {{"seq", 2}, {"batch", 3}}});
  Node const x = graph.input({.shape = {2, 4, 6}, .axes = "embed seq batch"}, "x");
  sum_slice({.axis = 1}, sum_slice({.axis = 1}, x)).mark_output();
  auto const back = graph_of(graph_text(graph), "g", known_ops(AllOps{}));
  CHECK((*back == graph));
  Plan const plan(graph, {.tile = 2});
  CHECK(plan_of(plan_text(plan, graph), "p", *back) == plan);
}

TEST_CASE("open dimensions come back as names, and a plan with their numbers", "[io][plan]") {
  LogicalGraph open("open");
  Node const w = open.parameter({.shape = {128, 64}, .axes = "out in"}, "w");
  Node const x = open.input({.shape = {64, "seq", "batch"}}, "x");
  gelutanh(gemm(w, x).named("y")).mark_output();
  std::string const text = graph_text(open);
  auto const graph = graph_of(text, "g", known_ops(AllOps{}));
  CHECK((*graph == open));
  CHECK(graph_text(*graph) == text);
  Plan const plan(open, {.tile = 64, .dims = {{"seq", 100}, {"batch", 3}}});
  std::string const saved = plan_text(plan, open);
  CHECK(contains(saved, "\"dims\": {\"batch\":3,\"seq\":100}"));
  Plan const loaded = plan_of(saved, "p", *graph);
  CHECK(diff(loaded, plan) == "");
  CHECK(loaded == plan);
  auto const error = [&](std::string const& broken) {
    return message_of<FormatError>([&] { (void)plan_of(broken, "p.json", open); });
  };
  CHECK(contains(error(replaced(saved, "\"seq\":100", "\"seq\":101")),
                 "the tiles of 'x' are not those of its shape"));
  CHECK(contains(error(replaced(saved, "\"seq\":100", "\"sea\":100")),
                 "'p.json': plan 'open': no dimension 'sea' to bind to 100"));
  CHECK(contains(error(replaced(saved, "{\"batch\":3,\"seq\":100}", "{}")), "'seq' is open"));
}

TEST_CASE("a dimension in a file is a number or a name", "[io][plan]") {
  std::string const text = Layer().text();
  CHECK(contains(graph_error(replaced(text, "64", "\"a b\"")), "'a b' is no name"));
  CHECK(contains(graph_error(replaced(text, "64", "1.5")), "shape has a dimension of 1.5"));
  CHECK(contains(graph_error(replaced(text, "64", "\"seq\"")), "parameter 'w' has shape"));
}

TEST_CASE("attributes that no JSON number holds come back", "[io][plan]") {
  LogicalGraph graph;
  ops::fill({.value = -std::numeric_limits<double>::infinity()},
            graph.tensor({.shape = {4}}, "low"));
  randn({.seed = ~std::uint64_t{0}}, graph.tensor({.shape = {4}}, "noise"));
  std::string const text = graph_text(graph);
  CHECK(contains(text, "\"-inf\""));
  CHECK(contains(text, "18446744073709551615"));
  CHECK(graph_text(*graph_of(text, "g", known_ops(AllOps{}))) == text);
}

TEST_CASE("a saved graph that is no graph is refused in one line", "[io][plan]") {
  std::string const text = Layer().text();
  CHECK(
      graph_error(replaced(text, "\"version\": 1", "\"version\": 2")) ==
      "'g.json': nntile graph of version 2 where version 1 is read; load it with the library that "
      "wrote it, or save it anew with this one");
  CHECK(graph_error(replaced(text, "nntile graph", "nntile plan")) ==
        "'g.json': no nntile graph: its \"format\" is \"nntile plan\", not \"nntile graph\"");
  CHECK(contains(graph_error(replaced(text, "\"format\"", "\"shape\"")), "its \"format\" is null"));
  CHECK(contains(graph_error(replaced(text, "\"ndim\": 1", "\"ndim\": 4294967297")),
                 "attribute ndim of gemm is 4294967297, which it cannot hold"));
  CHECK(contains(graph_error(replaced(text, "\"ndim\": 1", "\"ndim\": \"1\"")),
                 "attribute ndim of gemm is \"1\""));
  CHECK(contains(graph_error(replaced(text, "\"ndim\": 1,", "")), "'ndim' is missing"));
  CHECK(contains(graph_error(replaced(text, "\"ndim\": 1", "\"ndim\": 1, \"mdim\": 1")),
                 "gemm has 9 attributes where 8 are known"));
  CHECK(graph_error(replaced(text, "\"output\": true", "\"outputs\": true")) ==
        "'g.json': a tensor has no 'outputs'; did you mean 'output'?");
  CHECK(contains(graph_error(replaced(text, "\"phase\"", "\"phrase\": 1, \"phase\"")),
                 "an op has no 'phrase'"));
  CHECK(contains(graph_error(replaced(text, "\"mode\"", "\"groupz\": {}, \"mode\"")),
                 "numerics has no 'groupz'"));
  CHECK(contains(graph_error(replaced(text, "\"phases\"", "\"phases apart\": true, \"phases\"")),
                 "a graph has no 'phases apart'"));
  LogicalGraph sliced("sliced");
  (void)sliced.slice(sliced.input({.shape = {2, 3}}, "x"), 0, 1, "row");
  CHECK(contains(graph_error(replaced(graph_text(sliced), "\"base\"", "\"indices\": 0, \"base\"")),
                 "a view has no 'indices'"));
  CHECK(contains(graph_error(replaced(text, "\"name\": \"x\"", "\"name\": \"w\"")),
                 "tensor 1, 'w', comes twice"));
  CHECK(contains(graph_error(replaced(text, "fp32", "fp33")), "dtype 'fp33' is unknown"));
  CHECK(contains(graph_error(text.substr(0, text.size() / 2)), "not JSON"));
  CHECK(contains(graph_error(replaced(text, "exact", "quick")), "numerics 'quick'"));
  for (std::string const& wrong : {replaced(text, "64", "65"), replaced(text, "\"w\",", "")})
    CHECK(graph_error(wrong).starts_with("'g.json': "));
  std::string const two_lines = replaced(text, "\"layer\"", "\"lay\\ner\"");
  CHECK(
      contains(graph_error(two_lines),
               "graph: its name, 6 bytes, holds the control character 10; no file could name it"));
}

TEST_CASE("a member of a saved graph or plan that should be a list and is none is refused",
          "[io][plan]") {
  Layer const layer;
  auto const as_five = [](std::string const& text, std::string const& key) {
    return replaced(text, concat('"', key, "\": "), concat('"', key, "\": 5, \"before\": "));
  };
  auto const refused = [](std::string const& file, std::string const& key) {
    return concat("'", file, "': '", key, "' is 5 where another type is needed");
  };
  for (char const* const key : {"ops", "tensors", "numerics", "attrs"})
    CHECK(graph_error(as_five(layer.text(), key)) == refused("g.json", key));
  CHECK(graph_error(replaced(layer.text(), "\"exact\"", "\"exact\", \"groups\": 5")) ==
        refused("g.json", "groups"));
  for (char const* const key : {"tasks", "buffers", "tensors", "slots", "memory"})
    CHECK(plan_error(as_five(layer.plan(), key)) == refused("p.json", key));
  for (char const* const key : {"moved", "copied", "dims", "hints"})
    CHECK(plan_error(replaced(layer.plan(), "\"digest\"", concat('"', key, "\": 5, \"digest\""))) ==
          refused("p.json", key));
}

TEST_CASE("an op that is unknown is named, with those that are close", "[io][plan]") {
  std::string const text = Layer().text();
  auto const error = [&](char const* op) {
    return graph_error(replaced(text, "\"op\": \"gemm\"", concat("\"op\": \"", op, '"')));
  };
  std::string const known =
      concat(", which is not among the ", known_ops(AllOps{}).size(), " known");
  CHECK(error("gemmm") ==
        concat("'g.json': op 0 is 'gemmm'", known, " here; did you mean 'gemm'?"));
  CHECK(error("my_own_op") ==
        concat("'g.json': op 0 is 'my_own_op'", known, " here; give its list to known_ops()"));
}

TEST_CASE("two ops of one name are not known together", "[io][plan]") {
  CHECK(message_of<ValueError>([] { known_ops(OpList<Gelutanh>{}, AllOps{}); }) ==
        "known_ops: two ops have the name 'gelutanh', by which files know them; give one of them "
        "another");
  CHECK(known_ops(AllOps{}, AllOps{}).size() == 2 * all_ops.size());
}

TEST_CASE("a plan of another graph is refused with the hashes of both", "[io][plan]") {
  Layer const layer;
  std::string const hash = to_hex(hash64(layer.text()));
  CHECK(contains(layer.plan(), concat("\"graph\": \"", hash, '"')));
  CHECK(plan_error(replaced(layer.plan(), concat("\"", hash), "\"0123456789abcdef")) ==
        concat("'p.json': the plan is one of another graph than 'layer': of one with hash "
               "'0123456789abcdef', not '",
               hash, "'; load it with the graph that it was made of, or plan anew"));
}

TEST_CASE("a saved plan that is not one of its graph is refused in one line", "[io][plan]") {
  std::string const text = Layer().plan();
  CHECK(plan_error(replaced(text, "\"version\": 1", "\"version\": 7")) ==
        "'p.json': nntile plan of version 7 where version 1 is read; load it with the library that "
        "wrote it, or save it anew with this one");
  CHECK(contains(plan_error(replaced(text, "\"digest\": \"", "\"digest\": \"0")),
                 "other arguments, uses or costs"));
  CHECK(
      contains(plan_error(replaced(text, "\"tiles\":[1", "\"tiles\":[9")), "is none of its node"));
  CHECK(contains(plan_error(replaced(text, "\"tiles\":[1", "\"tiles\":[0")), "comes twice"));
  CHECK(contains(plan_error(replaced(text, "\"node\":0", "\"node\":5")), "is none of its node"));
  CHECK(contains(plan_error(replaced(text, "\"nodes\": [0", "\"nodes\": [1")), "comes twice"));
  CHECK(contains(plan_error(replaced(text, "[[64,64]", "[[64,65]")), "the tiles of"));
  CHECK(contains(plan_error(replaced(text, "\"buffers\": [-1", "\"buffers\": [0")), "has slot 0"));
  CHECK(contains(plan_error(replaced(text, "\"buffers\": [-1", "\"buffers\": [-2")), "slot -2"));
  CHECK(contains(plan_error(replaced(text, "\"buffers\": [-1,", "\"buffers\": [")),
                 "listed as buffers"));
  CHECK(
      contains(plan_error(replaced(text, "{\"bytes\":2048}", "{\"bytes\":64}")), "bytes has slot"));
  CHECK(contains(plan_error(replaced(text, "\"phase\":0", "\"phase\":\"0\"")), "'phase' is"));
}

TEST_CASE("names in a saved graph or plan stay on the line of the error", "[io][plan]") {
  Layer const layer;
  CHECK(graph_error(
            replaced(layer.text(), "\"exact\"", "\"exact\", \"groups\": {\"a\\nERROR\": \"x\"}")) ==
        "'g.json': 'a\\x0aERROR' is \"x\" where another type is needed");
  CHECK(plan_error(
            replaced(layer.plan(), "\"name\":\"x\"", "\"name\":\"x\\nERROR\",\"storage\":\"q\"")) ==
        "'p.json': storage 'q' of 'x\\x0aERROR' is neither adopted nor double_buffered");
  CHECK(
      plan_error(replaced(layer.plan(), "\"digest\"", "\"dims\": {\"a\\nb\": 0.5}, \"digest\"")) ==
      "'p.json': 'a\\x0ab' is 0.5 where another type is needed");
}

TEST_CASE("a saved plan whose slots cannot be is refused", "[io][plan]") {
  std::string const text = Layer().plan();
  auto const with = [&](std::string const& slot) {  // behind the others, of no buffer
    return plan_error(std::string(text).insert(text.find(']', text.find("\"slots\"")), "," + slot));
  };
  CHECK(contains(with("{\"bytes\":-64}"), "a slot has -64 bytes"));
  CHECK(contains(with("{\"bytes\":9223372036854775807}"), "a slot has 9223372036854775807 bytes"));
  CHECK(contains(with("{\"bytes\":64,\"location\":{\"device\":3,\"place\":\"device\",\"rank\":0}}"),
                 "its report of memory lacks"));
}

TEST_CASE("a saved plan that lists memory twice, or of too many places, is refused", "[io][plan]") {
  std::string const text = Layer().plan();
  std::size_t const at = text.find("\"memory\": [") + 11;
  CHECK(contains(
      plan_error(std::string(text).insert(at, text.substr(at, text.find('}', at) + 1 - at) + ",")),
      "memory at rank 0 host is listed twice"));
  std::string many;
  for (int device = 0; device < 300; ++device)
    many += concat("{\"stored\":0,\"arena\":0,\"arena_lower_bound\":0,\"location\":{\"rank\":0,",
                   "\"place\":\"device\",\"device\":", device, "}},");
  CHECK(contains(plan_error(std::string(text).insert(at, many)), "memory of more than 255 places"));
}

TEST_CASE("a small plan of very many tiles is refused before they are made", "[io][plan]") {
  LogicalGraph graph("cube");
  Shape const cube{1000, 1000, 1000, 1000, 1000};
  gelutanh(graph.input({.shape = cube}, "x"), graph.tensor({.shape = cube}, "y")).mark_output();
  std::string const text = plan_text(Plan(graph, {.tile = 0}), graph);
  std::string ones = "[1", cut;
  for (int i = 1; i < 1000; ++i) ones += ",1";
  for (int d = 0; d < 5; ++d) cut += (d == 0 ? "[" : ",") + ones + "]";
  auto wrong = replaced(text, "[[1000],[1000],[1000],[1000],[1000]]", cut + "]");
  wrong = replaced(wrong, "[[1000],[1000],[1000],[1000],[1000]]", cut + "]");
  CHECK(contains(message_of<FormatError>([&] { (void)plan_of(wrong, "p.json", graph); }),
                 "have more than the 2 tiles that are listed"));
}

TEST_CASE("a product of more tasks than are listed is refused", "[io][plan]") {
  Layer const layer;
  std::string text = layer.plan();
  std::size_t const last = text.rfind(",\n{\"node\"");
  text.erase(last, text.rfind("\n]") - last);
  CHECK(contains(message_of<FormatError>([&] { (void)plan_of(text, "p.json", layer.graph); }),
                 "tasks that are listed"));
}

TEST_CASE("a file that would not be read is not written", "[io][plan]") {
  CHECK_NOTHROW(io::detail::check_graph_file("p", largest_graph_file));
  CHECK(message_of<ValueError>([] { io::detail::check_graph_file("p", largest_graph_file + 1); }) ==
        "'p' would have 1073741825 bytes where at most 1073741824 are read; plan with larger "
        "tiles, or plan anew in place of loading");
}

TEST_CASE("a file with a changed byte is refused, or says the same",
          "[io][plan][single-threaded]") {
  Layer const layer;
  std::string const plan_file = layer.plan(), graph_file = layer.text();
  Plan const plan = plan_of(plan_file, "p", layer.graph);
  std::uint64_t state = 7;
  auto const below = [&](std::size_t limit) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>(state >> 33) % limit;
  };
  for (int i = 0; i < 2000; ++i) {
    std::string text = plan_file;
    text[below(text.size())] = "0123456789[]{}:,\"-e. "[below(21)];
    INFO(text);
    try {
      bool const same = plan_of(text, "p", layer.graph) == plan;
      CHECK(same);
    } catch (FormatError const& error) {
      CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
    }
    text = graph_file;
    text[below(text.size())] = "0123456789[]{}:,\"-e. "[below(21)];
    try {  // another graph, or none
      (void)graph_of(text, "g", known_ops(AllOps{}));
    } catch (FormatError const&) {
    }
  }
}

TEST_CASE("a plan is saved with its own graph alone", "[io][plan]") {
  TinyGptGraph const gpt;
  Layer const layer;
  CHECK_THROWS_AS(plan_text(Plan(layer.graph), gpt.graph), PlanError);
  CHECK_THROWS_AS(plan_text(Plan(gpt.graph), layer.graph), PlanError);
}

TEST_CASE("a plan for several places comes back, copies and evictions included",
          "[io][plan][single-threaded]") {
  TinyGptGraph const of;
  std::vector<PlaceRule> const on_device{{.place = device(0)}};
  std::vector<PlaceRule> const two{{.tensors = "*h.0.*", .place = device(1)},
                                   {.role = Role::state, .place = disk},
                                   {.place = device(0)}};
  for (auto const& place : {on_device, two})
    for (bool const by_phase : {false, true})
      for (double const share : {1.0, 0.4}) {
        PlanOptions options{.tile = 64, .by_phase = by_phase, .place = place};
        MemoryReport const memory = Plan(of.graph, options).memory({0, device(0)});
        options.capacity = {
            {device(0),
             memory.stored + static_cast<Index>(share * static_cast<double>(memory.arena))}};
        Plan const plan(of.graph, options);
        std::string const text = plan_text(plan, of.graph);
        Plan const back = plan_of(text, "p.json", of.graph);
        CHECK(digest(back) == digest(plan));
        CHECK(dump(back, back.tasks().size()) == dump(plan, plan.tasks().size()));
        CHECK(back.data().buffers == plan.data().buffers);
        CHECK(plan_text(back, of.graph) == text);
      }
}

TEST_CASE("copies between places come back with the hints of a policy", "[io][plan]") {
  LogicalGraph graph("g");
  gelutanh(gelutanh(graph.input({.shape = {4}}, "x")).named("y")).mark_output();
  Plan const plan(graph, {.policy = {.placement = Placement::owner_computes,
                                     .workers = {1},
                                     .priority = 3,
                                     .offload = true},
                          .place = {{.tensors = "y", .place = device(0)}}});
  REQUIRE(place_traffic(plan).size() == 2);
  CHECK(plan_of(plan_text(plan, graph), "p", graph) == plan);
}

TEST_CASE("what a file says of copies is checked", "[io][plan]") {
  LogicalGraph graph("g");
  Node const x = graph.input({.shape = {8}}, "x");
  scale(x).named("y").mark_output();
  std::string const saved =
      plan_text(Plan(graph, {.tile = 4, .place = {{.tensors = "x"}, {.place = device(1)}}}), graph);
  auto const error = [&](std::string_view from, std::string_view to) {
    std::string const text = replaced(saved, from, to);
    return message_of<Error>([&] { (void)plan_of(text, "p.json", graph); });
  };
  CHECK(error("{", "{") == "(nothing was thrown)");
  CHECK(contains(error("\"copied\": [\"fp32\"]", "\"copied\": [\"fp31\"]"), "is unknown"));
  CHECK(contains(error("\"device\":1", "\"device\":-1"), "a place on rank 0 and device -1"));
  std::string const y = ",\"place\":\"device\",\"rank\":0},\"name\":\"y\"";
  CHECK(contains(error("\"device\":1" + y, "\"device\":7" + y),
                 "tile 0 of 'y' is stored at device 1, and the tensor lives at device 7"));
  CHECK(contains(error("\"copy\":[0,4]", "\"copy\":[0,9]"), "buffer 9 of 6"));
  CHECK(contains(error("\"copy\":[0,4]", "\"copy\":[0]"), "a copy has 1 buffers"));
  CHECK(contains(error("\"copy\":[0,4]", "\"copy\":[1,4]"), "copies something else"));
  CHECK(contains(error("\"copy\":[0,4],\"node\":0", "\"copy\":[0,4],\"node\":7"), "node 7"));
  CHECK(contains(error("\"copy\":[0,1]", "\"copy\":[0,2]"), "is a copy of no tile"));
  CHECK(contains(error("\"uses\":[4,2]", "\"uses\":[5,2]"), "where a task uses tile 0 of 'x'"));
  CHECK(contains(error("\"uses\":[4,2]", "\"uses\":[4]"), "a task has 1 buffers"));
  INFO(saved);
  CHECK(message_of<Error>([&] {
          (void)plan_of(replaced(saved, "\"uses\":[4,2]", "\"uses\":[0,2]"), "p.json", graph);
        }) != "(nothing was thrown)");
}
