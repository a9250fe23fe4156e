// SPDX-License-Identifier: BSD-3-Clause
// Plans for places that hold little: what is copied, and how much is enough.
#include <optional>
#include <string>
#include <vector>

#include "nntile/graph/graph.hh"
#include "nntile/graph/places.hh"
#include "nntile/ops.hh"
#include "tests/graph/placed_layer.hh"
#include "tests/support/catch.hh"
#include "tests/support/places.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

constexpr Index tile = 64 * 64 * 4;  // bytes

/// Weights on the host, all else on a device: layers forward, whose results are read again in the
/// order of a backward pass.
struct ForwardAndBack {
  LogicalGraph graph{"layers"};

  explicit ForwardAndBack(std::vector<Index> const& widths) {
    Node h = graph.input({.shape = {widths[0], 64}}, "x");
    int const layers = static_cast<int>(widths.size()) - 1;
    for (int l = 0; l < layers; ++l) {
      auto const at = static_cast<std::size_t>(l);
      h = gemm(graph.parameter({.shape = {widths[at + 1], widths[at]}}, concat("w", l)), h);
      h.named(concat("h", l));
    }
    for (int l = layers - 1; l-- > 0;)
      h = gemm({.trans_a = true}, graph.at(concat("h", l)), gemm(graph.at(concat("h", l)), h));
    h.named("y").mark_output();
  }
  Plan plan(Index bytes) const {
    PlanOptions options{.tile = 0, .check = true};
    options.place = {{.tensors = "w*"}, {.tensors = "x"}, all_on(0)};
    options.capacity = {{device(0), bytes}};
    return Plan(graph, options);
  }
};

Index copies_of(Plan const& plan) {
  Index sum = 0;
  for (PlaceTraffic const& way : place_traffic(plan)) sum += way.copies;
  return sum;
}

Index copies_before_first_op(Plan const& plan) {
  Index count = 0;
  while (plan.kernels()[plan.tasks()[static_cast<std::size_t>(count)].kernel].kind ==
         KernelKind::copy)
    ++count;
  return count;
}

/// Plans with room for everything, and without a word of room.
void check_ample_room(LogicalGraph const& graph, PlanOptions options, Index copies) {
  CHECK(copies_of(Plan(graph, options)) == copies);
  options.capacity = {{device(0), Index{1} << 30}};
  Plan const plan(graph, options);
  CHECK(copies_of(plan) == copies);
}

}  // namespace

TEST_CASE("nothing leaves a place for what is fetched ahead", "[graph][places]") {
  LogicalGraph graph("layers");
  Node h = graph.input({.shape = {64, 64}}, "x");
  for (int l = 0; l < 5; ++l) {
    h = gemm(graph.parameter({.shape = {64, 64}}, concat("w", l)), h);
    h.named(concat("h", l));
  }
  for (int l = 4; l-- > 0;) h = gemm(graph.at(concat("h", l)), h);
  h.named("y").mark_output();
  PlanOptions options{.tile = 0, .check = true};
  options.place = {{.tensors = "w*"}, {.tensors = "x"}, all_on(0)};
  auto const copies = [&](Index tiles) {
    options.capacity = {{device(0), tiles * tile}};
    return copies_of(Plan(graph, options));
  };
  CHECK_THROWS_AS(copies(3), PlaceFull);  // y is kept there, and a gemm has three
  CHECK(copies(4) == 12);
  CHECK(copies(5) == 10);
  CHECK(copies(6) == 8);
  CHECK(copies(7) == 6);  // each weight and x once
}

TEST_CASE("as much is fetched ahead as has room beside what tasks up to its reader lack",
          "[graph][places]") {
  LogicalGraph graph("layers");
  Node h = graph.input({.shape = {64, 64}}, "x");
  for (int l = 0; l < 4; ++l) h = gemm(graph.parameter({.shape = {64, 64}}, concat("w", l)), h);
  h.named("y").mark_output();
  PlanOptions options{.tile = 0, .check = true};
  options.place = {{.tensors = "w*"}, {.tensors = "x"}, all_on(0)};
  auto const copies = [&](Index tiles) {
    options.capacity = {{device(0), tiles * tile}};
    return copies_before_first_op(Plan(graph, options));
  };
  CHECK(copies(5) == 2);  // x and w0: y, which is kept, and three tiles of a gemm leave one tile
  CHECK(copies(6) == 3);  // and w1, beside it the results of two layers
  CHECK(copies(7) == 3);
  CHECK(copies(8) == 4);  // what was fetched is lacking no more
  CHECK(copies(9) == 5);
}

TEST_CASE("what is written before it is read is not fetched ahead", "[graph][places]") {
  LogicalGraph graph("step");
  Node const p = graph.parameter({.shape = {8, 8}}, "p"), g = graph.input({.shape = {8, 8}}, "g");
  Node const m = graph.state({.shape = {8, 8}}, "m"), v = graph.state({.shape = {8, 8}}, "v");
  Node const lr = graph.input({.shape = {}}, "lr"), x = graph.input({.shape = {8, 8}}, "x");
  Node const count = graph.input({.shape = {}, .dtype = DType::int64}, "count");
  adamw_step(p, g, m, v, lr, count);
  gemm(p, x).named("y").mark_output();
  check_ample_room(graph, {.tile = 0, .place = {{.tensors = "y", .place = device(0)}}}, 2);
}

TEST_CASE("what a phase reads is not fetched in the one before", "[graph][places]") {
  LogicalGraph graph("phases");
  Node const x = graph.input({.shape = {8, 8}}, "x");
  Node const h = gemm(graph.parameter({.shape = {8, 8}}, "w"), x).named("h").mark_output();
  graph.set_phase("second");
  gemm(graph.parameter({.shape = {8, 8}}, "v"), h).named("y").mark_output();
  std::vector<PlaceRule> const rules = {{.tensors = "h", .place = device(0)},
                                        {.tensors = "y", .place = device(0)}};
  check_ample_room(graph, {.tile = 0, .by_phase = true, .place = rules}, 3);
}

TEST_CASE("what fits in less memory fits in more", "[graph][places][single-threaded]") {
  ForwardAndBack const of({64, 96, 32, 128, 48, 64});  // tiles of five sizes
  std::optional<Index> first;
  for (Index bytes = 4 * tile; bytes < 17 * tile; bytes += tile / 4) {
    INFO(bytes << " bytes, the first that fit " << first.value_or(0));
    try {
      Plan const plan = of.plan(bytes);
      CHECK(plan.memory({0, device(0)}).total() <= bytes);
      if (!first) first = bytes;
    } catch (PlaceFull const& full) {
      INFO(full.what());
      CHECK(!first);
      CHECK(full.least > bytes);
      CHECK(full.least <= 17 * tile);
      CHECK_NOTHROW(of.plan(full.least));
    }
  }
}
