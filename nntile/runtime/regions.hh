#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Regions of buffers as operands of tasks. What includes this can make them.

#include <concepts>

#include "nntile/core/region.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/support/regions.hh"

namespace nntile {

// clang-format off
/// Names parts of buffers. A region is a handle like any other; its tasks are ordered with those of
/// the buffer and of its other regions by the bytes that both name. Bytes are unwritten, marked and
/// locked, whatever names them.
///
///   region(handle, region)   the handle of those bytes, counted from the first byte of `handle`, a
///                            buffer or a region of one: the same for the same bytes until it is
///                            retired, and the buffer's own for all of them. It ends with the buffer.
///                            A task's pointer is its first byte, and lock spans it from the first
///                            to the last. Throws LifetimeError (handle), ValueError (it ends behind
///                            the buffer).
///   find(address)            the handle of the buffer, allocated or adopted, that holds the byte there:
///                            a buffer reached by handle and by address is one. The default handle if
///                            none does. From the first call on, allocating costs an entry in a tree.
///   region_at(address, region)   region() by the address that the offset counts from. Known ones are
///                            found in a hash table. Throws LifetimeError (no buffer holds the first
///                            byte), ValueError (it ends behind the buffer).
// clang-format on
template <class R>
concept RegionRuntime = Runtime<R> && requires(R& runtime, typename R::Handle handle,
                                               Region const& region, void const* address) {
  { runtime.region(handle, region) } -> std::same_as<typename R::Handle>;
  { runtime.find(address) } -> std::same_as<typename R::Handle>;
  { runtime.region_at(address, region) } -> std::same_as<typename R::Handle>;
};

}  // namespace nntile
