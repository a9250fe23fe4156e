// SPDX-License-Identifier: BSD-3-Clause
// Meshes and rules that make no parts, and what would do.
#include <utility>
#include <vector>

#include "nntile/graph/parts.hh"
#include "nntile/ops.hh"
#include "tests/graph/linear_layer.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

TEST_CASE("a mesh or rule that cannot be is refused with what would do", "[graph][parts]") {
  LinearLayer const layer;
  auto const refusal = [&](std::vector<MeshAxis> mesh, std::vector<ShardRule> rules, int rank = 0) {
    PlanOptions options{.tile = 128, .cuts = {{"batch", {32}}}};
    options.mesh = std::move(mesh);
    options.rules = std::move(rules);
    return message_of<PlanError>([&] { Plan(layer.graph, options, rank); });
  };
  CHECK(refusal({{"data", 2}}, ddp(), 2) == "plan 'layer': rank 2 of a mesh of 2 ranks");
  CHECK(refusal({{"data", 2}}, ddp(), -1) == "plan 'layer': rank -1 of a mesh of 2 ranks");
  CHECK(refusal({{"data", 0}}, ddp()) == "mesh: axis 'data' of 0 ranks");
  CHECK(refusal({{"", 2}}, ddp()) == "mesh: axis 0 has no name");
  CHECK(refusal({{"data", 2}, {"data", 2}}, ddp()) == "mesh: two axes are named 'data'");
  CHECK(refusal({{"data", 1 << 15}, {"more", 4}}, ddp()) == "mesh: more than 65536 ranks");
  CHECK(refusal({{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"e", 1}}, {}) ==
        "mesh: 5 axes where 4 are possible");
  CHECK(refusal({{"tensor", 2}}, ddp()) ==
        "plan 'layer': rule (tensors '*', role any, axis 'batch', mesh 'data'): the mesh has no "
        "axis of that name; it has tensor");
  CHECK(refusal({{"data", 2}}, {{.axis = "head", .mesh = "data"}}) ==
        "plan 'layer': rule (tensors '*', role any, axis 'head', mesh 'data') fits no tensor that "
        "another rule has not placed; axes are out, in, batch");
  CHECK(refusal({{"data", 4}}, ddp()) ==
        "plan 'layer': rule (tensors '*', role any, axis 'batch', mesh 'data'): 'x' has 2 tiles "
        "along 'batch' for 4 ranks of mesh axis 'data': cut it, .cuts = {{\"batch\", {16}}}");
  CHECK(refusal({{"data", 128}}, ddp()) ==
        "plan 'layer': rule (tensors '*', role any, axis 'batch', mesh 'data'): 'x' has 64 indices "
        "along 'batch' for 128 ranks of mesh axis 'data': use at most 64");
  CHECK(
      refusal({{"data", 2}, {"more", 3}}, ddp()) ==
      "plan 'layer': no rule shares anything out over mesh axis 'more', whose 3 ranks would all do "
      "the same: leave it out, or add a rule with that mesh axis");
  CHECK(
      refusal({{"tensor", 2}}, tensor_parallel()) ==
      "plan 'layer': no rule shares anything out over mesh axis 'tensor', whose 2 ranks would all "
      "do the same: leave it out, or add a rule with that mesh axis");
  CHECK(refusal({{"pipe", 2}}, pipeline({{"linear.*"}, {}, {"y"}})) ==
        "plan 'layer': rule (tensors 'y', role any, axis '', mesh 'pipe', at 2): the mesh has 2 "
        "ranks "
        "along that axis; use at from 0 to 1, or {\"pipe\", 3}");
  CHECK(refusal({{"pipe", 2}}, pipeline({{"linaer.*"}, {"y"}})) ==
        "plan 'layer': rule (tensors 'linaer.*', role any, axis '', mesh 'pipe', at 0) fits no "
        "tensor "
        "that another rule has not placed");
  CHECK(
      refusal({{"pipe", 2}}, pipeline({{"linear.weihgt"}, {"y"}})) ==
      "plan 'layer': rule (tensors 'linear.weihgt', role any, axis '', mesh 'pipe', at 0) fits no "
      "tensor that another rule has not placed; did you mean 'linear.weight'?");
  CHECK(
      refusal({{"pipe", 2}}, {{.axis = "batch", .mesh = "pipe", .at = 1}}) ==
      "plan 'layer': rule (tensors '*', role any, axis 'batch', mesh 'pipe', at 1): a stage has an "
      "axis of the mesh, and none of its tensors: leave out .axis, or .at");
  CHECK(refusal({{"pipe", 2}}, {{.tensors = "y", .at = 1}}).find("leave out .at") !=
        std::string::npos);
  PlanOptions options{.tile = 128, .adopted = {"x"}, .mesh = {{"tensor", 2}}};
  options.rules = {{.axis = "in", .mesh = "tensor"}};
  CHECK(message_of<PlanError>([&] { Plan(layer.graph, options, 0); }) ==
        "plan 'layer': rule (tensors '*', role any, axis 'in', mesh 'tensor'): 'linear.weight' has "
        "1 tiles along 'in' for 2 ranks of mesh axis 'tensor', since the adopted input 'x' is cut "
        "along its outermost axis alone: share that one out, or leave 'x' out of "
        "PlanOptions::adopted");
  options.adopted.clear();
  options.keep = {{"x", Tiling({256, 64})}};
  CHECK(contains(message_of<PlanError>([&] { Plan(layer.graph, options, 0); }),
                 "since a tensor that exists has 1 tiles along it: plan all graphs of a store with "
                 "the same mesh and rules"));
  options = {.tile = -5, .mesh = {{"tensor", 2}}, .rules = tensor_parallel()};
  CHECK(message_of<PlanError>([&] { Plan(layer.graph, options, 0); }) ==
        "plan 'layer': a tile of -5; 0 leaves tensors whole, PlanOptions::automatic chooses");
}

TEST_CASE("an axis that an op needs whole is refused with rules that do", "[graph][parts]") {
  LogicalGraph graph("heads");
  TensorSpec const spec{.shape = {64, 2, 8, 4}, .axes = "dim head seq batch"};
  Node const x = graph.input(spec, "x");
  attention(x, x, x).named("y").mark_output();
  gelutanh(graph.input({.shape = {64}, .axes = "dim"}, "other")).named("z").mark_output();
  PlanOptions options{.tile = 64, .mesh = {{"data", 2}}};
  options.rules = {{.axis = "dim", .mesh = "data"}};
  CHECK(message_of<PlanError>([&] { Plan(graph, options, 0); }) ==
        "plan 'heads': rule (tensors '*', role any, axis 'dim', mesh 'data'): 'x' has 1 tiles "
        "along 'dim' for 2 ranks of mesh axis 'data', since attention needs 'x' in one tile along "
        "it: share out another axis, or put a rule before this one that keeps it whole, {.tensors "
        "= \"x\", .axis = \"dim\"}");
  options.rules = {{.axis = "batch", .mesh = "data"}};
  CHECK_NOTHROW(Plan(graph, options, 0));
  options.rules = {{.tensors = "x", .axis = "dim"},
                   {.tensors = "y", .axis = "dim"},
                   {.axis = "dim", .mesh = "data"}};
  CHECK_NOTHROW(Plan(graph, options, 0));
}

TEST_CASE("more ranks than canonical groups are refused", "[graph][parts]") {
  TinyGptGraph const of({.batch = 8, .numerics = {.groups = {{"batch", 2}}}});
  PlanOptions options{.tile = 64, .cuts = {{"batch", {1}}}};
  options.mesh = {{"data", 3}};
  options.rules = ddp();
  CHECK(message_of<PlanError>([&] { Plan(of.graph, options, 0); }) ==
        "plan 'tiny': rule (tensors '*', role any, axis 'batch', mesh 'data'): axis 'batch' has 2 "
        "canonical groups for 3 ranks of mesh axis 'data': use at most 2 ranks, or "
        "Numerics{.groups = {{\"batch\", 3}}}");
  options.mesh = {{"data", 2}};
  CHECK_NOTHROW(Plan(of.graph, options, 0));
}

TEST_CASE("groups that are shorter than a block are named where they keep an axis whole",
          "[graph][parts]") {
  for (int const groups : {0, 2}) {
    Numerics numerics;
    if (groups > 0) numerics.groups = {{"in", groups}};
    LogicalGraph graph("layer", numerics);
    Node const x = graph.input({.shape = {96, 8}, .axes = "in batch"}, "x");
    sum_slice({.axis = 0}, x).named("y").mark_output();  // in blocks of 64
    PlanOptions options{.tile = 64, .mesh = {{"tensor", 2}}};
    options.rules = {{.axis = "in", .mesh = "tensor"}};
    if (groups == 0) {
      CHECK_NOTHROW(Plan(graph, options, 0));
      continue;
    }
    CHECK(message_of<PlanError>([&] { Plan(graph, options, 0); }) ==
          "plan 'layer': rule (tensors '*', role any, axis 'in', mesh 'tensor'): 'x' has 1 tiles "
          "along 'in' for 2 ranks of mesh axis 'tensor', since the 2 canonical groups of its 96 "
          "indices are shorter than the blocks of 64 that it is added in: leave 'in' out of "
          "Numerics::groups, or share out another axis");
  }
}

TEST_CASE("groups are named as numerics name them", "[graph][parts]") {
  LogicalGraph graph("layer", {.groups = {{"in", 2}}});
  Node const x = graph.input({.shape = {96, 8}, .axes = "embed batch"}, "x");
  Node const z = graph.input({.shape = {96, 8}, .axes = "in batch"}, "z");
  sum_slice({.axis = 0}, add(x, z)).mark_output();
  PlanOptions options{.tile = 64, .mesh = {{"tensor", 2}}};
  options.rules = {{.axis = "embed", .mesh = "tensor"}};
  CHECK(contains(message_of<PlanError>([&] { Plan(graph, options, 0); }),
                 "leave 'in' out of Numerics::groups"));
}

TEST_CASE("an axis of few indices is shared out over as many ranks, or left to one",
          "[graph][parts]") {
  for (Index const extent : {0, 1, 3}) {
    LogicalGraph graph("layer");
    gelutanh(graph.input({.shape = {8, extent}, .axes = "in batch"}, "x")).mark_output();
    PlanOptions options{.tile = 64, .mesh = {{"data", 4}}, .rules = ddp()};
    int const most = extent > 0 ? static_cast<int>(extent) : 1;
    CHECK(message_of<PlanError>([&] { Plan(graph, options, 0); })
              .ends_with(concat(extent, " indices along 'batch' for 4 ranks of mesh axis 'data': ",
                                "use at most ", most)));
    options.mesh[0].size = most;
    CHECK_NOTHROW(Plan(graph, options, 0));
  }
}
