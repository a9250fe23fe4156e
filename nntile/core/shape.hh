#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Extents of a column-major array: dimension 0 is the fastest.

#include <cstddef>
#include <cstdint>
#include <string>

#include "nntile/core/inplace_vector.hh"

namespace nntile {

/// Counts elements and positions; signed, so that differences are.
using Index = std::int64_t;

/// Largest number of dimensions of a tensor.
inline constexpr std::size_t max_rank = 8;

/// Extents, inner to outer. An empty shape is a scalar of one element.
using Shape = inplace_vector<Index, max_rank>;

/// Number of elements; 0 when an extent is 0. Throws ShapeError when it does not fit into 63 bits
/// or an extent is negative.
constexpr Index element_count(Shape const& shape) {
  Index count = 1;
  for (Index const extent : shape) {
    if (extent < 0) throw ShapeError(concat("shape: negative extent ", extent));
    if (__builtin_mul_overflow(count, extent, &count))
      throw ShapeError("shape: more than 2^63 - 1 elements");
  }
  return count;
}

/// Bytes of that many elements of `size` bytes. Throws ShapeError as element_count does, and where
/// they, in whole lines of 64 bytes, do not fit into 63 bits.
constexpr Index byte_count(Shape const& shape, std::size_t size) {
  Index bytes = 0;
  if (__builtin_mul_overflow(element_count(shape), static_cast<Index>(size), &bytes) ||
      bytes > INT64_MAX - 63)
    throw ShapeError("shape: more than 2^63 - 64 bytes");
  return bytes;
}

/// "{3, 4}".
inline std::string to_string(Shape const& shape) {
  std::string text = "{";
  for (std::size_t i = 0; i < shape.size(); ++i) text += concat(i == 0 ? "" : ", ", shape[i]);
  return text + "}";
}

}  // namespace nntile
