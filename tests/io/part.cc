// SPDX-License-Identifier: BSD-3-Clause
// Parts of a job in files: what comes back is equal, runs to the same bits, and differs from
// the parts of other ranks and jobs.
#include "nntile/io/part.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nntile/graph/dump.hh"
#include "nntile/ops.hh"
#include "nntile/runtime/ring/ring.hh"
#include "tests/comm/run_parts.hh"
#include "tests/comm/small_job.hh"
#include "tests/graph/random_parts.hh"
#include "tests/io/scratch.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/sanitized.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::io;
using namespace nntile::test;

namespace {

constexpr int ranks = 4;

PlanOptions fsdp_options() {
  PlanOptions options{.tile = 64, .cuts = {{"batch", {1}}}, .mesh = {{"data", ranks}}};
  options.rules = fsdp();
  return options;
}
TinyGpt of_four_batches() {
  TinyGpt sizes{.batch = 4};
  sizes.numerics.groups = {{"batch", 4}};
  return sizes;
}

/// CHECKs that parts come back as they were; under sanitizers those of the first and last rank.
void check_comes_back(LogicalGraph const& graph, PlanOptions const& options) {
  int const last = passes::MeshShape(options.mesh).ranks() - 1;
  for (int rank = 0; rank <= last; rank += sanitized && last > 0 ? last : 1) {
    INFO("rank " << rank);
    PlannedPart const part(graph, options, rank);
    std::string const text = part_text(part, graph);
    PlannedPart const back = part_of(text, "p.json", graph);
    CHECK(digest(*back.plan) == digest(*part.plan));
    std::size_t const tasks = part.plan->tasks().size();
    CHECK(dump(*back.plan, tasks) == dump(*part.plan, tasks));
    if (options.place.empty()) CHECK(diff(*back.plan, *part.plan) == "");  // else copies end lists
    CHECK(back.options == part.options);
    CHECK(part_text(back, graph) == text);
  }
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  std::size_t const at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}

/// Tiles behind two steps of a small GPT-2, whose parts bind(graph, store) gives.
template <class Bind> Tiles trained(Bind bind) {
  return run_parts<Ring>({{"data", ranks}}, {.seed = 3, .most_delay = 5}, [&](auto& store) {
    TinyGptGraph const of(of_four_batches());
    CompiledGraph<Ring> step = bind(of.graph, store);
    PlanOptions around{.tile = 64, .mesh = {{"data", ranks}}};
    LogicalGraph init("init");
    nn::initialize(init, of.step, 1);
    compile_part(init, store, around).execute();
    store.template write<Index>("positions", of.step.position_values());
    for (int number = 1; number <= 2; ++number) {
      auto const [tokens, labels] = tiny_batch(of.sizes, number);
      step.template bind_input<std::int64_t>("tokens", tokens);
      step.template bind_input<std::int64_t>("labels", labels);
      step.template bind_input<float>("lr", std::vector<float>{0.01f});
      step.template bind_input<std::int64_t>("step", std::vector<std::int64_t>{number});
      step.execute();
    }
    return times(traffic(step.plan()), 2);
  });
}

std::string part_error(std::string const& text, LogicalGraph const& graph) {
  return message_of<FormatError>([&] { (void)part_of(text, "p.json", graph); });
}

/// What binding says on each of two ranks.
template <class Part>
std::vector<std::string> binding_errors(LogicalGraph const& graph, Part part) {
  LocalWorld world(2);
  return on_ranks(world, [&](LocalComm& comm) {
    Transfers transfers(comm);
    Serial runtime;
    TensorStore<Serial> store(runtime, link_of(transfers));
    bind_part(graph, part(comm.rank()), store);
  });
}

}  // namespace

TEST_CASE("parts that were saved run to the bits of those that were planned", "[io][part]") {
  Scratch const scratch;
  auto const path = [&](int rank) { return concat(scratch.path(), "/part", rank, ".json"); };
  TinyGptGraph const of(of_four_batches());
  for (int rank = 0; rank < ranks; ++rank)
    save_part(path(rank), PlannedPart(of.graph, fsdp_options(), rank), of.graph);
  Tiles const planned = trained([](LogicalGraph const& graph, auto& store) {
    return compile_part(graph, store, fsdp_options());
  });
  Tiles const loaded = trained([&](LogicalGraph const& graph, auto& store) {
    return bind_part(graph, load_part(path(store.link().rank), graph), store);
  });
  CHECK_FALSE(planned.empty());
  CHECK((loaded == planned));
}

TEST_CASE("parts come back, of every preset and order", "[io][part][single-threaded]") {
  TinyGptGraph const of(of_four_batches());
  auto const stages = pipeline({{"wte.*", "wpe.*"}, {"h.0.*", "ln_f.*"}});
  std::vector<std::pair<std::vector<MeshAxis>, std::vector<ShardRule>>> const meshes = {
      {{{"data", 3}}, zero1()},
      {{{"pipe", 2}}, stages},
      {{{"tensor", 2}, {"data", 2}}, product({tensor_parallel(), fsdp()})}};
  for (auto const& [mesh, rules] : meshes) {
    PlanOptions options = fsdp_options();
    options.mesh = mesh;
    options.rules = rules;
    check_comes_back(of.graph, options);
    options.by_phase = true;
    check_comes_back(of.graph, options);
    options.by_phase = false;
    options.keep_received = 2;
    options.adopted = {"tokens"};
    check_comes_back(of.graph, options);
    options.policy.placement = Placement::owner_computes;
    check_comes_back(of.graph, options);
  }
  PlanOptions options = fsdp_options();
  options.place = {{.place = device(0)}};
  check_comes_back(of.graph, options);
}

TEST_CASE("the part of one of many ranks, of a thin job, comes back",
          "[io][part][single-threaded]") {
  LogicalGraph graph("thin", {.groups = {{"batch", 16}}});
  Node const w = graph.parameter({.shape = {64, 64}, .axes = "out in"}, "w");
  Node const x = graph.input({.shape = {64, 64}, .axes = "in batch"}, "x");
  sum_slice({.axis = 1}, gelutanh(gemm(w, x))).named("s").mark_output();
  PlanOptions options{.tile = 4, .mesh = {{"data", 16}}, .rules = fsdp()};
  check_comes_back(graph, options);
}

TEST_CASE("parts whose parameters leave a device come back where the first op is pruned",
          "[io][part]") {
  LogicalGraph graph("g");
  Node const x = graph.input({.shape = {4, 4}, .axes = "in batch"}, "x");
  gelutanh(x);
  Node const w = graph.parameter({.shape = {4, 4}, .axes = "out in"}, "w");
  gemm(w, x).named("z").mark_output();
  PlanOptions options{.tile = 2,
                      .mesh = {{"data", 2}},
                      .rules = fsdp(),
                      .place = {{.tensors = "w", .place = device(0)}}};
  check_comes_back(graph, options);
}

TEST_CASE("a part of a job of one rank is not saved", "[io][part]") {
  TinyGptGraph const of;
  PlanOptions const options{.tile = 64, .mesh = {{"data", 1}}, .rules = ddp()};
  CHECK(message_of<PlanError>([&] {
          (void)part_text(PlannedPart(of.graph, options, 0), of.graph);
        }) == "plan '" + of.graph.name() +
                  "': a job of one rank has no parts to be saved; save a "
                  "plan without a mesh");
}

TEST_CASE("a part without a plan is not saved", "[io][part]") {
  LogicalGraph const graph("empty");
  PlannedPart const part(nullptr, 0);
  CHECK(message_of<PlanError>([&] { save_part("/nowhere", part, graph); }) ==
        "save_part: graph 'empty': the part's plan is an empty shared_ptr; make one by "
        "PlannedPart(graph, options, rank)");
}

TEST_CASE("parts of random jobs come back", "[io][part][single-threaded]") {
  int tried = 0;
  for (std::uint64_t seed = 1; tried < (sanitized ? 8 : 25); ++seed) {
    RandomParts const parts(seed);
    if (parts.is_useless() || !parts.refusal().empty()) continue;
    INFO("seed " << seed);
    ++tried;
    if (parts.ranks() > 1) check_comes_back(parts.graph(), parts.options());
  }
}

TEST_CASE("a part of another graph, a cut file and wrong numbers are one error", "[io][part]") {
  SmallJob const job("job", 1), other("other", 1);
  std::string const text = part_text(PlannedPart(job.graph, SmallJob::options(2), 1), job.graph);
  CHECK(contains(part_error(text, other.graph),
                 "'p.json': the plan is one of another graph than 'other': of one with hash "));
  for (std::size_t const at : {text.size() / 3, text.size() / 2, text.size() - 3})
    CHECK(contains(part_error(text.substr(0, at), job.graph), "p.json"));
  auto const error = [&](char const* from, char const* to) {
    return part_error(replaced(text, from, to), job.graph);
  };
  CHECK(error("\"rank\": 1", "\"rank\": 2") == "'p.json': the part of rank 2 of 2");
  CHECK(error("\"ranks\": 2", "\"ranks\": 0") == "'p.json': the part of rank 1 of 0");
  CHECK(contains(error("\"rank\": 1", "\"rank\": 0"), "p.json"));
  CHECK(contains(error("\"homes\":[[", "\"homes\":[[7,"), "a tile's home is"));
  CHECK(contains(error("\"homes\":[[", "\"homes\":[[0,-1,-1,-1,0,0],["), "has homes of "));
  CHECK(contains(error("\"kind\":\"send\"", "\"kind\":\"sent\""), "neither send nor receive"));
  std::string const first = text.substr(text.find("{\"send\":["), 30);
  std::size_t const comma = first.find(',');
  CHECK(contains(
      error((first.substr(0, comma + 1) + "0").c_str(), (first.substr(0, comma + 1) + "1").c_str()),
      "a send has rank 1"));
  std::size_t const node = text.find("\"node\":", text.find("{\"send\":[")) + 7;
  CHECK(contains(part_error(std::string(text).insert(node, "9"), job.graph),
                 "a send belongs to node 9"));
  CHECK(contains(error("\"messages\": ", "\"messages\": -"), "message 0 of -"));
  std::size_t const messages = text.find("\"messages\": ") + 12;
  std::string const beyond = std::to_string(std::int64_t{1} << 62);
  CHECK(part_error(std::string(text).replace(messages, text.find(',', messages) - messages, beyond),
                   job.graph) ==
        "'p.json': there are " + beyond + " messages, more than can be numbered");
  std::size_t const options = text.find("\"options\": \"") + 12;
  CHECK(contains(part_error(std::string(text).replace(options, 1, "x"), job.graph),
                 "options of digest 'x"));
  Plan const alone(job.graph, {.tile = 2});
  CHECK(part_error(plan_text(alone, job.graph), job.graph) ==
        "'p.json': a plan, but no rank's part of a job");
}

TEST_CASE("a part that does not say where tiles are is refused", "[io][part]") {
  SmallJob const job("job", 1);
  PlannedPart const part(job.graph, SmallJob::options(2), 1);
  std::string const text = part_text(part, job.graph);
  std::string const without = replaced(text, "\"homes\"", "\"former homes\"");
  CHECK(part_error(without, job.graph) == "'p.json': 'job.w' has homes of 0 tiles, and 12 tiles");
}

TEST_CASE("any digit of a part that is changed is told", "[io][part][single-threaded]") {
  SmallJob const job("job", 1);
  PlannedPart const part(job.graph, SmallJob::options(2), 0);
  std::string const text = part_text(part, job.graph);
  int told = 0;
  for (std::size_t at = 0; at < text.size(); at += sanitized ? 21 : 7) {
    if (text[at] < '0' || text[at] > '9') continue;
    std::string broken = text;
    broken[at] = text[at] == '9' ? '1' : static_cast<char>(text[at] + 1);
    try {
      PlannedPart const back = part_of(broken, "p", job.graph);
      CHECK((back.options != part.options || part_text(back, job.graph) == text));
    } catch (FormatError const&) {
      ++told;
    } catch (PlanError const& error) {
      FAIL_CHECK("at " << at << ": " << error.what());
    }
  }
  CHECK(told > (sanitized ? 7 : 20));
}

TEST_CASE("a part on another rank, or of another job, is not bound", "[io][part]") {
  SmallJob const job("job", 1);
  PlanOptions const options = SmallJob::options(2);
  auto const exchanged = binding_errors(
      job.graph, [&](int rank) { return PlannedPart(job.graph, options, 1 - rank); });
  CHECK(exchanged[0] == "plan 'job': the part of rank 1 of 2 on rank 0: give each its own");
  PlanOptions other = options;
  other.keep_received = 3;
  auto const differs = binding_errors(job.graph, [&](int rank) {
    return PlannedPart(job.graph, rank == 0 ? options : other, rank);
  });
  for (std::string const& text : differs)
    CHECK(contains(text, "another mesh, rules, owners or dims than"));
  auto const more = binding_errors(
      job.graph, [&](int rank) { return PlannedPart(job.graph, SmallJob::options(3), rank); });
  for (std::string const& text : more)
    CHECK(contains(text, "a mesh of 3 ranks, and the store's communicator has 2"));
}

TEST_CASE("parts that send other tiles than are received are not bound", "[io][part]") {
  SmallJob const job("job", 1);
  auto const texts = binding_errors(job.graph, [&](int rank) {
    PlannedPart part(job.graph, SmallJob::options(2), rank);
    if (rank == 0) return part;
    PlanData data = part.plan->data();
    std::vector<std::byte*> numbers;  // of what is sent, all to rank 0
    for (PlannedTask const& task : data.tasks)
      if (data.kernels[task.kernel].kind == KernelKind::send)
        numbers.push_back(data.args.data() + task.args + offsetof(TransferArgs, number));
    std::swap_ranges(numbers.front(), numbers.front() + 8, numbers.back());
    part.plan = std::make_shared<Plan const>(std::move(data));
    return part;
  });
  for (std::string const& text : texts)
    CHECK(text ==
          "plan 'job': the ranks' parts send other messages than they receive: plan all of "
          "them anew, with the same options");
}
