// SPDX-License-Identifier: BSD-3-Clause
// Weights as a safetensors file, which other tools read as well: saved by a ring in tiles of 64,
// loaded by another graph, on another runtime and in other tiles, with the same results.
//
// 14_weights [FILE]: writes FILE, and keeps it.

#include <cstdio>
#include <filesystem>
#include <nntile/graph/graph.hh>
#include <nntile/io/store.hh>
#include <nntile/nn/linear.hh>
#include <nntile/nntile.hh>
#include <string>
#include <vector>

using namespace nntile;

namespace {

/// A perceptron. A file knows its weights by their names, as "first.weight".
struct Model {
  LogicalGraph graph{"perceptron"};
  nn::ParameterList parameters{graph};
  nn::Linear first{parameters, "first", {{256}, "hidden"}, {{64}, "in"}, {.stddev = 0.2}};
  nn::Linear second{parameters, "second", {{10}, "class"}, {{256}, "hidden"}, {.stddev = 0.1}};
  Node x = graph.input({.shape = {64, 128}, .axes = "in batch"}, "x");
  Node y = second(gelutanh(first(x))).named("y").mark_output();
};

template <class R> std::vector<float> evaluate(Graph<R>& run, Model const& model) {
  run[model.x] = std::vector<float>(64 * 128, 0.5f);
  run();
  return run[model.y].template read<float>();
}

}  // namespace

int main(int count, char** words) try {
  bool const keep = count > 1;
  std::string const file =
      keep ? words[1]
           : (std::filesystem::temp_directory_path() / "14_weights.safetensors").string();

  std::vector<float> saved;
  {
    Model model;
    LogicalGraph init("init");
    nn::initialize(init, model.parameters, 1);
    Ring ring;
    TensorStore<Ring> store(ring);
    Graph<Ring> run(model.graph, store, {.tile = 64});
    Graph<Ring>{init, store}();  // a training step would be one more graph on this store
    saved = evaluate(run, model);
    io::WrittenFile const written = io::save_tensors(file, io::sources_of(store, io::is_parameter));
    std::printf("%zu tensors, %llu bytes\n", written.tensors.size(),
                static_cast<unsigned long long>(written.bytes));
  }

  Model model;
  Serial serial;
  TensorStore<Serial> store(serial);
  Graph<Serial> run(model.graph, store, {.tile = 96});
  io::load_tensors(io::SafetensorsSet::open(file), io::targets_of(store, io::is_parameter));
  bool const same = evaluate(run, model) == saved;
  std::printf("loaded in other tiles, on another runtime: %s\n",
              same ? "the same bits" : "OTHER BITS");
  if (!keep) std::filesystem::remove(file);
  return same ? 0 : 1;
} catch (Error const& error) {  // a file that cannot be written
  std::fprintf(stderr, "14_weights: %s\n", error.what());
  return 2;
}
