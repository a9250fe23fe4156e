#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Cost of a task in flops and bytes.

#include <cstdint>
#include <initializer_list>

namespace nntile {

/// a + b of counts that are not negative, or the largest number where that is larger.
constexpr std::int64_t saturated_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}
/// Adds a count to a sum in the same way.
constexpr void add_saturated(std::int64_t& sum, std::int64_t count) {
  sum = saturated_sum(sum, count);
}

/// The product of counts, none below 0, and 2^63 - 1 instead of more.
constexpr std::int64_t saturated_product(std::initializer_list<std::int64_t> counts) {
  std::int64_t product = 1;
  for (std::int64_t const count : counts)
    if (__builtin_mul_overflow(product, count, &product)) product = INT64_MAX;
  return product;
}

/// Floating-point operations of products (2mnk of GEMM and attention, nothing else) and bytes read
/// and written once. Sums stay at 2^63 - 1 instead of more.
struct Cost {
  std::int64_t flops = 0;
  std::int64_t bytes = 0;

  constexpr Cost& operator+=(Cost const& other) {
    add_saturated(flops, other.flops);
    add_saturated(bytes, other.bytes);
    return *this;
  }
  constexpr bool operator==(Cost const&) const = default;
};

}  // namespace nntile
