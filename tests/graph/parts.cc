// SPDX-License-Identifier: BSD-3-Clause
// Parts of plans for several ranks: from the same graph and options they fit together.
#include "nntile/graph/parts.hh"

#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "nntile/ops.hh"
#include "tests/graph/linear_layer.hh"
#include "tests/support/catch.hh"
#include "tests/support/job_proof.hh"
#include "tests/support/message.hh"
#include "tests/support/sanitized.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

struct Case {
  char const* name;
  std::vector<MeshAxis> mesh;
  std::vector<ShardRule> rules;
};
std::vector<Case> cases() {
  return {{"ddp of 2", {{"data", 2}}, ddp()},
          {"ddp of 3", {{"data", 3}}, ddp()},
          {"zero1 of 4", {{"data", 4}}, zero1()},
          {"fsdp of 4", {{"data", 4}}, fsdp()},
          {"tensor 2", {{"tensor", 2}}, tensor_parallel()},
          {"sequence 2", {{"seq", 2}}, sequence_parallel()},
          {"tensor 2, zero1 of 2",
           {{"tensor", 2}, {"data", 2}},
           product({tensor_parallel(), zero1()})}};
}
PlanOptions options_of(Case const& of) {
  PlanOptions options{.tile = 64, .cuts = {{"batch", {1}}, {"head", {1}}}};
  options.mesh = of.mesh;
  options.rules = of.rules;
  options.check = true;
  return options;
}

}  // namespace

TEST_CASE("axes that a rule shares out are cut for all ranks", "[graph][parts]") {
  struct Cut {
    Index extent;
    int ranks, groups;
    Index tile;
    std::vector<Index> sizes;
  };
  for (Cut const& of :
       {Cut{6, 4, 1, 256, {2, 2, 1, 1}}, Cut{8, 3, 1, 0, {3, 3, 2}}, Cut{8, 2, 1, 2, {2, 2, 2, 2}},
        Cut{5, 2, 5, 2, {2, 1, 1, 1}}, Cut{320, 2, 5, 256, {192, 128}},
        Cut{320, 2, 5, 64, {128, 64, 64, 64}}, Cut{768, 2, 1, 256, {192, 192, 192, 192}},
        Cut{2, 2, 1, 256, {1, 1}}, Cut{96, 2, 1, 256, {64, 32}}, Cut{96, 2, 2, 256, {48, 48}},
        Cut{500, 2, 2, 256, {256, 244}}}) {
    CAPTURE(of.extent, of.ranks, of.groups, of.tile);
    LogicalGraph graph("cut", {.groups = {{"row", of.groups}}});
    Node const x = graph.input({.shape = {7, of.extent}, .axes = "column row"}, "x");
    gelutanh(x).named("y").mark_output();
    PlanOptions options{.tile = of.tile, .mesh = {{"data", of.ranks}}};
    options.rules = {{.axis = "row", .mesh = "data"}};
    Plan const plan(graph, options, 0);
    std::vector<Index> sizes;
    for (PlannedTensor const& tensor : plan.tensors())
      if (tensor.name == "x")
        for (Index tile = 0; tile < tensor.tiling.axis(1).count(); ++tile)
          sizes.push_back(tensor.tiling.axis(1).size(tile));
    CHECK(sizes == of.sizes);
  }
}

TEST_CASE("an automatic tile cuts as evenly on a mesh as it does alone", "[graph][parts]") {
  LogicalGraph graph("even");
  Node const x = graph.input({.shape = {640, 640}, .axes = "m k"}, "x");
  gemm(x, graph.input({.shape = {640, 640}, .axes = "k n"}, "w")).mark_output();
  PlanOptions options{.machine = {.workers = 2, .cache = 1 << 20}};
  Plan const alone(graph, options);
  REQUIRE(alone.tensors()[0].tiling.axis(0).count() == 2);
  options.mesh = {{"data", 2}};
  Plan const part(graph, options, 0);
  for (std::size_t t = 0; t < alone.tensors().size(); ++t)
    CHECK(part.tensors()[t].tiling == alone.tensors()[t].tiling);
}

TEST_CASE("parts of a training step do what one rank does, in one common order", "[graph][parts]") {
  for (Numerics const& numerics :
       {Numerics{}, Numerics{.groups = {{"batch", 4}, {"head", 2}, {"seq", 2}}}}) {
    TinyGptGraph const of({.batch = 4, .numerics = numerics});
    bool even = false;
    for (Case const& each : cases()) {
      even = !even;
      if (sanitized && even != numerics.groups.empty()) continue;  // each once
      INFO(each.name << " with " << numerics.groups.size() << " grouped axes");
      CHECK(fault_of(of.graph, options_of(each)) == "");
    }
  }
}

TEST_CASE("tasks and messages of each mesh are as they were", "[graph][parts]") {
  struct Golden {
    std::size_t tasks;
    std::int64_t messages;
    Index bytes;
  };
  std::vector<Golden> const golden = {
      {3757, 229, 1877748}, {4192, 399, 3745192}, {4627, 668, 5656024}, {4603, 668, 5687768},
      {4218, 314, 3204312}, {4436, 570, 5602948}, {4831, 606, 5191572}};
  TinyGptGraph const of(
      {.batch = 4, .numerics = {.groups = {{"batch", 4}, {"head", 2}, {"seq", 2}}}});
  auto const all = cases();
  for (std::size_t i = 0; i < all.size(); ++i) {
    INFO(all[i].name);
    Golden found{};
    for (Plan const& part : parts_of(of.graph, options_of(all[i]))) {
      found.tasks += part.tasks().size();
      for (PlannedTraffic const& with : traffic(part))
        found.messages += with.sent, found.bytes += with.bytes_sent;
    }
    CHECK(found.tasks == golden[i].tasks);
    CHECK(found.messages == golden[i].messages);
    CHECK(found.bytes == golden[i].bytes);
  }
}

TEST_CASE("batches cut a layer's work, and need no message forward", "[graph][parts]") {
  LinearLayer const layer;
  PlanOptions options{.tile = 128, .cuts = {{"batch", {32}}}};
  Plan const whole(layer.graph, options);
  options.mesh = {{"data", 2}};
  options.rules = ddp();
  auto const parts = parts_of(layer.graph, options);
  CHECK(parts[0].tasks().size() + parts[1].tasks().size() == whole.tasks().size());
  CHECK(parts[0].flops() == whole.flops() / 2);
  CHECK((traffic(parts[0]).empty() && traffic(parts[1]).empty()));
  // Weights are on both, inputs and outputs on one of them.
  Index const weights = (512 * 256 + 512) * 4, rest = (256 + 512) * 64 * 4;
  CHECK(parts[0].memory({0, host}).stored == weights + rest / 2);
  CHECK(parts[1].memory({1, host}).stored == weights + rest / 2);
  CHECK(parts[1].memory().total() == 0);
  // Owned weights are sent forward, each once.
  options.rules = fsdp();
  auto const owned = parts_of(layer.graph, options);
  Index sent = 0, stored = 0;
  for (int rank : {0, 1}) {
    for (PlannedTraffic const& with : traffic(owned[static_cast<std::size_t>(rank)]))
      sent += with.bytes_sent;
    stored += owned[static_cast<std::size_t>(rank)].memory({rank, host}).stored;
  }
  CHECK(sent == weights);
  CHECK(stored == weights + rest);
}

TEST_CASE("states of the optimizer are dealt out evenly", "[graph][parts]") {
  TinyGptGraph const of({.batch = 4});
  Plan const whole(of.graph, {.tile = 64, .cuts = {{"batch", {1}}}});
  Case const each{"", {{"data", 4}}, fsdp()};
  auto const parts = parts_of(of.graph, options_of(each));
  Index least = whole.memory().stored, most = 0;
  for (int rank = 0; rank < 4; ++rank) {
    Index const stored = parts[static_cast<std::size_t>(rank)].memory({rank, host}).stored;
    least = std::min(least, stored), most = std::max(most, stored);
  }
  CHECK(most <= whole.memory().stored / 4 * 102 / 100 + 4096);
  CHECK(least >= whole.memory().stored / 4 * 98 / 100 - 4096);
}

TEST_CASE("a stage's layers run where they are, and send activations alone", "[graph][parts]") {
  LogicalGraph graph("layers");
  Node x = graph.input({.shape = {64, 8}, .axes = "embed batch"}, "x");
  for (int layer = 0; layer < 4; ++layer)
    x = gelutanh(gemm(
        graph.parameter({.shape = {64, 64}, .axes = "out embed"}, concat("h.", layer, ".weight")),
        x));
  x.named("y").mark_output();
  PlanOptions options{.tile = 64, .cuts = {{"batch", {2}}}, .mesh = {{"pipe", 2}}};
  options.rules = pipeline({{"h.0.*", "h.1.*"}, {"h.2.*", "h.3.*", "y"}});
  Plan const first(graph, options, 0), second(graph, options, 1);
  CHECK(first.flops() == second.flops());
  for (Plan const* part : {&first, &second}) {
    auto const sent = traffic(*part);
    REQUIRE(sent.size() == 1);
    CHECK((part == &first ? sent[0].bytes_sent : sent[0].bytes_received) == 64 * 8 * 4);
    CHECK(sent[0].sent + sent[0].received == 4);
  }
  CHECK(first.memory({0, host}).stored == (2 * 64 + 8) * 64 * 4);
  CHECK(second.memory({1, host}).stored == (2 * 64 + 8 + 8) * 64 * 4);
}

TEST_CASE("a stage's rule for many names leaves transients where they are used", "[graph][parts]") {
  LogicalGraph graph("backward");
  TensorSpec const square{.shape = {64, 64}, .axes = "out embed"};
  Node const x = graph.input({.shape = {64, 8}, .axes = "embed batch"}, "x");
  Node const first = graph.parameter(square, "h.0.weight");
  Node const second = graph.parameter(square, "h.1.weight");
  Node const y = gemm(second, gemm(first, x).named("h.0.z")).named("y").mark_output();
  Node const back = gemm({.trans_a = true}, second, y).named("h.0.z.grad");
  gemm({.trans_a = true}, first, back).named("dx").mark_output();
  Node const gradient = gelutanh(y).named("h.0.weight.grad");
  gelutanh(gradient).named("dy").mark_output();
  PlanOptions options{.tile = 64, .mesh = {{"pipe", 2}}};
  auto const received = [&](ShardRule const& more) {
    options.rules = pipeline({{"h.0.*", "dx"}, {"h.1.*", "y", "dy"}});
    options.rules.push_back(more);
    return traffic(Plan(graph, options, 0)).at(0).bytes_received;
  };
  Index const values = 64 * 8 * 4, weight = 64 * 64 * 4;
  // The gradient of z, and y for that of a weight, which is made where the weight is.
  CHECK(received({.axis = "none", .mesh = "pipe", .optional = true}) == 2 * values);
  CHECK(received({.tensors = "h.0.z.grad", .mesh = "pipe", .at = 0}) == values + weight);
  CHECK(received({.tensors = "h.0.z.*", .role = Role::transient, .mesh = "pipe", .at = 0}) ==
        values + weight);
}

TEST_CASE("phases of a part are those of the plan, and some may be empty", "[graph][parts]") {
  LogicalGraph graph("phases");
  Node const x = graph.input({.shape = {64}, .axes = "embed"}, "x");
  Node const y = gelutanh(x).named("y").mark_output();
  graph.set_phase("second");
  gelutanh(y).named("z").mark_output();
  PlanOptions options{.tile = 64, .mesh = {{"pipe", 2}}};
  options.rules = pipeline({{"y"}, {"z"}});
  options.by_phase = true;
  options.check = true;
  Plan const first(graph, options, 0), second(graph, options, 1);
  REQUIRE((first.phases().size() == 2 && second.phases().size() == 2));
  CHECK(first.phases()[0].end == 1);  // y
  CHECK(first.phases()[1].end == 2);  // its send, when z is computed
  CHECK(second.phases()[0].end == 0);
  CHECK(second.phases()[1].end == 2);  // a receive, and z
}

TEST_CASE("phases of a part may be empty where its values move between places", "[graph][parts]") {
  LogicalGraph graph("phases");
  Node const x = graph.input({.shape = {64}, .axes = "embed"}, "x");
  Node const w = graph.input({.shape = {64}, .axes = "embed"}, "w");
  Node const y0 = gelutanh(x).named("y0");
  graph.set_phase("again");
  Node const y = gelutanh(y0).named("y").mark_output();
  graph.set_phase("second");
  Node const z = gelutanh(w).named("z").mark_output();
  graph.set_phase("third");
  gelutanh(z, y);
  graph.set_phase("fourth");
  gelutanh(w, z);
  PlanOptions options{.tile = 64, .mesh = {{"pipe", 2}}, .place = {{"z", Role::any, device(0)}}};
  options.rules = pipeline({{"x", "y0", "y"}, {"w", "z"}});
  options.by_phase = true;
  options.check = true;
  auto const ends = [&](int rank) {
    std::vector<std::uint32_t> found;
    Plan const part(graph, options, rank);
    for (PlannedPhase const& phase : part.phases()) found.push_back(phase.end - phase.begin);
    return found;
  };
  CHECK(ends(0) == std::vector<std::uint32_t>{1, 1, 0, 2, 0});  // y0, y, a receive and y
  CHECK(ends(1) == std::vector<std::uint32_t>{0, 0, 2, 2, 2});  // a copy and z, ...
}

TEST_CASE("a phase ends with what it wrote at the ranks that store it", "[graph][parts]") {
  LogicalGraph graph("phases");
  Node const w = graph.parameter({.shape = {64}, .axes = "embed"}, "w");
  gelutanh(w).named("y").mark_output();
  graph.set_phase("second");
  gelutanh(graph.input({.shape = {64}, .axes = "embed"}, "x")).named("z").mark_output();
  PlanOptions options{.tile = 64, .mesh = {{"pipe", 2}}};
  options.rules = pipeline({{"w"}});
  options.by_phase = true;
  options.check = true;
  Plan const first(graph, options, 0), second(graph, options, 1);
  CHECK(first.phases()[0].end == 2);   // y, and its send
  CHECK(second.phases()[0].end == 1);  // its receive
}

TEST_CASE("rules fit what exists where they put it", "[graph][parts]") {
  LinearLayer const layer;
  PlanOptions options{.tile = 128, .mesh = {{"pipe", 2}}};
  options.rules = pipeline({{"linear.*"}, {"y"}});
  Plan const part(layer.graph, options, 0);
  for (PlannedTensor const& tensor : part.tensors())
    if (tensor.storage == Storage::stored && tensor.attributes.persistent)
      options.keep.push_back({tensor.name, tensor.tiling, tensor.storage, 1, tensor.homes});
  REQUIRE_FALSE(options.keep.empty());
  CHECK_NOTHROW(Plan(layer.graph, options, 0));
  options.rules.push_back({.axis = "bacth", .mesh = "pipe"});
  CHECK_THROWS_AS(Plan(layer.graph, options, 0), PlanError);
  options.rules = pipeline({{"linear.*"}, {"z"}});
  CHECK_THROWS_AS(Plan(layer.graph, options, 0), PlanError);
}

TEST_CASE("a rule shares an axis out by any name that a dimension has in it", "[graph][parts]") {
  LogicalGraph graph("g");
  Node const x = graph.input({.shape = {64, 8}, .axes = "embed tokens"}, "x");
  Node const y = graph.input({.shape = {64, 8}, .axes = "embed batch"}, "y");
  add(x, y).named("z").mark_output();
  auto const part = [&](char const* axis) {
    PlanOptions options{.tile = 64, .mesh = {{"data", 2}}, .rules = ddp()};
    options.rules[0].axis = axis;
    return Plan(graph, options, 1);
  };
  CHECK(part("batch").tensors()[x.id()].tiling.grid() == Shape{1, 2});
  CHECK(part("batch").memory({1, host}).stored == 3 * 64 * 4 * 4);
  CHECK(part("tokens") == part("batch"));
}

TEST_CASE("micro-batches are along an axis of any name that a dimension has in it",
          "[graph][parts]") {
  LogicalGraph graph("stages");
  Node x = graph.input({.shape = {64, 8}, .axes = "embed tokens"}, "x");
  x = add(x, graph.input({.shape = {64, 8}, .axes = "embed batch"}, "y"));
  for (char const* const layer : {"h.0", "h.1"})
    x = gelutanh(gemm(graph.parameter({.shape = {64, 64}}, concat(layer, ".w")), x));
  x.mark_output();
  PlanOptions options{.tile = 64, .cuts = {{"batch", {1}}}, .mesh = {{"pipe", 2}}};
  options.rules = pipeline({{"h.0.*"}, {"h.1.*"}});
  Plan const by_default(graph, options, 0);
  options.micro_batches = "tokens";
  CHECK(by_default == Plan(graph, options, 0));
  options.schedule = PipelineSchedule::layer_by_layer;
  CHECK_FALSE(by_default == Plan(graph, options, 0));
}

TEST_CASE("the part of a mesh of one rank has the buffers of a plan without a mesh",
          "[graph][parts]") {
  LogicalGraph graph("assembled");
  Node const whole = graph.tensor({.shape = {4, 3}}, "whole");
  Node const part = graph.slice(whole, 1, 1);  // the others have no value
  gelutanh(graph.input({.shape = {4}}, "x"), part);
  scale(part).named("y").mark_output();
  PlanOptions options{.tile = 2, .check = true};
  Plan const alone(graph, options);
  options.mesh = {{"data", 1}};
  Plan const only(graph, options, 0);
  CHECK(only.data().buffers == alone.data().buffers);
  CHECK(only.memory() == alone.memory());
}

TEST_CASE("a function owns what rules do not", "[graph][parts]") {
  LinearLayer const layer;
  PlanOptions options{.tile = 128, .cuts = {{"batch", {32}}}, .mesh = {{"data", 3}}};
  options.owners = [](std::string_view tensor, Index tile) {
    return tensor == "linear.weight" ? static_cast<int>(tile % 3) : TileOwners::by_rules;
  };
  for (int rank = 0; rank < 3; ++rank) {
    Plan const part(layer.graph, options, rank);
    std::uint32_t const weight = part.tensor("linear.weight");
    for (Index tile = 0; tile < part.tensors()[weight].tiling.tile_count(); ++tile)
      CHECK((part.tensors()[weight].homes[static_cast<std::size_t>(tile)].box.at[0]) == tile % 3);
  }
  options.owners = [](std::string_view, Index) { return 3; };
  CHECK(
      message_of<PlanError>([&] { Plan(layer.graph, options, 0); }) ==
      "plan 'layer': PlanOptions::owners gives tile 0 of 'linear.weight' to rank 3 of 3; from 0 to "
      "2, or TileOwners::by_rules");
}

TEST_CASE("a rule's name has a star for any text", "[graph][parts]") {
  CHECK((matches("*", "") && matches("*", "a.b") && matches("a*", "a") &&
         matches("*/h.1.*", "m/h.1.w")));
  CHECK((matches("a*b*c", "a12b3bc") && matches("a", "a") && matches("", "")));
  CHECK_FALSE((matches("h.1.*", "h.10.w") || matches("", "a") || matches("a*b", "ab1") ||
               matches("*/h", "h") || matches("a", "")));
}

TEST_CASE("stages of a model name each of its tensors once", "[graph][parts]") {
  nn::Gpt2Config const config{.layers = 11};
  TinyGpt sizes;
  sizes.config.layers = 11;
  TinyGptGraph const of(sizes);
  auto const stages = nn::pipeline_stages(config, 3);
  REQUIRE(stages.size() == 3);
  CHECK(stages[0].size() == 2 + 4);
  CHECK(stages[2].size() == 3 + 1);
  for (auto const& parameter : of.model.parameters().all()) {
    int named = 0;
    for (auto const& stage : stages)
      for (std::string const& pattern : stage) named += matches(pattern, parameter.node.name());
    CHECK(named == 1);
  }
  CHECK(message_of<PlanError>([&] { nn::pipeline_stages(config, 12); }) ==
        "gpt2: 11 layers in 12 stages; from 1 to 11 is possible");
  CHECK(message_of<PlanError>([&] { nn::pipeline_stages({.layers = 0}, 1); }) ==
        "gpt2: 0 layers in 1 stages; a stage has 1 at least; give the model layers");
}

TEST_CASE("reports of parts tell places apart", "[graph][parts]") {
  TinyGptGraph const of({.batch = 4, .numerics = {.groups = {{"batch", 4}}}});
  PlanOptions options = options_of({"fsdp of 2", {{"data", 2}}, fsdp()});
  std::vector<PartReport> const on_hosts = report_parts(of.graph, options);
  options.place = {{.role = Role::state}, {.place = device(0)}};  // states on the host
  std::vector<Plan> const parts = parts_of(of.graph, options);
  std::vector<PartReport> const reports = report_parts(of.graph, options);
  REQUIRE(reports.size() == 2);
  for (int rank = 0; rank < 2; ++rank) {
    PartReport const& report = reports[static_cast<std::size_t>(rank)];
    REQUIRE(report.beyond.size() == 1);
    CHECK(report.memory == parts[static_cast<std::size_t>(rank)].memory({rank, host}));
    CHECK(report.beyond[0] == parts[static_cast<std::size_t>(rank)].memory({rank, device(0)}));
    CHECK(report.beyond[0].stored != 0);
    CHECK(report.memory.stored + report.beyond[0].stored ==
          on_hosts[static_cast<std::size_t>(rank)].memory.stored);
    CHECK(on_hosts[static_cast<std::size_t>(rank)].beyond.empty());
  }
}

TEST_CASE("one walk reports what each part says", "[graph][parts]") {
  TinyGptGraph const of(
      {.batch = 4, .numerics = {.groups = {{"batch", 4}, {"head", 2}, {"seq", 2}}}});
  auto all = cases();
  all.push_back({"ddp of 1", {{"data", 1}}, ddp()});
  all.push_back({"pipeline 2, fsdp of 2",
                 {{"pipe", 2}, {"data", 2}},
                 product({pipeline({{"wte.*", "wpe.*"}, {"h.0.*", "ln_f.*"}}), fsdp()})});
  std::vector<std::pair<Case, std::uint32_t>> tried;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!sanitized || i % 2 == 0) tried.push_back({all[i], PlanOptions::to_last_reader});
    if (!sanitized || i % 2 == 1) tried.push_back({all[i], 4u});
  }
  for (auto const& [each, keep] : tried) {
    PlanOptions options = options_of(each);
    options.keep_received = keep;
    INFO(each.name << ", " << options.keep_received);
    std::vector<Plan> const parts = parts_of(of.graph, options);
    std::vector<PartReport> const reports = report_parts(of.graph, options);
    REQUIRE(reports.size() == parts.size());
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      PartReport expected{.memory = parts[rank].memory({static_cast<int>(rank), host}),
                          .beyond = {},
                          .tasks = parts[rank].tasks().size(),
                          .flops = parts[rank].flops()};
      std::int64_t most = 0;
      for (PlannedTraffic const& with : traffic(parts[rank])) {
        expected.sent += with.sent, expected.received += with.received;
        expected.bytes_sent += with.bytes_sent, expected.bytes_received += with.bytes_received;
        most = std::max({most, with.sent, with.received});
      }
      CHECK((reports[rank] == expected));
      CHECK(parts[rank].data().messages == most);
    }
  }
}
