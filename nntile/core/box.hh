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

/// Cuts off indices of a box, whose columns stay whole, that are outside the bytes
/// [offset, offset + size) of the array; there are some. Returns the bytes of the tile in front of
/// what stays. Of pieces that cover an array, the boxes together have at most a few times its
/// columns.
inline std::size_t cut_to_bytes(TileBox& box, Shape const& array, std::size_t element_bytes,
                                Index unit, std::uint64_t offset, std::uint64_t size) {
  std::size_t skipped = 0;
  std::uint64_t row = element_bytes, tile_row = element_bytes;  // bytes of one index
  auto const by = [](Index extent) { return static_cast<std::uint64_t>(extent); };
  for (std::size_t d = 0; d + 1 < array.size(); ++d) {
    row *= by(array[d]);
    tile_row *= by(d == 0 ? leading_dimension(box.extent, unit) : box.extent[d]);
  }
  for (std::size_t d = array.size(); d-- > 1;) {
    auto const first = static_cast<Index>(offset / row);
    auto const end = static_cast<Index>((offset + size - 1) / row + 1);
    Index const stop = box.begin[d] + box.extent[d];
    Index const begin = box.begin[d] < first ? first : box.begin[d];
    Index const extent = (stop < end ? stop : end) - begin;
    skipped += by(begin - box.begin[d]) * tile_row;
    box.begin[d] = begin;
    box.extent[d] = extent < 0 ? 0 : extent;
    if (extent <= 0 || end - first > 1) break;
    offset -= by(first) * row;
    row /= by(array[d - 1]);
    tile_row /= by(d == 1 ? leading_dimension(box.extent, unit) : box.extent[d - 1]);
  }
  return skipped;
}

/// Calls run(tile, offset in the tile, offset from `offset`, bytes) for each contiguous run of
/// bytes that the bytes [offset, offset + size) of a whole column-major array share with a tile of
/// it; tile by tile.
template <class Run>
void for_each_run_in(Tiling const& tiling, std::size_t element_bytes, Index unit,
                     std::uint64_t offset, std::uint64_t size, Run&& run) {
  Shape const array = tiling.shape();
  if (size == 0 || element_count(array) == 0) return;
  for (Index tile = 0; tile < tiling.tile_count(); ++tile) {
    TileBox box = tiling.box(tile);
    std::size_t const skipped = cut_to_bytes(box, array, element_bytes, unit, offset, size);
    for_each_run(
        box, array, element_bytes,
        [&](std::size_t at, std::size_t in_tile, std::size_t length) {
          std::uint64_t const begin = at > offset ? at : offset;
          std::uint64_t const end = at + length < offset + size ? at + length : offset + size;
          if (begin < end)
            run(static_cast<std::size_t>(tile), skipped + in_tile + (begin - at), begin - offset,
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
