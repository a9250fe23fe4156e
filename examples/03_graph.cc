#include <cstdio>
#include <nntile/graph/compile.hh>
#include <nntile/nn/linear.hh>
#include <nntile/nntile.hh>

using namespace nntile;

int main() {
  LogicalGraph graph("layer");  // what to compute
  nn::ParameterList parameters(graph);
  nn::Linear const linear(parameters, "linear", {{512}, "out"}, {{256}, "in"});
  Node const x = graph.input({.shape = {256, 64}, .axes = "in batch"}, "x");
  Node const y = linear(x);
  gelutanh(y, graph.tensor({.shape = {512, 64}}, "z")).mark_output();

  auto const plan = std::make_shared<Plan>(graph, PlanOptions{.tile = 128});  // how: no memory yet
  std::printf("%zu tile tasks, %lld bytes\n", plan->tasks().size(),
              static_cast<long long>(plan->memory().total()));

  Ring runtime({.workers = 2});  // where: Serial, StarPU or a runtime of your own work as well
  TensorStore<Ring> store(runtime);
  CompiledGraph<Ring> run(plan, store);
  store.write<float>("linear.weight", std::vector<float>(512 * 256, 0.01f));
  store.write<float>("linear.bias", std::vector<float>(512, 0.5f));
  run.bind_input<float>("x", std::vector<float>(256 * 64, 1.0f));
  run.execute();
  std::printf("z[0] = %.6f\n", static_cast<double>(run.get_output<float>("z")[0]));
}
