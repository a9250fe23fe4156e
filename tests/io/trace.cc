// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/io/trace.hh"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "nntile/graph/apply.hh"
#include "nntile/graph/compile.hh"
#include "nntile/graph/device_times.hh"
#include "nntile/graph/kernel_times.hh"
#include "nntile/graph/places.hh"
#include "nntile/graph/profile.hh"
#include "nntile/io/json.hh"
#include "nntile/ops/gelutanh.hh"
#include "tests/support/catch.hh"
#include "tests/support/disk_runtimes.hh"
#include "tests/support/message.hh"
#include "tests/support/tiny_gpt.hh"

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

TEST_CASE("a trace of times from 0 on begins there", "[io][trace]") {
  Traced run;
  run.times = {{0, 10, 11}, {10, 20, 11}, {20, 30, 11}};
  std::string const text = io::trace_text(*run.plan, run.times);
  for (io::JsonView const event : io::parse_json(text, "trace")["traceEvents"].elements())
    CHECK(event["ts"].as<double>().value_or(0) >= 0);
  Profile profile;
  profile.add(*run.plan, run.times);
  CHECK(std::llround(profile.elapsed() * 1e9) == 30);
}

TEST_CASE("times of a trace have three decimals", "[io][trace]") {
  Traced run;
  run.times = {{1, 4, 11}, {98'238, 196'475, 11}, {}};  // 98237 * 1e-3 has more
  std::string const text = io::trace_text(*run.plan, run.times);
  for (char const* const time : {"\"ts\": 98.237\n", "\"dur\": 98.237,", "\"ts\": 196.474\n"})
    CHECK(contains(text, time));
  CHECK_FALSE(contains(text, "98.2370"));
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

TEST_CASE("a trace in which nothing was timed is refused", "[io][trace]") {
  Traced run;
  std::string const why = concat("trace: plan '", run.plan->name(),
                                 "': no task was timed; bind it with BindOptions{.trace = true}, ",
                                 "and let a run end first");
  run.times.assign(run.plan->tasks().size(), {});  // never run
  CHECK(message_of<ValueError>([&] { (void)io::trace_text(*run.plan, run.times); }) == why);
  run.times.clear();  // not traced
  CHECK(message_of<ValueError>([&] { (void)io::trace_text(*run.plan, run.times); }) == why);
}

TEST_CASE("times of another plan are refused", "[io][trace]") {
  Traced run;
  auto const refusal = [](auto call) { return message_of<ValueError>(call); };
  auto const text = [](Traced const& of) { return io::trace_text(*of.plan, of.times); };
  std::string const why = concat(run.plan->tasks().size() + 1, " times, and plan '",
                                 run.plan->name(), "' has ", run.plan->tasks().size(), " tasks");
  run.times.push_back({1, 2, 3});
  CHECK(contains(refusal([&] { (void)text(run); }), "trace: " + why));
  CHECK(contains(refusal([&] { Profile().add(*run.plan, run.times); }), "profile: " + why));
  CHECK(contains(refusal([&] { KernelTimes().add(*run.plan, run.times); }), why));
  CHECK(contains(refusal([&] { (void)with_device_times(*run.plan, run.times, {}); }), why));
  run.times.clear();  // not traced
  Profile profile;
  profile.add(*run.plan, run.times);
  CHECK(profile.rows().empty());
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

namespace {

struct Bytes {
  std::map<std::string, std::int64_t> copied;         // by "from to"
  std::map<std::string, std::int64_t> most, counted;  // of counters
  std::map<std::string, int> rows;
};
/// What a trace says of copies and memory.
Bytes bytes_in(std::string const& text) {
  Bytes bytes;
  auto const events = *io::parse_json(text, "trace")["traceEvents"].as<std::vector<io::JsonView>>();
  for (io::JsonView const& event : events) {
    std::string const phase = *event["ph"].as<std::string>();
    std::string const name = *event["name"].as<std::string>();
    auto const args = event["args"];
    if (phase == "M") ++bytes.rows[*args["name"].as<std::string>()];
    if (phase == "X" && name.starts_with("copy"))
      bytes.copied[*args["from"].as<std::string>() + " to " + *args["to"].as<std::string>()] +=
          *args["bytes"].as<std::int64_t>();
    if (phase != "C") continue;
    auto const value = *args["bytes"].as<std::int64_t>();
    CHECK(value >= 0);
    bytes.most[name] = std::max(bytes.most[name], value);
    ++bytes.counted[name];
  }
  return bytes;
}

/// The times of a step, and what its trace shows: the copies that its plan says, in bytes.
struct TracedStep {
  std::vector<TaskTime> times;
  Bytes seen;
};
template <class Run> TracedStep traced_step(Run& run, DeviceLog& log) {
  run.bind(1);
  log.clear();
  run.step.execute();
  Plan const& plan = run.step.plan();
  auto times = with_device_times(plan, run.step.times(), log);
  Bytes seen = bytes_in(io::trace_text(plan, times));
  std::map<std::string, std::int64_t> planned;
  for (PlaceTraffic const& traffic : place_traffic(plan))
    planned[to_string(traffic.from) + " to " + to_string(traffic.to)] = traffic.bytes;
  CHECK(seen.copied == planned);
  return {std::move(times), std::move(seen)};
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("the trace of a run on a device has its copies and its memory",
                        "[io][trace]", DeviceRuntimes) {
  TinyGptGraph const of;
  PlanOptions options{.tile = 64};
  options.place = {{.role = Role::state},
                   {.role = Role::parameter},
                   {.role = Role::input},
                   {.place = device(0)}};
  MemoryReport const whole = Plan(of.graph, options).memory({0, device(0)});
  options.capacity = {{device(0), whole.stored + whole.arena * 2 / 5}};
  DeviceLog log;
  TestType runtime(RuntimeOptions{.workers = 1}, testing::EmulatedOptions{.log = &log});
  TinyGptRun<TestType> run(runtime, of, options, {.trace = true});
  auto const [times, seen] = traced_step(run, log);
  for (std::size_t t = 0; t < times.size(); ++t) CHECK(times[t].end >= times[t].begin);
  CHECK(seen.copied.size() == 2);
  CHECK(seen.rows.at("stream of device 0") == 1);
  CHECK(seen.rows.at("copies of device 0") == 1);
  MemoryReport const memory = run.step.plan().memory({0, device(0)});
  CHECK(seen.most.at("arena of device 0") <= memory.arena);
  CHECK(seen.most.at("arena of device 0") > memory.arena / 2);
  CHECK(seen.counted.at("arena of device 0") > 10);
}

TEMPLATE_LIST_TEST_CASE("the trace of a run with a disk has its copies", "[io][trace]",
                        DiskRuntimes) {
  TinyGptGraph const of;
  PlanOptions const options{.tile = 64,
                            .place = {{.role = Role::state, .place = disk}, {.place = device(0)}}};
  DeviceLog log;
  TestType runtime(RuntimeOptions{.workers = 1}, DiskOptions{.capacity = 1 << 24, .log = &log},
                   testing::EmulatedOptions{.log = &log});
  TinyGptRun<TestType> run(runtime, of, options, {.trace = true});
  auto const [times, seen] = traced_step(run, log);
  for (TaskTime const& time : times) CHECK(time.end != 0);
  CHECK(seen.copied.at("host to disk") != 0);
  CHECK(seen.copied.at("disk to host") != 0);
  CHECK(seen.rows.at("copies of disk") == 1);
  CHECK(seen.rows.at("copies of device 0") == 1);
}

TEST_CASE("every task of a run has a time, and those of a stream do not overlap", "[io][trace]") {
  TinyGptGraph const of;
  PlanOptions options{.tile = 64, .place = {{.role = Role::state}, {.place = device(0)}}};
  DeviceLog log;
  using R = SerialOn<testing::EmulatedDevice>;
  R runtime(RuntimeOptions{},
            testing::EmulatedOptions{.seed = 3, .longest_delay_ns = 5'000, .log = &log});
  TinyGptRun<R> run(runtime, of, options, {.trace = true});
  run.bind(1);
  log.clear();
  run.step.execute();
  auto const times = with_device_times(run.step.plan(), run.step.times(), log);
  std::map<std::uint64_t, std::vector<TaskTime>> threads;
  for (TaskTime const& time : times) {
    CHECK(time.end != 0);
    threads[time.thread].push_back(time);
  }
  CHECK(threads.size() >= 2);
  for (auto& [thread, tasks] : threads) {
    std::sort(tasks.begin(), tasks.end(),
              [](TaskTime const& a, TaskTime const& b) { return a.begin < b.begin; });
    for (std::size_t i = 1; i < tasks.size(); ++i) CHECK(tasks[i].begin >= tasks[i - 1].end);
  }
}
