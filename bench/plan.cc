// SPDX-License-Identifier: BSD-3-Clause
// Time of planning and binding per tile task, and its growth with the number of tasks; memory of a
// step that is submitted op after op, in heaps, against planned arenas.

#include <cmath>
#include <utility>

#include "bench/harness.hh"
#include "nntile/graph/heaps.hh"
#include "nntile/graph/parts.hh"
#include "nntile/nn/gpt2.hh"
#include "nntile/nn/language_model.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/testing/heap_run.hh"

namespace {

using namespace nntile;

/// A GPT-2 training step of `layers` blocks, 256 wide.
struct Step {
  LogicalGraph graph{"step"};
  nn::Gpt2 model;
  nn::LanguageModelStep step;
  explicit Step(Index layers)
      : model(graph, {.vocab = 256, .positions = 256, .width = 256, .layers = layers, .heads = 4}),
        step(model, {.seq = 256, .batch = 8}) {}
};

/// What heaps hold at most while a ring runs a forward and a backward pass of the smallest
/// published GPT-2, op after op and without the work, against two arenas: of the plan in that
/// order, without memory taken over, and of the real one.
void add_heaps(bench::Records& records, Index seq, Index tile) {
  LogicalGraph graph("gpt2");
  nn::Gpt2 const model(graph, {});
  nn::LanguageModelStep const step(
      model, {.seq = seq, .purpose = nn::LanguageModelOptions::Purpose::gradients});
  Plan const real(graph, {.tile = tile}), eager = in_program_order(real);
  HeapPlan const heaps = plan_heaps(eager);
  Ring ring({.workers = 1}, heaps.capacities);
  TensorStore<Ring> store(ring);
  Codelet const nothing{"nothing", +[](KernelCall const&) noexcept -> Status { return {}; },
                        nullptr, nullptr};
  testing::run_in_heaps(eager, heaps, store, {}, &nothing);
  RingStats const stats = ring.stats();
  std::size_t const peak = stats.step.peak + stats.scope.peak + stats.scratch.peak;
  if (stats.step.growths + stats.scope.growths + stats.scratch.growths != 0 ||
      peak > static_cast<std::size_t>(heaps.bytes()))
    throw Error("the heaps of the plan were too small");
  std::string const name = concat("124m_b1_s", seq, tile == 0 ? "_whole" : concat("_t", tile));
  auto const add = [&](char const* metric, char const* unit, double value) {
    records.add(name, "ring", metric, unit, {value});
  };
  auto const bytes = static_cast<double>(heaps.bytes());
  add("heap_mib", "MiB", bytes / (1 << 20));
  add("heap_peak_mib", "MiB", static_cast<double>(peak) / (1 << 20));
  add("times_eager_arena", "x", bytes / static_cast<double>(eager.memory().arena));
  add("times_planned_arena", "x", bytes / static_cast<double>(real.memory().arena));
}

/// A training step of the smallest published GPT-2 with a sample of 64 positions on each of the
/// data ranks, and `tensor` ranks that share each; with 16 heads for these.
struct PartStep {
  LogicalGraph graph;
  nn::Gpt2 model;
  nn::LanguageModelStep step;
  PlanOptions options{.tile = 512, .cuts = {{"batch", {1}}}};

  PartStep(std::vector<ShardRule> const& rules, int data, int tensor)
      : graph("gpt2", numerics(data, rules.empty() ? 1 : tensor)),
        model(graph, {.heads = tensor > 1 ? 16 : 12}),
        step(model, {.seq = 64, .batch = data}) {
    if (rules.empty()) return;
    options.mesh = {{"data", data}};
    if (tensor > 1) options.mesh = {{"tensor", tensor}, {"data", data}};
    options.rules = rules;
  }
  static Numerics numerics(int data, int tensor) {
    Numerics result{.groups = {{"batch", data}}};
    for (char const* axis : {"head", "hidden", "vocab"})
      if (tensor > 1) result.groups.push_back({axis, tensor});
    return result;
  }
};

/// Time of planning one rank's part over that of a plan of one sample on one rank, both for each of
/// their tasks; and of memory and traffic of all parts.
void add_part(bench::Records& records, char const* preset, std::vector<ShardRule> const& rules,
              int ranks, int tensor = 1) {
  auto const plan = [&](PartStep const& of) {
    double const begin = bench::seconds();
    Plan const result = of.options.mesh.empty() ? Plan(of.graph, of.options)
                                                : Plan(of.graph, of.options, ranks / 3);
    double const seconds = bench::seconds() - begin;
    return std::pair(seconds, seconds / static_cast<double>(result.tasks().size()));
  };
  double const alone = plan(PartStep({}, 1, tensor)).second;
  PartStep const shared(rules, ranks / tensor, tensor);
  auto const [seconds, per_task] = plan(shared);
  std::string const name = concat("124m_", preset, "_", ranks);
  records.add(name, "plan", "part_ms", "ms", {seconds * 1e3});
  records.add(name, "plan", "part_us_per_own_task", "us", {per_task * 1e6});
  records.add(name, "plan", "times_one_rank", "x", {per_task / alone});
  double const begin = bench::seconds();
  if (report_parts(shared.graph, shared.options).size() != static_cast<std::size_t>(ranks))
    throw Error("a report of other ranks");
  records.add(name, "plan", "report_seconds", "s", {bench::seconds() - begin});
}

/// Time of a plan whose tile is searched, over that of one with the tile that is found.
void add_search(bench::Records& records, Index seq, int workers, int runs) {
  LogicalGraph graph("gpt2");
  nn::Gpt2 const model(graph, {});
  nn::LanguageModelStep const step(model, {.seq = seq, .batch = 4});
  MachineModel machine;
  machine.workers = workers;
  auto const plan = [&](Index tile, bool even) {
    double const begin = bench::seconds();
    Index const found = Plan(graph, {.tile = tile, .machine = machine, .even = even}).tile();
    return std::pair(bench::seconds() - begin, found);
  };
  std::vector<double> times;
  for (int run = 0; run < runs; ++run) {
    auto const [searched, tile] = plan(PlanOptions::automatic, false);
    times.push_back(searched / plan(tile, true).first);
  }
  records.add(concat("124m_b4_s", seq, "_", workers, "_workers"), "plan", "times_without_search",
              "x", times);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Records records("plan",
                         bench::parse(argc, argv,
                                      "Time of planning and of binding to ring, per tile task; "
                                      "memory of GPT-2 op after op, in heaps."));
  int const runs = records.options().quick ? 3 : 9;
  std::vector<double> logs_n, logs_t;
  for (Index const layers : {1, 2, 4, 8, 16, 32, 64}) {
    Step const step(layers);
    std::vector<double> planning, binding;
    std::size_t tasks = 0;
    for (int run = 0; run < runs; ++run) {
      double const begin = bench::seconds();
      auto const plan = std::make_shared<Plan const>(step.graph, PlanOptions{.tile = 64});
      double const planned = bench::seconds();
      tasks = plan->tasks().size();
      Ring runtime({.workers = 1});
      TensorStore<Ring> store(runtime);
      double const bind_begin = bench::seconds();
      CompiledGraph<Ring> const bound(plan, store);
      binding.push_back((bench::seconds() - bind_begin) / static_cast<double>(tasks) * 1e9);
      planning.push_back((planned - begin) / static_cast<double>(tasks) * 1e9);
    }
    std::string const name = concat("tasks_", tasks);
    records.add(name, "plan", "ns_per_task", "ns", planning);
    records.add(name, "ring", "bind_ns_per_task", "ns", binding);
    logs_n.push_back(std::log(static_cast<double>(tasks)));
    logs_t.push_back(std::log(bench::quantile(planning, 0.5) * static_cast<double>(tasks)));
    if (tasks > 100'000) break;
  }
  // Slope of log time over log tasks, by least squares: 1 is linear.
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (std::size_t i = 0; i < logs_n.size(); ++i)
    n += 1, x += logs_n[i], y += logs_t[i], xx += logs_n[i] * logs_n[i],
        xy += logs_n[i] * logs_t[i];
  records.add("growth", "plan", "exponent", "power", {(n * xy - x * y) / (n * xx - x * x)});
  for (auto const& [seq, tile] : {std::pair<Index, Index>{1024, 0}, {1024, 512}, {512, 256}})
    add_heaps(records, seq, tile);
  for (Index const seq : {64, 1024})
    for (int const workers : {2, 16}) add_search(records, seq, workers, runs);
  for (int const ranks : {64, 256, 1024}) {
    if (ranks > 64 && records.options().quick) break;
    add_part(records, "ddp", ddp(), ranks);
    add_part(records, "zero1", zero1(), ranks);
    add_part(records, "fsdp", fsdp(), ranks);
    add_part(records, "fsdp_tensor8", product({tensor_parallel(), fsdp()}), ranks, 8);
  }
}
