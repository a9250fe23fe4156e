#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// What a step does, in the words that a run begins with.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "machine.hh"
#include "nntile/graph/parts.hh"
#include "nntile/io/directory.hh"
#ifdef NNTILE_HAVE_CUDA
#include "nntile/runtime/cuda.hh"
#endif
#include "places.hh"
#include "ranks.hh"
#include "settings.hh"
#include "words.hh"

namespace gpt2 {

/// Throws ValueError where a file that an option names could not be written when a run has ended.
inline void require_writable(char const* option, std::string const& file) {
  try {
    nntile::io::PendingFile const begun(file);  // which goes again
  } catch (nntile::Error const& error) {
    throw nntile::ValueError(nntile::concat(
        option, ": '", file, "' can't be written: ", std::string_view(error.what())));
  }
}

/// What this rank does in a step: the update once, the rest of the plan for each micro-batch.
struct StepWork {
  std::size_t tasks = 0;
  double flops = 0;
  nntile::Index sent = 0, received = 0;  // bytes
};
inline StepWork work_of(nntile::Plan const& plan, int micro_batches) {
  StepWork work;
  auto const add = [&](std::span<nntile::PlannedTask const> tasks, int runs) {
    work.tasks += tasks.size() * static_cast<std::size_t>(runs);
    for (nntile::PlannedTask const& task : tasks)
      work.flops += static_cast<double>(task.cost.flops) * runs;
    for (nntile::PlannedTraffic const& with : nntile::traffic(plan, tasks))
      work.sent += with.bytes_sent * runs, work.received += with.bytes_received * runs;
  };
  if (plan.phases().empty()) add(plan.tasks(), 1);
  for (nntile::PlannedPhase const& phase : plan.phases())
    add(plan.tasks().subspan(phase.begin, phase.end - phase.begin),
        phase.name == "optimizer" ? 1 : micro_batches);
  return work;
}

inline void show_plan(nntile::Plan const& plan, StepWork const& work) {
  auto const bytes = [](nntile::Index value) { return readable_bytes(static_cast<double>(value)); };
  nntile::MemoryReport const memory = plan.memory({plan.rank(), nntile::host});
  std::printf(
      "plan    %zu tasks a step%s, tiles of %lld, %.2f Gflop; memory %s = %s stored + %s arena (at "
      "least %s); %s\n",
      work.tasks, plan.ranks() == 1 ? "" : " on rank 0", static_cast<long long>(plan.tile()),
      work.flops * 1e-9, bytes(memory.total()).c_str(), bytes(memory.stored).c_str(),
      bytes(memory.arena).c_str(), bytes(memory.arena_lower_bound).c_str(),
      plan.numerics().mode == nntile::Mode::fast ? "fast numerics: bits of this plan alone"
      : plan.canonical() ? "exact bits"
                         : ("bits of this plan alone: " + plan.uncanonical()).c_str());
  show_places(plan);
  if (!plan.numerics().groups.empty())
    std::printf("groups  %s\n", to_text(plan.numerics().groups).c_str());
}

/// What multiplies on a device in fast numerics.
inline void show_products(nntile::Plan const& plan, Machine const& machine) {
#ifdef NNTILE_HAVE_CUDA
  if (machine.place == "device" && plan.numerics().mode == nntile::Mode::fast)
    std::printf("products %s\n", nntile::Cuda::fast_products().c_str());
#endif
  (void)plan, (void)machine;
}

/// Says at which step a run was saved, and how it goes on: one that was interrupted with the
/// options that no checkpoint has. `minutes`: of those that are not timed yet; 0: none.
inline void show_end(TrainSettings const& settings, std::int64_t step, bool interrupted,
                     double minutes) {
  auto const at = static_cast<long long>(step);
  std::string const out = shell_word(settings.out);
  if (interrupted) {
    std::string rest = settings.data.empty() ? "" : " --data";
    for (std::string const& file : settings.data) rest += " " + shell_word(file);
    if (minutes > 0) rest += nntile::concat(" --minutes ", minutes);
    std::printf("interrupted: saved at step %lld; gpt2 train --resume --out %s%s goes on\n", at,
                out.c_str(), rest.c_str());
  } else {
    std::printf("saved at step %lld; gpt2 generate --run %s continues a text\n", at, out.c_str());
  }
  std::fflush(stdout);
}

/// Nothing where there is one rank.
inline void show_sharing(nntile::Plan const& plan, StepWork const& work, World const& world,
                         Sharing const& sharing) {
  if (world.size() == 1) return;
  std::printf("ranks   %d, mesh %s, processes %s\n", world.size(), to_text(sharing.mesh).c_str(),
              world.processes().c_str());
  std::printf("traffic rank 0 sends %s and receives %s a step\n",
              readable_bytes(static_cast<double>(work.sent)).c_str(),
              readable_bytes(static_cast<double>(work.received)).c_str());
  bool batches = false;
  for (auto const& each : plan.numerics().groups) batches = batches || each.axis == "batch";
  for (auto const& axis : sharing.mesh)
    if (axis.name == "data" && axis.size > 1 && !batches)
      std::printf(
          "hint    without --groups gradients are summed from rank to rank; with --groups %d "
          "all ranks sum at once, with bits of their own\n",
          axis.size);
}

}  // namespace gpt2
