// SPDX-License-Identifier: BSD-3-Clause
// Time of planning and binding per tile task, and its growth with the number of tasks.

#include <cmath>

#include "bench/harness.hh"
#include "nntile/graph/compile.hh"
#include "nntile/nn/gpt2.hh"
#include "nntile/nn/language_model.hh"
#include "nntile/runtime/ring/ring.hh"

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

}  // namespace

int main(int argc, char** argv) {
  bench::Records records(
      "plan", bench::parse(argc, argv, "Time of planning and of binding to ring, per tile task."));
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
}
