#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Options of binding a plan to a runtime and a store.

#include <span>

#include "nntile/ops/concept.hh"
#include "nntile/ops/kernel.hh"

namespace nntile {

/// Options of binding a plan.
struct BindOptions {
  Isa isa = Isa::best;
  /// Replays a recorded program where the runtime can; off, tasks are submitted one by one.
  bool replay = true;
  /// Notes when and where each task runs; see CompiledGraph::times(). Errors name a task "traced",
  /// and its op before the cause. Costs two clock reads a task.
  bool trace = false;
  /// Ops of the user's own, whose kernels are not in the library; compile() adds those of its
  /// graph.
  std::span<OpInfo const* const> ops = {};
};

}  // namespace nntile
