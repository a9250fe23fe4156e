#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A column-major array of any dtype, for oracles.

#include <cstddef>
#include <cstring>
#include <vector>

#include "nntile/core/nan.hh"
#include "nntile/core/shape.hh"

namespace nntile::testing {

/// Elements of one dtype, read and set as double.
struct Array {
  DType dtype = DType::fp32;
  Shape shape;
  std::vector<std::byte> bytes;

  Array() = default;
  Array(DType d, Shape const& s)
      : dtype(d), shape(s), bytes(static_cast<std::size_t>(element_count(s)) * size_of(d)) {}

  Index count() const { return element_count(shape); }
  double get(Index i) const {
    return for_dtype(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      T value;
      std::memcpy(&value, bytes.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
      return static_cast<double>(value);
    });
  }
  /// The element's bits; NaNs of a dtype are one.
  std::uint64_t word(Index i) const {
    return for_dtype(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      T value;
      std::memcpy(&value, bytes.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
      return static_cast<std::uint64_t>(comparable_bits(value));
    });
  }
  void set(Index i, double value) {
    for_dtype(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      T rounded;
      if constexpr (std::is_integral_v<T>)
        rounded = static_cast<T>(value);
      else
        rounded = rounded_to<T>(value);
      std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(T), &rounded, sizeof(T));
    });
  }
  /// The same values in another dtype.
  Array as(DType other) const {
    if (other == dtype) return *this;
    Array result(other, shape);
    for (Index i = 0; i < count(); ++i) result.set(i, get(i));
    return result;
  }
};

}  // namespace nntile::testing
