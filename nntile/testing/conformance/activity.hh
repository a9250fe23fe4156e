#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Whether the battery itself is at something that a runtime would have to wait for.

#include <atomic>
#include <cstdint>

namespace nntile::testing::detail {

/// Steps of the battery: bodies, looks of polls, and tokens that come from outside. Relaxed, so
/// that it orders nothing and hides no race from a sanitizer.
inline std::atomic<std::uint64_t> begun_steps{0}, ended_steps{0};

/// Lives while such a step is taken.
class ActiveStep {
 public:
  ActiveStep() { begun_steps.fetch_add(1, std::memory_order_relaxed); }
  ActiveStep(ActiveStep const&) = delete;
  ActiveStep& operator=(ActiveStep const&) = delete;
  ~ActiveStep() { ended_steps.fetch_add(1, std::memory_order_relaxed); }
};

}  // namespace nntile::testing::detail
