#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The codelet of tasks that copy bytes from one place to another.

#include <cstdint>
#include <cstring>

#include "nntile/core/codelet.hh"

namespace nntile {

namespace detail {

inline Status copy_bytes(KernelCall const& call) noexcept {
  std::int64_t bytes;
  std::memcpy(&bytes, call.arguments, sizeof bytes);
  std::memcpy(call.buffers[1], call.buffers[0], static_cast<std::size_t>(bytes));
  return {};
}

}  // namespace detail

/// Copies bytes of its first buffer, which it reads, to its second, which it writes; its argument,
/// an std::int64_t, says how many. Either may be at any place of the runtime, which knows this
/// codelet by its address and may copy by means of its own.
inline constexpr Codelet copy_codelet{.name = "copy", .cpu = &detail::copy_bytes};

}  // namespace nntile
