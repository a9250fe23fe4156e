// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A training run on ranks of a process that is saved, and goes on from what was saved on any mesh.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nntile/comm/self.hh"
#include "nntile/comm/transfers.hh"
#include "nntile/io/checkpoint.hh"
#include "nntile/io/store.hh"
#include "tests/comm/local_ranks.hh"
#include "tests/comm/part_tiles.hh"
#include "tests/support/tiny_gpt.hh"

namespace nntile::test {

/// Ranks, rules, tiles and files of one training run.
struct Layout {
  std::vector<MeshAxis> mesh = {};
  std::vector<ShardRule> rules = {};
  io::Fault const* fault = nullptr;  // of the disk of rank 1
  std::vector<AxisCut> cuts = {{"batch", {1}}, {"head", {1}}};
  std::vector<PlaceRule> place = {};
  std::vector<PlaceCapacity> capacity = {};

  /// Options of the training's graph.
  PlanOptions options(TinyGpt const& sizes) const {
    PlanOptions options{.tile = 64, .cuts = cuts, .dims = sizes.dims()};
    options.mesh = mesh;
    options.rules = rules;
    options.place = place;
    options.capacity = capacity;
    options.by_phase = sizes.accumulate > 1;
    return options;
  }
};

/// A run that layouts share: their bits are equal.
inline TinyGpt four_groups() {
  TinyGpt sizes;
  sizes.batch = 4;
  sizes.numerics.groups = {{"batch", 4}};
  return sizes;
}

/// Parameters and the optimizer's states; gradients that runs add to are 0 between steps.
inline bool is_trained(StoredSpec const& spec) {
  return io::is_saved(spec) && !spec.name.ends_with(".grad");
}

/// Trains on one rank: goes on from the newest checkpoint in the folder, if there is one, to
/// `steps` steps, and saves; the hash of all that is saved.
template <class R, class C>
std::uint64_t train_rank(C& comm, TinyGpt const& sizes, Layout const& layout,
                         std::string const& folder, int steps) {
  TinyGptGraph const of(sizes);
  PlanOptions options = layout.options(sizes);
  Transfers transfers(comm);
  R runtime(RuntimeOptions{.workers = 1});
  TensorStore<R> store(runtime, link_of(transfers));
  io::CheckpointDirectory directory(folder, {.fault = comm.rank() == 1 ? layout.fault : nullptr},
                                    store.link());
  CompiledGraph<R> step = compile_any(of.graph, store, options);
  options.by_phase = false;
  options.rules.clear();  // around what the store holds
  options.place.clear(), options.capacity.clear();
  options.cuts.clear(), options.dims.clear();
  int done = 0;
  LogicalGraph first("first");
  if (auto const path = directory.latest()) {
    auto const checkpoint = io::Checkpoint::open(*path, comm.rank() == 1 ? layout.fault : nullptr,
                                                 io::Part::all, store.link());
    checkpoint.load(io::targets_of(store, is_trained), io::Part::all, store.link());
    done = static_cast<int>(checkpoint.state().step);
    if (of.step.accumulates()) of.step.zero_gradients(first);
  } else {
    nn::initialize(first, of.step, 1);
  }
  if (first.op_count() > 0) compile_any(first, store, options).execute();
  std::vector<Index> const positions = of.step.position_values(sizes.seq);
  if (!sizes.open) store.template write<Index>("positions", positions);
  while (done < steps) {
    ++done;
    if (sizes.open) step.template bind_input<Index>("positions", positions);
    step.template bind_input<float>("lr", std::vector<float>{0.01f});
    step.template bind_input<std::int64_t>("step", std::vector<std::int64_t>{done});
    for (int micro = 0; micro < sizes.accumulate; ++micro) {
      auto const [tokens, labels] = tiny_batch(sizes, done * sizes.accumulate - micro);
      step.template bind_input<std::int64_t>("tokens", tokens);
      step.template bind_input<std::int64_t>("labels", labels);
      if (sizes.accumulate == 1) {
        step.execute();
        continue;
      }
      for (char const* phase : {"forward", "backward"}) step.execute(phase);
    }
    if (sizes.accumulate > 1) step.execute("optimizer");
  }
  io::TrainingState state;
  state.step = static_cast<std::uint64_t>(done);
  io::Json const model = io::Json::object({{"model_type", "tiny"}});
  auto const saved = directory.save_shares(model, state, io::shares_of(store, is_trained));
  if (saved.path != folder + "/" + io::checkpoint_name(state.step)) throw Error(saved.path);
  return io::hash_tensors(io::sources_of(store, is_trained));
}

/// The same on all ranks; what they throw, by rank, or the hash where all have the same.
template <class R>
std::vector<std::string> train_all(TinyGpt const& sizes, Layout const& layout,
                                   std::string const& folder, int steps) {
  int const ranks = ranks_of(layout.mesh);
  if (ranks == 1) {
    SelfComm comm;
    return {io::to_hex(train_rank<R>(comm, sizes, layout, folder, steps))};
  }
  LocalWorld world(ranks, {.seed = 5, .most_delay = 4});
  std::vector<std::string> hashes(static_cast<std::size_t>(world.size()));
  auto const thrown = on_ranks(world, [&](LocalComm& comm) {
    hashes[static_cast<std::size_t>(comm.rank())] =
        io::to_hex(train_rank<R>(comm, sizes, layout, folder, steps));
    comm.barrier();
  });
  for (std::size_t rank = 0; rank < thrown.size(); ++rank)
    if (hashes[rank] != hashes[0] || !thrown[rank].empty()) return thrown;
  return {hashes[0]};
}
template <class R>
std::vector<std::string> train_all(Layout const& layout, std::string const& folder, int steps) {
  return train_all<R>(four_groups(), layout, folder, steps);
}

}  // namespace nntile::test
