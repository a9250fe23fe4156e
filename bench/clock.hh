#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Cycles: the core's clock, and a counter for what takes less than a clock's call.

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace nntile::bench {

/// Core cycles a nanosecond, now: from additions of registers that wait for each other, a cycle
/// each. (Additions of constants would not do: some cores carry out several in one cycle.) The best
/// of several tries, about 5 ms.
inline double core_ghz() {
  constexpr int blocks = 100'000, additions = 16;
  double best = 0;
  for (int attempt = 0; attempt < 10; ++attempt) {
    auto const begin = std::chrono::steady_clock::now();
    std::uint64_t x = 0, y = 1;
    for (int block = 0; block < blocks; ++block)
#pragma GCC unroll 16
      for (int i = 0; i < additions; ++i) {
        x += y;
        asm volatile("" : "+r"(x), "+r"(y));  // so that no two become one
      }
    std::chrono::duration<double, std::nano> const took = std::chrono::steady_clock::now() - begin;
    best = std::max(best, blocks * additions / took.count());
  }
  return best;
}

/// Counts in steps of a constant length; tick_ns() is that length.
inline std::uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
#endif
}

/// Blocks: 10 ms.
inline double tick_ns() {
  auto const begin = std::chrono::steady_clock::now();
  std::uint64_t const first = ticks();
  std::chrono::duration<double, std::nano> took{};
  do took = std::chrono::steady_clock::now() - begin;
  while (took.count() < 1e7);
  return took.count() / static_cast<double>(ticks() - first);
}

}  // namespace nntile::bench
