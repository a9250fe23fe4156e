// SPDX-License-Identifier: BSD-3-Clause
// Options that no plan can have, and what is said of them.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nntile/graph/apply.hh"
#include "nntile/graph/parts.hh"
#include "nntile/ops/attention.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/gemm.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// y = W x.
struct Product {
  LogicalGraph graph{"g"};
  Product() {
    Node const w = graph.parameter({.shape = {8, 4}, .axes = "out in"}, "w");
    Node const x = graph.input({.shape = {4, 6}, .axes = "in batch"}, "x");
    gemm(w, x).named("y").mark_output();
  }
  std::string refusal(PlanOptions const& options) const {
    return message_of<PlanError>([&] { Plan(graph, options); });
  }
  std::string refusal(PlanOptions const& options, int rank) const {
    return message_of<PlanError>([&] { Plan(graph, options, rank); });
  }
};
Tiling const whole_w({AxisTiling::whole(8), AxisTiling::whole(4)});

}  // namespace

TEST_CASE("a tensor that exists is stored, adopted or double-buffered", "[graph][plan]") {
  Tiling const whole({AxisTiling::whole(4), AxisTiling::whole(6)});
  for (Storage const storage : {Storage::view, Storage::arena})
    CHECK(Product().refusal({.tile = 0, .keep = {{"x", whole, storage}}}) ==
          concat("plan 'g': PlanOptions::keep has 'x' as ", name_of(storage),
                 "; a tensor that exists is stored, adopted or double_buffered"));
}

TEST_CASE("homes of a tensor that exists are one of the mesh for each tile", "[graph][parts]") {
  auto const refusal = [&](std::vector<TileHome> const& homes) {
    return Product().refusal({.tile = 0,
                              .keep = {{"w", whole_w, Storage::stored, 1, homes}},
                              .mesh = {{"a", 2}},
                              .rules = {{.role = Role::parameter, .mesh = "a"}}},
                             0);
  };
  CHECK(
      refusal({{}, {}, {}}) ==
      "plan 'g': PlanOptions::keep has 3 homes of 'w', whose tiles are 1; one for each is needed");
  for (std::int16_t const at : {std::int16_t{2}, std::int16_t{-7}})
    CHECK(refusal({{.box = {{at, RankBox::all, RankBox::all, RankBox::all}}}}) ==
          concat("plan 'g': PlanOptions::keep has tile 0 of 'w' at ", at,
                 " of mesh axis 'a'; from 0 to 1, or RankBox::all"));
}

TEST_CASE("an axis of a mesh has no more ranks than coordinates", "[graph][parts]") {
  PlanOptions options{
      .tile = 0, .mesh = {{"a", 32769}}, .rules = {{.role = Role::parameter, .mesh = "a"}}};
  CHECK(Product().refusal(options, 0) ==
        "mesh: axis 'a' of 32769 ranks; an axis has up to 32768, share the rest out over another");
  options.mesh[0].size = 32768;
  CHECK_NOTHROW(Plan(Product().graph, options, 32767));
}

TEST_CASE("rules and owners without a mesh are refused", "[graph][parts]") {
  auto const refusal = [](char const* option) {
    return concat("plan 'g': PlanOptions::", option,
                  " give tiles to ranks of a mesh, and there is ",
                  "none: leave them out, or give one as .mesh and plan a part for each of its ",
                  "ranks, Plan(graph, options, rank) or compile_part(), graph/parts.hh");
  };
  for (Index const tile : {Index{0}, PlanOptions::automatic}) {
    CHECK(Product().refusal({.tile = tile, .rules = ddp()}) == refusal("rules"));
    CHECK(Product().refusal({.tile = tile, .owners = [](std::string_view, Index) { return 0; }}) ==
          refusal("owners"));
  }
}

TEST_CASE("what is advised for a rule that is refused would do", "[graph][parts]") {
  auto const refusal = [](ShardRule const& first, ShardRule const& second) {
    return Product().refusal({.tile = 0, .mesh = {{"a", 2}}, .rules = {first, second}}, 0);
  };
  ShardRule const w{.tensors = "w", .mesh = "a"};
  CHECK(refusal(w, {.tensors = "x", .mesh = "a", .at = 2}).ends_with("0 to 1, or {\"a\", 3}"));
  for (int const at : {-2, INT32_MIN, 3, 40000, INT32_MAX})
    CHECK(refusal(w, {.tensors = "x", .mesh = "a", .at = at}) ==
          concat("plan 'g': rule (tensors 'x', role any, axis '', mesh 'a', at ", at,
                 "): the mesh has 2 ranks along that axis; use at from 0 to 1"));
  for (char const* const again : {"w", "w*"})
    CHECK(refusal(w, {.tensors = again, .mesh = "a"}) ==
          concat("plan 'g': rule (tensors '", again, "', role any, axis '', mesh 'a') fits no ",
                 "tensor that another rule has not placed"));
  CHECK(contains(refusal(w, {.tensors = "X*", .mesh = "a"}), "; did you mean 'x'?"));
}

TEST_CASE("a cut that is advised makes a tile for each rank", "[graph][parts]") {
  PlanOptions options{.tile = 0, .cuts = {{"batch", {6}}}, .mesh = {{"data", 4}}, .rules = ddp()};
  CHECK(Product().refusal(options, 0).ends_with("cut it, .cuts = {{\"batch\", {1}}}"));
  options.cuts = {{"batch", {1}}};  // of 2 there would be 3 tiles of 6 indices
  CHECK(Product().refusal(options, 0) == "(nothing was thrown)");
}

TEST_CASE("an axis is not shared out in more tiles than have numbers", "[graph][parts]") {
  LogicalGraph graph("g");
  gelutanh(graph.input({.shape = {Index{1} << 40}, .axes = "batch"}, "x")).mark_output();
  PlanOptions const options{.tile = 64, .mesh = {{"data", 2}}, .rules = ddp()};
  CHECK(message_of<PlanError>([&] { Plan(graph, options, 0); }) ==
        "plan 'g': tiling: 1099511627776 elements in tiles of 64 make 17179869184 tiles where "
        "4294967294 are possible: tiles of 257 elements or more would do");
}

TEST_CASE("places that are none, and room that is none, are refused", "[graph][places]") {
  Product const of;
  CHECK(of.refusal({.tile = 0, .capacity = {{device(-1), 64}}}) ==
        "plan 'g': device -1 in PlanOptions::capacity; they count from 0");
  CHECK(of.refusal({.tile = 0, .keep = {{"w", whole_w, Storage::stored, 1, {}, device(-3)}}}) ==
        "plan 'g': device -3 in PlanOptions::keep; they count from 0");
  for (Index const bytes : {Index{-1}, Index{INT64_MIN}})
    CHECK(of.refusal({.tile = 0, .capacity = {{host, bytes}}}) ==
          concat("plan 'g': ", bytes, " bytes of host in PlanOptions::capacity; from 0 on"));
}

TEST_CASE("a place is of a kind that there is, and only devices have numbers", "[graph][places]") {
  Place const second_host{Place::Kind::host, 3}, no_disk{Place::Kind::disk, -1};
  Place const unknown{static_cast<Place::Kind>(77), 0};
  std::string const none = "a place of kind 77", possible = "those from host (0) to disk (3) are";
  Product const of;
  CHECK(of.refusal({.tile = 0, .place = {{.tensors = "w", .place = second_host}}}) ==
        "plan 'g': host 3 in PlanOptions::place; a rank has one, only devices have numbers");
  CHECK(of.refusal({.tile = 0, .capacity = {{no_disk, 64}}}) ==
        "plan 'g': disk -1 in PlanOptions::capacity; a rank has one, only devices have numbers");
  CHECK(of.refusal({.tile = 0, .place = {{.tensors = "w", .place = unknown}}}) ==
        concat("plan 'g': ", none, " in PlanOptions::place; ", possible, " possible"));
  CHECK(of.refusal({.tile = 0, .keep = {{"w", whole_w, Storage::stored, 1, {}, unknown}}}) ==
        concat("plan 'g': ", none, " in PlanOptions::keep; ", possible, " possible"));
}

TEST_CASE("a number that an option's type has no name for is refused", "[graph][plan]") {
  auto const refusal = [](PlanOptions options) {
    options.tile = 0;
    options.mesh = {{"a", 2}};
    std::string const text = Product().refusal(options, 0);
    std::string const begin = "plan 'g': PlanOptions::", end = "; from 0 to ";
    REQUIRE((text.starts_with(begin) && contains(text, end)));
    return text.substr(begin.size(), text.find(end) - begin.size());
  };
  auto const role = static_cast<Role>(77);
  CHECK(refusal({.rules = {{.tensors = "w", .role = role, .mesh = "a", .optional = true}}}) ==
        "rules has, of tensors 'w', role 77");
  CHECK(refusal({.place = {{.tensors = "w*", .role = static_cast<Role>(6)}}}) ==
        "place has, of tensors 'w*', role 6");
  CHECK(refusal({.keep = {{"w", whole_w, static_cast<Storage>(5)}}}) ==
        "keep has, of 'w', storage 5");
  CHECK(refusal({.schedule = static_cast<PipelineSchedule>(2)}) == "schedule is 2");
}

TEST_CASE("a slice of what an op needs whole is refused by their names", "[graph][plan]") {
  for (std::string const axes : {"", "dim head seq"}) {
    LogicalGraph graph("g");
    Node const x = graph.input({.shape = {4, 2, 3}, .axes = axes}, "x");
    gelutanh(graph.slice(x, 1, 1, "head")).mark_output();
    gelutanh(graph.slice(x, 0, 1, "row")).mark_output();
    attention(x, x, x).mark_output();
    CHECK(message_of<PlanError>([&] { Plan(graph, {.tile = 0}); }) ==
          concat("tile: 'row' slices 'x' along dimension 0", axes.empty() ? "" : " ('dim')",
                 " of graph 'g', along which attention needs 'x' in one tile; slice another ",
                 "dimension"));
  }
}

TEST_CASE("a rank has up to 255 places", "[graph][places]") {
  LogicalGraph graph("many");
  PlanOptions options{.tile = 0};
  for (int i = 0; i < 254; ++i) {
    gelutanh(graph.input({.shape = {4}}, concat("x", i)),
             graph.tensor({.shape = {4}}, concat("y", i)));
    graph.find(concat("y", i)).mark_output();
    options.place.push_back({.tensors = concat("y", i), .place = device(i)});
  }
  CHECK_NOTHROW(Plan(graph, options));  // and the host
  options.place.push_back({.tensors = "x0", .place = device(254)});
  CHECK(message_of<PlanError>([&] { Plan(graph, options); }) ==
        "plan 'many': its tensors live at more than 255 places; use fewer");
}
