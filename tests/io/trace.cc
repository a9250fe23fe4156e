// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/io/trace.hh"

#include <cmath>

#include "nntile/graph/apply.hh"
#include "nntile/graph/compile.hh"
#include "nntile/graph/profile.hh"
#include "nntile/io/json.hh"
#include "nntile/ops/gelutanh.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

struct Traced {
  LogicalGraph graph{"g"};
  std::unique_ptr<Plan> plan;
  std::vector<TaskTime> times{{5000, 7000, 11}, {7500, 9000, 22}, {}};

  Traced() {
    gelutanh(gelutanh(gelutanh(graph.input({.shape = {8}}, "x")))).mark_output();
    plan = std::make_unique<Plan>(graph);
  }
};

}  // namespace

TEST_CASE("a trace has an event for each task that ran, from time 0", "[io][trace]") {
  Traced const run;
  std::string const text = io::trace_text(*run.plan, run.times);
  auto const events = *io::parse_json(text, "trace")["traceEvents"].as<std::vector<io::JsonView>>();
  REQUIRE(events.size() == 7);  // two threads, two tasks, three changes of the arena
  io::JsonView const event = events[3];
  CHECK(event["ph"].as<std::string>() == "X");
  CHECK(event["name"].as<std::string>() == "gelutanh");
  CHECK(event["ts"].as<double>() == 2.5);
  CHECK(event["dur"].as<double>() == 1.5);
  CHECK(event["tid"].as<std::int64_t>() == 1);
  CHECK(event["args"]["result"].as<std::string>() == "gelutanh.1[0]");
  // The first result lives from the first task on, the second takes its place.
  auto const arena = [&](std::size_t i) {
    CHECK(events[i]["ph"].as<std::string>() == "C");
    CHECK(events[i]["name"].as<std::string>() == "arena of host");
    return std::pair(*events[i]["ts"].as<double>(), *events[i]["args"]["bytes"].as<Index>());
  };
  CHECK(arena(4) == std::pair(0.0, Index{64}));
  CHECK(arena(5) == std::pair(2.5, Index{64}));
  CHECK(arena(6) == std::pair(4.0, Index{0}));
}

TEST_CASE("a trace names the streams and the memory of places", "[io][trace]") {
  LogicalGraph graph("g");
  gelutanh(gelutanh(graph.input({.shape = {8}}, "x"))).named("y").mark_output();
  Plan const plan(graph, {.tile = 0, .place = {{.tensors = "y"}, {.place = device(1)}}});
  REQUIRE(plan.tasks().size() == 3);  // the copy is not timed
  std::vector<TaskTime> const times{{1000, 2000, 7}, {}, {3000, 4000, 9}};
  std::string const text = io::trace_text(plan, times);
  for (char const* part : {"stream of device 1", "worker 1", "arena of device 1", "arena of host"})
    CHECK(text.find(part) != text.npos);
}

TEST_CASE("a trace that cannot be written is an error that names the file", "[io][trace]") {
  Traced const run;
  CHECK_THROWS_AS(io::write_trace("/nowhere/trace.json", *run.plan, run.times), Error);
}

TEST_CASE("a profile adds up runs by op", "[io][trace]") {
  Traced const run;
  Profile profile;
  profile.add(*run.plan, run.times);
  profile.add(*run.plan, run.times);
  REQUIRE(profile.rows().size() == 1);
  CHECK(profile.rows()[0].tasks == 4);
  CHECK(std::lround(profile.busy() * 1e9) == 7000);
  CHECK(std::lround(profile.elapsed() * 1e9) == 8000);
}
