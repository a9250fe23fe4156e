#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Moving a tile between its own storage and a whole column-major array.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "nntile/core/tiling.hh"

namespace nntile {

namespace detail {

/// Calls run(offset in the array, offset in the tile, bytes) for each contiguous run of the tile,
/// whose columns begin at multiples of `unit` elements. Offsets in bytes.
template <class Run>
void for_each_run(TileBox const& box, Shape const& array, std::size_t element_bytes, Run&& run,
                  Index unit = 1) {
  std::size_t const rank = array.size();
  if (element_count(box.extent) == 0) return;
  Index const gap = leading_dimension(box.extent, unit) - (rank == 0 ? 1 : box.extent[0]);
  // Leading dimensions that the tile spans entirely, and the first that it does not, are one run;
  // a padded column is one.
  Index length = 1;
  std::size_t outer = 0;
  while (outer < rank) {
    length *= box.extent[outer];
    bool const spans = gap == 0 && box.extent[outer] == array[outer];
    ++outer;
    if (!spans) break;
  }
  Shape at(rank, 0);
  std::size_t in_tile = 0;
  for (;;) {
    Index offset = 0;
    for (std::size_t d = rank; d-- > 0;) offset = offset * array[d] + box.begin[d] + at[d];
    std::size_t const bytes = static_cast<std::size_t>(length) * element_bytes;
    run(static_cast<std::size_t>(offset) * element_bytes, in_tile, bytes);
    in_tile += bytes + static_cast<std::size_t>(gap) * element_bytes;
    std::size_t d = outer;
    while (d < rank && ++at[d] == box.extent[d]) at[d++] = 0;
    if (d == rank) return;
  }
}

/// Calls run(tile, offset in the tile, offset from `offset`, bytes) for each contiguous run of
/// bytes that the bytes [offset, offset + size) of a whole column-major array share with a tile of
/// it; tile by tile.
template <class Run>
void for_each_run_in(Tiling const& tiling, std::size_t element_bytes, Index unit,
                     std::uint64_t offset, std::uint64_t size, Run&& run) {
  Shape const array = tiling.shape();
  std::uint64_t row = element_bytes;  // bytes of one index of the outermost dimension
  for (std::size_t d = 0; d + 1 < array.size(); ++d) row *= static_cast<std::uint64_t>(array[d]);
  for (Index tile = 0; tile < tiling.tile_count(); ++tile) {
    TileBox const box = tiling.box(tile);
    if (array.size() != 0) {
      auto const first = static_cast<std::uint64_t>(box.begin[array.size() - 1]);
      auto const end = first + static_cast<std::uint64_t>(box.extent[array.size() - 1]);
      if (end * row <= offset || first * row >= offset + size) continue;
    }
    for_each_run(
        box, array, element_bytes,
        [&](std::size_t at, std::size_t in_tile, std::size_t length) {
          std::uint64_t const begin = at > offset ? at : offset;
          std::uint64_t const end = at + length < offset + size ? at + length : offset + size;
          if (begin < end)
            run(static_cast<std::size_t>(tile), in_tile + (begin - at), begin - offset,
                end - begin);
        },
        unit);
  }
}

}  // namespace detail

/// Copies a tile out of a column-major array of shape `array`; the tile's columns begin at
/// multiples of `unit` elements. Leaves padding as it is.
inline void copy_to_tile(void* tile, TileBox const& box, void const* whole, Shape const& array,
                         std::size_t element_bytes, Index unit = 1) {
  detail::for_each_run(
      box, array, element_bytes,
      [&](std::size_t from, std::size_t to, std::size_t bytes) {
        std::memcpy(static_cast<std::byte*>(tile) + to, static_cast<std::byte const*>(whole) + from,
                    bytes);
      },
      unit);
}

/// Copies a tile into its place in a column-major array of shape `array`, without padding.
inline void copy_from_tile(void const* tile, TileBox const& box, void* whole, Shape const& array,
                           std::size_t element_bytes, Index unit = 1) {
  detail::for_each_run(
      box, array, element_bytes,
      [&](std::size_t to, std::size_t from, std::size_t bytes) {
        std::memcpy(static_cast<std::byte*>(whole) + to, static_cast<std::byte const*>(tile) + from,
                    bytes);
      },
      unit);
}

}  // namespace nntile
