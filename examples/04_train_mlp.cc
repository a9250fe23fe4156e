// SPDX-License-Identifier: BSD-3-Clause
// Training: a two-layer perceptron learns which quadrant a point is in.
#include <cstdio>
#include <nntile/graph/graph.hh>
#include <nntile/nn/loss.hh>
#include <nntile/nn/mlp.hh>
#include <nntile/nn/optim.hh>
#include <nntile/nntile.hh>

using namespace nntile;

int main() {
  constexpr Index batch = 256, hidden = 64, classes = 4;
  LogicalGraph graph("mlp");
  nn::ParameterList parameters(graph);
  nn::Linear const first(parameters, "first", {{hidden}, "hidden"}, {{2}, "point"},
                         {.stddev = 0.5});
  nn::Linear const second(parameters, "second", {{classes}, "class"}, {{hidden}, "hidden"},
                          {.stddev = 0.2});
  Node const points = graph.input({.shape = {2, batch}, .axes = "point batch"}, "points");
  Node const labels =
      graph.input({.shape = {batch}, .dtype = DType::int64, .axes = "batch"}, "labels");
  Node const loss = nn::mean_cross_entropy(second(gelutanh(first(points))), labels).mark_output();
  nn::AdamW const optimizer(parameters, add_gradients(graph, loss), {.weight_decay = 0});

  LogicalGraph init("init");
  nn::initialize(init, parameters, 1);
  nn::initialize_states(init, optimizer);

  Ring runtime;
  TensorStore<Ring> store(runtime);
  Graph<Ring> step(graph, store, {.tile = 64});
  Graph<Ring>{init, store}();

  std::vector<float> points_now(2 * batch);
  std::vector<std::int64_t> labels_now(batch);
  std::uint64_t state = 1;
  for (std::int64_t number = 1; number <= 200; ++number) {
    for (std::size_t i = 0; i < batch; ++i) {
      for (std::size_t d = 0; d < 2; ++d) {
        state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
        points_now[2 * i + d] = static_cast<float>(state >> 40) / (1 << 23) - 1;
      }
      labels_now[i] = (points_now[2 * i] > 0 ? 1 : 0) + (points_now[2 * i + 1] > 0 ? 2 : 0);
    }
    step[points] = points_now;
    step[labels] = labels_now;
    step[optimizer.lr()] = 0.01;  // data, so that one compiled graph serves the run
    step[optimizer.step()] = number;
    step();
    if (number == 1 || number % 50 == 0)
      std::printf("step %3d  loss %.4f\n", static_cast<int>(number),
                  static_cast<double>(step[loss].item<float>()));
  }
  return step[loss].item<float>() < 0.2f ? 0 : 1;
}
