#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Reports on a model's needs, on this machine and build, and on a checkpoint's contents; nothing is
// computed.

#include <cstdio>

#include "generate.hh"
#include "machine.hh"
#include "nntile/graph/draw.hh"
#include "nntile/graph/dump.hh"

namespace gpt2 {

struct InfoSettings {
  TrainSettings model;
  std::string run;
  std::string dot;
  std::string plan;
};

inline void write_text(std::string const& path, std::string const& text) {
  nntile::io::write_file(path, text);
}

/// Prints the plan of a training step, and writes its drawing and its dump where that is asked for.
inline void show_model(InfoSettings const& settings) {
  auto const config = model_of(settings.model);
  Preset const& preset = preset_of(settings.model.preset);
  Index const seq = settings.model.seq.value_or(preset.seq),
              batch = settings.model.batch.value_or(preset.batch);
  auto numerics = numerics_of(settings.model.machine.numerics);
  numerics.groups = groups_of(settings.model.groups);
  ModelGraph const of(ModelGraph::Purpose::training, config, seq, batch, numerics);
  auto options = tile_options(settings.model.machine.tile);
  options.machine.cache = core_cache();
  options.machine.workers = settings.model.machine.workers.value_or(
      static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  Plan const plan(of.graph, options);
  std::printf("model      %lld parameters (width %lld, %lld layers, %lld heads, vocabulary %lld)\n",
              static_cast<long long>(of.model.parameters().count()),
              static_cast<long long>(config.width), static_cast<long long>(config.layers),
              static_cast<long long>(config.heads), static_cast<long long>(config.vocab));
  std::printf(
      "step       %lld tokens (batch %lld of %lld), %zu ops, %zu tasks, tiles of %lld, %.2f "
      "Gflop\n",
      static_cast<long long>(seq * batch), static_cast<long long>(batch),
      static_cast<long long>(seq), of.graph.op_count(), plan.tasks().size(),
      static_cast<long long>(plan.tile()), static_cast<double>(plan.flops()) * 1e-9);
  std::printf("memory     %lld bytes: %lld stored, %lld arena (lower bound %lld)\n",
              static_cast<long long>(plan.memory().total()),
              static_cast<long long>(plan.memory().stored),
              static_cast<long long>(plan.memory().arena),
              static_cast<long long>(plan.memory().arena_lower_bound));
  std::printf("bits       %s\n",
              plan.canonical() ? "canonical: equal for every tiling" : plan.uncanonical().c_str());
  if (!settings.dot.empty()) write_text(settings.dot, to_dot(of.graph));
  if (!settings.plan.empty()) write_text(settings.plan, dump(plan, plan.tasks().size()));
}

inline void show_machine(std::string const& runtimes) {
  std::string isas;
  for (auto const isa : {nntile::Isa::plain, nntile::Isa::v2, nntile::Isa::v3, nntile::Isa::v4})
    if (nntile::kernels::available(isa))
      isas += nntile::concat(isas.empty() ? "" : ", ", name_of(isa));
  std::printf("runtimes   %s\nkernels    %s (best %s), one core %.0f Gflop/s\n", runtimes.c_str(),
              isas.c_str(), name_of(nntile::kernels::best()), core_peak(nntile::Isa::best) * 1e-9);
}

inline void show_run(std::string const& run) {
  auto const checkpoint = open_run(run);
  auto const described = model_from(checkpoint.model(), checkpoint.path());
  std::printf(
      "checkpoint %s: step %llu, %zu tensors, sequence %lld, width %lld, %lld layers, %lld heads\n",
      checkpoint.path().c_str(), static_cast<unsigned long long>(checkpoint.state().step),
      checkpoint.tensors().size(), static_cast<long long>(described.seq),
      static_cast<long long>(described.model.width), static_cast<long long>(described.model.layers),
      static_cast<long long>(described.model.heads));
  if (checkpoint.state().loss)
    std::printf("loss       %.4f at its last step\n", *checkpoint.state().loss);
  checkpoint.verify();
  std::printf("checksums  all right\n");
}

}  // namespace gpt2
