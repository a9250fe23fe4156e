#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The check of a submitted task's codelet, and that of tasks that submit.

#include "nntile/core/error.hh"
#include "nntile/runtime/support/buffer.hh"
#include "nntile/runtime/support/failures.hh"

namespace nntile::support {

/// The codelet that names tasks that submit.
inline constexpr Codelet nesting_codelet{
    "orchestrate", +[](KernelCall const&) noexcept -> Status { return {}; }, nullptr, nullptr};

/// Throws ValueError: no codelet, none of its entries runs on a CPU, or it needs more workspace
/// than is lent.
inline void check_codelet(Codelet const* codelet, TaskLabel const& label) {
  if (codelet == nullptr || !codelet->runs_on_cpu())
    throw ValueError(
        concat("submit: ", task_name(codelet, label, 0), " has no entry for a CPU worker"));
  if (codelet->workspace > max_workspace_bytes)
    throw ValueError(concat("submit: ", task_name(codelet, label, 0), " needs ", codelet->workspace,
                            " bytes of workspace where ", max_workspace_bytes, " are lent"));
}

}  // namespace nntile::support
