// SPDX-License-Identifier: BSD-3-Clause
// A part that is planned from what one rank has to know equals that of the walk through the whole
// job.
#include <set>
#include <string>
#include <vector>

#include "nntile/graph/parts.hh"
#include "nntile/ops.hh"
#include "tests/support/catch.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// The part of a thin job; why there is none otherwise.
struct ThinPart {
  PlanData plan;
  std::string why;
};
ThinPart thin_part(LogicalGraph const& graph, PlanOptions const& options, int rank) {
  passes::MeshShape const mesh(options.mesh);
  try {
    return {detail::part_of(graph, options, mesh, rank, detail::PartOf::thin_job), ""};
  } catch (passes::NotThin const& reason) {
    return {{}, reason.why};
  }
}

/// Compares parts at both ends of the mesh and within; whether they are those of thin jobs.
bool compare(LogicalGraph const& graph, PlanOptions const& options) {
  passes::MeshShape const mesh(options.mesh);
  bool thin = true;
  for (int const rank :
       std::set<int>{0, 1, mesh.ranks() / 3, mesh.ranks() / 2 + 1, mesh.ranks() - 1}) {
    INFO("rank " << rank << " of " << mesh.ranks());
    ThinPart const part = thin_part(graph, options, rank);
    INFO(part.why);
    thin = thin && part.why.empty();
    if (!part.why.empty()) continue;
    PlanData const whole = detail::part_of(graph, options, mesh, rank, detail::PartOf::whole_job);
    CHECK(part.plan.tasks == whole.tasks);
    CHECK((part.plan == whole));
  }
  return thin;
}

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
  for (Case const& of :
       std::vector<Case>{{"ddp of 3", {{"data", 3}}, ddp(), 6, false},
                         {"ddp of 11", {{"data", 11}}, ddp(), 11, true},
                         {"ddp of 16", {{"data", 16}}, ddp(), 16, true},
                         {"ddp of 9, ragged", {{"data", 9}}, ddp(), 13, true},
                         {"zero1 of 12", {{"data", 12}}, zero1(), 24, true},
                         {"fsdp of 13", {{"data", 13}}, fsdp(), 13, true},
                         {"ddp of 9, pairs", {{"data", 9}}, ddp(), 36, true, 2},
                         {"fsdp of 10, pairs", {{"data", 10}}, fsdp(), 40, true, 4},
                         {"ddp of 9, 3 a tile", {{"data", 9}}, ddp(), 27, true, 3}})
    for (bool const groups : {false, true}) {
      INFO(of.name << (groups ? ", groups" : ""));
      TinyGpt sizes{.batch = of.batch};
      if (groups) sizes.numerics.groups = {{"batch", of.batch}};
      TinyGptGraph const step(sizes);
      PlanOptions options{.tile = 64, .cuts = {{"batch", {of.tile}}, {"head", {1}}}};
      options.mesh = of.mesh;
      options.rules = of.rules;
      if (of.batch % 2 != 0) options.keep_received = 6;
      CHECK(compare(step.graph, options) == (of.thin || !groups));
    }
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
    CHECK(compare(graph, options));
  }
}

TEST_CASE("a rank that reads what all others compute plans the whole job", "[graph][parts]") {
  LogicalGraph graph("sum");
  Node const x = graph.input({.shape = {4, 6}, .axes = "in batch"}, "x");
  sum_slice({.axis = 1}, gelutanh(x)).named("y").mark_output();
  PlanOptions options{.tile = 64, .cuts = {{"batch", {1}}}};
  options.mesh = {{"data", 6}};
  options.rules = {{.axis = "batch", .mesh = "data"}, {.role = Role::output, .mesh = "data"}};
  CHECK_FALSE(compare(graph, options));
}
