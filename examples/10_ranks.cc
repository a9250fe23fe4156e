// SPDX-License-Identifier: BSD-3-Clause
// Four ranks train one perceptron: each plans, holds and computes its part, and the loss has the
// bits of one rank. Ranks are threads here; with MPI each is a process, and what this program calls
// `comm` is MpiComm comm(MPI_COMM_WORLD).
#include <cstdio>
#include <nntile/comm/local.hh>
#include <nntile/comm/transfers.hh>
#include <nntile/graph/graph.hh>
#include <nntile/graph/parts.hh>
#include <nntile/nn/loss.hh>
#include <nntile/nn/mlp.hh>
#include <nntile/nn/optim.hh>
#include <nntile/nntile.hh>
#include <string>
#include <thread>
#include <vector>

using namespace nntile;

/// Trains for twenty steps; the last loss.
float train(LocalComm& comm, std::vector<ShardRule> const& rules) {
  constexpr Index batch = 256;
  LogicalGraph graph("mlp",
                     {.groups = {{"batch", 4}}});  // four partial sums, on any number of ranks
  nn::ParameterList parameters(graph);
  nn::Linear const first(parameters, "first", {{512}, "hidden"}, {{2}, "point"}, {.stddev = 0.5});
  nn::Linear const second(parameters, "second", {{4}, "class"}, {{512}, "hidden"}, {.stddev = 0.2});
  Node const points = graph.input({.shape = {2, batch}, .axes = "point batch"}, "points");
  Node const labels =
      graph.input({.shape = {batch}, .dtype = DType::int64, .axes = "batch"}, "labels");
  Node const loss = nn::mean_cross_entropy(second(gelutanh(first(points))), labels).mark_output();
  nn::AdamW const optimizer(parameters, add_gradients(graph, loss));
  LogicalGraph init("init");
  nn::initialize(init, parameters, 1);
  nn::initialize_states(init, optimizer);

  PlanOptions options{.tile = 64};
  options.mesh = {{"data", comm.size()}};
  options.rules = rules;  // batches cut over the mesh, states and parameters dealt out
  Transfers transfers(comm);
  Ring runtime({.workers = 1});
  TensorStore<Ring> store(runtime, link_of(transfers));
  Graph<Ring> step(graph, compile_part(graph, store, options));
  Index const bound = traffic_bound(graph, options);
  options.rules.clear();  // the store knows by now who holds what
  compile_part(init, store, options).execute();

  std::vector<float> points_now(2 * batch);
  std::vector<std::int64_t> labels_now(batch);
  for (std::int64_t number = 1; number <= 20; ++number) {
    for (std::size_t i = 0; i < 2 * batch; ++i)  // every rank takes its tiles
      points_now[i] =
          static_cast<float>((i * 37 + static_cast<std::size_t>(number) * 101) % 199) / 99 - 1;
    for (std::size_t i = 0; i < batch; ++i)
      labels_now[i] = (points_now[2 * i] > 0 ? 1 : 0) + (points_now[2 * i + 1] > 0 ? 2 : 0);
    step[points] = points_now;
    step[labels] = labels_now;
    step[optimizer.lr()] = 0.01;
    step[optimizer.step()] = number;
    step();
  }
  std::string text =
      concat("rank ", comm.rank(), " of ", comm.size(), ": ", step.plan().tasks().size(),
             " tasks, ", step.plan().memory({comm.rank(), host}).stored, " bytes stored");
  for (PlannedTraffic const& with : traffic(step.plan()))
    text += concat("; ", with.bytes_sent, " a step to ", with.peer);
  text += concat("; all have to send ", bound);
  std::puts(text.c_str());
  return step[loss].item<float>();
}

int main() {
  std::vector<float> losses;
  for (int const ranks : {1, 4}) {
    LocalWorld world(ranks);
    std::vector<float> of(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        LocalComm comm(world, rank);
        of[static_cast<std::size_t>(rank)] = train(comm, ranks == 1 ? ddp() : fsdp());
        comm.barrier();
      });
    for (std::thread& thread : threads) thread.join();
    losses.insert(losses.end(), of.begin(), of.end());
  }
  bool equal = true;
  for (float const loss : losses) equal = equal && loss == losses[0];
  std::printf("loss %.9g on one rank and on each of four: %s\n", static_cast<double>(losses[0]),
              equal ? "the same bits" : "DIFFERENT");
  return equal ? 0 : 1;
}
