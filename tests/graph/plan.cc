// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/graph/plan.hh"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "nntile/graph/compile.hh"
#include "nntile/graph/dump.hh"
#include "nntile/ops/add.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/ops/layer_norm.hh"
#include "nntile/ops/scale.hh"
#include "nntile/ops/sum_slice.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// Whether the task's last result may be written over its other operands in that slot: the op
/// says so, and they are of one size.
bool may_replace(Plan const& plan, LogicalGraph const& graph, PlannedTask const& task,
                 Use<BufferId> const& result, std::uint32_t slot) {
  auto const uses = plan.uses(task);
  if (&result != &uses.back()) return false;
  OpNode const& op = graph.op_at(task.node);
  for (std::size_t o = 0; o + 1 < uses.size(); ++o) {
    PlannedBuffer const& other = plan.buffers()[uses[o].handle];
    if (other.slot != slot) continue;
    if ((op.info->replaces(op.attrs.data()) >> o & 1u) == 0) return false;
    if (other.bytes != plan.buffers()[result.handle].bytes) return false;
  }
  return true;
}

/// Proves, from the tasks alone, that no two tiles are in a slot at once, but where one replaces
/// the other, and that each begins by being overwritten. Returns the largest number of bytes in
/// use at a task.
Index verify_slots(Plan const& plan, LogicalGraph const& graph) {
  std::map<std::uint32_t, std::uint32_t> holds;  // slot -> buffer
  std::set<std::uint32_t> left;                  // buffers that gave up their slot
  std::map<std::uint32_t, std::pair<std::size_t, std::size_t>> life;
  std::set<std::pair<std::uint32_t, std::size_t>> replaced;  // what takes over memory, and when
  for (std::size_t t = 0; t < plan.tasks().size(); ++t)
    for (Use<BufferId> const& use : plan.uses(plan.tasks()[t])) {
      PlannedBuffer const& buffer = plan.buffers()[use.handle];
      if (buffer.slot == no_id) continue;
      REQUIRE(buffer.bytes <= plan.slots()[buffer.slot].bytes);
      auto const at = holds.find(buffer.slot);
      if (at == holds.end() || at->second != use.handle) {
        REQUIRE(use.access == Access::write);
        REQUIRE(left.count(use.handle) == 0);
        if (at != holds.end()) {
          left.insert(at->second);
          if (life[at->second].second == t) {
            REQUIRE(may_replace(plan, graph, plan.tasks()[t], use, buffer.slot));
            replaced.insert({use.handle, t});
          }
        }
        holds[buffer.slot] = use.handle;
        life[use.handle].first = t;
      }
      life[use.handle].second = t;
    }
  Index most = 0;
  for (std::size_t t = 0; t < plan.tasks().size(); ++t) {
    Index live = 0;
    for (auto const& [buffer, span] : life)
      if (span.first <= t && t <= span.second && replaced.count({buffer, t}) == 0)
        live += plan.buffers()[buffer].bytes;
    most = std::max(most, live);
  }
  return most;
}

}  // namespace

TEST_CASE("a slot holds one tile at a time, and the lower bound is the most that lives",
          "[graph][plan]") {
  TinyGptGraph const gpt;
  Index const tile = GENERATE(Index{0}, Index{64});
  Plan const plan(gpt.graph, {.tile = tile});
  CHECK(verify_slots(plan, gpt.graph) == plan.memory().arena_lower_bound);
  CHECK(plan.memory().arena >= plan.memory().arena_lower_bound);
  if (tile > 0)  // whole tensors of many sizes leave more between them
    CHECK(plan.memory().arena <= plan.memory().arena_lower_bound * 11 / 10);
}

TEST_CASE("a result takes the memory of an operand that nothing else needs", "[graph][plan]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {1000}}, "x");
  Node const y = gelutanh(x);
  gelutanh(gelutanh(y)).mark_output();
  CHECK(Plan(graph).memory().arena == 4032);  // one slot of 4,000 bytes in whole cache lines
  gelutanh(y, graph.tensor({.shape = {1000}}, "z")).mark_output();
  CHECK(Plan(graph).memory().arena == 2 * 4032);
}

TEST_CASE("a large result waits until something reads it", "[graph][plan]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {8, 1}}, "x");
  Node const large = gemm({.trans_b = true}, gelutanh(x), gelutanh(x));  // [8, 8]
  Node const other = gelutanh(gelutanh(gelutanh(x)));
  gemm(large, other).mark_output();
  Plan const plan(graph);
  auto const kernel_of = [&](std::size_t task) {
    return std::string_view(plan.kernels()[plan.tasks()[task].kernel].name);
  };
  REQUIRE(plan.tasks().size() == 7);
  CHECK(kernel_of(5) == "gemm");
  CHECK(kernel_of(4) == "gelutanh");
}

TEST_CASE("an axis is cut alike in every tensor that has it", "[graph][plan]") {
  LogicalGraph graph;
  Node const w = graph.parameter({.shape = {300, 100}, .axes = "out in"}, "w");
  Node const x = graph.input({.shape = {100, 50}, .axes = "in batch"}, "x");
  Node const y = gemm(w, x).mark_output();
  Plan const plan(graph, {.tile = 128, .cuts = {{"in", {64, 36}}}});
  CHECK(plan.tensors()[w.id()].tiling.grid() == Shape{3, 2});
  CHECK(plan.tensors()[x.id()].tiling.axis(0).size(0) == 64);
  CHECK(plan.tensors()[y.id()].tiling.grid() == Shape{3, 1});
}

TEST_CASE("cut sizes repeat until the axis is covered", "[graph][plan]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {256 + 64 + 100}, .axes = "n"}, "x");
  gelutanh(x).mark_output();
  Plan const plan(graph, {.cuts = {{"n", {64, 192}}}});
  auto const& axis = plan.tensors()[x.id()].tiling.axis(0);
  CHECK(axis == AxisTiling::sizes(std::vector<Index>{64, 192, 64, 100}));
}

TEST_CASE("axes that lie inside each other in two products are cut", "[graph][plan]") {
  LogicalGraph graph;
  Node const s = graph.input({.shape = {4, 6}}, "s"), t = graph.input({.shape = {6, 4}}, "t");
  gemm(s, t).mark_output();  // their dimensions are two classes, p and q
  gemm(t, s).mark_output();
  gemm({.ndim = 2}, s, graph.input({.shape = {4, 6, 3}}, "v")).mark_output();  // p inside q
  gemm({.ndim = 2}, t, graph.input({.shape = {6, 4, 3}}, "w")).mark_output();  // q inside p
  CHECK(Plan(graph, {.tile = 2}).tensors()[s.id()].tiling.tile_count() > 1);
}

TEST_CASE("axes that lie inside one another in many ways are cut soon", "[graph][plan]") {
  constexpr int count = 64;  // 10^13 ways from the last one in
  LogicalGraph graph;
  std::vector<Node> axes;
  for (int i = 0; i < count; ++i) axes.push_back(graph.input({.shape = {2}}, concat("a", i)));
  for (int i = 1; i < count; ++i)
    for (int inner = std::max(i - 2, 0); inner < i; ++inner) {
      Node const side = graph.input({.shape = {2, 2}}, concat("s", i, ".", inner));
      auto const at = [&](int axis) { return axes[static_cast<std::size_t>(axis)]; };
      gemm(at(inner), side).mark_output();
      gemm(side, at(i)).mark_output();
      gemm({.ndim = 2}, side, side).mark_output();
    }
  Plan const plan(graph, {.tile = 4});
  for (int i = 0; i < count; ++i)
    CHECK(plan.tensors()[axes[static_cast<std::size_t>(i)].id()].tiling.axis(0).size(0) ==
          (i < 2 ? 2 : 1));
}

TEST_CASE("an unknown axis is refused with those there are", "[graph][plan]") {
  LogicalGraph graph("g");
  gelutanh(graph.input({.shape = {8, 8}, .axes = "embed batch"}, "x")).mark_output();
  CHECK(message_of<PlanError>([&] { Plan(graph, {.cuts = {{"sequence", {4}}}}); }) ==
        "tile: the graph 'g' has no axis 'sequence'; it has embed, batch");
  LogicalGraph nameless("n");
  gelutanh(nameless.input({.shape = {8}}, "x")).mark_output();
  CHECK(message_of<PlanError>([&] { Plan(nameless, {.cuts = {{"sequence", {4}}}}); }) ==
        "tile: the graph 'n' has no axis 'sequence'; it names none, as by TensorSpec::axes");
}

TEST_CASE("an axis that is cut twice is refused", "[graph][plan]") {
  LogicalGraph graph("g");
  gelutanh(graph.input({.shape = {8, 8}, .axes = "embed batch"}, "x")).mark_output();
  std::vector<AxisCut> const cuts{{"embed", {4}}, {"batch", {2}}, {"embed", {2}}};
  CHECK(message_of<PlanError>([&] { Plan(graph, {.cuts = cuts}); }) ==
        "tile: PlanOptions::cuts has axis 'embed' twice; list it once, with all its sizes");
}

TEST_CASE("sizes that cut an axis into more tiles than have numbers are refused", "[graph][plan]") {
  LogicalGraph graph("g");
  gelutanh(graph.input({.shape = {Index{1} << 40}, .axes = "embed"}, "x")).mark_output();
  CHECK(message_of<PlanError>([&] { Plan(graph, {.cuts = {{"embed", {1, 3}}}}); }) ==
        "tile: the sizes for axis 'embed' cut its 1099511627776 elements into more than 4294967294 "
        "tiles; use larger ones");
  Plan const plan(graph, {.cuts = {{"embed", {Index{1} << 39, INT64_MAX, INT64_MAX}}}});
  CHECK(plan.tasks().size() == 2);
}

TEST_CASE("a tile that cuts an axis into more tiles than have numbers is refused",
          "[graph][plan]") {
  LogicalGraph graph("g");
  gelutanh(graph.input({.shape = {Index{1} << 42}}, "x")).mark_output();
  std::string const rest =
      " tiles where 4294967294 are possible: tiles of 1025 elements or more would do";
  CHECK(message_of<PlanError>([&] { Plan(graph, {.tile = 64}); }) ==
        "plan 'g': tiling: 4398046511104 elements in tiles of 64 make 68719476736" + rest);
  CHECK_THROWS_AS(Plan(graph), PlanError);  // the tile that was to be chosen
}

TEST_CASE("more tiles than have numbers are refused with the tensor that has them",
          "[graph][plan]") {
  LogicalGraph graph("g");
  Index const side = Index{1} << 26;
  gelutanh(graph.input({.shape = {side, side}, .axes = "embed batch"}, "x")).mark_output();
  std::string const text =
      "plan 'g': with the 17592186044416 of 'x' it has more than 4294967294 "
      "tiles; use larger ones: PlanOptions::tile, or cuts";
  for (bool const even : {false, true})
    CHECK(message_of<PlanError>([&] { Plan(graph, {.tile = 16, .even = even}); }) == text);
  CHECK_THROWS_AS(Plan(graph), PlanError);  // the tile that was to be chosen
  CHECK(Plan(graph, {.tile = INT64_MAX, .even = true}).tasks().size() == 1);
}

TEST_CASE("flops of a plan that 63 bits do not hold are the most that they do", "[graph][plan]") {
  LogicalGraph graph;
  Index const side = Index{1} << 20;
  Node const w = graph.parameter({.shape = {side, side}, .dtype = DType::bf16}, "w");
  Node x = gemm(w, w);
  for (int i = 1; i < 5; ++i) x = gemm(w, x);  // 2^61 each
  x.mark_output();
  for (Index const tile : {Index{0}, side / 4}) {
    Plan const plan(graph, {.tile = tile, .check = true});
    CHECK(plan.flops() == INT64_MAX);
    CHECK(contains(dump(plan, 0), concat(" tasks, ", INT64_MAX, " flops\n")));
  }
}

TEST_CASE("a plan of more bytes than have a number is refused", "[graph][plan]") {
  // `x` and the result are stored, and as many tensors as that live at once.
  auto const refusal = [](Index bytes, int live, std::vector<std::string> const& twice) {
    LogicalGraph graph("g");
    std::vector<Node> nodes{graph.input({.shape = {bytes / 4}}, "x")};
    for (int i = 0; i < live; ++i) nodes.push_back(gelutanh(nodes.back()));
    Node sum = nodes.back();
    for (auto i = nodes.size() - 1; i-- > 1;) sum = add(nodes[i], sum);
    sum.named("y").mark_output();
    return message_of<PlanError>([&] {
      Plan const plan(graph, {.tile = 0, .double_buffered = twice, .check = true});
      CHECK(plan.memory().arena == live * bytes);
      CHECK(plan.memory().total() == (2 + live) * bytes);
    });
  };
  std::string const more =
      ": more than 2^63 - 1 bytes at rank 0 host; make the model smaller, or share it out over "
      "more ranks";
  Index const bytes = Index{1} << 60;
  CHECK(refusal(4 * bytes, 2, {"x"}) == "with tensor 'x'" + more);
  CHECK(refusal(4 * bytes, 2, {}) == "with tensor 'y'" + more);
  CHECK(refusal(2 * bytes, 5, {}) == "plan 'g'" + more);  // in the arena alone
  CHECK(refusal(2 * bytes, 3, {}) == "plan 'g'" + more);  // with what is stored
  CHECK(refusal(bytes, 3, {}) == "(nothing was thrown)");
}

TEST_CASE("a cut at no multiple of 64 is named as one with bits of its own", "[graph][plan]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {128, 4}, .axes = "embed batch"}, "x");
  sum_slice({.axis = 0}, x).mark_output();
  CHECK(Plan(graph, {.cuts = {{"embed", {64}}}}).canonical());
  Plan const own(graph, {.cuts = {{"embed", {48}}}});
  CHECK_FALSE(own.canonical());
  CHECK(contains(own.uncanonical(), "no multiple of 64"));
}

TEST_CASE("what leads to no output is not planned", "[graph][plan]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {8}}, "x");
  gelutanh(gelutanh(x));
  gelutanh(x).mark_output();
  CHECK(Plan(graph).tasks().size() == 1);
}

TEST_CASE("a graph without outputs is refused", "[graph][plan]") {
  LogicalGraph graph("g");
  gelutanh(graph.input({.shape = {8}}, "x"));
  CHECK(contains(message_of<PlanError>([&] { Plan{graph}; }), "mark_output()"));
  LogicalGraph empty("e");
  empty.input({.shape = {8}}, "x").mark_output();
  CHECK(message_of<PlanError>([&] { Plan{empty}; }) ==
        "plan 'e': it has no ops; add one, such as scale(x)");
}

TEST_CASE("reading a tensor that nothing wrote is refused", "[graph][plan]") {
  LogicalGraph graph("g");
  gelutanh(graph.tensor({.shape = {8}}, "t")).mark_output();
  CHECK(contains(message_of<PlanError>([&] { Plan{graph}; }), "'t', which nothing has written"));
}

TEST_CASE("a plan keeps the cuts of tensors that exist", "[graph][plan]") {
  LogicalGraph graph;
  Node const w = graph.parameter({.shape = {64, 64}}, "w");
  gemm(w, graph.input({.shape = {64, 8}}, "x")).mark_output();
  Plan const plan(graph, {.tile = 16, .keep = {{"w", Tiling({64, 64}, {32, 64})}}});
  CHECK(plan.tensors()[w.id()].tiling.grid() == Shape{2, 1});
}

TEST_CASE("cuts of tensors that exist which a graph cannot keep are refused by their tensors",
          "[graph][plan]") {
  LogicalGraph graph("g");
  Node const w = graph.parameter({.shape = {64, 64}, .axes = "out in"}, "w");
  gemm(w, graph.parameter({.shape = {64, 8}}, "v")).mark_output();
  Tiling const whole({64, 64}, {64, 64});
  CHECK(message_of<PlanError>(
            [&] { Plan(graph, {.keep = {{"w", whole}, {"v", Tiling({64, 8}, {32, 8})}}}); }) ==
        "tile: 'v' exists and is cut into 2 tiles along dimension 0, but 'w', which must agree "
        "in graph 'g', into 1; plan that graph first");
  scale(graph.slice(w, 1, 0)).mark_output();
  CHECK(message_of<PlanError>([&] { Plan(graph, {.keep = {{"w", whole}}}); }) ==
        "tile: 'w' exists and has 1 tiles along axis 'in', which must be single indices in graph "
        "'g'; plan that graph first, and the others of its store take over its cuts");
}

TEST_CASE("optimizer steps follow the last use of their gradients", "[graph][plan]") {
  TinyGptGraph const gpt({.clip = 0});
  Plan const plan(gpt.graph);
  std::size_t first_update = plan.tasks().size(), last_backward = 0;
  for (std::size_t t = 0; t < plan.tasks().size(); ++t) {
    std::string_view const op = plan.kernels()[plan.tasks()[t].kernel].name;
    if (op == "adamw_step") first_update = std::min(first_update, t);
    if (op == "attention_backward") last_backward = t;
  }
  CHECK(first_update < last_backward);
}

TEST_CASE("a gradient's tile is used up before the next one is computed", "[graph][plan]") {
  TinyGptGraph const gpt({.clip = 0});
  Plan const plan(gpt.graph, {.tile = 32});
  std::map<std::uint32_t, std::size_t> written;  // tile of the positions' gradient -> last task
  std::size_t live = 0, most = 0;
  for (std::size_t t = 0; t < plan.tasks().size(); ++t)
    for (Use<BufferId> const& use : plan.uses(plan.tasks()[t])) {
      PlannedBuffer const& buffer = plan.buffers()[use.handle];
      if (plan.tensors()[buffer.tensor].name != "wpe.weight.grad") continue;
      live += written.emplace(buffer.tile, t).second ? 1 : 0;
      most = std::max(most, live);
      std::string_view const op = plan.kernels()[plan.tasks()[t].kernel].name;
      live -= op == "adamw_step" ? 1 : 0;
    }
  CHECK(written.size() > 2);
  CHECK(most == 1);
}

TEST_CASE("a dump says what was planned and is the same each time", "[graph][plan]") {
  TinyGptGraph const gpt;
  auto const text = dump(Plan(gpt.graph, {.tile = 64}), 5);
  CHECK(text == dump(Plan(gpt.graph, {.tile = 64}), 5));
  CHECK(contains(text, "plan 'tiny'"));
  CHECK(contains(text, "bits: canonical"));
  CHECK(contains(text, "kernel attention_backward fp32"));
}

TEST_CASE("equal plans are equal, and a diff says in lines what is not", "[graph][plan]") {
  auto const plan = [](Index tile, char const* name) {
    LogicalGraph graph("g");
    gelutanh(graph.input({.shape = {256}}, "x"), graph.tensor({.shape = {256}}, name))
        .mark_output();
    return Plan(graph, {.tile = tile});
  };
  CHECK(plan(128, "y") == plan(128, "y"));
  CHECK(diff(plan(128, "y"), plan(128, "y")) == "");
  auto const text = diff(plan(128, "y"), plan(64, "y"));
  CHECK(contains(text, "- tensor x fp32 {256} in {2} tiles, stored\n"));
  CHECK(contains(text, "+ task 3 gelutanh read x[3] write y[3]\n"));
  CHECK(contains(diff(plan(64, "y"), plan(64, "z")),
                 "- task 0 gelutanh read x[0] write y[0]\n"
                 "+ task 0 gelutanh read x[0] write z[0]\n"));
  PlanData data = plan(64, "y").data();
  data.tasks[0].priority = 1;
  CHECK(contains(diff(plan(64, "y"), Plan(data)), "they differ in priorities"));
}

TEST_CASE("the plan of a layer and its gradients is the golden one", "[graph][plan]") {
  char const* const root = std::getenv("NNTILE_SOURCE_ROOT");
  if (root == nullptr) return skip("NNTILE_SOURCE_ROOT is not set: run this test through Meson");
  LogicalGraph graph("layer");
  Node const w = graph.parameter({.shape = {128, 96}, .axes = "out in"}, "w");
  Node const x = graph.input({.shape = {96, 64}, .axes = "in batch"}, "x");
  Node const y =
      sum_slice({.axis = 0, .ascending = true}, sum_slice({.axis = 0}, gelutanh(gemm(w, x))));
  y.mark_output();
  add_gradients(graph, y).find(w).mark_output();
  std::stringstream golden;
  golden << std::ifstream(concat(root, "/tests/golden/layer.plan")).rdbuf();
  CHECK(dump(Plan(graph, {.tile = 64}), 1000) == golden.str());
}

TEST_CASE("no cut or groups are of dimensions without a name", "[graph][plan]") {
  TensorSpec const spec{.shape = {4, 6}, .axes = "a "};
  LogicalGraph graph("half"), grouped("grouped", {Mode::exact, {{"", 2}}});
  gelutanh(graph.input(spec, "x")).mark_output();
  CHECK(message_of<PlanError>([&] { Plan(graph, {.cuts = {{"", {2}}}}); }) ==
        "tile: the graph 'half' has no axis ''; it has a");
  gelutanh(grouped.input(spec, "x")).mark_output();
  CHECK(contains(message_of<PlanError>([&] { Plan{grouped}; }), "has no axis ''; it has a"));
}
