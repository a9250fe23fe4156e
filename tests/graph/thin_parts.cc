// SPDX-License-Identifier: BSD-3-Clause
// A part that is planned from what one rank has to know equals that of the walk through the whole
// job.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "nntile/graph/parts.hh"
#include "nntile/ops.hh"
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
    bool thin = true;
    for (int const rank :
         std::set<int>{0, 1, mesh_.ranks() / 3, mesh_.ranks() / 2 + 1, mesh_.ranks() - 1}) {
      INFO("rank " << rank << " of " << mesh_.ranks());
      ThinPart const part = thin_part(graph_, options_, rank, of);
      INFO(part.why);
      thin = thin && part.why.empty();
      if (!part.why.empty()) continue;
      PlanData const& whole = part_of(rank);
      CHECK(part.plan.tasks == whole.tasks);
      CHECK((part.plan == whole));
    }
    return thin;
  }

 private:
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

TEST_CASE("a thin job has hardly more tasks than its rank", "[graph][parts]") {
  TinyGptGraph const step({.batch = 67, .numerics = {.groups = {{"batch", 67}}}});
  PlanOptions options{.tile = 64, .cuts = {{"batch", {1}}, {"head", {1}}}};
  options.mesh = {{"data", 67}};
  options.rules = ddp();
  passes::MeshShape const mesh(options.mesh);
  auto const job = detail::job_of(step.graph, options, mesh, 22, PartOf::thin_job);
  CHECK(job.plan.tasks.size() <= 2 * Plan(step.graph, options, 22).tasks().size());
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
