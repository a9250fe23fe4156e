#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Tiling: borders of a tensor's tiles in each dimension.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/shape.hh"

namespace nntile {

/// Borders of one dimension: 0 = b[0] < b[1] < ... < b[n] = extent. An empty dimension has one
/// empty tile. Tiles of one size, the last one perhaps shorter, allocate nothing.
class AxisTiling {
 public:
  /// Tiles of one dimension, of a tensor on a runtime, and of all tensors of a plan: their numbers
  /// have 32 bits.
  static constexpr Index most = 0xffff'fffe;

  AxisTiling() = default;

  /// One tile.
  static AxisTiling whole(Index extent) {
    AxisTiling result;
    result.extent_ = result.step_ = extent;
    return result;
  }

  /// Tiles of `tile` elements, the last one shorter where it does not divide.
  static AxisTiling uniform(Index extent, Index tile) {
    if (tile <= 0)
      throw ShapeError(concat("tiling: tile extent ", tile, " where at least 1 is needed"));
    if (extent <= tile) return whole(extent);
    AxisTiling result;
    result.extent_ = extent;
    result.step_ = tile;
    result.count_ = (extent - 1) / tile + 1;
    if (result.count_ > most)
      throw ShapeError(concat("tiling: ", extent, " elements in tiles of ", tile, " make ",
                              result.count_, " tiles where ", most, " are possible: tiles of ",
                              (extent - 1) / most + 1, " elements or more would do"));
    return result;
  }

  /// Tiles of the given sizes, in turn: sizes({64, 192}).
  static AxisTiling sizes(std::span<Index const> extents) {
    if (extents.empty()) throw ShapeError("tiling: no tile sizes given");
    Index sum = 0;
    bool is_uniform = extents.back() <= extents[0];
    for (std::size_t i = 0; i < extents.size(); ++i) {
      Index const extent = extents[i];
      if (extent <= 0)
        throw ShapeError(concat("tiling: tile extent ", extent, " where at least 1 is needed"));
      if (extent > INT64_MAX - sum)
        throw ShapeError(
            concat("tiling: tiles of ", sum, " and ", extent, " elements are more than 2^63 - 1"));
      sum += extent;
      is_uniform &= extent == extents[0] || i + 1 == extents.size();
    }
    if (is_uniform) return uniform(sum, extents[0]);
    AxisTiling result;
    result.extent_ = sum;
    result.count_ = static_cast<Index>(extents.size());
    result.begins_.reserve(extents.size());
    Index begin = 0;
    for (Index const extent : extents) {
      result.begins_.push_back(begin);
      begin += extent;
    }
    return result;
  }
  static AxisTiling sizes(std::initializer_list<Index> extents) {
    return sizes(std::span(extents.begin(), extents.size()));
  }

  Index count() const { return count_; }
  Index extent() const { return extent_; }
  /// The first element of a tile; of number count(), the extent.
  Index begin(Index tile) const {
    if (tile == count_) return extent_;
    return begins_.empty() ? tile * step_ : begins_[static_cast<std::size_t>(tile)];
  }
  Index size(Index tile) const { return begin(tile + 1) - begin(tile); }
  /// The tile that an element is in; the first or the last one of what lies outside. Cost:
  /// constant where tiles are equal, else the logarithm of their number.
  Index tile_of(Index element) const {
    Index first = 0, last = count_ - 1;
    if (element < 0 || last == 0) return 0;
    if (begins_.empty()) return element / step_ < last ? element / step_ : last;
    while (first < last) {  // it is in one from `first` to `last`
      Index const middle = first + (last - first + 1) / 2;
      if (begin(middle) <= element)
        first = middle;
      else
        last = middle - 1;
    }
    return first;
  }
  /// Whether every inner border is a multiple of `step`.
  bool multiple_of(Index step) const {
    for (Index tile = 1; tile < count_; ++tile)
      if (begin(tile) % step != 0) return false;
    return true;
  }
  bool operator==(AxisTiling const&) const = default;

 private:
  Index extent_ = 1;
  Index count_ = 1;
  Index step_ = 1;              // of tiles of one size
  DynamicArray<Index> begins_;  // of the tiles, where their sizes differ
};

/// The distance of the columns of a tile: its extent in dimension 0, or that rounded up to whole
/// units of elements.
constexpr Index leading_dimension(Shape const& extent, Index unit) {
  Index const rows = extent.size() == 0 ? 1 : extent[0];
  return unit == 1 ? rows : (rows + unit - 1) / unit * unit;
}

/// Position and extents of one tile.
struct TileBox {
  Shape begin;
  Shape extent;
};

/// The grid of tiles of a tensor. Tiles are numbered column-major, dimension 0 fastest; each is
/// stored contiguously.
class Tiling {
 public:
  Tiling() = default;
  explicit Tiling(std::vector<AxisTiling> const& axes) {
    if (axes.size() > max_rank)
      throw ShapeError(concat("tiling: rank ", axes.size(), " exceeds ", max_rank));
    axes_.append(axes);
  }
  /// The whole tensor in one tile.
  explicit Tiling(Shape const& shape) {
    for (Index const extent : shape) axes_.push_back(AxisTiling::whole(extent));
  }
  /// Uniform tiles of the given extents.
  Tiling(Shape const& shape, Shape const& tile) {
    if (shape.size() != tile.size())
      throw ShapeError(concat("tiling: shape ", to_string(shape), " but tile ", to_string(tile)));
    for (std::size_t d = 0; d < shape.size(); ++d)
      axes_.push_back(AxisTiling::uniform(shape[d], tile[d]));
  }
  Tiling(Shape const&, std::integral auto tile) {
    static_assert(sizeof tile == 0,
                  "the extents of a tile stand in braces, one for each dimension: "
                  "Tiling({4, 4}, {2, 2})");
  }

  std::size_t rank() const { return axes_.size(); }
  AxisTiling const& axis(std::size_t d) const { return axes_[d]; }
  Shape shape() const {
    Shape result;
    for (auto const& axis : axes_) result.push_back(axis.extent());
    return result;
  }
  Shape grid() const {
    Shape result;
    for (auto const& axis : axes_) result.push_back(axis.count());
    return result;
  }
  Index tile_count() const { return element_count(grid()); }

  /// Position in the grid of tile number `tile`.
  Shape position(Index tile) const {
    Shape result;
    for (auto const& axis : axes_) {
      result.push_back(tile % axis.count());
      tile /= axis.count();
    }
    return result;
  }
  Index number(Shape const& position) const {
    Index result = 0;
    for (std::size_t d = axes_.size(); d-- > 0;) result = result * axes_[d].count() + position[d];
    return result;
  }
  TileBox box(Index tile) const {
    TileBox result;
    Shape const at = position(tile);
    for (std::size_t d = 0; d < axes_.size(); ++d) {
      result.begin.push_back(axes_[d].begin(at[d]));
      result.extent.push_back(axes_[d].size(at[d]));
    }
    return result;
  }
  bool operator==(Tiling const&) const = default;

 private:
  DynamicArray<AxisTiling> axes_;
};

}  // namespace nntile
