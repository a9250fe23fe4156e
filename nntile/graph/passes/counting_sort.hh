#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A stable sort by small numbers, in plain code: each instance of std::stable_sort is as dear to
// compile as a pass.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "nntile/core/dynamic_array.hh"

namespace nntile::passes {

/// The positions 0 to n - 1 of n keys, sorted by key; equal keys keep their order. Keys are less
/// than `bound`. Cost: linear in n + bound.
inline DynamicArray<std::uint32_t> counting_sort(DynamicArray<std::uint32_t> const& keys,
                                                 std::size_t bound) {
  DynamicArray<std::uint32_t> next(bound + 1);  // place of a key's next position
  for (std::uint32_t const key : keys) ++next[key + 1];
  for (std::size_t key = 0; key < bound; ++key) next[key + 1] += next[key];
  DynamicArray<std::uint32_t> order(keys.size());
  for (std::uint32_t at = 0; at < keys.size(); ++at) order[next[keys[at]]++] = at;
  return order;
}

/// Moves values[first + order[i]] to values[first + i] for each i, cycle by cycle; `order` is used
/// up.
template <class T>
void reorder(DynamicArray<T>& values, std::size_t first, DynamicArray<std::uint32_t> order) {
  for (std::uint32_t start = 0; start < order.size(); ++start) {
    if (order[start] == start) continue;
    T const moved = values[first + start];
    std::uint32_t at = start;
    while (order[at] != start) {
      values[first + at] = values[first + order[at]];
      at = std::exchange(order[at], at);
    }
    values[first + at] = moved;
    order[at] = at;
  }
}

}  // namespace nntile::passes
