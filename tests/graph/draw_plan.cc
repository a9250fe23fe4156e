// SPDX-License-Identifier: BSD-3-Clause
// Pictures of plans, read back: every task, transfer and dependence, and memory as the plan has it.
#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "nntile/core/utf8.hh"
#include "nntile/graph/draw_page.hh"
#include "nntile/graph/parts.hh"
#include "nntile/graph/simulate.hh"
#include "nntile/ops.hh"
#include "tests/graph/drawing_parsers.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// s += sum_b gelutanh(w x)[., b] on two ranks, which send each other parts of w and sums.
struct TwoRanks {
  LogicalGraph graph{"job", {.groups = {{"batch", 4}}}};
  TwoRanks() {
    Node const w = graph.parameter({.shape = {6, 4}, .axes = "out in"}, "w");
    Node const x = graph.input({.shape = {4, 8}, .axes = "in batch"}, "x");
    Node const s = graph.state({.shape = {6}, .axes = "out"}, "s");
    sum_slice({.axis = 1, .beta = 1}, gelutanh(gemm(w, x)), s);
    s.mark_output();
  }
  Plan part(int rank) const {
    return Plan(graph,
                {.tile = 4,
                 .mesh = {{"data", 2}},
                 .rules = {{.axis = "batch", .mesh = "data"},
                           {.role = Role::parameter, .mesh = "data"},
                           {.role = Role::state, .mesh = "data"}},
                 .check = true},
                rank);
  }
};

/// Layers on a device, whose input comes from the host.
Plan placed() {
  LogicalGraph graph("placed");
  Node const x = graph.input({.shape = {4, 6}}, "x");
  Node const w = graph.parameter({.shape = {8, 4}}, "w");
  gelutanh(gemm(w, x).named("h")).named("y").mark_output();
  return Plan(graph, {.tile = 3, .place = {{.role = Role::input}, {.place = device(0)}}});
}

/// A step of more tasks than a picture shows unasked.
Plan step() {
  return Plan(
      TinyGptGraph().graph,
      {.tile = 64, .place = {{.role = Role::state}, {.role = Role::input}, {.place = device(0)}}});
}

using Pairs = std::set<std::pair<std::uint32_t, std::uint32_t>>;

std::uint32_t number(std::string const& node) {
  return static_cast<std::uint32_t>(std::strtoul(node.c_str() + 1, nullptr, 10));
}
Pairs edges(DotGraph const& graph) {
  Pairs pairs;
  for (auto const& edge : graph.edges) pairs.emplace(number(edge.from), number(edge.to));
  CHECK(pairs.size() == graph.edges.size());
  return pairs;
}
/// Each task with those that the simulator has wait for it.
Pairs dependences(Plan const& plan) {
  Pairs pairs;
  TaskOrder const order = order_of(plan);
  for (std::uint32_t t = 0; t < plan.tasks().size(); ++t)
    for (std::uint32_t const follower : order.followers[t]) pairs.emplace(t, follower);
  return pairs;
}
/// Whether a task reads a tile of which another is the last writer before it.
bool flows(Plan const& plan, std::uint32_t from, std::uint32_t to) {
  for (Use<BufferId> const& use : plan.uses(plan.tasks()[to])) {
    if (!reads(use.access)) continue;
    std::uint32_t writer = no_id;
    for (std::uint32_t t = 0; t < to; ++t)
      for (Use<BufferId> const& earlier : plan.uses(plan.tasks()[t]))
        if (earlier.handle == use.handle && writes(earlier.access)) writer = t;
    if (writer == from) return true;
  }
  return false;
}

/// What a transfer's label must say, by hand.
std::string moved(Plan const& plan, PlannedTask const& task) {
  auto const uses = plan.uses(task);
  PlannedBuffer const& buffer = plan.buffers()[uses[0].handle];
  PlannedKernel const& kernel = plan.kernels()[task.kernel];
  TransferArgs args;
  std::string way;
  if (kernel.kind == KernelKind::copy) {
    way = concat(to_string(buffer.location.place), " to ",
                 to_string(plan.buffers()[uses[1].handle].location.place));
  } else {
    std::memcpy(&args, plan.args(task).data(), sizeof args);
    way = concat(kernel.kind == KernelKind::send ? "to rank " : "from rank ", args.peer);
  }
  Shape const tile = plan.tensors()[buffer.tensor].tiling.box(buffer.tile).extent;
  return concat(
      kernel.name, " ", plan.tensors()[buffer.tensor].name, "[", buffer.tile, "]\n", way, "\n",
      element_count(tile) * static_cast<Index>(size_of(plan.tensors()[buffer.tensor].dtype)),
      " bytes");
}

/// CHECKs that a drawing has the whole plan.
void check_whole(Plan const& plan) {
  DotGraph const graph = read_dot(to_dot(plan));
  CHECK(graph.name == plan.name());
  REQUIRE(graph.nodes.size() == plan.tasks().size());
  CHECK(edges(graph) == dependences(plan));
  for (auto const& edge : graph.edges) {
    INFO(edge.from << " " << edge.to);
    CHECK(edge.attributes.contains("style") != flows(plan, number(edge.from), number(edge.to)));
  }
  for (std::uint32_t t = 0; t < plan.tasks().size(); ++t) {
    PlannedTask const& task = plan.tasks()[t];
    Attributes const& node = graph.nodes.at(concat("t", t));
    if (plan.kernels()[task.kernel].kind != KernelKind::op) {
      CHECK(node.at("label") == moved(plan, task));
      CHECK(node.at("shape") == "box");
    } else {
      CHECK(node.at("label") == concat(plan.kernels()[task.kernel].name, "\n",
                                       plan.tensors()[task.tensor].name, "[", task.tile, "]"));
      CHECK(node.at("shape") == "ellipse");
    }
    CHECK(node.at("tooltip") + '\n' == detail::task_text(plan, t));
  }
}

std::size_t count(std::vector<PageElement> const& page, std::string_view name,
                  char const* attribute = nullptr) {
  return static_cast<std::size_t>(
      std::count_if(page.begin(), page.end(), [&](PageElement const& element) {
        return element.name == name &&
               (attribute == nullptr || element.attributes.contains(attribute));
      }));
}

/// CHECKs that what a page draws lies within its pictures.
void check_bounds(std::vector<PageElement> const& page) {
  long width = 0, height = 0;
  auto const inside = [&](std::string const& list, bool pairs) {
    char const* at = list.c_str();
    for (bool across = true; *at != 0;) {
      char* end = nullptr;
      long const value = std::strtol(at, &end, 10);
      if (end == at) {
        REQUIRE(std::string_view("MC ,").find(*at) != std::string_view::npos);
        ++at;
        continue;
      }
      CHECK(value >= 0);
      CHECK(value <= (across ? width : height));
      if (pairs) across = !across;
      at = end;
    }
  };
  for (PageElement const& element : page) {
    auto const length = [&](char const* key) {
      return std::strtol(element.attributes.at(key).c_str(), nullptr, 10);
    };
    if (element.name == "svg") width = length("width"), height = length("height");
    if (element.name == "path") inside(element.attributes.at("d"), true);
    if (element.name == "polyline") inside(element.attributes.at("points"), true);
    if (element.name != "rect") continue;
    CHECK(length("x") >= 0);
    CHECK(length("x") + length("width") <= width);
    CHECK(length("y") + length("height") <= height);
  }
}

}  // namespace

TEST_CASE("a drawing of a rank's part has its tasks, transfers and dependences",
          "[graph][draw_plan]") {
  TwoRanks const job;
  for (int const rank : {0, 1}) {
    Plan const part = job.part(rank);
    CHECK(traffic(part).size() == 1);
    check_whole(part);
  }
  std::string const text = to_dot(job.part(1));
  CHECK(contains(text, "label=\"send w[1]\\nto rank 0\\n32 bytes\""));
  CHECK(contains(text, "fillcolor=\"#f9c9c4\", label=\"send"));
  CHECK(contains(text, "fillcolor=\"#d3f2d0\", label=\"receive w[0]\\nfrom rank 0\\n64 bytes\""));
}

TEST_CASE("a drawing of a plan with places has copies, and a frame for a device",
          "[graph][draw_plan]") {
  Plan const plan = placed();
  check_whole(plan);
  DotGraph const graph = read_dot(to_dot(plan));
  REQUIRE(graph.frames.size() == 1);
  std::size_t ops = 0;
  for (PlannedTask const& task : plan.tasks())
    ops += plan.kernels()[task.kernel].kind == KernelKind::op ? 1 : 0;
  CHECK(graph.frames.at("device 0").size() == ops);
  CHECK(contains(to_dot(plan), "label=\"copy x[0]\\nhost to device 0\\n36 bytes\""));
  CHECK(read_dot(to_dot(Plan(TinyGptGraph().graph, {.tile = 64}))).frames.empty());
}

TEST_CASE("an arrow stands for all that two tasks share, and is whole where a tile is among it",
          "[graph][draw_plan]") {
  LogicalGraph graph("shared");
  Node const s = graph.state({.shape = {6}}, "s");
  Node const t = graph.state({.shape = {6}}, "t");
  Node const h = gelutanh(s).named("h");
  scale({.alpha = 2, .beta = 1}, h, s);  // reads h, and updates what gelutanh has read
  Node const twice = add(h, h).named("twice");
  scale({.beta = 1}, twice, t);  // updates what nothing has read
  scale({.beta = 1}, twice, s);
  gelutanh(t).named("y").mark_output();
  Node const z = scale({.alpha = 3}, h).named("z").mark_output();
  scale({.alpha = 4}, twice, z);  // overwrites what nothing has read
  s.mark_output();
  Plan const plan(graph, {.tile = 0});
  check_whole(plan);
  DotGraph const drawn = read_dot(to_dot(plan));
  std::set<std::string> dashed;
  for (auto const& edge : drawn.edges)
    if (edge.attributes.contains("style")) dashed.insert(edge.from + edge.to);
  CHECK(!dashed.empty());
  CHECK(dashed.size() < drawn.edges.size());
}

TEST_CASE("a page has a box for each task, an arc for each dependence and a line for each move",
          "[graph][draw_plan]") {
  TwoRanks const job;
  for (Plan const& plan : {job.part(0), job.part(1), placed()}) {
    auto const page = read_page(to_html(plan));
    std::vector<std::string> hints;
    for (PageElement const& element : page)
      if (element.name == "title") hints.push_back(element.text);
    REQUIRE(hints.size() == 1 + plan.tasks().size());
    std::size_t moves = 0;
    for (std::uint32_t t = 0; t < plan.tasks().size(); ++t) {
      std::string line = detail::task_text(plan, t);
      line.pop_back();
      CHECK(hints[1 + t].starts_with(line + "; "));
      moves += plan.kernels()[plan.tasks()[t].kernel].kind == KernelKind::op ? 0 : 1;
    }
    CHECK(moves > 0);
    CHECK(count(page, "rect") == plan.tasks().size());
    CHECK(count(page, "path") == dependences(plan).size());
    CHECK(count(page, "tr") == 1 + moves);
    CHECK(count(page, "polyline") ==
          static_cast<std::size_t>(
              std::count_if(plan.memories().begin(), plan.memories().end(),
                            [](MemoryReport const& memory) { return memory.arena > 0; })));
    check_bounds(page);
  }
  CHECK(contains(to_html(job.part(1)),
                 "<td>send</td><td>s.partial1[0]</td>"
                 "<td class=\"number\">16</td><td>to rank 0</td>"));
  CHECK(contains(to_html(job.part(1)), "<h1>plan 'job', part of rank 1 of 2</h1>"));
}

TEST_CASE("the curve of a place reaches the least that its arena could be", "[graph][draw_plan]") {
  TwoRanks const job;
  auto const most = [](Plan const& plan, MemoryReport const& memory) {
    auto const live = detail::live_bytes(plan, memory.location);
    CHECK(live.size() == plan.tasks().size());
    CHECK(*std::min_element(live.begin(), live.end()) >= 0);
    return *std::max_element(live.begin(), live.end());
  };
  for (Plan const& plan : {job.part(0), job.part(1), placed(), step()})
    for (MemoryReport const& memory : plan.memories())
      CHECK(most(plan, memory) == memory.arena_lower_bound);
  // Task 0 sends what is stored; each of the next two has a tile more.
  auto const live = detail::live_bytes(job.part(1), {1, host});
  CHECK(std::vector<Index>(live.begin(), live.begin() + 5) ==
        std::vector<Index>{0, 64, 128, 64, 128});
}

TEST_CASE("each point of a curve is the most of the tasks that it stands for",
          "[graph][draw_plan]") {
  Plan const plan = step();
  auto const page = read_page(to_html(plan));
  auto const line = std::find_if(page.begin(), page.end(),
                                 [](PageElement const& of) { return of.name == "polyline"; });
  std::vector<std::pair<long, long>> points;
  for (char const* at = line->attributes.at("points").c_str(); *at != 0;) {
    char* end = nullptr;
    long const x = std::strtol(at, &end, 10);
    long const y = std::strtol(end + 1, &end, 10);
    points.emplace_back(x, y);
    at = end + (*end == ' ' ? 1 : 0);
  }
  MemoryReport const memory = plan.memory({0, device(0)});
  auto const live = detail::live_bytes(plan, memory.location);
  std::size_t const bins = points.size() / 2 - 1;
  CHECK(bins == 1200);
  for (std::size_t bin = 0; bin < bins; ++bin) {
    Index most = 0;
    for (std::size_t t = bin * live.size() / bins; t < (bin + 1) * live.size() / bins; ++t)
      most = std::max(most, live[t]);
    long const above = 96 - points[1 + 2 * bin].second;  // of 90 pixels
    CHECK(std::abs(static_cast<double>(above) -
                   90.0 * static_cast<double>(most) / static_cast<double>(memory.arena)) <= 0.5);
    CHECK(points[2 + 2 * bin].second == points[1 + 2 * bin].second);
  }
}

TEST_CASE("a picture of a large plan is bounded, and says what it leaves out",
          "[graph][draw_plan]") {
  Plan const plan = step();
  REQUIRE(plan.tasks().size() > 1000);
  DotGraph const graph = read_dot(to_dot(plan));
  CHECK(graph.nodes.size() == 401);
  CHECK(graph.nodes.at("rest").at("label") ==
        concat(plan.tasks().size() - 400, " of ", plan.tasks().size(),
               " tasks are not shown: begin, end, name and limit choose others"));
  std::string const page = to_html(plan);
  CHECK(page.size() < 400 * 600);
  auto const elements = read_page(page);
  CHECK(count(elements, "rect", "fill") == 400);
  CHECK(count(elements, "rect", "class") == 1);  // the part that is shown
  check_bounds(elements);
  CHECK(contains(page, "tasks are not shown: begin"));
  CHECK(!contains(to_html(placed()), "not shown"));
  CHECK(to_html(plan) == page);
}

TEST_CASE("a picture shows the tasks that are asked for", "[graph][draw_plan]") {
  Plan const plan = step();
  DotGraph const some = read_dot(to_dot(plan, {.begin = 20, .end = 30}));
  std::set<std::uint32_t> shown;
  for (auto const& [id, attributes] : some.nodes)
    if (id != "rest") shown.insert(number(id));
  CHECK(shown == std::set<std::uint32_t>{20, 21, 22, 23, 24, 25, 26, 27, 28, 29});
  Pairs within;
  for (auto const& [from, to] : dependences(plan))
    if (shown.contains(from) && shown.contains(to)) within.emplace(from, to);
  CHECK(edges(some) == within);
  std::map<std::uint32_t, int> outside;
  for (auto const& [from, to] : dependences(plan))
    if (!shown.contains(from) && shown.contains(to)) ++outside[to];
  REQUIRE(!outside.empty());
  for (auto const& [task, others] : outside) {
    std::string const more = concat("; waits for ", others, " tasks that are not shown");
    CHECK(some.nodes.at(concat("t", task)).at("tooltip").ends_with(more));
    CHECK(contains(to_html(plan, {.begin = 20, .end = 30}), more));
  }
  DotGraph const named = read_dot(to_dot(plan, {.name = "tokens", .limit = 5}));
  CHECK(named.nodes.size() == 6);
  for (auto const& [id, attributes] : named.nodes)
    CHECK((id == "rest" || contains(attributes.at("tooltip"), "tokens")));
  CHECK(read_dot(to_dot(plan, {.name = "no such"})).nodes.size() == 1);
  CHECK(read_dot(to_dot(plan, {.begin = 9, .end = 3})).nodes.size() == 1);
  CHECK(count(read_page(to_html(plan, {.begin = 1'000'000})), "rect") == 0);
}

TEST_CASE("names are quoted where a drawing needs it", "[graph][draw_plan]") {
  LogicalGraph graph("a \"b\" <c> & \\d");
  Node const x = graph.input({.shape = {4}}, "x<y>");
  gelutanh(x).named("\"&\\n").mark_output();
  Plan const plan(graph, {.tile = 0});
  check_whole(plan);
  auto const page = read_page(to_html(plan));
  CHECK(contains(page[3].text, "plan 'a \"b\" <c> & \\d'"));
  auto const hint = std::find_if(page.begin() + 5, page.end(),
                                 [](PageElement const& of) { return of.name == "title"; });
  CHECK(contains(hint->text, "read x<y>[0] write \"&\\n[0]"));
}

TEST_CASE("a name that is cut to fit into a task's box stays UTF-8", "[graph][draw_plan]") {
  LogicalGraph graph;
  Node node = graph.input({.shape = {4}}, "x");
  for (std::size_t ahead = 0; ahead < 3; ++ahead) {
    std::string name(ahead, 'h');
    for (int i = 0; i < 16; ++i) name += "\xE2\x82\xAC";  // 3 bytes
    node = gelutanh(node).named(name);
  }
  node.mark_output();
  std::string const page = to_html(Plan(graph, {.tile = 0}));
  std::string_view rest = page;
  while (std::size_t const length = detail::utf8_length(rest)) rest.remove_prefix(length);
  CHECK(rest.empty());
}
