#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Optional members of an executor, besides threads.

#include <concepts>
#include <cstddef>

#include "nntile/runtime/concept.hh"

namespace nntile {

/// An executor that brings storage of its own: `allocate` gives memory of the host, or pinned,
/// aligned to 64 bytes and not null, or throws OutOfMemory; `free` is called from any thread. With
/// a Device the engine asks that for memory, and the heap.
template <class X>
concept StoringExecutor =
    Executor<X> && requires(X& executor, std::size_t bytes, Place place, void* pointer) {
      { executor.allocate(bytes, place) } -> std::same_as<void*>;
      executor.free(pointer, bytes, place);
    };

/// An executor some of whose threads drive a device: `stream` is the calling thread's, null on a
/// thread without one; `synchronize` waits until all that is on the stream has ended. A task with a
/// device entry runs it there, on memory that both sides reach.
template <class X>
concept DeviceExecutor = Executor<X> && requires(X& executor, void* stream) {
  { executor.stream() } -> std::same_as<void*>;
  { executor.synchronize(stream) } noexcept -> std::same_as<Status>;
};

}  // namespace nntile
