// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Vector clocks: how much of each thread's past is before a point.

#include <cstddef>
#include <cstdint>

namespace nntile::test::model {

/// Threads of one program, its first included.
inline constexpr std::size_t most_threads = 4;

/// Source: Mattern 1989. Component t counts the steps of thread t that are before.
struct Clock {
  std::uint32_t at[most_threads] = {};

  void join(Clock const& other) {
    for (std::size_t t = 0; t < most_threads; ++t)
      if (other.at[t] > at[t]) at[t] = other.at[t];
  }
  bool covers(std::size_t thread, std::uint32_t step) const { return at[thread] >= step; }
};

/// A step of a thread.
struct Stamp {
  std::uint32_t thread = 0;
  std::uint32_t step = 0;

  bool before(Clock const& clock) const { return clock.covers(thread, step); }
};

}  // namespace nntile::test::model
