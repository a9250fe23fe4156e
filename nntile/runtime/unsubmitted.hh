#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Marks the tiles that are left out when submission throws amid an op or a graph, on any runtime.

#include <cstddef>
#include <cstring>
#include <span>

#include "nntile/runtime/concept.hh"

namespace nntile {

namespace detail {

inline Status fail_unsubmitted(KernelCall const& call) noexcept {
  std::memcpy(call.text, call.arguments, status_text_bytes);
  return {call.text};
}

}  // namespace detail

/// The codelet of `mark_unsubmitted`; it marks its operand by failing.
inline constexpr Codelet unsubmitted_codelet{"unsubmitted", &detail::fail_unsubmitted, nullptr,
                                             nullptr};

/// Marks a buffer that a task should have written but will not, because submission failed for
/// `cause`: tasks that read it are cancelled until it is rewritten. A task of its own that fails,
/// so a later `wait_all` reports it too. Where that is refused as well (no free slot of a paused
/// ring, no memory, a lock), the buffer counts as unwritten instead, on a DiscardingRuntime:
/// what reads it is refused until it is rewritten. Blocks: for room. Never throws: a buffer that
/// cannot be named any more (retired) needs no mark.
template <Runtime R>
void mark_unsubmitted(R& runtime, typename R::Handle handle, char const* cause,
                      TaskLabel label = {}) noexcept {
  std::byte text[status_text_bytes]{};
  std::memcpy(text, cause, strnlen(cause, status_text_bytes - 1));
  Use<typename R::Handle> const use[] = {{handle, Access::write}};
  try {
    runtime.submit({&unsubmitted_codelet, use, text, {}, label});
    return;
  } catch (...) {  // most likely what refused the op
  }
  if constexpr (DiscardingRuntime<R>) {
    try {
      runtime.discard(handle);
    } catch (...) {
    }
  }
}

}  // namespace nntile
