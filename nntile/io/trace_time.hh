#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Times of Chrome traces, which are in microseconds.

#include <algorithm>
#include <cstdint>

namespace nntile::io::detail {

/// Has three decimals at most: the quotient is the double next to them, of which a product with
/// 1e-3 is at times the next but one.
constexpr double microseconds(std::int64_t ns) { return static_cast<double>(ns) / 1000; }

/// The last ns of a slice, for an arrow that begins or ends with it: its end is the next slice's.
constexpr std::int64_t last_ns(std::int64_t begin, std::int64_t end) {
  return std::max(begin, end - 1);
}

}  // namespace nntile::io::detail
