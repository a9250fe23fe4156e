#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The place of new tokens in a cache, which is data.

#include "kernels/cpu/text.hh"

namespace nntile::kernels::NNTILE_ISA {

/// Fails where a call's tokens do not fit behind the `start` tokens that the cache holds.
NNTILE_ALWAYS_INLINE Status check_start(KernelCall const& call, Index start, Index last) {
  if (start >= 0 && start <= last) return {};
  return FailureText(call) << "start " << start << " is outside [0, " << last
                           << "], where the cache has room for the tokens of the call";
}

}  // namespace nntile::kernels::NNTILE_ISA
