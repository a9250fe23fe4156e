#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A store's tensor: its description, its tiles, and what is known of them.

#include <cstdint>
#include <optional>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/adopted.hh"
#include "nntile/graph/stored_spec.hh"

namespace nntile {

/// A tensor that outlives a run, whose tiles are handles of a runtime.
template <class Handle> struct StoredTensor {
  StoredSpec spec;
  DynamicArray<Handle> tiles;    // of the next run
  DynamicArray<bool> elsewhere;  // on another rank: there is no handle
  std::optional<TileBox> held;   // the others, where they fill a box
  DynamicArray<bool> written;    // by the store or a run; what others wrote is found out when asked
  Storage storage = Storage::stored;
  std::uint64_t bindings = 0;  // counts replacements of `tiles` by others
  /// The buffer of a double-buffered input that the next binding fills; of an adopted one the
  /// memory that was bound before, so that two can be bound in turn.
  DynamicArray<Handle> spare = {};
  detail::CallerMemory memory = {}, spare_memory = {};  // of an adopted one
  bool has_release = false;                             // the caller waits for the end of `tiles`
  std::uint64_t bytes_bound = 0;                        // by `bind`, so far
  StoredTensor* same_name = nullptr;                    // with another shape, before it
};

}  // namespace nntile
