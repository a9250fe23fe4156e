#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The number of submitted tasks, and the check that an event is among them.

#include <atomic>
#include <cstdint>

#include "nntile/core/error.hh"
#include "nntile/runtime/concept.hh"

namespace nntile::support {

/// A count that only the driver raises and any thread may read: a thread that got an event from the
/// driver sees a count that includes it. Costs what a plain one does.
class Submitted {
 public:
  Submitted(std::uint64_t count = 0) noexcept : count_(count) {}
  operator std::uint64_t() const noexcept { return count_.load(std::memory_order_relaxed); }
  Submitted& operator=(std::uint64_t count) noexcept {
    count_.store(count, std::memory_order_relaxed);
    return *this;
  }
  std::uint64_t operator++() noexcept {
    std::uint64_t const next = *this + 1;
    *this = next;
    return next;
  }

 private:
  std::atomic<std::uint64_t> count_;
};

/// For `wait` and `done` of a runtime whose events are numbered 1 to `given`. Throws LifetimeError,
/// naming the call, for another runtime's, and for one that was never given: that of a runtime that
/// was at the same address before, for example. Event{} passes.
inline void check_event(Event const& event, void const* runtime, std::uint64_t given,
                        char const* call) {
  if (event.runtime != nullptr && event.runtime != runtime)
    throw LifetimeError(concat(call, ": the event belongs to another runtime"));
  if (event.sequence > given)
    throw LifetimeError(concat(call, ": event ", event.sequence,
                               " was never given by this runtime, which has given ", given,
                               "; it may be of one that has ended"));
}

}  // namespace nntile::support
