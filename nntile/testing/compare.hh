#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Comparing arrays of elements: bit for bit, in units in the last place, or relative to an oracle.

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>

#include "nntile/core/nan.hh"
#include "nntile/core/shape.hh"

namespace nntile::testing {

namespace detail {

template <Element T> auto bits_of(T const& value) {
  typename nntile::detail::WordOf<sizeof(T)>::type bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// The shortest decimal that reads back as the value.
template <Element T> std::string decimal(T const& value) {
  char digits[40];
  if constexpr (is_float(dtype_of<T>)) {
    auto const number = static_cast<compute_t<T>>(value);
    return {digits, std::to_chars(digits, digits + sizeof digits, number).ptr};
  } else {
    auto const number = static_cast<std::int64_t>(value);
    return {digits, std::to_chars(digits, digits + sizeof digits, number).ptr};
  }
}

/// "0.25 (bits 3e800000)".
template <Element T> std::string with_bits(T const& value) {
  char digits[20];
  auto const end = std::to_chars(digits, digits + sizeof digits, bits_of(value), 16).ptr;
  return decimal(value) + " (bits " + std::string(digits, end) + ")";
}

/// "{1, 2}" of an element of a column-major array; its number where the shape does not fit.
inline std::string position(std::size_t number, std::size_t count, Shape const& shape) {
  if (shape.empty() || static_cast<std::size_t>(element_count(shape)) != count)
    return concat(number);
  Shape at;
  for (Index const extent : shape) {
    at.push_back(static_cast<Index>(number) % extent);
    number /= static_cast<std::size_t>(extent);
  }
  return to_string(at);
}

/// Maps the bits of a float to integers in the order of the values; both zeros to one.
template <Element T> std::int64_t ordered(T const& value) {
  constexpr std::uint64_t sign = std::uint64_t{1} << (8 * sizeof(T) - 1);
  std::uint64_t const bits = bits_of(value);
  auto const magnitude = static_cast<std::int64_t>(bits & (sign - 1));
  return (bits & sign) != 0 ? -magnitude : magnitude;
}

}  // namespace detail

/// The number of values of T from a to b: 0 for equal ones and for two NaN, the largest number for
/// one NaN.
template <Element T>
requires(is_float(dtype_of<T>))
std::uint64_t ulp_distance(T const& a, T const& b) {
  auto const x = static_cast<compute_t<T>>(a);
  auto const y = static_cast<compute_t<T>>(b);
  if (std::isnan(x) || std::isnan(y))
    return std::isnan(x) && std::isnan(y) ? 0 : std::numeric_limits<std::uint64_t>::max();
  std::int64_t const p = detail::ordered(a), q = detail::ordered(b);
  auto const low = static_cast<std::uint64_t>(std::min(p, q));
  return static_cast<std::uint64_t>(std::max(p, q)) - low;
}

/// Empty where all bits are equal, NaNs of a dtype being one; else a sentence with the first
/// difference and their number: "element {1, 2} is 0.5 (bits 3f000000) where 0.25 (bits 3e800000)
/// is expected; 3 of 12 differ".
template <Element T>
std::string bit_difference(std::span<T const> seen, std::span<T const> expected,
                           Shape const& shape = {}) {
  if (seen.size() != expected.size())
    return concat(seen.size(), " elements where ", expected.size(), " are expected");
  std::size_t first = seen.size(), count = 0;
  for (std::size_t i = seen.size(); i-- > 0;) {
    if (comparable_bits(seen[i]) == comparable_bits(expected[i])) continue;
    first = i;
    ++count;
  }
  if (count == 0) return {};
  return concat("element ", detail::position(first, seen.size(), shape), " is ",
                detail::with_bits(seen[first]), " where ", detail::with_bits(expected[first]),
                " is expected; ", count, " of ", seen.size(), " differ");
}

/// Distance of an array from an oracle. If both are the same infinity or NaN, the oracle as it is
/// rounded to T, the error is 0; if only one is finite otherwise, it is infinite.
struct Distance {
  double absolute = 0;     // the largest |seen - expected|
  double relative = 0;     // the largest |seen - expected| / max(|expected|, floor)
  std::uint64_t ulps = 0;  // the largest ulp_distance to the expected value rounded to T
  std::size_t worst = 0;   // the element of the largest relative error
};

/// Errors of values smaller than `floor` are taken relative to it: give the size of the terms that
/// cancelled. Arrays of different sizes are infinitely far apart. Throws ValueError for a floor
/// that is below 0 or not finite.
template <Element T>
requires(is_float(dtype_of<T>))
Distance distance(std::span<T const> seen, std::span<double const> expected,
                  double floor = std::numeric_limits<double>::min()) {
  if (!(floor >= 0 && std::isfinite(floor)))
    throw ValueError(
        concat("distance: a floor of ", floor, "; 0 or more, the size of terms that cancelled"));
  Distance result;
  if (seen.size() != expected.size()) return {INFINITY, INFINITY, UINT64_MAX, 0};
  for (std::size_t i = 0; i < seen.size(); ++i) {
    auto const value = static_cast<double>(static_cast<compute_t<T>>(seen[i]));
    std::uint64_t const ulps = ulp_distance(seen[i], rounded_to<T>(expected[i]));
    bool const finite = std::isfinite(value) && std::isfinite(expected[i]);
    double const absolute = finite ? std::abs(value - expected[i]) : ulps == 0 ? 0 : INFINITY;
    double const size = std::isfinite(expected[i]) ? std::abs(expected[i]) : 0;
    double const relative = absolute / std::max(size, floor);
    result.absolute = std::max(result.absolute, absolute);
    result.ulps = std::max(result.ulps, ulps);
    if (relative > result.relative) {
      result.relative = relative;
      result.worst = i;
    }
  }
  return result;
}

/// Empty where no relative error exceeds the tolerance; else a sentence with the worst element:
/// "element {1, 2} is 0.5 where 0.25 is expected: relative error 1 (8388608 ulp), allowed 1e-06".
template <Element T>
requires(is_float(dtype_of<T>))
std::string error_beyond(double tolerance, std::span<T const> seen,
                         std::span<double const> expected, Shape const& shape = {},
                         double floor = std::numeric_limits<double>::min()) {
  if (seen.size() != expected.size())
    return concat(seen.size(), " elements where ", expected.size(), " are expected");
  Distance const found = distance(seen, expected, floor);
  if (found.relative <= tolerance) return {};
  std::size_t const i = found.worst;
  return concat("element ", detail::position(i, seen.size(), shape), " is ",
                detail::decimal(seen[i]), " where ", detail::decimal(expected[i]),
                " is expected: relative error ", found.relative, " (", found.ulps,
                " ulp at most), allowed ", tolerance);
}

/// The same for two tiles or tensors, which are waited for: whatever their tilings and runtimes.
template <class A, class B>
requires requires(A const& a, B const& b) {
  a.read();
  b.read();
  a.shape();
}
std::string bit_difference(A const& seen, B const& expected) {
  if (!(seen.shape() == expected.shape()))
    return concat("shape ", to_string(seen.shape()), " where ", to_string(expected.shape()),
                  " is expected");
  auto const a = seen.read();
  auto const b = expected.read();
  return bit_difference(std::span(a), std::span(b), seen.shape());
}

}  // namespace nntile::testing
