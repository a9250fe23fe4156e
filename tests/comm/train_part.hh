// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One rank's part of the training of a small GPT-2, over any communicator.

#include <cstdint>
#include <vector>

#include "tests/comm/part_tiles.hh"
#include "tests/support/tiny_gpt.hh"

namespace nntile::test {

/// How the batches of a training come to it.
enum class BatchStorage { copied, adopted, double_buffered };

/// Three steps of a small GPT-2 of four batches, by phases if asked for; what they send and
/// receive.
template <class R>
std::vector<PlannedTraffic> train_part(TensorStore<R>& store, std::vector<MeshAxis> const& mesh,
                                       std::vector<ShardRule> const& rules,
                                       std::vector<AxisGroups> const& groups = {},
                                       bool by_phase = false,
                                       BatchStorage storage = BatchStorage::copied,
                                       std::vector<PlaceRule> const& places = {}) {
  TinyGpt sizes;
  sizes.batch = 4;
  sizes.numerics.groups = groups;
  TinyGptGraph const of(sizes);
  PlanOptions options{.tile = 64, .cuts = {{"batch", {1}}, {"head", {1}}}};
  options.check = true;
  options.mesh = mesh;
  options.rules = rules;
  options.by_phase = by_phase;
  options.place = places;
  std::vector<std::string> const names = {"tokens", "labels"};
  if (storage == BatchStorage::adopted) options.adopted = names;
  if (storage == BatchStorage::double_buffered) options.double_buffered = names;
  CompiledGraph<R> step = compile_any(of.graph, store, options);
  LogicalGraph init("init");
  nn::initialize(init, of.step, 1);
  options.rules.clear();  // around what the store holds
  options.place.clear();
  options.by_phase = false;
  options.adopted.clear(), options.double_buffered.clear();
  options.cuts.clear();
  CompiledGraph<R> first = compile_any(init, store, options);
  if (!traffic(first.plan()).empty()) throw Error("first values are sent");
  first.execute();
  store.template write<Index>("positions", of.step.position_values());
  // Adopted memory outlives the store.
  static std::vector<TinyBatch> const batches{tiny_batch(sizes, 1), tiny_batch(sizes, 2),
                                              tiny_batch(sizes, 3)};
  auto const bind = [&](int number) {
    auto const& [tokens, labels] = batches[static_cast<std::size_t>(number - 1)];
    step.template bind_input<std::int64_t>("tokens", tokens);
    step.template bind_input<std::int64_t>("labels", labels);
  };
  for (int number = 1; number <= 3; ++number) {
    bool const early = storage != BatchStorage::copied && !by_phase;
    if (number == 1 || !early) bind(number);
    step.template bind_input<float>("lr", std::vector<float>{0.01f});
    step.template bind_input<std::int64_t>("step", std::vector<std::int64_t>{number});
    if (by_phase) {
      for (char const* phase : {"forward", "backward", "optimizer"}) step.execute(phase);
    } else {
      auto const run = step.execute_async();
      if (number < 3 && early) bind(number + 1);
      run.wait();
    }
  }
  return times(traffic(step.plan()), 3);
}

}  // namespace nntile::test
