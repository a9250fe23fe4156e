#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Models that no plan fits into the memory of this machine, known before one is made.

#include <sys/resource.h>

#include <algorithm>
#include <string>

#include "machine.hh"
#include "nntile/core/error.hh"
#include "nntile/runtime/support/aligned.hh"
#include "ranks.hh"
#include "settings.hh"

namespace gpt2 {

/// Parameters of a model, without its biases and norms.
inline double least_parameters(nntile::nn::Gpt2Config const& model) {
  auto const width = static_cast<double>(model.width);
  return width * (12 * width * static_cast<double>(model.layers) +
                  static_cast<double>(model.vocab + model.positions));
}

/// Bytes of the host that a run needs in any plan: parameters and AdamW's two states of them, but
/// for those that a disk or a device keeps, and what the backward pass needs of each layer:
/// queries, keys, values and the hidden layer of all tokens. Several ranks share them.
inline double least_host_bytes(TrainSettings const& settings) {
  auto const model = model_of(settings);
  Machine const& machine = settings.machine;
  // Of a parameter and its two states: how many an option moves.
  auto const share = [](std::string const& kept) {
    return kept == "parameters" ? 3 : kept == "optimizer" ? 2 : 0;
  };
  bool const on_device = machine.place == "device", on_disk = !machine.disk.empty();
  int const kept = (on_device ? share(machine.offload) : 3) - share(machine.disk_keeps);
  double const states = std::max(0, kept) * least_parameters(model) * 4;
  if (on_device || on_disk) return states;
  // A resumed run may have another batch than these settings say.
  Index const sequences = settings.resume ? 1 : micro_batch_of(settings);
  Index const seq = settings.seq.value_or(preset_of(settings.preset).seq);
  return states + 7 * static_cast<double>(model.layers * model.width) *
                      static_cast<double>(sequences * seq) *
                      static_cast<double>(size_of(model.dtype));
}

/// Throws OutOfMemory where that is more than the machine has, for all ranks on it.
inline void require_room(TrainSettings const& settings, World const& world) {
  double const needed = least_host_bytes(settings) * world.ranks_here() / world.size();
  auto const memory = static_cast<double>(nntile::support::physical_memory());
  if (memory > 0 && needed > memory)
    throw nntile::OutOfMemory(nntile::concat(
        "training needs ", readable_bytes(needed), " at least for weights, AdamW's states and ",
        "activations", world.ranks_here() == 1 ? "" : " of the ranks of this host", ", and this ",
        "machine has ", readable_bytes(memory),
        "; use a smaller --width, --layers, --seq or --batch"));
}

/// Limits the addresses of this process to the memory there is: a plan that needs more ends with an
/// error, not with the system's last resort. For a process that only plans.
inline void limit_memory() {
#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // which have addresses of theirs
  rlimit limit{};
  auto const available = static_cast<rlim_t>(available_bytes());
  if (available == 0 || getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur <= available) return;
  limit.rlim_cur = available;
  (void)setrlimit(RLIMIT_AS, &limit);
#endif
}

}  // namespace gpt2
