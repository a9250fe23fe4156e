// SPDX-License-Identifier: BSD-3-Clause
// Parts of one plan on the ranks of a process: the bits of one rank, whatever overtakes what.
#include "nntile/graph/parts.hh"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "nntile/ops.hh"
#include "nntile/runtime/ring/ring.hh"
#include "tests/comm/random_job.hh"
#include "tests/comm/run_parts.hh"
#include "tests/comm/train_part.hh"
#include "tests/support/catch.hh"
#include "tests/support/job_proof.hh"
#include "tests/support/message.hh"
#include "tests/support/sanitized.hh"
#include "tests/support/setting.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

template <class R>
Tiles train(std::vector<MeshAxis> const& mesh, std::vector<ShardRule> const& rules,
            LocalOptions const& local = {}, std::vector<AxisGroups> const& groups = {},
            bool by_phase = false) {
  return run_parts<R>(mesh, local, [&](TensorStore<R>& store) {
    return train_part(store, mesh, rules, groups, by_phase);
  });
}

}  // namespace

TEST_CASE("a training step has the bits of one rank on every mesh", "[comm][parts]") {
  LocalOptions const late{.seed = 7, .most_delay = 9, .eager_bytes = 4096};
  auto const stages = pipeline({{"wte.*", "wpe.*"}, {"h.0.*", "ln_f.*"}});
  struct Case {
    char const* name;
    bool ring;
    std::vector<MeshAxis> mesh;
    std::vector<ShardRule> rules;
    bool by_phase = false;
  };
  std::vector<Case> const cases = {
      {"ddp of 2", false, {{"data", 2}}, ddp()},
      {"ddp of 4", true, {{"data", 4}}, ddp()},
      {"zero1 of 3", false, {{"data", 3}}, zero1()},
      {"fsdp of 4", true, {{"data", 4}}, fsdp()},
      {"tensor 2", true, {{"tensor", 2}}, tensor_parallel()},
      {"sequence 2", false, {{"seq", 2}}, sequence_parallel()},
      {"tensor 2, zero1 of 2",
       true,
       {{"tensor", 2}, {"data", 2}},
       product({tensor_parallel(), zero1()})},
      {"pipeline 2", true, {{"pipe", 2}}, stages},
      {"pipeline 2, ddp of 2", false, {{"data", 2}, {"pipe", 2}}, product({ddp(), stages})},
      {"fsdp of 2, by phases", true, {{"data", 2}}, fsdp(), true},
      {"pipeline 2, by phases", false, {{"pipe", 2}}, stages, true},
      {"pipeline 2, fsdp of 2", true, {{"pipe", 2}, {"data", 2}}, product({stages, fsdp()})}};
  auto const try_all = [&](std::vector<AxisGroups> const& groups) {
    Tiles const one = train<Serial>({}, {}, {}, groups);
    for (std::size_t c = 0; c < cases.size(); ++c) {
      if (sanitized && (c % 2 == 0) != groups.empty()) continue;  // each once
      Case const& each = cases[c];
      INFO(each.name);
      LocalOptions const local = c == 0 ? LocalOptions{} : late;
      Tiles const tiles = each.ring
                              ? train<Ring>(each.mesh, each.rules, local, groups, each.by_phase)
                              : train<Serial>(each.mesh, each.rules, local, groups, each.by_phase);
      REQUIRE(tiles.size() == one.size());
      for (auto const& [tile, bytes] : one)
        if (tiles.at(tile) != bytes) FAIL_CHECK(tile << " differs");
    }
  };
  try_all({});
  try_all({{"batch", 4}, {"head", 2}, {"hidden", 2}, {"seq", 2}});
  // More than eight ranks, so that values go along trees.
  std::vector<AxisGroups> const groups{{"batch", 2}};
  std::vector<ShardRule> const owned{{.axis = "batch", .mesh = "data"},
                                     {.role = Role::state, .mesh = "own"},
                                     {.role = Role::parameter, .mesh = "own"}};
  Tiles const one = train<Serial>({}, {}, {}, groups);
  CHECK((train<Serial>({{"data", 2}, {"own", 5}}, owned, late, groups) == one));
  // Of these, along one axis coordinates that do alike.
  std::vector<AxisGroups> const all{{"batch", 4}, {"head", 2}, {"hidden", 2}};
  std::vector<ShardRule> rules = product({tensor_parallel(), ddp()});
  for (Role const role : {Role::state, Role::parameter})
    rules.push_back({.role = role, .mesh = "own"});
  Tiles const whole = train<Serial>({}, {}, {}, all);
  std::vector<std::vector<MeshAxis>> meshes{{{"tensor", 2}, {"data", 4}, {"own", 2}}};
  if (!sanitized) meshes.push_back({{"data", 4}, {"own", 2}, {"tensor", 2}});
  for (std::vector<MeshAxis> const& mesh : meshes) {
    passes::MeshShape const shape(mesh);
    CHECK(shape.alike_axis(1u << shape.find("tensor")) == shape.find("data"));
    CHECK((train<Serial>(mesh, rules, late, all) == whole));
  }
}

// NNTILE_RANDOM_PARTS (50) says how many, NNTILE_RANDOM_SEED (1) from which seed on.
TEST_CASE("random graphs have the bits, bytes and messages of their plans on random meshes",
          "[comm][parts]") {
  std::uint64_t const count = setting("NNTILE_RANDOM_PARTS", sanitized ? 15 : 50);
  std::uint64_t seed = setting("NNTILE_RANDOM_SEED", 1), tried = 0;
  std::size_t messages = 0, refused = 0, ranks = 0, cut = 0;
  for (; tried < count; ++seed) {
    INFO("seed " << seed);
    RandomParts parts(seed, seed % 8 == 0);
    if (parts.is_useless()) continue;
    for (std::string const& text : parts.refused_cuts()) {
      INFO(text);
      CHECK((contains(text, " ranks of mesh axis '") || contains(text, "no rule shares anything")));
    }
    if (!parts.refusal().empty()) {
      INFO(parts.refusal());
      CHECK((contains(parts.refusal(), "place both tensors by one rule") ||
             contains(parts.refusal(), "no rule shares anything out")));
      ++refused;
      continue;
    }
    ++tried;
    CHECK(fault_of(parts.graph(), parts.options()) == "");
    PlanOptions options = parts.alone();
    auto const job = [&](auto& store) { return run_random(parts, options, store).traffic; };
    Tiles const one = run_parts<Serial>({}, {}, job);
    options = parts.options();
    for (Plan const& part : parts_of(parts.graph(), options))
      for (PlannedTraffic const& with : traffic(part))
        messages += static_cast<std::size_t>(with.sent);
    ranks += static_cast<std::size_t>(parts.ranks());
    cut += parts.cuts_axes() ? 1u : 0u;
    LocalOptions const local{.seed = seed,
                             .most_delay = parts.below(6),
                             .eager_bytes = parts.below(2) == 0 ? 0u : 4096u};
    Tiles const tiles = seed % 2 == 0 ? run_parts<Serial>(options.mesh, local, job)
                                      : run_parts<Ring>(options.mesh, local, job);
    CHECK(tiles == one);
  }
  if (std::getenv("NNTILE_RANDOM_PARTS") != nullptr)
    std::printf(
        "random parts: %zu graphs, %zu of them with cut axes, %zu parts, %zu messages a "
        "run, %zu refused\n",
        static_cast<std::size_t>(tried), cut, ranks, messages, refused);
  CHECK(messages > 2 * tried);
  CHECK(refused * 4 < tried);
  CHECK(cut * 5 > tried);
}

TEST_CASE("a failure on one rank fails what others compute of it, and all come to an end",
          "[comm][parts]") {
  LogicalGraph graph("sum");
  Node const table = graph.input({.shape = {4, 8}, .axes = "embed vocab"}, "table");
  Node const tokens = graph.input({.shape = {4}, .dtype = DType::int64, .axes = "batch"}, "tokens");
  Node const rows = embedding(tokens, table).named("rows").mark_output();
  sum_slice({.axis = 1}, rows).named("sum").mark_output();
  PlanOptions options{.tile = 64, .cuts = {{"batch", {1}}}};
  options.mesh = {{"data", 2}};
  options.rules = ddp();
  std::vector<std::string> said(2);
  LocalWorld world(2);
  auto const thrown = on_ranks(world, [&](LocalComm& comm) {
    Transfers transfers(comm);
    Ring runtime({.workers = 2});
    TensorStore<Ring> store(runtime, link_of(transfers));
    CompiledGraph<Ring> step = compile_part(graph, store, options);
    step.bind_input("table", std::vector<float>(32, 1));
    // The first batch, rank 0's, asks for a row that is not there.
    step.bind_input("tokens", std::vector<std::int64_t>{99, 1, 2, 3});
    try {
      step.execute();
      said[static_cast<std::size_t>(comm.rank())] = "it went well";
    } catch (TaskError const& error) {
      said[static_cast<std::size_t>(comm.rank())] = error.what();
    }
    comm.barrier();
    // What is bound anew and computed anew is right again.
    step.bind_input("tokens", std::vector<std::int64_t>{0, 1, 2, 3});
    step.execute();
    if (step.get_output<float>("sum") != std::vector<float>(4, 4)) throw Error("another sum");
    comm.barrier();
  });
  CHECK(thrown == std::vector<std::string>(2));
  CHECK(said[0].find("99") != std::string::npos);
  CHECK(said[1].find("rank 0") != std::string::npos);
}

TEMPLATE_TEST_CASE("several runs in flight send the same tiles", "[comm][parts]", Serial, Ring) {
  LogicalGraph graph("forward");
  Node const w = graph.parameter({.shape = {4, 4}, .axes = "out in"}, "w");
  Node const x = graph.input({.shape = {4, 2}, .axes = "in batch"}, "x");
  gemm(w, x).named("y").mark_output();
  PlanOptions options{.tile = 64, .cuts = {{"batch", {1}}}};
  options.mesh = {{"data", 2}};
  options.rules = fsdp();  // w is rank 0's
  for (bool const replay : {false, true}) {
    LocalWorld world(2);
    auto const thrown = on_ranks(world, [&](LocalComm& comm) {
      Transfers transfers(comm);
      TestType runtime;
      TensorStore<TestType> store(runtime, link_of(transfers));
      CompiledGraph<TestType> step = compile_part(graph, store, options, {.replay = replay});
      store.template write<float>("w", std::vector<float>(16, 1));
      step.bind_input("x", std::vector<float>(8, 1));
      std::vector<GraphRun<TestType>> runs;
      for (int run = 0; run < 3; ++run) {
        if (comm.rank() == 0) runs.push_back(step.execute_async());
        if (comm.rank() == 1) step.execute();
      }
      for (auto& run : runs) run.wait();
      comm.barrier();
    });
    CHECK(thrown == std::vector<std::string>(2));
  }
}
