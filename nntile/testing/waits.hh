#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Whether a runtime waits, before it is given tasks that use what ends with a call.

#include "nntile/core/error.hh"
#include "nntile/runtime/concept.hh"

namespace nntile::testing::detail {

/// Waits for all tasks. Throws what wait_all does, LifetimeError where a handle is locked or the
/// runtime is paused: then a wait would be refused behind tasks, too, and these would be left.
template <Runtime R> void check_waits(R& runtime) {
  if constexpr (PausingRuntime<R>)
    if (runtime.paused())
      throw LifetimeError(
          "the runtime is paused, and would refuse to wait for tasks: call resume()");
  runtime.wait_all();
}

}  // namespace nntile::testing::detail
