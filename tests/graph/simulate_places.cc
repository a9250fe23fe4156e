// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/graph/simulate_places.hh"

#include <limits>

#include "nntile/graph/compile.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/gemm.hh"
#include "tests/support/catch.hh"
#include "tests/support/hand_part.hh"
#include "tests/support/message.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// A task of 250 fp32 takes 2 s on the host and 1 s on a device, a copy 4 s.
constexpr PlacesModel model{.host = {.workers = 1, .bandwidth = 1000, .task_overhead = 0},
                            .device = {.workers = 1, .bandwidth = 2000, .task_overhead = 0},
                            .link = {.latency = 1, .bandwidth = 1000.0 / 3}};

/// y = gelu(gelu(x)), in tiles.
struct Chains {
  LogicalGraph graph;
  explicit Chains(Index count) {
    Node const x = graph.input({.shape = {250 * count}, .axes = "n"}, "x");
    gelutanh(gelutanh(x).named("h")).named("y").mark_output();
  }
  Plan plan(std::vector<PlaceRule> const& place) const {
    return Plan(graph, {.tile = 0, .cuts = {{"n", {250}}}, .place = place});
  }
};

}  // namespace

TEST_CASE("copies and kernels of a device overlap, and each takes its time", "[graph][simulate]") {
  std::vector<PlaceRule> const place{{.tensors = "x"}, {.place = device(0)}};
  PlacesSimulation const one = simulate(Chains(1).plan(place), model);
  CHECK(one.elapsed == 6);  // copy, kernel, kernel
  PlacesSimulation const four = simulate(Chains(4).plan(place), model);
  CHECK(four.elapsed == 4 * 4 + 2);
  REQUIRE(four.places.size() == 1);
  CHECK(four.places[0].place == device(0));
  CHECK(four.places[0].copying == 16);
  CHECK(four.places[0].computing == 8);
}

TEST_CASE("the host computes while a device does", "[graph][simulate]") {
  // h on the device, y on the host: a copy each way.
  PlacesSimulation const result =
      simulate(Chains(2).plan({{.tensors = "h", .place = device(0)}}), model);
  // The stream of copies: x0, x1, h0, h1; the host ends 2 s behind the last.
  CHECK(result.elapsed == 18);
  double computing = 0;
  for (PlaceSimulation const& at : result.places) computing += at.computing;
  CHECK(computing == 2 * 1 + 2 * 2);
}

TEST_CASE("readers of a tile wait for each other where they do", "[graph][simulate]") {
  LogicalGraph graph;
  Node const x = graph.input({.shape = {250}}, "x");
  gelutanh(x).named("one").mark_output();
  gelutanh(x).named("other").mark_output();
  PlacesModel two = model;
  two.host.workers = 2;
  Plan const plan(graph, {});
  CHECK(simulate(plan, two).elapsed == 2);
  two.readers_wait = true;
  CHECK(simulate(plan, two).elapsed == 4);
}

TEST_CASE("a plan of one place takes what simulating its workers says", "[graph][simulate]") {
  TinyGptGraph const of;
  Plan const plan(of.graph, {.tile = 64});
  for (int const workers : {1, 2, 5}) {
    PlacesModel machine;
    machine.host.workers = workers;
    CHECK(simulate(plan, machine).elapsed ==
          Approx(simulate(plan, machine.host).elapsed).epsilon(0.02));
  }
}

TEST_CASE("transfers among ranks take no time", "[graph][simulate]") {
  Plan const plan =
      HandPart(0, 2).work(2, {write(0)}).send(0, 1).receive(1, 1).work(3, {read(1)}).plan();
  PlacesModel late = model;
  late.host.task_overhead = 1;
  CHECK(simulate(plan, late.host).elapsed == 3 + 4);
  CHECK(simulate(plan, late).elapsed == 3 + 4);
}

TEST_CASE("less memory on a device means more copies, which take their time", "[graph][simulate]") {
  TinyGptGraph const of;
  PlanOptions options{.tile = 64};
  options.place = {{.role = Role::parameter},
                   {.role = Role::state},
                   {.role = Role::input},
                   {.place = device(0)}};
  double before = 0;
  Index const arena = Plan(of.graph, options).memory({0, device(0)}).arena;
  for (double const share : {1.0, 0.6, 0.4}) {
    options.capacity = {{device(0), static_cast<Index>(share * static_cast<double>(arena)) + 4096}};
    PlacesSimulation const result = simulate(Plan(of.graph, options), PlacesModel{});
    CAPTURE(share, result.elapsed);
    double copying = 0;
    for (PlaceSimulation const& at : result.places) {
      CHECK(result.elapsed >= at.computing);
      CHECK(result.elapsed >= at.copying);
      copying += at.copying;
    }
    CHECK(copying > before);
    before = copying;
  }
}

TEST_CASE("a place or a link that cannot be is refused, not waited for", "[graph][simulate]") {
  Plan const plan = Chains(1).plan({{.tensors = "x"}, {.place = device(0)}});
  double const nan = std::numeric_limits<double>::quiet_NaN();
  auto const refusal = [&](auto change) {
    PlacesModel wrong = model;
    change(wrong);
    return message_of<ValueError>([&] { (void)simulate(plan, wrong); });
  };
  for (double const number : {0.0, -2.0, nan}) {
    CHECK(refusal([&](PlacesModel& of) { of.link.bandwidth = number; }) ==
          concat("simulate: plan '", plan.name(), "': a link of a bandwidth of ", number,
                 " bytes/s; above 0"));
    CHECK(contains(refusal([&](PlacesModel& of) { of.disk.bandwidth = number; }), "a disk of"));
    CHECK(contains(refusal([&](PlacesModel& of) { of.host.peak = number; }), "a host of a peak"));
    CHECK(contains(refusal([&](PlacesModel& of) { of.device.bandwidth = number; }),
                   "devices of a bandwidth of memory"));
  }
}
