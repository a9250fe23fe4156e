// SPDX-License-Identifier: BSD-3-Clause
// A checkpoint of a store with any one bit flipped is refused, and the store that was to be filled
// keeps every bit it has.
#include "nntile/graph/compile.hh"
#include "nntile/io/checkpoint.hh"
#include "nntile/io/store.hh"
#include "nntile/nn/loss.hh"
#include "nntile/nn/mlp.hh"
#include "nntile/nn/optim.hh"
#include "nntile/runtime/ring/ring.hh"
#include "tests/io/scratch.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::io;
using namespace nntile::test;

namespace {

Json const config = Json::object({{"model_type", "two layers"}});

/// Parameters and states of two layers, cut into tiles, with first values that follow from a seed.
class Model {
 public:
  explicit Model(std::uint64_t seed) : store_(runtime_) {
    LogicalGraph graph("model");
    nn::ParameterList parameters(graph);
    nn::Linear const first(parameters, "first", {{48}, "hidden"}, {{20}, "point"}, {.stddev = 0.5});
    nn::Linear const second(parameters, "second", {{5}, "class"}, {{48}, "hidden"},
                            {.stddev = 0.2});
    Node const points = graph.input({.shape = {20, 8}, .axes = "point batch"}, "points");
    Node const labels =
        graph.input({.shape = {8}, .dtype = DType::int64, .axes = "batch"}, "labels");
    Node const loss = nn::mean_cross_entropy(second(gelutanh(first(points))), labels, "loss");
    nn::AdamW const optimizer(parameters, add_gradients(graph, loss));
    LogicalGraph init("init");
    nn::initialize(init, parameters, seed);
    nn::initialize_states(init, optimizer);
    compile(init, store_, {.tile = 16}).execute();
  }
  std::vector<TensorSource> sources() { return sources_of(store_, is_saved); }
  std::vector<TensorTarget> targets() { return targets_of(store_, is_saved); }
  std::uint64_t hash() { return hash_tensors(sources()); }

 private:
  Ring runtime_;
  TensorStore<Ring> store_;
};

/// Flips `count` bits, one after another, each at a place drawn among all bits of the checkpoint.
void check_flips(int count) {
  Scratch const scratch;
  Model saved(1);
  CheckpointDirectory directory(scratch.path());
  std::string const path = directory.save(config, {}, saved.sources()).path;
  std::vector<std::pair<std::string, std::string>> files;
  std::size_t bytes = 0;
  for (std::string const& name : list_directory(path)) {
    files.emplace_back(path + "/" + name, get(path + "/" + name));
    bytes += files.back().second.size();
  }
  REQUIRE(files.size() == 3);
  Model model(2);
  std::uint64_t const before = model.hash();
  REQUIRE(before != saved.hash());
  std::uint64_t state = 2026;  // a fixed seed: Knuth's linear congruential generator
  for (int flip = 0; flip < count; ++flip) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    std::size_t bit = (state >> 20) % (8 * bytes);
    auto file = files.begin();
    for (; bit >= 8 * file->second.size(); ++file) bit -= 8 * file->second.size();
    std::string changed = file->second;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    put(file->first, changed);
    std::string const text =
        thrown<FormatError>([&] { Checkpoint::open(path).load(model.targets()); });
    put(file->first, file->second);
    INFO("bit " << bit << " of " << file->first << ": " << text);
    REQUIRE(text.find(file->first) != std::string::npos);
    REQUIRE(text.find('\n') == std::string::npos);
    REQUIRE(model.hash() == before);
  }
  Checkpoint::open(path).load(model.targets());
  CHECK(model.hash() == saved.hash());
}

}  // namespace

TEST_CASE("a checkpoint with a flipped bit is refused before the store changes", "[io][flips]") {
  check_flips(50);
}

TEST_CASE("a thousand flipped bits", "[.][io][flips]") { check_flips(1000); }
