#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Elements that are copied out: the array that they are read into, and the vector of it.

#include <concepts>
#include <type_traits>
#include <utility>
#include <vector>

#include "nntile/core/dynamic_array.hh"

namespace nntile::detail {

/// A vector of the elements, or, as std::vector<bool> is no array, one that is.
template <class T>
using Elements = std::conditional_t<std::same_as<T, bool>, DynamicArray<bool>, std::vector<T>>;

template <class T> std::vector<T> vector_of(std::vector<T>&& elements) {
  return std::move(elements);
}
inline std::vector<bool> vector_of(DynamicArray<bool> const& elements) {
  return std::vector<bool>(elements.begin(), elements.end());
}

}  // namespace nntile::detail
