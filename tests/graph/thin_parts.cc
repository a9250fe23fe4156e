// SPDX-License-Identifier: BSD-3-Clause
// A part that is planned from what one rank has to know equals that of the walk through the whole
// job.
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "nntile/graph/parts.hh"
#include "nntile/ops.hh"
#include "tests/graph/random_graph.hh"
#include "tests/support/catch.hh"
#include "tests/support/sanitized.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

using detail::PartOf;

/// The part of what a rank goes through; why there is none otherwise.
struct ThinPart {
  PlanData plan;
  std::string why;
};
ThinPart thin_part(LogicalGraph const& graph, PlanOptions const& options, int rank, PartOf of) {
  passes::MeshShape const mesh(options.mesh);
  try {
    return {detail::part_of(graph, options, mesh, rank, of), ""};
  } catch (passes::NotThin const& reason) {
    return {{}, reason.why};
  }
}

/// The whole job, planned once for all that is compared with it.
class Whole {
 public:
  Whole(LogicalGraph const& graph, PlanOptions const& options)
      : graph_(graph),
        options_(options),
        mesh_(options.mesh),
        job_(detail::job_of(graph, options, mesh_)) {}

  /// Compares parts at both ends of the mesh and within; whether they are those of thin jobs, or of
  /// jobs with the arguments of one rank.
  bool compare(PartOf of = PartOf::thin_job) {
    return compare({0, 1, mesh_.ranks() / 3, mesh_.ranks() / 2 + 1, mesh_.ranks() - 1}, of);
  }
  /// Compares those of all ranks.
  bool compare_all(PartOf of = PartOf::thin_job) {
    std::set<int> ranks;
    for (int rank = 0; rank < mesh_.ranks(); ++rank) ranks.insert(rank);
    return compare(ranks, of);
  }
  /// Reasons why parts are not those of thin jobs.
  std::set<std::string> const& why() const { return why_; }

 private:
  bool compare(std::set<int> const& ranks, PartOf of) {
    bool thin = true;
    for (int const rank : ranks) {
      INFO("rank " << rank << " of " << mesh_.ranks());
      ThinPart const part = thin_part(graph_, options_, rank, of);
      INFO(part.why);
      thin = thin && part.why.empty();
      if (!part.why.empty()) {
        why_.insert(part.why);
        continue;
      }
      PlanData const& whole = part_of(rank);
      CHECK(part.plan.tasks == whole.tasks);
      CHECK((part.plan == whole));
    }
    return thin;
  }
  PlanData const& part_of(int rank) {
    auto found = parts_.find(rank);
    if (found == parts_.end()) {
      passes::SplitPass split(job_.plan, mesh_, job_.homes, rank, options_.keep_received, nullptr);
      found = parts_.emplace(rank, split.run()).first;
    }
    return found->second;
  }

  LogicalGraph const& graph_;
  PlanOptions const& options_;
  passes::MeshShape const mesh_;
  detail::Job const job_;
  std::map<int, PlanData> parts_;
  std::set<std::string> why_;
};

struct Case {
  char const* name;
  std::vector<MeshAxis> mesh;
  std::vector<ShardRule> rules;
  int batch;
  bool thin;
  Index tile = 1;  // of the batch
};

}  // namespace

TEST_CASE("a part of a thin job is the part of the job", "[graph][parts]") {
  int tried = 0;
  for (Case const& of :
       std::vector<Case>{{"ddp of 3", {{"data", 3}}, ddp(), 6, false},
                         {"ddp of 11", {{"data", 11}}, ddp(), 11, true},
                         {"ddp of 16", {{"data", 16}}, ddp(), 16, true},
                         {"ddp of 9, ragged", {{"data", 9}}, ddp(), 13, true},
                         {"zero1 of 12", {{"data", 12}}, zero1(), 24, true},
                         {"fsdp of 13", {{"data", 13}}, fsdp(), 13, true},
                         {"zero1 of 16, 3 a rank", {{"data", 16}}, zero1(), 48, true},
                         {"ddp of 9, pairs", {{"data", 9}}, ddp(), 36, true, 2},
                         {"fsdp of 10, pairs", {{"data", 10}}, fsdp(), 40, true, 4},
                         {"ddp of 9, 3 a tile", {{"data", 9}}, ddp(), 27, true, 3},
                         {"fsdp of 67", {{"data", 67}}, fsdp(), 67, true}})
    for (bool const groups : {false, true}) {
      int const way = tried++ % 4;
      if (sanitized && (way == 1 || way == 2)) continue;  // each case once
      for (DType const dtype : {DType::fp32, DType::bf16}) {
        if (sanitized && dtype == DType::bf16) continue;
        INFO(of.name << (groups ? ", groups, " : ", ") << name_of(dtype));
        TinyGpt sizes{.batch = of.batch};
        sizes.config.dtype = dtype;
        if (groups) sizes.numerics.groups = {{"batch", of.batch}};
        TinyGptGraph const step(sizes);
        PlanOptions options{.tile = 64, .cuts = {{"batch", {of.tile}}, {"head", {1}}}};
        options.mesh = of.mesh;
        options.rules = of.rules;
        if (of.batch % 2 != 0) options.keep_received = 6;
        Whole whole(step.graph, options);
        CHECK(whole.compare() == (of.thin || !groups));
        CHECK(whole.compare(PartOf::own_arguments));
      }
    }
}

TEST_CASE("a part of two axes of a thin job is the part of the job", "[graph][parts]") {
  struct Of {
    char const* name;
    std::vector<MeshAxis> mesh;
    std::vector<ShardRule> rules;
    int each = 1;  // samples of a rank
    DType dtype = DType::fp32;
    Index tile = 1;  // of the batch
    bool words = true;
    std::uint32_t keep_received = PlanOptions::to_last_reader;
    double clip = 1;
  };
  for (Of const& of : std::vector<Of>{
           {"fsdp", {{"tensor", 2}, {"data", 6}}, fsdp()},
           {"fsdp, sent again", {{"tensor", 2}, {"data", 5}}, fsdp(), 1, DType::bf16, 1, true, 6},
           {"data nearest", {{"data", 8}, {"tensor", 2}}, zero1(), 2, DType::bf16},
           {"ddp", {{"tensor", 4}, {"data", 5}}, ddp(), 2, DType::fp32, 1, false},
           {"fewer batches", {{"tensor", 4}, {"data", 3}}, fsdp()},
           {.name = "fsdp, not clipped",
            .mesh = {{"tensor", 4}, {"data", 5}},
            .rules = fsdp(),
            .each = 1,
            .clip = 0},
           {"pairs", {{"tensor", 2}, {"data", 6}}, fsdp(), 4, DType::fp32, 2}}) {
    if (sanitized && of.each > 1) continue;
    INFO(of.name);
    TinyGpt sizes;
    int tensor = 1;
    for (MeshAxis const& axis : of.mesh) {
      if (axis.name == "data") sizes.batch = axis.size * of.each;
      if (axis.name == "tensor") tensor = axis.size;
    }
    sizes.config.vocab = 512;
    sizes.config.heads = 4;
    sizes.config.dtype = of.dtype;
    sizes.clip = of.clip;
    sizes.numerics.groups = {
        {"batch", static_cast<int>(sizes.batch)}, {"head", tensor}, {"hidden", tensor}};
    if (of.words) sizes.numerics.groups.push_back({"vocab", tensor});
    TinyGptGraph const step(sizes);
    PlanOptions options{.tile = 64, .cuts = {{"batch", {of.tile}}, {"head", {1}}}};
    options.mesh = of.mesh;
    options.rules = product({tensor_parallel(), of.rules});
    options.keep_received = of.keep_received;
    Whole whole(step.graph, options);
    CHECK(whole.compare_all());
    CHECK(whole.compare_all(PartOf::thin_rows));
    CHECK(whole.why() == std::set<std::string>());
  }
}

TEST_CASE("parts of two axes whose coordinates differ are those of the whole job",
          "[graph][parts]") {
  auto const refuses = [](std::vector<MeshAxis> const& mesh, int batch, int groups,
                          std::string const& why) {
    INFO(why);
    TinyGpt sizes{.batch = batch};
    sizes.config.heads = 4;
    int const tensor = mesh[0].size;
    if (groups > 1)
      sizes.numerics.groups = {{"batch", groups}, {"head", tensor}, {"hidden", tensor}};
    TinyGptGraph const step(sizes);
    PlanOptions options{.tile = 32, .cuts = {{"batch", {1}}, {"head", {1}}}};
    options.mesh = mesh;
    options.rules = product({tensor_parallel(), fsdp()});
    Whole whole(step.graph, options);
    CHECK_FALSE(whole.compare());
    CHECK(whole.why() == std::set{why});
  };
  refuses({{"tensor", 2}, {"data", 5}}, 6, 6, "coordinates with more tiles");
  refuses({{"tensor", 2}, {"data", 5}}, 5, 1,
          "a task that runs where other coordinates have its tiles");
  refuses({{"tensor", 3}, {"data", 4}}, 4, 4,
          "a mesh of few ranks or odd axes, stages, or owners by tile");
  refuses({{"tensor", 2}, {"data", 4}}, 4, 4,
          "a mesh of few ranks or odd axes, stages, or owners by tile");
}

TEST_CASE("a pipeline beside batches is planned whole", "[graph][parts]") {
  TinyGpt const sizes{.batch = 6, .numerics = {.groups = {{"batch", 6}}}};
  TinyGptGraph const step(sizes);
  PlanOptions options{.tile = 64, .cuts = {{"batch", {1}}}};
  options.mesh = {{"pipe", 2}, {"data", 6}};
  options.rules = product({pipeline({{"wte*", "wpe*"}, {"h.0.*", "ln_f*"}}), ddp()});
  Whole whole(step.graph, options);
  CHECK_FALSE(whole.compare());
  CHECK(whole.why() ==
        std::set<std::string>{"a mesh of few ranks or odd axes, stages, or owners by tile"});
}

TEST_CASE("a coordinate that adds its terms at several ranks plans the whole job",
          "[graph][parts]") {
  for (int const each : {1, 2}) {
    LogicalGraph graph("sum", {.groups = {{"batch", 6 * each}, {"in", 2}}});
    Node const w = graph.parameter({.shape = {8, 8}, .axes = "out in"}, "w");
    Node const x = graph.input({.shape = {8, 6 * each}, .axes = "in batch"}, "x");
    Node const y = gemm(w, x).named("y").mark_output();
    sum_slice({.axis = 1}, y).named("sum").mark_output();
    PlanOptions options{.tile = 64, .cuts = {{"batch", {1}}, {"in", {4}}}};
    options.mesh = {{"tensor", 2}, {"data", 6}};
    options.rules = {{.axis = "batch", .mesh = "data"}, {.axis = "in", .mesh = "tensor"}};
    Whole whole(graph, options);
    CHECK(whole.compare_all() == (each == 1));
    CHECK(whole.why() ==
          (each == 1 ? std::set<std::string>() : std::set<std::string>{"terms at other ranks"}));
  }
}

TEST_CASE("coordinates of a cycle take turns at the same ranks", "[graph][parts]") {
  auto const task = [](int coordinate) {
    PlannedTask result;
    result.location.rank = 1 + coordinate;
    return result;
  };
  auto const at = [](std::int16_t tensor) {
    RankBox box;
    box.at[0] = tensor;
    return box;
  };
  auto const run = [&](std::vector<std::pair<int, std::int16_t>> const& cycle) {
    passes::AlikeTurns turns;
    for (auto const& [coordinate, tensor] : cycle) turns.visit(task(coordinate), at(tensor), 1);
  };
  CHECK_NOTHROW(run({{0, 0}, {0, 1}, {2, 0}, {2, 1}, {5, 0}, {5, 1}, {0, 1}, {2, 1}}));
  CHECK_THROWS_AS(run({{0, 0}, {0, 1}, {2, 0}, {2, 0}}), passes::NotThin);
  CHECK_THROWS_AS(run({{0, 0}, {2, 0}, {2, 0}}), passes::NotThin);
  CHECK_THROWS_AS(run({{0, 0}, {2, 0}, {0, 1}, {2, 0}}), passes::NotThin);
}

TEST_CASE("a value comes to coordinates from one to another", "[graph][parts]") {
  for (bool const outermost : {true, false}) {
    std::vector<MeshAxis> axes{{"tensor", 4}, {"data", 40}};
    if (!outermost) std::swap(axes[0], axes[1]);
    passes::MeshShape const mesh(axes);
    std::size_t const data = outermost ? 1 : 0;
    for (std::int16_t const tensor : {RankBox::all, std::int16_t{3}}) {
      passes::ValidRanks valid(mesh, 1, data);
      RankBox box;
      box.at[data] = 0, box.at[1 - data] = 0;
      valid.set(0, box);
      RankBox row;
      row.at[1 - data] = tensor;
      valid.add(0, row, 5, 37);
      for (int rank = 0; rank < mesh.ranks(); ++rank) {
        int const at = mesh.coordinate(rank, data);
        CHECK(valid.has(0, rank) == (rank == 0 || (mesh.contains(row, rank) && at > 4 && at < 37)));
      }
      CHECK_FALSE(valid.all_have(0, row));
      valid.add(0, row, 0, 40);
      CHECK(valid.all_have(0, row));
    }
  }
}

// NNTILE_RANDOM_THIN (60) says of how many seeds.
TEST_CASE("parts of random graphs on two axes are those of the whole job", "[graph][parts]") {
  char const* const asked = std::getenv("NNTILE_RANDOM_THIN");
  std::uint64_t const seeds =
      asked != nullptr ? std::strtoull(asked, nullptr, 10) : (sanitized ? 12 : 60);
  std::size_t thin = 0, rows = 0, jobs = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    INFO("seed " << seed);
    std::minstd_rand random(static_cast<std::uint32_t>(seed));
    auto const below = [&](int n) {
      return static_cast<int>(random() / 64 % static_cast<unsigned>(n));
    };
    int const data = 6 + 2 * below(3), each = 1 + below(2);
    RandomExtents const extents{.shorter = 2, .longer = data * each, .named = true};
    Numerics numerics;
    if (below(4) != 0) numerics.groups.push_back({"shorter", 2});
    if (below(6) != 0) numerics.groups.push_back({"longer", data * each});
    RandomGraph drawn(seed, extents, numerics);
    drawn.loss.mark_output();
    PlanOptions options{.tile = 1 + below(3)};
    options.mesh = {{"tensor", 2}, {"data", data}};
    if (data == 8 && below(2) == 0) std::swap(options.mesh[0], options.mesh[1]);
    char const* const tensors[] = {"*", "*", "*", "t*", "c*"};
    char const* const owners[] = {"tensor", "data", "data", ""};
    for (Role const role : {Role::parameter, Role::state})
      options.rules.push_back({.role = role, .axis = "longer", .optional = true});
    options.rules.push_back(
        {.tensors = tensors[below(5)], .axis = "longer", .mesh = "data", .optional = true});
    options.rules.push_back(
        {.tensors = tensors[below(5)], .axis = "shorter", .mesh = "tensor", .optional = true});
    for (Role const role : {Role::parameter, Role::state, Role::output})
      options.rules.push_back({.role = role, .mesh = owners[below(4)]});
    if (below(3) == 0) options.keep_received = static_cast<std::uint32_t>(below(6));
    try {
      Whole whole(drawn.graph, options);
      ++jobs;
      thin += whole.compare_all() ? 1 : 0;
      rows += whole.compare_all(PartOf::thin_rows) ? 1 : 0;
    } catch (PlanError const&) {  // rules that share nothing out, or cut what stays whole
    }
  }
  CHECK(jobs * 3 > seeds);
  CHECK(thin * 5 > jobs);
  CHECK(rows * 5 > jobs);
}

TEST_CASE("a thin job has hardly more tasks than its rank", "[graph][parts]") {
  TinyGptGraph const step({.batch = 67, .numerics = {.groups = {{"batch", 67}}}});
  PlanOptions options{.tile = 64, .cuts = {{"batch", {1}}, {"head", {1}}}};
  options.mesh = {{"data", 67}};
  options.rules = ddp();
  passes::MeshShape const mesh(options.mesh);
  auto const job = detail::job_of(step.graph, options, mesh, 22, PartOf::thin_job);
  CHECK(job.plan.tasks.size() <= 2 * Plan(step.graph, options, 22).tasks().size());
}

TEST_CASE("a thin job of two axes does not grow with the longer one", "[graph][parts]") {
  std::vector<std::size_t> tasks;
  for (int const data : {16, 48}) {
    TinyGpt sizes{.batch = data};
    sizes.numerics.groups = {{"batch", data}, {"head", 2}, {"hidden", 2}};
    TinyGptGraph const step(sizes);
    PlanOptions options{.tile = 64, .cuts = {{"batch", {1}}, {"head", {1}}}};
    options.mesh = {{"tensor", 2}, {"data", data}};
    options.rules = product({tensor_parallel(), fsdp()});
    options.rules.insert(options.rules.begin(), {.axis = "vocab"});
    passes::MeshShape const mesh(options.mesh);
    tasks.push_back(
        detail::job_of(step.graph, options, mesh, 9, PartOf::thin_job).plan.tasks.size());
  }
  CHECK(tasks[1] < tasks[0] + tasks[0] / 4);
}

TEST_CASE("a thin job of few rows has half the tasks of one with eight", "[graph][parts]") {
  TinyGpt sizes{.batch = 16};
  sizes.config.heads = 8;
  sizes.clip = 0;
  sizes.numerics.groups = {{"batch", 16}, {"head", 8}, {"hidden", 8}};
  TinyGptGraph const step(sizes);
  PlanOptions options{.tile = 64, .cuts = {{"batch", {1}}, {"head", {1}}}};
  options.mesh = {{"tensor", 8}, {"data", 16}};
  options.rules = product({tensor_parallel(), fsdp()});
  options.rules.insert(options.rules.begin(), {.axis = "vocab"});
  passes::MeshShape const mesh(options.mesh);
  auto const tasks = [&](PartOf of) {
    return detail::job_of(step.graph, options, mesh, 43, of).plan.tasks.size();
  };
  CHECK(tasks(PartOf::thin_rows) * 2 < tasks(PartOf::thin_job));
}

TEST_CASE("a part of two axes needs no arguments of other ranks' tasks", "[graph][parts]") {
  for (bool const groups : {false, true})
    for (auto const& rules :
         {product({tensor_parallel(), fsdp()}), product({tensor_parallel(), zero1()}),
          product({tensor_parallel(), ddp()})}) {
      INFO("groups " << groups);
      TinyGpt sizes{.batch = 6};
      if (groups) sizes.numerics.groups = {{"batch", 6}, {"head", 2}, {"hidden", 2}};
      TinyGptGraph const step(sizes);
      PlanOptions options{.tile = 64, .cuts = {{"batch", {1}}, {"head", {1}}}};
      options.mesh = {{"tensor", 2}, {"data", 3}};
      options.rules = rules;
      CHECK(Whole(step.graph, options).compare(PartOf::own_arguments));
    }
}

TEST_CASE("a rank that runs a task which rules give another plans with all arguments",
          "[graph][parts]") {
  LogicalGraph graph("product");
  Node const w = graph.parameter({.shape = {8, 8}, .axes = "out in"}, "w");
  Node const x = graph.input({.shape = {8, 4}, .axes = "in batch"}, "x");
  gemm(w, x).named("y").mark_output();
  PlanOptions options{.tile = 64, .cuts = {{"batch", {1}}}};
  options.mesh = {{"data", 2}};
  options.rules = ddp();
  options.owners = [](std::string_view tensor, Index tile) {
    return tensor == "y" ? 1 - static_cast<int>(tile / 2) : TileOwners::by_rules;
  };
  CHECK_FALSE(Whole(graph, options).compare(PartOf::own_arguments));
  Plan const part(graph, options, 0);
  passes::MeshShape const mesh(options.mesh);
  CHECK(part.tasks().size() ==
        detail::part_of(graph, options, mesh, 0, PartOf::whole_job).tasks.size());
}

TEST_CASE("each rank is sent what it reads in turn, tile after tile", "[graph][parts]") {
  LogicalGraph graph("rows");
  Node const w = graph.input({.shape = {12, 8}, .axes = "out in"}, "w");
  Node const x = graph.parameter({.shape = {8, 6}, .axes = "in batch"}, "x");
  gemm(w, x).named("y").mark_output();
  for (int const ranks : {4, 12}) {
    PlanOptions options{.tile = 64, .cuts = {{"out", {1}}, {"batch", {1}}}};
    options.mesh = {{"data", ranks}};
    options.rules = {{.axis = "out", .mesh = "data"}, {.role = Role::parameter, .mesh = "data"}};
    CHECK(Whole(graph, options).compare());
  }
}

TEST_CASE("a rank that reads what all others hold is sent it", "[graph][parts]") {
  LogicalGraph graph("gram");
  Node const w = graph.parameter({.shape = {12, 2}, .axes = "in out"}, "w");
  gemm({.trans_a = true}, w, w).named("y").mark_output();
  for (int const ranks : {5, 12}) {
    PlanOptions options{.tile = 64, .cuts = {{"in", {1}}}};
    options.mesh = {{"data", ranks}};
    options.rules = {{.axis = "in", .mesh = "data"}, {.role = Role::output, .mesh = "data"}};
    CHECK(Whole(graph, options).compare());
  }
}

TEST_CASE("a rank that reads what all others compute plans the whole job", "[graph][parts]") {
  LogicalGraph graph("sum");
  Node const x = graph.input({.shape = {4, 6}, .axes = "in batch"}, "x");
  sum_slice({.axis = 1}, gelutanh(x)).named("y").mark_output();
  PlanOptions options{.tile = 64, .cuts = {{"batch", {1}}}};
  options.mesh = {{"data", 6}};
  options.rules = {{.axis = "batch", .mesh = "data"}, {.role = Role::output, .mesh = "data"}};
  CHECK_FALSE(Whole(graph, options).compare());
}

TEST_CASE("a part has buffers of the tiles that its rank has, in ascending order",
          "[graph][parts]") {
  std::vector<std::size_t> buffers;
  for (int const ranks : {4, 16, 64}) {
    INFO(ranks << " ranks");
    TinyGptGraph const step({.batch = ranks, .numerics = {.groups = {{"batch", ranks}}}});
    PlanOptions options{.tile = 64, .cuts = {{"batch", {1}}, {"head", {1}}}};
    options.mesh = {{"data", ranks}};
    options.rules = ddp();
    options.check = true;
    Plan const part(step.graph, options, 1);
    std::vector<bool> used(part.buffers().size());
    for (PlannedTask const& task : part.tasks())
      for (Use<BufferId> const& use : part.uses(task)) used[use.handle] = true;
    for (BufferId b = 0; b < part.buffers().size(); ++b) {
      PlannedBuffer const& buffer = part.buffers()[b];
      CHECK(buffer.location == Location{1, host});
      CHECK((used[b] || part.tensors()[buffer.tensor].storage != Storage::arena));
      CHECK(part.buffer_of(buffer.tensor, buffer.tile) == b);
      if (b > 0 && part.buffers()[b - 1].tensor == buffer.tensor)
        CHECK(part.buffers()[b - 1].tile < buffer.tile);
    }
    CHECK(part.buffer_of(part.tensor("tokens"), 0) == no_id);
    buffers.push_back(part.buffers().size());
  }
  // Where there are 16 times as many ranks, sums have more levels.
  CHECK(buffers[2] < buffers[0] + buffers[0] / 2);
}
