// SPDX-License-Identifier: BSD-3-Clause
// The order in which the stages of a pipeline take micro-batches, and what they keep meanwhile.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "nntile/graph/gradient.hh"
#include "nntile/graph/part_digest.hh"
#include "nntile/graph/parts.hh"
#include "nntile/graph/simulate_job.hh"
#include "nntile/ops.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

constexpr auto by_layer = PipelineSchedule::layer_by_layer;

/// Layers of equal work, the gradients of their weights, and stages of two layers each.
struct Layers {
  static constexpr Index width = 16, rows = 8;

  Layers(int stages, Index micro_batches, std::string const& axis = "batch") : graph("layers") {
    Node x = graph.input({.shape = {width, rows * micro_batches}, .axes = "embed " + axis}, "x");
    std::vector<Node> weights;
    std::vector<std::vector<std::string>> names(static_cast<std::size_t>(stages));
    for (int layer = 0; layer < 2 * stages; ++layer) {
      std::string const name = concat("h.", layer);
      weights.push_back(
          graph.parameter({.shape = {width, width}, .axes = "out embed"}, name + ".w"));
      x = gelutanh(gemm(weights.back(), x));
      names[static_cast<std::size_t>(layer / 2)].push_back(name + ".*");
    }
    Node const loss = sum_slice({.axis = 0}, sum_slice({.axis = 1}, x)).named("loss").mark_output();
    Gradients const gradients = add_gradients(graph, loss);
    for (Node const& w : weights) gradients.find(w).mark_output();
    options.tile = width;
    options.cuts = {{axis, {rows}}};
    options.micro_batches = axis;
    options.mesh = {{"pipe", stages}};
    options.rules = pipeline(names);
    options.check = true;
  }

  /// Bytes of the activations of one layer and micro-batch.
  static constexpr Index activation = width * rows * 4;

  Index arena(int stage, PipelineSchedule schedule) {
    options.schedule = schedule;
    return report_parts(graph, options)[static_cast<std::size_t>(stage)].memory.arena;
  }

  LogicalGraph graph;
  PlanOptions options;
};

/// In which order a part takes micro-batches, by the functions behind its products: "F0 F1 B0".
std::string order_of_micro_batches(Plan const& part) {
  std::vector<std::string> found;
  for (PlannedTask const& task : part.tasks()) {
    std::string const& kernel = part.kernels()[task.kernel].name;
    if (kernel != "gelutanh" && kernel != "gelutanh_backward") continue;
    std::string const name = concat(kernel == "gelutanh" ? "F" : "B", task.tile);
    if (std::find(found.begin(), found.end(), name) == found.end()) found.push_back(name);
  }
  std::string text;
  for (std::string const& each : found) text += concat(text.empty() ? "" : " ", each);
  return text;
}

}  // namespace

TEST_CASE("a stage takes one micro-batch forward and one backward in turn", "[graph][pipeline]") {
  Layers layers(3, 5);
  auto const order = [&](int rank) {
    return order_of_micro_batches(Plan(layers.graph, layers.options, rank));
  };
  CHECK(order(0) == "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4");
  CHECK(order(1) == "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4");
  CHECK(order(2) == "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4");
  layers.options.schedule = by_layer;
  for (int rank = 0; rank < 3; ++rank) CHECK(order(rank) == "F0 F1 F2 F3 F4 B0 B1 B2 B3 B4");
}

TEST_CASE("a stage keeps the activations of as many micro-batches as there are stages behind it",
          "[graph][pipeline]") {
  constexpr auto in_turn = PipelineSchedule::one_forward_one_backward;
  for (int const stages : {2, 3, 4})
    for (int stage = 0; stage < stages; ++stage) {
      INFO("stage " << stage << " of " << stages);
      Index const least = Layers(stages, 2 * stages).arena(stage, in_turn);
      for (Index const more : {5, 9})
        CHECK(Layers(stages, more * stages).arena(stage, in_turn) == least);
      // Of each micro-batch what comes in, and four results; and what is on its way.
      CHECK(least <= (5 * (stages - stage) + 11) * Layers::activation);
      Index const by_layers = Layers(stages, 5 * stages).arena(stage, by_layer);
      CHECK(by_layers >= 3 * 5 * stages * Layers::activation);
    }
}

TEST_CASE("the order of micro-batches changes no message, and idle time for the better",
          "[graph][pipeline]") {
  ClusterModel const cluster{
      .rank = {.workers = 1, .peak = 1e9, .bandwidth = 1e12, .task_overhead = 1e-6},
      .link = {1e-7, 1e12}};
  for (Index const micro_batches : {1, 2, 8}) {
    Layers layers(4, micro_batches);
    auto const reports = report_parts(layers.graph, layers.options);
    JobSimulation const run = simulate(job_tasks(layers.graph, layers.options), cluster);
    layers.options.schedule = by_layer;
    auto const others = report_parts(layers.graph, layers.options);
    JobSimulation const other = simulate(job_tasks(layers.graph, layers.options), cluster);
    for (std::size_t rank = 0; rank < 4; ++rank) {
      CHECK(reports[rank].bytes_sent == others[rank].bytes_sent);
      CHECK(reports[rank].sent == others[rank].sent);
      CHECK(reports[rank].flops == others[rank].flops);
    }
    double const bubble = idle_share(run), other_bubble = idle_share(other);
    INFO(micro_batches << " micro-batches: idle " << bubble << ", layer by layer " << other_bubble);
    CHECK(run.elapsed <= other.elapsed);
    CHECK(bubble <= other_bubble + 1e-9);
    if (micro_batches == 1) CHECK(bubble == other_bubble);
    if (micro_batches == 8) CHECK((bubble < 0.4 && other_bubble > 0.55));
  }
}

TEST_CASE("micro-batches are tiles along an axis of any name", "[graph][pipeline]") {
  Layers layers(2, 4, "rows");
  CHECK(order_of_micro_batches(Plan(layers.graph, layers.options, 0)) == "F0 F1 B0 F2 B1 F3 B2 B3");
  layers.options.micro_batches = "batch";  // which the graph lacks
  CHECK(order_of_micro_batches(Plan(layers.graph, layers.options, 0)) == "F0 F1 F2 F3 B0 B1 B2 B3");
}

TEST_CASE("micro-batches along an axis that no tensor has are refused", "[graph][pipeline]") {
  Layers layers(2, 4);
  for (auto const schedule : {by_layer, PipelineSchedule::one_forward_one_backward}) {
    layers.options.schedule = schedule;
    auto const refusal = [&](char const* axis) {
      layers.options.micro_batches = axis;
      return message_of<PlanError>([&] { Plan(layers.graph, layers.options, 1); });
    };
    CHECK(refusal("bacth") ==
          "plan 'layers': PlanOptions::micro_batches is 'bacth', an axis that "
          "no tensor has; did you mean 'batch'?");
    CHECK(refusal("") ==
          "plan 'layers': PlanOptions::micro_batches is '', an axis that no tensor "
          "has; axes are embed, batch, out");
  }
}

TEST_CASE("an order of its own is for several micro-batches of stages alone", "[graph][pipeline]") {
  auto const same = [](LogicalGraph const& graph, PlanOptions options) {
    Plan const one(graph, options, 0);
    options.schedule = by_layer;
    return one == Plan(graph, options, 0);
  };
  Layers one(2, 1), several(2, 6);
  CHECK(same(one.graph, one.options));
  CHECK_FALSE(same(several.graph, several.options));
  PlanOptions options = several.options;
  options.rules = {{.axis = "batch", .mesh = "pipe"}};
  CHECK(same(several.graph, options));
  options = several.options;  // all at the one coordinate of an axis
  options.mesh = {{"pipe", 1}, {"data", 3}};
  for (ShardRule& rule : options.rules) rule.at = 0;
  options.rules.push_back({.axis = "batch", .mesh = "data"});
  CHECK(same(several.graph, options));
  TinyGpt sizes{.config = {.vocab = 96, .positions = 128, .width = 128, .layers = 2, .heads = 2}};
  TinyGptGraph const of(sizes);
  options = {.tile = 64, .cuts = {{"batch", {1}}}, .mesh = {{"pipe", 2}}};
  options.rules = pipeline(nn::pipeline_stages(sizes.config, 2));
  CHECK_FALSE(same(of.graph, options));
  options.by_phase = true;
  CHECK(same(of.graph, options));
}

TEST_CASE("data-parallel ranks of a stage take their micro-batches alike", "[graph][pipeline]") {
  Layers layers(2, 8);
  layers.options.mesh = {{"data", 2}, {"pipe", 2}};
  layers.options.rules = product({layers.options.rules, ddp()});
  auto const order = [&](int rank) {
    return order_of_micro_batches(Plan(layers.graph, layers.options, rank));
  };
  CHECK(order(0) == "F0 F1 B0 F2 B1 F3 B2 B3");
  CHECK(order(1) == "F4 F5 B4 F6 B5 F7 B6 B7");
  CHECK(order(2) == "F0 B0 F1 B1 F2 B2 F3 B3");
  // In the common order neither waits for the other's last micro-batch.
  detail::Job const job =
      detail::job_of(layers.graph, layers.options, passes::MeshShape(layers.options.mesh));
  std::size_t last_of_first = 0, first_of_second = job.plan.tasks.size();
  for (std::size_t t = job.plan.tasks.size(); t-- > 0;) {
    PlannedTask const& task = job.plan.tasks[t];
    if (job.plan.kernels[task.kernel].name != "gelutanh") continue;
    if (task.tile == 3) last_of_first = std::max(last_of_first, t);
    if (task.tile == 4) first_of_second = t;
  }
  CHECK(first_of_second < last_of_first);
}

TEST_CASE("what overwrites a tile follows all that read it", "[graph][pipeline]") {
  LogicalGraph graph("overwrite");
  Node const w = graph.state({.shape = {16, 16}, .axes = "out embed"}, "a.w");
  Node const v = graph.parameter({.shape = {16, 16}, .axes = "out embed"}, "b.v");
  Node const x = graph.input({.shape = {16, 32}, .axes = "embed batch"}, "x");
  gemm(v, gelutanh(gemm(w, x))).named("b.y").mark_output();
  ops::fill({.value = 1}, w);
  PlanOptions options{.tile = 16, .cuts = {{"batch", {8}}}, .mesh = {{"pipe", 2}}};
  options.rules = pipeline({{"a.*"}, {"b.*"}});
  Plan const part(graph, options, 0);
  bool filled = false;
  int products = 0;
  for (PlannedTask const& task : part.tasks()) {
    std::string const& kernel = part.kernels()[task.kernel].name;
    filled = filled || kernel == "fill";
    if (kernel != "gemm") continue;
    CHECK_FALSE(filled);
    ++products;
  }
  CHECK((filled && products == 4));
}

TEST_CASE("of a tied embedding one gradient more is kept for each micro-batch",
          "[graph][pipeline]") {
  auto const arenas = [](Index batch) {
    TinyGpt sizes{.config = {.vocab = 96, .positions = 64, .width = 64, .layers = 2, .heads = 2}};
    sizes.seq = 64;
    sizes.batch = batch;
    TinyGptGraph const of(sizes);
    PlanOptions options{.tile = 64, .cuts = {{"batch", {1}}}, .mesh = {{"pipe", 2}}};
    options.rules = pipeline(nn::pipeline_stages(sizes.config, 2));
    auto const parts = report_parts(of.graph, options);
    return std::pair(parts[0].memory.arena, parts[1].memory.arena);
  };
  auto const [first, last] = arenas(4);
  auto const [first_of_more, last_of_more] = arenas(12);
  Index const gradient = 64 * 64 * 4;
  CHECK(first_of_more - first >= 8 * gradient / 2);
  CHECK(first_of_more - first <= 8 * gradient * 5 / 4);
  CHECK(last_of_more - last <= gradient);
}

TEST_CASE("ranks of different schedules are told apart", "[graph][pipeline]") {
  Layers layers(2, 3);
  Plan const part(layers.graph, layers.options, 0);
  auto const digest = [&] { return detail::PartDigest(layers.graph, layers.options, part).values; };
  auto const one = digest();
  layers.options.schedule = by_layer;
  CHECK(digest()[1] != one[1]);
  layers.options.schedule = PipelineSchedule::one_forward_one_backward;
  layers.options.micro_batches = "embed";
  CHECK(digest()[1] != one[1]);
}
