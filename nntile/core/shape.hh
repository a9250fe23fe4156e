#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Extents of a column-major array: dimension 0 is the fastest.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "nntile/core/inplace_vector.hh"

namespace nntile {

/// Counts elements and positions; signed, so that differences are.
using Index = std::int64_t;

/// Largest number of dimensions of a tensor.
inline constexpr std::size_t max_rank = 8;

namespace detail {

/// The error of a shape written with too many dimensions, of numbers or of a type with to_string.
template <class Extent>
[[noreturn, gnu::cold, gnu::noinline]] void fail_rank(std::initializer_list<Extent> extents) {
  std::string text;
  for (Extent const& extent : extents) {
    if (!text.empty()) text += ", ";
    if constexpr (std::integral<Extent>)
      text += concat(extent);
    else
      text += to_string(extent);
  }
  throw ShapeError(concat("shape {", text, "}: ", extents.size(),
                          " dimensions; a tensor has at most ", max_rank));
}

}  // namespace detail

/// Extents, inner to outer. An empty shape is a scalar of one element. Throws ShapeError for more
/// than max_rank.
class Shape : public inplace_vector<Index, max_rank> {
 public:
  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<Index> extents) {
    if (extents.size() > max_rank) detail::fail_rank(extents);
    for (Index const extent : extents) push_back(extent);
  }
  constexpr Shape(std::size_t rank, Index extent) : inplace_vector(rank, extent) {}

  constexpr bool operator==(Shape const&) const = default;
};

/// Number of elements; 0 when an extent is 0. Throws ShapeError when an extent is negative, or the
/// product of those that are not 0 does not fit into 63 bits: then that of any of them does.
constexpr Index element_count(Shape const& shape) {
  Index count = 1;
  bool empty = false;
  for (Index const extent : shape) {
    if (extent < 0) throw ShapeError(concat("shape: negative extent ", extent));
    if (extent == 0)
      empty = true;
    else if (__builtin_mul_overflow(count, extent, &count))
      throw ShapeError("shape: more than 2^63 - 1 elements");
  }
  return empty ? 0 : count;
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
