// SPDX-License-Identifier: BSD-3-Clause
// Writes what the fuzzers begin with into a folder each: FOLDER/json, FOLDER/plan.
#include <cstdio>

#include "nntile/io/manifest.hh"
#include "nntile/ops/all.hh"
#include "tests/fuzz/planned_graph.hh"
#include "tests/fuzz/recorded_runs.hh"
#include "tests/graph/random_graph.hh"
#include "tests/io/broken_safetensors.hh"
#include "tests/io/scratch.hh"

using namespace nntile;
using namespace nntile::io;

namespace {

void put_all(std::string const& folder, std::vector<std::string> const& texts) {
  make_directories(folder);
  for (std::size_t i = 0; i < texts.size(); ++i) test::put(concat(folder, "/seed", i), texts[i]);
}

std::string manifest_body() {
  Manifest manifest;
  manifest.model = Json::object({{"model_type", "gpt2"}, {"n_layer", 2}});
  manifest.state = {{3, 24, ~std::uint64_t{0}, 1, 5.5}, {{"lr", 0.003}}, Json::object()};
  manifest.state.run["train"] = std::vector<double>{5.5, 5.25};
  manifest.files = {{"model.safetensors", 1000, 1}, {"optimizer.safetensors", 2000, 2}};
  manifest.tensors = {
      {"optim.exp_avg/wte.weight", FileDType::f32, {256, 64}, "optimizer.safetensors", 5},
      {"wte.weight", FileDType::f32, {256, 64}, "model.safetensors", 3},
      {"scale", FileDType::f64, {}, "model.safetensors", 4}};
  std::string const text = manifest_text(manifest);
  return text.substr(text.find("\",") + 2);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  std::string const folder = argv[1];
  std::vector<std::string> files{test::valid_safetensors()}, headers;
  for (test::BrokenFile const& broken : test::broken_safetensors()) {
    if (broken.bytes.size() > 4096) continue;
    files.push_back(broken.bytes);
    headers.push_back(broken.bytes.substr(std::min<std::size_t>(8, broken.bytes.size())));
  }
  put_all(folder + "/safetensors", files);
  headers.push_back("{" + manifest_body());
  headers.push_back(
      R"([0,-0,1.5e-3,1e308,18446744073709551616,-9223372036854775809,"\ud83d\ude00\n"])");
  put_all(folder + "/json", headers);
  put_all(folder + "/manifest", {manifest_body(), "\"format\":\"nntile-checkpoint\"}", "}"});
  std::vector<std::string> graphs{graph_text(test::PlannedGraph().graph)};
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    graphs.push_back(graph_text(test::RandomGraph(seed).graph));
  put_all(folder + "/graph", graphs);
  put_all(folder + "/plan", test::PlannedGraph().plans());
  std::vector<std::string> runs;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) runs.push_back(test::RandomRun(seed).text());
  put_all(folder + "/transcript", runs);
  return 0;
}
