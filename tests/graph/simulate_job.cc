// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/graph/simulate_job.hh"

#include <algorithm>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/scale.hh"
#include "tests/graph/random_parts.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"
#include "tests/support/hand_part.hh"
#include "tests/support/job_proof.hh"
#include "tests/support/message.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// A task takes a second for every 1,000 bytes; a link carries 1,000 bytes in a second, half of one
/// later.
ClusterModel slow(int workers = 1) {
  ClusterModel cluster;
  cluster.rank = {.workers = workers, .peak = 1, .bandwidth = 1000, .task_overhead = 0};
  cluster.link = {.latency = 0.5, .bandwidth = 1000, .overhead = 0};
  return cluster;
}

JobSimulation run(std::vector<HandPart> const& parts, ClusterModel const& cluster,
                  bool timed = false) {
  std::vector<Plan> plans;
  for (HandPart const& part : parts) plans.push_back(part.plan());
  return simulate(plans, cluster, timed);
}
std::string error(std::vector<HandPart> const& parts, ClusterModel const& cluster = slow()) {
  return message_of<Error>([&] { run(parts, cluster); });
}

}  // namespace

TEST_CASE("a chain over two ranks takes its tasks, a latency and the bytes over the bandwidth",
          "[graph][simulate]") {
  // 2 s of work, then 1 s on the link, 0.5 s late, then 3 s of work.
  std::vector<HandPart> const parts{HandPart(0, 2).work(2, {write(0)}).send(0, 1),
                                    HandPart(1, 2).receive(0, 0).work(3, {read(0)})};
  JobSimulation const result = run(parts, slow(), true);
  CHECK(result.elapsed == 6.5);
  CHECK(result.ranks[0] == RankSimulation{2, 1, 3, 1, 1000, 0});
  CHECK(result.ranks[1] == RankSimulation{3, 3.5, 6.5, 0, 0, 1000});
  CHECK(result.times ==
        std::vector<SimulatedTask>{{0, 2, 0}, {2, 3, 1}, {2.5, 3.5, 2}, {3.5, 6.5, 0}});
}

TEST_CASE("workers that have no task take no room for times", "[graph][simulate]") {
  std::vector<HandPart> const parts{HandPart(0, 2).work(2, {write(0)}).send(0, 1),
                                    HandPart(1, 2).receive(0, 0).work(3, {read(0)})};
  constexpr int most = std::numeric_limits<int>::max();
  JobSimulation const result = run(parts, slow(most), true);
  CHECK(result.times ==
        std::vector<SimulatedTask>{{0, 2, 0}, {2, 3, most}, {2.5, 3.5, most + 1u}, {3.5, 6.5, 0}});
}

TEST_CASE("bytes of messages that 63 bits do not hold are counted as the most",
          "[graph][simulate]") {
  LogicalGraph graph("g");
  TensorSpec const large{.shape = {Index{1} << 59}};
  Node const x = graph.state(large, "x"), y = graph.state(large, "y");
  for (int i = 0; i < 9; ++i) {
    gelutanh(x, y);
    gelutanh(y, x);
  }
  PlanOptions options{.tile = 0, .mesh = {{"data", 2}}};
  options.owners = [](std::string_view tensor, Index) { return tensor == "x" ? 0 : 1; };
  std::vector<Plan> parts;
  for (int const rank : {0, 1}) parts.emplace_back(graph, options, rank);
  for (RankSimulation const& rank : simulate(parts, slow()).ranks) {
    CHECK(rank.bytes_sent == INT64_MAX);
    CHECK(rank.bytes_received == INT64_MAX);
  }
}

TEST_CASE("crossed messages go at the same time, over links in both directions",
          "[graph][simulate]") {
  auto const part = [](int rank) {
    return HandPart(rank, 2)
        .work(1, {write(0)})
        .send(0, 1 - rank)
        .receive(1, 1 - rank)
        .work(1, {read(1)});
  };
  CHECK(run({part(0), part(1)}, slow()).elapsed == 3.5);
}

TEST_CASE("messages of one sender go one after another, and so do those to one receiver",
          "[graph][simulate]") {
  // Two messages leave at 0 and 1; they are there at 1.5 and 2.5.
  std::vector<HandPart> const from_one{HandPart(0, 3).send(0, 1).send(1, 2),
                                       HandPart(1, 3).receive(0, 0), HandPart(2, 3).receive(1, 0)};
  JobSimulation const split = run(from_one, slow());
  CHECK((split.ranks[0].finish == 2 && split.ranks[1].finish == 1.5));
  CHECK(split.ranks[2].finish == 2.5);
  std::vector<HandPart> const to_one{HandPart(0, 3).send(0, 2), HandPart(1, 3).send(1, 2),
                                     HandPart(2, 3).receive(0, 0).receive(1, 1)};
  JobSimulation const joined = run(to_one, slow());
  CHECK((joined.ranks[0].finish == 1 && joined.ranks[1].finish == 1));
  CHECK(joined.ranks[2].finish == 2.5);
}

TEST_CASE("a link that is taken later by one who asks earlier is free meanwhile",
          "[graph][simulate]") {
  // Rank 0 sends to 1 and then to 2; rank 3 sends to 2 as well, and is there before.
  std::vector<HandPart> const parts{
      HandPart(0, 4).send(0, 1).send(1, 2), HandPart(1, 4).receive(0, 0),
      HandPart(2, 4).receive(1, 0).receive(2, 3), HandPart(3, 4).work(0.25, {write(2)}).send(2, 2)};
  JobSimulation const result = run(parts, slow(), true);
  CHECK(result.times[3].end == 2.75);  // rank 2's receive from rank 0, behind
  CHECK(result.times[4].end == 1.75);  // that from rank 3
}

TEST_CASE("bytes wait for the slot of their receive", "[graph][simulate]") {
  std::vector<HandPart> const parts{
      HandPart(0, 2).send(0, 1),
      HandPart(1, 2).work(2, {write(3)}).work(2, {read(3), write(0)}).receive(0, 0)};
  JobSimulation const result = run(parts, slow());
  CHECK(result.ranks[0].finish == 5);
  CHECK(result.elapsed == 5.5);
  CHECK(result.ranks[1].waiting == 1.5);
}

TEST_CASE("a sender writes its tile again when the bytes have left", "[graph][simulate]") {
  std::vector<HandPart> const parts{
      HandPart(0, 2).work(1, {write(0)}).send(0, 1).work(1, {write(0)}),
      HandPart(1, 2).receive(0, 0)};
  CHECK(run(parts, slow()).ranks[0].finish == 3);
}

TEST_CASE("workers spend the overheads of messages, ahead of other tasks", "[graph][simulate]") {
  ClusterModel cluster = slow();
  cluster.link.overhead = 0.25;
  cluster.link.overhead_per_byte = 0.001;
  std::vector<HandPart> const parts{
      HandPart(0, 2).work(1, {write(0)}).work(1, {write(1)}).send(0, 1).work(1, {write(2)}),
      HandPart(1, 2).receive(0, 0).work(8, {write(3)}).work(1, {write(4)})};
  JobSimulation const result = run(parts, cluster);
  // The send comes behind the first task: from 1 to 2.25; the bytes are there at 3.75, and the
  // receive is ended between two tasks, from 8 to 9.25.
  CHECK(result.ranks[0].finish == 4.25);
  CHECK(result.ranks[0].busy == 4.25);
  CHECK(result.ranks[1].finish == 10.25);
  CHECK(result.ranks[1].waiting == 0);
}

TEST_CASE("ranks of a node share its link, and have links of their own inside",
          "[graph][simulate]") {
  ClusterModel cluster = slow();
  cluster.ranks_per_node = 2;
  cluster.inside = {.latency = 0, .bandwidth = 4000, .overhead = 0};
  std::vector<HandPart> const out{HandPart(0, 4).send(0, 2), HandPart(1, 4).send(1, 3),
                                  HandPart(2, 4).receive(0, 0), HandPart(3, 4).receive(1, 1)};
  CHECK(run(out, cluster).elapsed == 2.5);
  CHECK(run(out, slow()).elapsed == 1.5);
  std::vector<HandPart> const inside{HandPart(0, 4).send(0, 1), HandPart(1, 4).receive(0, 0),
                                     HandPart(2, 4).send(1, 3), HandPart(3, 4).receive(1, 2)};
  CHECK(run(inside, cluster).elapsed == 0.25);
  auto const crossed = [](int rank) {
    return HandPart(rank, 2).send(0, 1 - rank).receive(1, 1 - rank);
  };
  CHECK(run({crossed(0), crossed(1)}, cluster).elapsed == 0.25);  // not over the node's link
}

TEST_CASE("more workers than tasks, and tasks of higher priority first", "[graph][simulate]") {
  HandPart part(0, 1);
  part.work(1, {write(0)}).work(2, {write(1)}).work(3, {write(2)}, 1).work(1, {read(2)});
  CHECK(run({part}, slow(100)).elapsed == 4);
  JobSimulation const alone = run({part}, slow(), true);
  CHECK(alone.elapsed == 7);
  CHECK(alone.times[2].begin == 0);
  CHECK(run({part}, slow(2)).ranks[0].busy == 7);
  CHECK(run({HandPart(0, 1)}, slow()).elapsed == 0);
}

TEST_CASE("a job of one rank takes as long as its plan alone", "[graph][simulate]") {
  TinyGptGraph const gpt;
  for (Index const tile : {16, 32, 64}) {
    PlanOptions options{.tile = tile};
    Plan const plan(gpt.graph, options);
    options.mesh = {{"data", 1}};
    options.rules = ddp();
    auto const walk = job_tasks(gpt.graph, options);
    for (int const workers : {1, 2, 3, 8}) {
      INFO("tile " << tile << ", " << workers << " workers");
      ClusterModel cluster;
      cluster.rank.workers = workers;
      Simulation const alone = simulate(plan, cluster.rank);
      JobSimulation const job = simulate(std::span(&plan, 1), cluster);
      CHECK(job.elapsed == alone.elapsed);
      CHECK(job.ranks[0].busy == Approx(alone.busy));
      CHECK(simulate(walk, cluster).elapsed == alone.elapsed);
    }
  }
}

TEST_CASE("the walk through a job gives what its parts give", "[graph][simulate]") {
  int tried = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    RandomParts const of(seed);
    if (of.refusal() != "") continue;
    ++tried;
    INFO("seed " << seed);
    ClusterModel cluster;
    cluster.rank.workers = 1 + static_cast<int>(seed % 3);
    auto const parts = parts_of(of.graph(), of.options());
    JobSimulation const by_parts = simulate(parts, cluster, true);
    JobSimulation const by_walk = simulate(job_tasks(of.graph(), of.options()), cluster, true);
    CHECK(by_parts == by_walk);
    for (std::size_t r = 0; r < parts.size(); ++r) {
      Index sent = 0, received = 0;
      for (PlannedTraffic const& with : traffic(parts[r]))
        sent += with.bytes_sent, received += with.bytes_received;
      CHECK((by_walk.ranks[r].bytes_sent == sent && by_walk.ranks[r].bytes_received == received));
    }
  }
  CHECK(tried > 30);
}

TEST_CASE("the walk through a job of several places gives what its parts give",
          "[graph][simulate]") {
  TinyGptGraph const gpt({.batch = 2, .numerics = {.groups = {{"batch", 2}}}});
  PlanOptions options{.tile = 64, .cuts = {{"batch", {1}}}, .mesh = {{"data", 2}}, .rules = fsdp()};
  options.place = {{.role = Role::state}, {.place = device(0)}};
  ClusterModel const cluster;
  CHECK(simulate(job_tasks(gpt.graph, options), cluster, true) ==
        simulate(parts_of(gpt.graph, options), cluster, true));
  options.capacity = {{device(0), 64}};
  CHECK_THROWS_AS(job_tasks(gpt.graph, options), PlaceFull);
}

TEST_CASE("two runs of a job are equal, and a machine without limits is a lower bound",
          "[graph][simulate]") {
  for (std::uint64_t seed = 100; seed <= 130; ++seed) {
    RandomParts const of(seed);
    if (of.refusal() != "") continue;
    INFO("seed " << seed);
    JobTasks const job = job_tasks(of.graph(), of.options());
    ClusterModel cluster;
    JobSimulation const result = simulate(job, cluster, true);
    CHECK(simulate(job, cluster, true) == result);
    for (RankSimulation const& rank : result.ranks) {
      CHECK(rank.busy <= result.elapsed * cluster.rank.workers);
      CHECK(rank.waiting <= rank.finish);
      CHECK(static_cast<double>(rank.bytes_sent) / cluster.link.bandwidth <= result.elapsed);
    }
    cluster.rank.workers = 10'000;
    cluster.link = {
        .latency = 0, .bandwidth = std::numeric_limits<double>::infinity(), .overhead = 0};
    CHECK(simulate(job, cluster).elapsed <= result.elapsed);
  }
}

TEST_CASE("without a choice a slower link makes no run shorter", "[graph][simulate]") {
  // A ring of ranks that hand a value on: one task or message at a time.
  constexpr int ranks = 5;
  std::vector<HandPart> parts;
  for (int r = 0; r < ranks; ++r) {
    HandPart part(r, ranks);
    if (r > 0) part.receive(0, r - 1);
    part.work(1, {update(0)});
    if (r + 1 < ranks) part.send(0, r + 1);
    parts.push_back(part);
  }
  double last = 0;
  for (double const slower : {0.0, 0.5, 1.0, 2.0, 8.0}) {
    ClusterModel cluster = slow();
    cluster.link.latency = slower;
    cluster.link.bandwidth = 1000 / (1 + slower);
    JobSimulation const result = run(parts, cluster);
    CHECK(result.elapsed == ranks + (ranks - 1) * (1 + 2 * slower));
    CHECK(result.elapsed > last);
    last = result.elapsed;
  }
}

TEST_CASE("parts that are not those of one job are refused by name", "[graph][simulate]") {
  HandPart const sends = HandPart(0, 2).send(0, 1), receives = HandPart(1, 2).receive(0, 0);
  CHECK(error({sends, receives}) == "(nothing was thrown)");
  CHECK(error({}) == "simulate: no parts; give those of all ranks");
  CHECK(error({sends}) ==
        "simulate: plan 'hand': part 0 of 1 is that of rank 0 of 2; give those of all ranks, rank "
        "0 first");
  CHECK(contains(error({receives, sends}), "part 0 of 2 is that of rank 1 of 2"));
  CHECK(error({HandPart(0, 2), receives}) ==
        "simulate: plan 'hand': rank 1, task 0: message 0 from rank 0, tile 0 of 'x', is not sent");
  CHECK(error({sends, HandPart(1, 2)}) ==
        "simulate: plan 'hand': rank 0, task 0: message 0 to rank 1, tile 0 of 'x', is not "
        "received");
  CHECK(contains(error({HandPart(0, 2).send(0, 1, 3), receives}), "is not"));
  CHECK(contains(error({HandPart(0, 2).send(0, 1).send(1, 1), receives}),
                 "rank 0, task 1: message 0 to rank 1, tile 1 of 'x', has the number of another"));
  CHECK(contains(error({sends, HandPart(1, 2).receive(0, 0).receive(1, 0)}),
                 "has the number of another"));
  CHECK(contains(error({sends, HandPart(1, 2).receive(0, 0).bytes(2000)}),
                 "has 1000 bytes, but plan 'hand': rank 1, task 0: message 0 from rank 0, tile 0 "
                 "of 'x', has 2000"));
  for (int const peer : {-1, 0, 2})
    CHECK(contains(error({HandPart(0, 2).send(0, peer), receives}), "there are 2 ranks"));
}

TEST_CASE("messages that wait for each other are told, with both ends", "[graph][simulate]") {
  auto const part = [](int rank) {
    return HandPart(rank, 2).receive(0, 1 - rank).work(1, {read(0), write(1)}).send(1, 1 - rank);
  };
  CHECK(error({part(0), part(1)}) ==
        "simulate: plan 'hand': no end, after 0 of 6 tasks: a message of 1000 bytes never goes: "
        "its send on rank 0, task 2 of its part, which waits for 1 others, and its receive on rank "
        "1, task 0 of its part, which waits for 0 others; messages wait for each other");
}

TEST_CASE("a machine that cannot be is refused by its numbers", "[graph][simulate]") {
  double const nan = std::numeric_limits<double>::quiet_NaN();
  auto const refusal = [](auto change) {
    ClusterModel cluster = slow();
    change(cluster);
    std::string const text = message_of<ValueError>([&] { run({HandPart(0, 1)}, cluster); });
    CHECK(text.starts_with("simulate: plan 'hand': "));
    return text;
  };
  for (int const workers : {0, -3})
    CHECK(contains(refusal([&](ClusterModel& of) { of.rank.workers = workers; }),
                   concat("ranks of ", workers, " workers; at least 1")));
  CHECK(contains(refusal([](ClusterModel& of) { of.ranks_per_node = 0; }), "nodes of 0 ranks"));
  for (double const wrong : {-1.0, nan}) {
    CHECK(contains(refusal([&](ClusterModel& of) { of.link.latency = wrong; }),
                   concat("a link of a latency of ", wrong, " s; at least 0")));
    CHECK(contains(refusal([&](ClusterModel& of) { of.link.bandwidth = wrong; }), "bytes/s"));
    CHECK(contains(refusal([&](ClusterModel& of) { of.link.overhead = wrong; }), "overheads"));
    CHECK(contains(refusal([&](ClusterModel& of) { of.inside.overhead_per_byte = wrong; }),
                   "a link inside a node of overheads"));
    CHECK(contains(refusal([&](ClusterModel& of) { of.rank.peak = wrong; }), "flop/s"));
    CHECK(contains(refusal([&](ClusterModel& of) { of.rank.bandwidth = wrong; }), "of memory"));
    CHECK(contains(refusal([&](ClusterModel& of) { of.rank.task_overhead = wrong; }), "of a task"));
  }
  CHECK(contains(refusal([](ClusterModel& of) { of.link.bandwidth = 0; }), "0 bytes/s"));
  double const never = std::numeric_limits<double>::infinity();
  CHECK(contains(refusal([&](ClusterModel& of) { of.inside.latency = never; }), "latency of inf"));
  CHECK(contains(refusal([&](ClusterModel& of) { of.rank.task_overhead = never; }), "of inf s"));
}

TEST_CASE("measured durations count by kernel and cost, else the model is scaled by them",
          "[graph][simulate]") {
  MachineModel const machine = slow().rank;
  LogicalGraph graph;
  gelutanh(graph.input({.shape = {125 * 3}, .axes = "n"}, "x")).mark_output();
  Plan const plan(graph, {.tile = 0, .cuts = {{"n", {125, 250}}}});  // 1,000 and 2,000 bytes
  REQUIRE(plan.tasks().size() == 2);
  std::string const kernel = plan.kernels()[0].name;
  Cost const small = plan.tasks()[0].cost, large = plan.tasks()[1].cost;
  auto const s = [](double seconds) { return static_cast<std::int64_t>(seconds * 1e9); };
  KernelTimes times;
  CHECK(times.seconds(kernel, small, machine) == 1);
  std::vector<TaskTime> run{{s(1), s(3), 1}, {}};
  times.add(plan, run);
  CHECK(times.seconds(kernel, small, machine) == 2);
  CHECK(times.seconds(kernel, large, machine) == 4);  // twice the model
  run = {{s(1), s(5), 1}, {s(5), s(6), 1}};
  times.add(plan, run);
  CHECK(times.seconds(kernel, small, machine) == 3);  // the mean of 2 and 4
  CHECK(times.seconds(kernel, large, machine) == 1);
  CHECK(times.seconds(kernel, {0, 8000}, machine) == 8 * 7. / 4);  // 7 s where the model has 4
  CHECK(times.seconds("other", small, machine) == 1);
  ClusterModel cluster = slow();
  cluster.kernels = times;
  CHECK(simulate(std::span(&plan, 1), cluster).elapsed == 4);
}

TEST_CASE("durations that there is no memory for leave the others as they were",
          "[graph][simulate][memory]") {
  MachineModel const machine = slow().rank;
  LogicalGraph graph;
  Node const x = graph.input({.shape = {125}}, "x");
  scale({.alpha = 2}, x).mark_output();
  Plan const first(graph, {.tile = 0});
  gelutanh(gelutanh(x)).mark_output();
  Plan const more(graph, {.tile = 0});
  bool again = allocations_are_counted();
  for (long count = 0; again; ++count) {
    KernelTimes times;
    times.add(first, std::vector<TaskTime>{{0, 2000000000, 1}});
    std::vector<TaskTime> const run(more.tasks().size(), TaskTime{0, 4000000000, 1});
    (void)fail_new_after(count);
    try {
      times.add(more, run);
    } catch (std::bad_alloc const&) {
    }
    again = fail_new_after(-1) < 0;
    Cost const cost{0, 1000};
    CHECK(times.seconds("scale", cost, machine) == (again ? 2 : 3));
    CHECK(times.seconds("gelutanh", cost, machine) == (again ? 1 : 4));
  }
}

TEST_CASE("tasks that take no number of seconds are refused by their kernel", "[graph][simulate]") {
  auto const planned = [](Index extent) {
    LogicalGraph graph("g");
    gelutanh(graph.input({.shape = {extent}}, "x")).mark_output();
    return Plan(graph, {.tile = 0});
  };
  Plan const plan = planned(125), smaller = planned(64);  // 1,000 and 512 bytes
  auto const refusal = [&](ClusterModel const& cluster) {
    return message_of<ValueError>([&] { (void)simulate(std::span(&plan, 1), cluster); });
  };
  std::string const begin = "simulate: plan 'g': a task of gelutanh (0 flops, 1000 bytes) of ";
  ClusterModel endless = slow();
  endless.rank.bandwidth = 1e-307;
  CHECK(refusal(endless) == begin + "inf s; at least 0");
  std::vector<TaskTime> const second{{1, 1000000001, 1}};
  endless.kernels.add(smaller, second);  // no number: it is to its model as infinity to infinity
  CHECK(refusal(endless).starts_with(begin));
  ClusterModel backward = slow();
  std::vector<TaskTime> const wrong{{3000000000, 1000000000, 1}};
  backward.kernels.add(plan, wrong);
  CHECK(refusal(backward) == begin + "-2 s; at least 0");
}

TEST_CASE("a worker, and a link in one direction, does one thing at a time", "[graph][simulate]") {
  for (std::uint64_t seed = 200; seed <= 230; ++seed) {
    RandomParts const of(seed);
    if (of.refusal() != "") continue;
    INFO("seed " << seed);
    JobTasks const job = job_tasks(of.graph(), of.options());
    ClusterModel cluster;
    cluster.rank.workers = 1 + static_cast<int>(seed % 4);
    cluster.ranks_per_node = 1 + static_cast<int>(seed % 3);
    cluster.inside = {.latency = 1e-7, .bandwidth = 1e9};
    JobSimulation const result = simulate(job, cluster, true);
    for (int r = 0; r < job.ranks(); ++r) {
      std::vector<std::vector<SimulatedTask>> rows(static_cast<std::size_t>(result.workers) + 4);
      auto const rank = static_cast<std::size_t>(r);
      for (std::uint32_t t = job.first[rank]; t < job.first[rank + 1]; ++t) {
        SimulatedTask const& time = result.times[t];
        CHECK((job.tasks[t].kind() == JobTasks::Kind::op) ==
              (time.worker < static_cast<std::uint32_t>(result.workers)));
        rows.at(time.worker).push_back(time);
        for (std::uint32_t const follower : job.followers_of(t))
          if (job.tasks[follower].kind() == JobTasks::Kind::op)
            CHECK(result.times[follower].begin >= time.end);
      }
      for (auto& row : rows) {
        std::sort(row.begin(), row.end(), [](SimulatedTask const& a, SimulatedTask const& b) {
          return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
        });
        for (std::size_t i = 1; i < row.size(); ++i) CHECK(row[i - 1].end <= row[i].begin);
      }
    }
  }
}
