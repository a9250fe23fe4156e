#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// ExecutionContext: how an eager call is executed.

#include "nntile/core/execution.hh"
#include "nntile/core/numerics.hh"
#include "nntile/ops/kernel.hh"

namespace nntile {

/// The execution of an eager call; its attributes say what it computes:
/// gemm.async({.hints = {.worker = 1}, .mode = Mode::fast}, {.alpha = 2}, a, b, c).
struct ExecutionContext {
  ExecutionHints hints = {};  // of each of its tasks
  Mode mode = Mode::exact;
  Isa isa = Isa::best;          // the instruction set of its kernels
  ExecutionPolicy policy = {};  // of its tile tasks; `hints` stand over it
  /// Canonical groups of the op's axes, by their letters as errors have them: {{"k", 4}}, of the
  /// second dimension of a letter that has several {{"k1", 4}}.
  std::vector<AxisGroups> groups = {};
};

}  // namespace nntile
