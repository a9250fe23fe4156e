// SPDX-License-Identifier: BSD-3-Clause
// Scaling of a training step of GPT-2's smallest model by simulation: ranks from 1 to 1,024, each
// with one sequence of 1,024 tokens, on clusters that are given by a few numbers.

#include <algorithm>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "bench/gpt2_step.hh"
#include "bench/harness.hh"
#include "nntile/graph/simulate_job.hh"

namespace {

using namespace nntile;

struct Cluster {
  char const* name;
  ClusterModel model;
};

/// Each rank is a device of 19.5 Tflop/s in fp32 and 1,555 GB/s (A100 of 40 GB, data sheet), whose
/// kernels cost 5 us to launch. Links of 100 Gbit/s and 2 us, and of 400 Gbit/s and 1 us, for each
/// rank; or nodes of eight with 300 GB/s inside and 8 times 200 Gbit/s between them (DGX A100, data
/// sheet).
std::vector<Cluster> clusters() {
  MachineModel const device{
      .workers = 1, .peak = 19.5e12, .bandwidth = 1555e9, .task_overhead = 5e-6};
  LinkModel const of_100{.latency = 2e-6, .bandwidth = 12.5e9};
  LinkModel const of_400{.latency = 1e-6, .bandwidth = 50e9};
  LinkModel const of_node{.latency = 1e-6, .bandwidth = 200e9};
  LinkModel const inside{.latency = 1e-6, .bandwidth = 300e9};
  return {{"a100_100_gbit", {.rank = device, .link = of_100}},
          {"a100_400_gbit", {.rank = device, .link = of_400}},
          {"a100_nodes_of_8",
           {.rank = device, .link = of_node, .ranks_per_node = 8, .inside = inside}}};
}

/// A preset on a number of ranks: those of one sequence, or stage, or part of the heads, are
/// neighbours.
struct Placement {
  std::vector<MeshAxis> mesh;
  std::vector<ShardRule> rules;
  std::vector<AxisGroups> groups;
};
struct Preset {
  char const* name;
  int inner;  // ranks of the axis beside the data, if there are as many
  Placement (*on)(int inner, int data);
};

constexpr Index layers = 12;

std::vector<ShardRule> stages(int count) { return pipeline(nn::pipeline_stages({}, count)); }
std::vector<Preset> presets() {
  return {
      {"ddp", 1,
       [](int, int data) { return Placement{{{"data", data}}, ddp(), {{"batch", data}}}; }},
      {"zero1", 1,
       [](int, int data) { return Placement{{{"data", data}}, zero1(), {{"batch", data}}}; }},
      {"fsdp", 1,
       [](int, int data) { return Placement{{{"data", data}}, fsdp(), {{"batch", data}}}; }},
      {"fsdp_tensor_4", 4,
       [](int inner, int data) {
         return Placement{{{"tensor", inner}, {"data", data}},
                          product({tensor_parallel(), fsdp()}),
                          {{"batch", data}, {"head", inner}, {"hidden", inner}, {"vocab", inner}}};
       }},
      {"fsdp_sequence_4", 4,
       [](int inner, int data) {
         return Placement{{{"seq", inner}, {"data", data}},
                          product({sequence_parallel(), fsdp()}),
                          {{"batch", data}, {"seq", inner}}};
       }},
      {"ddp_pipeline_4", 4, [](int inner, int data) {
         return Placement{
             {{"pipe", inner}, {"data", data}}, product({stages(inner), ddp()}), {{"batch", data}}};
       }}};
}

/// Four stages, and micro-batches of one sequence: the share of time in which the devices are idle,
/// and the arena of the first stage, layer by layer and with one forward and one backward in turn.
void add_pipelines(bench::Records& records, Cluster const& cluster, int most) {
  constexpr std::pair<char const*, PipelineSchedule> schedules[] = {
      {"pipeline_4_by_layer", PipelineSchedule::layer_by_layer},
      {"pipeline_4_1f1b", PipelineSchedule::one_forward_one_backward}};
  for (int micro_batches = 4; micro_batches <= most; micro_batches *= 2)
    for (auto const& [name, schedule] : schedules) {
      bench::Gpt2Step const gpt2({.layers = layers}, 1024, micro_batches, {});
      PlanOptions options{.tile = 1024, .cuts = {{"batch", {1}}}, .mesh = {{"pipe", 4}}};
      options.rules = stages(4);
      options.schedule = schedule;
      double const idle = idle_share(simulate(job_tasks(gpt2.graph, options), cluster.model));
      Index const arena = report_parts(gpt2.graph, options)[0].memory.arena;
      auto const add = [&](char const* metric, char const* unit, double value) {
        records.add_point(cluster.name, name, metric, unit, {value}, "micro_batches",
                          micro_batches);
      };
      add("bubble", "ratio", idle);
      add("arena", "MB", static_cast<double>(arena) * 1e-6);
    }
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// A step on `ranks` ranks.
struct Step {
  Step(Preset const& preset, int ranks)
      : inner(std::min(preset.inner, ranks)),
        placement(preset.on(inner, ranks / inner)),
        gpt2({.layers = layers}, 1024, ranks, {.groups = placement.groups}) {
    options.tile = 1024;
    options.mesh = placement.mesh;
    options.rules = placement.rules;
  }

  int inner;
  Placement placement;
  bench::Gpt2Step gpt2;
  PlanOptions options;
};

/// Whether a simulation has sent what the parts say.
bool sends_alike(Step const& step, JobSimulation const& result) {
  auto const parts = report_parts(step.gpt2.graph, step.options);
  for (std::size_t r = 0; r < parts.size(); ++r)
    if (parts[r].bytes_sent != result.ranks[r].bytes_sent ||
        parts[r].bytes_received != result.ranks[r].bytes_received)
      return false;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  auto const options = bench::parse(argc, argv, "scaling of GPT-2 steps by simulation");
  int const most = options.quick ? 16 : 1024;
  bench::Records records("simulate", options);
  auto const all = clusters();
  std::vector<double> alone(all.size());  // seconds of one rank
  std::vector<double> speeds;             // of the simulator on the largest jobs
  for (Preset const& preset : presets())
    for (int ranks = 1; ranks <= most; ranks *= 2) {
      Step const step(preset, ranks);
      JobTasks const job = job_tasks(step.gpt2.graph, step.options);
      for (std::size_t c = 0; c < all.size(); ++c) {
        double const begin = cpu_seconds();
        JobSimulation const result = simulate(job, all[c].model);
        double const took = cpu_seconds() - begin;
        if (ranks == 8 && !sends_alike(step, result)) {
          std::fprintf(stderr, "%s: a simulation sends other bytes than the plan\n", preset.name);
          return 1;
        }
        if (ranks == 1) alone[c] = result.elapsed;
        double const share = alone[c] / result.elapsed;
        records.add_point(all[c].name, preset.name, "efficiency", "ratio", {share}, "ranks", ranks);
        if (ranks != most) continue;
        records.add(concat(all[c].name, "_", ranks), preset.name, "step", "s", {result.elapsed});
        speeds.push_back(static_cast<double>(job.tasks.size()) / took * 1e-6);
      }
    }
  add_pipelines(records, all[0], options.quick ? 8 : 32);
  records.add(concat("124m_", most), "simulator", "simulated_tasks", "million/s", speeds);
  return 0;
}
