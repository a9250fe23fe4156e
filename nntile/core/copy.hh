#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The copy between two buffers, of one place or of two: the task by which plans move bytes.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "nntile/core/codelet.hh"

namespace nntile {

/// target[i] = source[i] for i below the one argument, an int64 number of bytes. Uses: {read
/// source, write target}, in any two places of a runtime, which do not
/// overlap; of the disk the other is the host. A device knows it
/// by its address, and may copy in its own way; it alone may name memory of two devices.
inline constexpr Codelet copy_codelet{
    .name = "copy_bytes", .cpu = +[](KernelCall const& call) noexcept -> Status {
      std::int64_t bytes;
      std::memcpy(&bytes, call.arguments, sizeof bytes);
      if (bytes > 0) std::memcpy(call.buffers[1], call.buffers[0], static_cast<std::size_t>(bytes));
      return {};
    }};

/// Copies that a runtime has in flight at a time in a stream that is for copies alone: one runs,
/// and the next is there when it ends.
inline constexpr int copies_in_flight = 2;

}  // namespace nntile
