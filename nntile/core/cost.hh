#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Cost of a task in flops and bytes.

#include <cstdint>

namespace nntile {

/// Floating-point operations of products (2mnk of GEMM and attention, nothing else) and bytes read
/// and written once.
struct Cost {
  std::int64_t flops = 0;
  std::int64_t bytes = 0;

  constexpr Cost& operator+=(Cost const& other) {
    flops += other.flops;
    bytes += other.bytes;
    return *this;
  }
  friend constexpr Cost operator+(Cost a, Cost const& b) { return a += b; }
  constexpr bool operator==(Cost const&) const = default;
};

}  // namespace nntile
