// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/io/job_trace.hh"

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "nntile/io/json.hh"
#include "tests/io/allocations.hh"
#include "tests/support/catch.hh"
#include "tests/support/hand_part.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// Two ranks of two workers, with one message of 1 s.
struct TwoRanks {
  std::vector<Plan> parts{HandPart(0, 2).work(2, {write(0)}).send(0, 1).plan(),
                          HandPart(1, 2).receive(0, 0).work(3, {read(0)}).plan()};
  ClusterModel cluster{.rank = {.workers = 2, .peak = 1, .bandwidth = 1000, .task_overhead = 0},
                       .link = {.latency = 0.5, .bandwidth = 1000, .overhead = 0}};
};

}  // namespace

TEST_CASE("a trace of a job has a process per rank, rows of links, and an arrow per message",
          "[io][trace]") {
  TwoRanks const of;
  std::string const text = io::job_trace_text(of.parts, simulate(of.parts, of.cluster, true));
  auto const events = *io::parse_json(text, "trace")["traceEvents"].as<std::vector<io::JsonView>>();
  std::map<std::string, int> count;
  std::vector<std::string> bodies, arrows;
  for (io::JsonView const& event : events) {
    std::string const phase = *event["ph"].as<std::string>();
    ++count[phase];
    if (phase == "M") continue;
    double const us = *event["ts"].as<double>();
    std::string const row =
        concat(*event["pid"].as<std::int64_t>(), "/", *event["tid"].as<std::int64_t>(), " ");
    if (phase == "X")
      bodies.push_back(concat(*event["name"].as<std::string>(), " ", row, us * 1e-6, " ",
                              *event["dur"].as<double>() * 1e-6, " ",
                              *event["args"]["result"].as<std::string>()));
    else
      arrows.push_back(
          concat(phase, " ", row, std::llround(us * 1000), " ", *event["id"].as<std::string>()));
  }
  CHECK(count["M"] == 2 * (1 + 2 + 4));
  CHECK(bodies == std::vector<std::string>{"work 0/0 0 2 x[0]", "send 0/2 2 1 x[0]",
                                           "receive 1/3 2.5 1 x[0]", "work 1/0 3.5 3 x[0]"});
  CHECK(arrows == std::vector<std::string>{"s 0/2 2000000000 0 1 0", "f 1/3 3499999999 0 1 0"});
}

TEST_CASE("a trace is held as its text alone", "[io][trace]") {
  if (!allocations_watched()) return;
  HandPart part(0, 1);
  for (int task = 0; task < 2000; ++task) part.work(1, {update(0)});
  std::vector<Plan> const parts{part.plan()};
  JobSimulation const simulation = simulate(parts, TwoRanks().cluster, true);
  std::size_t const before = held_bytes();
  forget_allocations();
  std::string const text = io::job_trace_text(parts, simulation);
  CHECK(most_held_bytes() - before < 3 * text.size() + 10'000);  // while it grows, twice
}

TEST_CASE("times of a trace of a job are whole ns, so that slices follow one another",
          "[io][trace]") {
  std::vector<Plan> const parts{HandPart(0, 1).work(1, {write(0)}).work(1, {update(0)}).plan()};
  ClusterModel const cluster{
      .rank = {.workers = 1, .peak = 1, .bandwidth = 3000, .task_overhead = 0}};
  std::string const text = io::job_trace_text(parts, simulate(parts, cluster, true));
  for (char const* const time :
       {"\"dur\": 333333.333,", "\"ts\": 333333.333\n", "\"dur\": 333333.334,"})
    CHECK(contains(text, time));
}

TEST_CASE("a trace of a job needs its times, and its parts", "[io][trace]") {
  TwoRanks const of;
  CHECK(message_of<ValueError>([&] {
          (void)io::job_trace_text(of.parts, simulate(of.parts, of.cluster));
        }) == "job_trace: times of 0 tasks, but 2 parts with 4; simulate these parts with `timed`");
  JobSimulation const timed = simulate(of.parts, of.cluster, true);
  CHECK_THROWS_AS(io::job_trace_text(std::span(of.parts).first(1), timed), ValueError);
  CHECK_THROWS_AS(io::write_job_trace("/nowhere/trace.json", of.parts, timed), Error);
}

TEST_CASE("times that no trace counts are refused", "[io][trace]") {
  TwoRanks of;
  of.cluster.rank.bandwidth = 1e-12;
  CHECK_THAT(message_of<ValueError>(
                 [&] { (void)io::job_trace_text(of.parts, simulate(of.parts, of.cluster, true)); }),
             Catch::Matchers::StartsWith("job_trace: task 0 of rank 0 ends at ") &&
                 Catch::Matchers::Contains("9.2e9 s at most"));
}

TEST_CASE("times of a trace are counted up to 2^63 ns", "[io][trace]") {
  TwoRanks const of;
  JobSimulation late = simulate(of.parts, of.cluster, true);
  late.times.back().end = 9.2e9;
  CHECK_NOTHROW((void)io::job_trace_text(of.parts, late));
  late.times.back().end = 9.3e9;
  CHECK_THROWS_AS((void)io::job_trace_text(of.parts, late), ValueError);
}
