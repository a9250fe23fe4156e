#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Capacities of a ring, and what its heaps count.

#include <cstddef>
#include <cstdint>

#include "nntile/runtime/concept.hh"

namespace nntile {

/// Policy of `allocate` where a heap has no room: takes more memory from the system; waits for
/// tasks whose end makes room, and throws DeadlockError once nothing runs that could; or throws
/// OutOfMemory at once.
enum class OnFull : std::uint8_t { grow, wait, fail };

/// One heap. `bytes` of 0 is room for what comes first; it must be given where the heap may not
/// grow. Memory that is given is taken at construction.
struct HeapCapacity {
  std::size_t bytes = 0;
  OnFull on_full = OnFull::grow;
};

/// Room that a ring has from its construction on.
struct RingCapacities {
  /// The heaps, one a lifetime but `persistent`. Buffers of a heap come back in the order of their
  /// allocation: one that lives long holds up those behind it, and so belongs to a lifetime of its
  /// own, or to `persistent`.
  HeapCapacity step{}, scope{}, scratch{}, staging{};
  /// Buffers that one heap holds at a time, rounded up to a power of two; 0 for the policy's. Where
  /// it is given, no allocation from a heap with a capacity that may not grow takes memory from the
  /// system.
  std::uint32_t records = 0;
  /// Task slots, 2 to 2^20, rounded up to a power of two; 0 for the policy's. A submitter that is
  /// further ahead of its oldest unfinished task is held back. 192 bytes a slot.
  std::uint32_t window = 0;
  /// Buffers outside of heaps that the ring names at a time before it takes memory for more; 192
  /// bytes each.
  std::uint32_t buffers = 0;

  HeapCapacity const& of(Lifetime lifetime) const {
    HeapCapacity const* const all[] = {&step, &scope, &scratch, &staging};
    return *all[static_cast<int>(lifetime) - 1];
  }
};

/// Counters of one heap. Bytes are those from the oldest buffer that still holds memory to the
/// newest: what a heap of that capacity would have held.
struct HeapStats {
  std::size_t capacity = 0;
  std::size_t used = 0;
  std::size_t peak = 0;
  std::uint64_t records = 0;       // buffers that hold memory
  std::uint64_t peak_records = 0;  // at a time
  std::uint64_t growths = 0;       // times that memory was taken from the system
  std::uint64_t waits = 0;         // allocations that waited for tasks
};

}  // namespace nntile
