#include <cstdio>
#include <nntile/graph/graph.hh>
#include <nntile/nn/linear.hh>
#include <nntile/nntile.hh>

using namespace nntile;

int main() {
  LogicalGraph layer("layer");  // what to compute
  nn::ParameterList parameters(layer);
  nn::Linear const linear(parameters, "linear", {{512}, "out"}, {{256}, "in"});
  Node const x = layer.input({.shape = {256, 64}, .axes = "in batch"}, "x");
  Node const z = gelutanh(linear(x)).named("z").mark_output();

  Ring runtime({.workers = 2});  // where: Serial, StarPU or a runtime of your own work as well
  Graph<Ring> run(layer, runtime, {.tile = 128});  // how: tiles, order and memory, planned first
  run[linear.weight()] = std::vector<float>(512 * 256, 0.01f);
  run[linear.bias()] = std::vector<float>(512, 0.5f);
  run[x] = std::vector<float>(256 * 64, 1.0f);
  run();
  std::printf("%zu tile tasks, %lld bytes\n", run.plan().tasks().size(),
              static_cast<long long>(run.plan().memory().total()));
  std::printf("z[0] = %.6f\n", static_cast<double>(run[z].read<float>()[0]));
}
