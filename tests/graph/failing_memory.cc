// SPDX-License-Identifier: BSD-3-Clause
// Each request for memory of a change to a graph fails in turn: the graph is as it was, and can be
// changed again.
#include <new>

#include "nntile/graph/apply.hh"
#include "nntile/graph/parts.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/layer_norm.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

std::string const known = "a name that no small string holds", other = "another name that is long";

void declare(LogicalGraph& graph) {
  graph.input({.shape = {8, 3}}, known);
  for (char const* const name : {"weight", "bias"}) graph.parameter({.shape = {8}}, name);
}

/// Fails every request of `change` on a graph of its own. What it leaves is compared with a graph
/// that nothing was changed in, and then both are changed.
template <class Change> void check_each(Change const& change) {
  bool more = allocations_are_counted();
  for (long count = 0; more; ++count) {
    INFO(count << " allocations before the one that fails");
    LogicalGraph graph, untouched;
    declare(graph);
    declare(untouched);
    bool threw = false;
    (void)fail_new_after(count);
    try {
      change(graph);
    } catch (std::bad_alloc const&) {
      threw = true;
    }
    more = fail_new_after(-1) < 0;
    REQUIRE(threw == more);
    if (!threw) continue;
    REQUIRE(graph == untouched);
    REQUIRE(graph.at(known).id() == 0);
    for (LogicalGraph* const each : {&graph, &untouched}) {
      REQUIRE_NOTHROW(gelutanh(each->at(known)));
      REQUIRE_NOTHROW(change(*each));
    }
    REQUIRE(graph == untouched);
  }
}

}  // namespace

TEST_CASE("a tensor that cannot be renamed keeps its name", "[graph][memory]") {
  check_each([](LogicalGraph& graph) { Node(graph, 0).named(other); });
}

TEST_CASE("a tensor that there is no memory for is not there, nor is its name", "[graph][memory]") {
  check_each([](LogicalGraph& graph) { graph.input({.shape = {8}}, other); });
  check_each([](LogicalGraph& graph) { graph.slice(graph.at(known), 0, 1); });
}

TEST_CASE("a phase that there is no memory for does not begin", "[graph][memory]") {
  check_each([](LogicalGraph& graph) { graph.set_phase("a phase that no small string holds"); });
}

TEST_CASE("a change that is taken back needs no memory for that", "[graph][memory]") {
  check_each([](LogicalGraph& graph) {
    graph.all_or_nothing([&] {
      graph.set_phase("a phase that no small string holds");
      Node const x = graph.at(known);
      for (int i = 0; i < 40; ++i) gelutanh(x);
      graph.rename(x, other);
      x.mark_output();
      for (int i = 0; i < 40; ++i) graph.input({.shape = {8}}, graph.unique("input"));
    });
  });
}

TEST_CASE("an op that there is no memory for leaves no result behind", "[graph][memory]") {
  check_each([](LogicalGraph& graph) {
    layer_norm({.eps = 1e-5}, graph.at(known), graph.at("weight"), graph.at("bias"));
  });
}

TEST_CASE("a plan that there is no memory for is refused, of one rank and of several",
          "[graph][memory]") {
  LogicalGraph graph("g");
  gelutanh(graph.input({.shape = {8, 4}, .axes = "embed batch"}, "x")).named("y").mark_output();
  PlanOptions options{.tile = 4, .check = true};
  for (int const ranks : {1, 2}) {
    if (ranks == 2) options.mesh = {{"data", 2}}, options.rules = ddp();
    bool more = allocations_are_counted();
    for (long count = 0; more; ++count) {
      INFO(ranks << " ranks, " << count << " allocations before the one that fails");
      bool threw = false;
      (void)fail_new_after(count);
      try {
        (void)(ranks == 2 ? Plan(graph, options, 1) : Plan(graph, options));
      } catch (OutOfMemory const&) {
        threw = true;
      } catch (std::exception const& error) {
        (void)fail_new_after(-1);
        FAIL(error.what());
      }
      more = fail_new_after(-1) < 0;
      REQUIRE(threw == more);
    }
  }
}
