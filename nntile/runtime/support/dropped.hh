#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Settling on the driving thread what other threads have dropped.

#include "nntile/core/error.hh"
#include "nntile/runtime/link.hh"
#include "nntile/runtime/support/buffer_table.hh"

namespace nntile::support {

/// Calls end_lock(handle) or retire(handle) for each handle that another thread has dropped; the
/// retirement of a locked one is left to the end of its lock. Ignores an Error, as of a handle that
/// was retired with its scope. Anything else that is thrown leaves that handle and the later ones
/// to the next call.
template <class EndLock, class Retire>
void settle_dropped(LinkRef<DataHandle> const& link, BufferTable& buffers, EndLock end_lock,
                    Retire retire) {
  link->take([&](DataHandle handle, bool unlocks) {
    try {
      if (unlocks)
        end_lock(handle);
      else if (!buffers.drop_if_locked(handle))
        retire(handle);
    } catch (Error const&) {
    }
  });
}

}  // namespace nntile::support
