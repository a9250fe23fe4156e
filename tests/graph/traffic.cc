// SPDX-License-Identifier: BSD-3-Clause
// What parts of a plan send: as much as their sums and gathers have to, and each rank alike.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "nntile/graph/parts.hh"
#include "nntile/ops.hh"
#include "tests/support/catch.hh"
#include "tests/support/sanitized.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

struct Sent {
  std::vector<Index> sent, received;  // by rank
  std::vector<std::int64_t> messages;
  Index all = 0;
  Index largest = 0;  // tile that is sent
};
Sent sent_by(LogicalGraph const& graph, PlanOptions const& options) {
  int ranks = 1;
  for (MeshAxis const& axis : options.mesh) ranks *= axis.size;
  Sent result;
  for (int rank = 0; rank < ranks; ++rank) {
    Plan const part(graph, options, rank);
    Index sent = 0, received = 0;
    std::int64_t messages = 0;
    for (PlannedTraffic const& with : traffic(part))
      sent += with.bytes_sent, received += with.bytes_received, messages += with.sent;
    result.sent.push_back(sent), result.received.push_back(received);
    result.messages.push_back(messages);
    result.all += sent;
    for (PlannedTask const& task : part.tasks())
      if (part.kernels()[task.kernel].kind == KernelKind::send)
        result.largest = std::max(result.largest, part.buffers()[part.uses(task)[0].handle].bytes);
  }
  return result;
}
Index most(std::vector<Index> const& of) { return *std::max_element(of.begin(), of.end()); }

/// The gradient of a weight of 512 by 512 over a batch: 1 MiB.
struct Sum {
  explicit Sum(int groups) : graph("sum", {.groups = {{"batch", groups}}}) {
    Node const dy = graph.input({.shape = {512, 128}, .axes = "out batch"}, "dy");
    Node const x = graph.input({.shape = {512, 128}, .axes = "in batch"}, "x");
    gemm({.trans_b = true}, dy, x).named("dw").mark_output();
  }
  LogicalGraph graph;
};
constexpr Index whole = 512 * 512 * 4;

}  // namespace

TEST_CASE("a sum over ranks is sent once, and once more to all that need it", "[graph][traffic]") {
  for (int const ranks : {2, 3, 4, 5, 8, 9, 16}) {
    INFO(ranks << " ranks");
    Sum const of(ranks);
    PlanOptions options{.tile = sanitized ? 64 : 32, .mesh = {{"data", ranks}}, .rules = ddp()};
    CHECK(traffic_bound(of.graph, options) == 2 * whole * (ranks - 1));
    Sent const all = sent_by(of.graph, options);
    CHECK(all.all == 2 * whole * (ranks - 1));
    CHECK(most(all.sent) * ranks <= all.all * 102 / 100 + 2 * ranks * ranks * all.largest);
    if ((ranks & (ranks - 1)) == 0)  // else the tree has leaves at several depths
      CHECK(most(all.received) * ranks <= all.all * 102 / 100 + 2 * ranks * ranks * all.largest);

    options.rules.push_back({.tensors = "dw", .mesh = "data"});
    CHECK(traffic_bound(of.graph, options) == whole * (ranks - 1));
    Sent const owned = sent_by(of.graph, options);
    CHECK(owned.all == whole * (ranks - 1));
    CHECK(most(owned.sent) * ranks <= owned.all * 102 / 100 + ranks * owned.largest);
  }
}

TEST_CASE("a value that many ranks need goes along a binomial tree", "[graph][traffic]") {
  // One tile: its root sends to log2 N ranks instead of N - 1.
  Sum const of(16);
  PlanOptions options{.tile = 512, .mesh = {{"data", 16}}, .rules = ddp()};
  Sent const tree = sent_by(of.graph, options);
  CHECK(*std::max_element(tree.messages.begin(), tree.messages.end()) == 4);
  Sum const of_eight(8);
  options.mesh = {{"data", 8}};
  Sent const direct = sent_by(of_eight.graph, options);
  CHECK(*std::max_element(direct.messages.begin(), direct.messages.end()) == 7);
}

TEST_CASE("a tree's ranks send to the largest branch first, and where ops take turns, too",
          "[graph][traffic]") {
  // Products and what follows them are ordered by tiles of y, one of each rank.
  constexpr int ranks = 16;
  LogicalGraph graph("layer");
  Node const x = graph.input({.shape = {32, 32 * ranks}, .axes = "in batch"}, "x");
  Node const w = graph.parameter({.shape = {32, 32}}, "w");
  gelutanh(gemm({}, w, x).named("y")).mark_output();
  PlanOptions const options{.tile = 32, .mesh = {{"data", ranks}}, .rules = fsdp()};
  std::size_t all = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    Plan const part(graph, options, rank);
    std::vector<int> distances;
    for (PlannedTask const& task : part.tasks()) {
      if (part.kernels()[task.kernel].kind != KernelKind::send) continue;
      TransferArgs args;
      std::memcpy(&args, part.args(task).data(), sizeof args);
      distances.push_back((args.peer - rank + ranks) % ranks);
    }
    std::vector<int> halves;
    for (std::size_t left = distances.size(); left > 0; --left) halves.push_back(1 << (left - 1));
    CHECK(distances == halves);
    CHECK(distances.size() <= 4);
    all += distances.size();
  }
  CHECK(all == ranks - 1);
}

TEST_CASE("a residual stream of one tile has a root for each of its sums", "[graph][traffic]") {
  TinyGpt sizes;
  sizes.config.layers = 4;
  sizes.config.heads = 4;
  sizes.numerics.groups = {{"head", 4}, {"hidden", 4}, {"vocab", 4}};
  TinyGptGraph const of(sizes);
  PlanOptions const options{.tile = 512,
                            .cuts = {{"vocab", {24}}, {"hidden", {128}}, {"head", {1}}},
                            .mesh = {{"tensor", 4}},
                            .rules = tensor_parallel()};
  Sent const found = sent_by(of.graph, options);
  auto const share = static_cast<double>(traffic_bound(of.graph, options)) / 4;
  // 16 sums, of which each root sends two values more than the others do
  CHECK(static_cast<double>(most(found.sent)) <= 1.15 * share);
}

TEST_CASE("a sum whose result is cut is made where that is", "[graph][traffic]") {
  // The gradient of an embedding has words, which its terms lack: they are sent, not sums of all.
  TinyGpt sizes;
  sizes.numerics.groups = {{"batch", 2}, {"head", 2}, {"hidden", 2}, {"vocab", 2}};
  TinyGptGraph const of(sizes);
  PlanOptions const options{.tile = 512,
                            .cuts = {{"vocab", {48}}, {"hidden", {256}}, {"head", {1}}},
                            .mesh = {{"tensor", 2}},
                            .rules = tensor_parallel()};
  for (int const rank : {0, 1}) {
    Plan const part(of.graph, options, rank);
    for (PlannedTask const& task : part.tasks())
      if (part.kernels()[task.kernel].kind == KernelKind::send)
        CHECK(!part.tensors()[task.tensor].name.starts_with("wte.weight.grad"));
  }
}

TEST_CASE("a training step of any tiles sends what it has to", "[graph][traffic]") {
  struct Case {
    char const* name;
    std::vector<MeshAxis> mesh;
    std::vector<ShardRule> rules;
    double excess;   // over the bound; statistics of norms, fp32 always, move with their rows
    double largest;  // share of a rank over the mean one, beside a few tiles
  };
  std::minstd_rand random(3);
  auto const below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < (sanitized ? 1 : 4); ++round) {
    int const ranks = 2 + below(7);
    bool const narrow = round % 2 != 0;  // activations, and gradients of weights
    for (Case const& each : {Case{"ddp", {{"data", ranks}}, ddp(), 1.02, 1.02},
                             Case{"zero1", {{"data", ranks}}, zero1(), 1.02, 1.02},
                             Case{"fsdp", {{"data", ranks}}, fsdp(), 1.02, 1.02},
                             Case{"fsdp of 11", {{"data", 11}}, fsdp(), 1.02, 1.02},
                             Case{"sequence", {{"seq", 2}}, sequence_parallel(), 1.05, 1.02},
                             Case{"tensor", {{"tensor", 2}}, tensor_parallel(), 1.2, 1.05},
                             Case{"tensor and fsdp",
                                  {{"tensor", 2}, {"data", 4}},
                                  product({tensor_parallel(), fsdp()}),
                                  1.05,
                                  1.02}}) {
      bool const sequence = each.mesh[0].name == "seq";
      TinyGpt sizes;
      sizes.config.vocab = 256;
      sizes.batch = sequence || each.mesh.size() > 1 ? 4 : each.mesh[0].size;
      sizes.clip = below(2);
      if (narrow) sizes.config.dtype = DType::bf16;
      sizes.numerics.groups = {
          {"batch", static_cast<int>(sizes.batch)}, {"head", 2}, {"hidden", 2}, {"vocab", 2}};
      if (sequence) sizes.numerics.groups = {{"seq", 2}};
      TinyGptGraph const of(sizes);
      PlanOptions options{.tile = 24 + below(48), .mesh = each.mesh, .rules = each.rules};
      INFO(each.name << " of " << ranks << ", tile " << options.tile << ", clip " << sizes.clip
                     << (narrow ? ", bf16" : ""));
      double const excess = each.excess + (narrow && each.mesh.size() > 1 ? 0.01 : 0);
      auto const bound = static_cast<double>(traffic_bound(of.graph, options));
      Sent const found = sent_by(of.graph, options);
      auto const count = static_cast<double>(found.sent.size());
      CHECK(static_cast<double>(found.all) >= bound);
      CHECK(static_cast<double>(found.all) <= excess * bound);
      double const share = excess * each.largest * bound / count;
      auto const few = 2 * static_cast<double>(found.largest) * count;
      CHECK(static_cast<double>(most(found.sent)) <= share + few);
    }
  }
}

TEST_CASE("the bound is never above what is sent, however often values are sent again",
          "[graph][traffic]") {
  TinyGpt sizes{.batch = 4};
  sizes.numerics.groups = {{"batch", 2}, {"head", 2}};
  TinyGptGraph const of(sizes);
  PlanOptions options{.tile = 64, .cuts = {{"batch", {1}}}, .mesh = {{"tensor", 2}, {"data", 2}}};
  options.rules = product({tensor_parallel(), fsdp()});
  for (std::uint32_t const keep : {0u, 4u, 12u, PlanOptions::to_last_reader}) {
    INFO("keep_received " << keep);
    options.keep_received = keep;
    Index sent = 0;
    for (PartReport const& part : report_parts(of.graph, options)) sent += part.bytes_sent;
    Index const bound = traffic_bound(of.graph, options);
    CHECK(bound <= sent);
    CHECK(sent <= bound + bound / 50);
  }
}

TEST_CASE("gradients that are kept are where the states are: an update sends parameters alone",
          "[graph][traffic]") {
  TinyGpt sizes{.batch = 4, .clip = 0};
  sizes.numerics.groups = {{"batch", 4}};
  LogicalGraph graph("micro", sizes.numerics);
  nn::Gpt2 const model(graph, sizes.config);
  nn::LanguageModelStep const step(
      model,
      {.seq = sizes.seq, .batch = sizes.batch, .accumulate = 2, .adamw = {.clip = sizes.clip}});
  Index parameters = 0;
  for (auto const& parameter : model.parameters().all())
    parameters += element_count(Shape(parameter.node.shape())) * 4;
  for (auto const& [rules, expected] :
       {std::pair{fsdp(), Index{0}}, std::pair{zero1(), 3 * parameters}}) {
    Index sent = 0;
    for (int rank = 0; rank < 4; ++rank) {
      Plan const part(graph, {.tile = 64, .by_phase = true, .mesh = {{"data", 4}}, .rules = rules},
                      rank);
      PlannedPhase const update = part.phases()[part.phase("optimizer")];
      for (PlannedTraffic const& with :
           traffic(part, part.tasks().subspan(update.begin, update.end - update.begin)))
        sent += with.bytes_sent;
    }
    CHECK(sent == expected);
  }
}

TEST_CASE("parameters that are gathered again in backward cost traffic and save memory",
          "[graph][traffic]") {
  TinyGpt sizes{.batch = 4};
  sizes.config.layers = 6;
  sizes.numerics.groups = {{"batch", 4}};
  TinyGptGraph const of(sizes);
  PlanOptions options{.tile = 64, .mesh = {{"data", 4}}, .rules = fsdp()};
  auto const compare_parts = [&](std::vector<PartReport> const& reports) {
    for (int rank = 0; rank < 4; ++rank) {
      INFO("rank " << rank);
      Plan const part(of.graph, options, rank);
      PartReport const& report = reports[static_cast<std::size_t>(rank)];
      CHECK(part.memory({rank, host}) == report.memory);
      CHECK(part.tasks().size() == report.tasks);
      Index sent = 0;
      for (PlannedTraffic const& with : traffic(part)) sent += with.bytes_sent;
      CHECK(sent == report.bytes_sent);
    }
  };
  auto const sent = [](std::vector<PartReport> const& reports) {
    Index all = 0;
    for (PartReport const& each : reports) all += each.bytes_sent;
    return static_cast<double>(all);
  };
  std::vector<PartReport> const once = report_parts(of.graph, options);
  compare_parts(once);
  CHECK(sent(once) <= 1.02 * static_cast<double>(traffic_bound(of.graph, options)));

  options.keep_received = 8;
  std::vector<PartReport> const again = report_parts(of.graph, options);
  compare_parts(again);
  CHECK(sent(again) <= 1.02 * static_cast<double>(traffic_bound(of.graph, options)));
  // Gathers of the forward pass, of the backward one, and one reduce-scatter: 3 W, not 2 W.
  CHECK(sent(again) >= 1.3 * sent(once));
  for (std::size_t rank = 0; rank < 4; ++rank) {
    INFO(once[rank].memory.arena << " bytes, " << again[rank].memory.arena << " where again");
    CHECK(again[rank].memory.arena * 100 < once[rank].memory.arena * 90);
    CHECK(again[rank].memory.stored == once[rank].memory.stored);
  }
  options.keep_received = 1'000'000;  // ops
  CHECK(report_parts(of.graph, options) == once);
}

TEST_CASE("traffic of more bytes than there are numbers is the largest one", "[graph][traffic]") {
  constexpr Index side = Index{1} << 29;  // results of 2^60 bytes
  LogicalGraph graph("large");
  Node const x = graph.input({.shape = {side, 16}, .axes = "m k"}, "x");
  gemm(x, graph.input({.shape = {16, side}, .axes = "k n"}, "w")).mark_output();
  PlanOptions options{.tile = 0, .cuts = {{"k", {1}}}, .mesh = {{"data", 16}}};
  options.rules = {{.axis = "k", .mesh = "data"}};
  CHECK(traffic_bound(graph, options) == INT64_MAX);
}
