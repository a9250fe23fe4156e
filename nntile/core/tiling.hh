#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Tiling: borders of a tensor's tiles in each dimension.

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nntile/core/shape.hh"

namespace nntile {

/// Borders of one dimension: 0 = b[0] < b[1] < ... < b[n] = extent. An empty dimension has one
/// empty tile. One tile allocates nothing; copies share the borders of several.
class AxisTiling {
 public:
  /// Tiles of one dimension, and of all tensors of a plan: their numbers have 32 bits.
  static constexpr Index most = 0xffff'fffe;

  AxisTiling() = default;

  /// One tile.
  static AxisTiling whole(Index extent) {
    AxisTiling result;
    result.whole_[1] = extent;
    return result;
  }

  /// Tiles of `tile` elements, the last one shorter where it does not divide.
  static AxisTiling uniform(Index extent, Index tile) {
    if (tile <= 0)
      throw ShapeError(concat("tiling: tile extent ", tile, " where at least 1 is needed"));
    Index const count = extent <= tile ? 1 : (extent - 1) / tile + 1;
    if (count > most)
      throw ShapeError(concat("tiling: ", extent, " elements in tiles of ", tile, " make ", count,
                              " tiles where ", most, " are possible: tiles of ",
                              (extent - 1) / most + 1, " elements or more would do"));
    std::vector<Index> borders;
    borders.reserve(static_cast<std::size_t>(count) + 1);
    for (Index border = 0; border < count; ++border) borders.push_back(border * tile);
    borders.push_back(extent);
    return AxisTiling(std::move(borders));
  }

  /// Tiles of the given sizes, in turn: sizes({64, 192}).
  static AxisTiling sizes(std::span<Index const> extents) {
    std::vector<Index> borders{0};
    for (Index const extent : extents) {
      if (extent <= 0)
        throw ShapeError(concat("tiling: tile extent ", extent, " where at least 1 is needed"));
      if (extent > INT64_MAX - borders.back())
        throw ShapeError(concat("tiling: tiles of ", borders.back(), " and ", extent,
                                " elements are more than 2^63 - 1"));
      borders.push_back(borders.back() + extent);
    }
    if (borders.size() == 1) throw ShapeError("tiling: no tile sizes given");
    return AxisTiling(std::move(borders));
  }

  Index count() const { return several_ == nullptr ? 1 : static_cast<Index>(several_->size()) - 1; }
  Index extent() const { return whole_[1]; }
  Index begin(Index tile) const { return data()[tile]; }
  Index size(Index tile) const { return data()[tile + 1] - data()[tile]; }
  /// The tile that an element is in; the first or the last one of what lies outside. Cost:
  /// constant where tiles are equal, else the logarithm of their number.
  Index tile_of(Index element) const {
    if (Index const step = size(0), guess = step > 0 ? element / step : 0;  // of equal tiles
        element >= 0 && guess < count() && data()[guess] <= element && element < data()[guess + 1])
      return guess;
    auto const inner = borders().subspan(1, borders().size() - 2);
    return std::upper_bound(inner.begin(), inner.end(), element) - inner.begin();
  }
  std::span<Index const> borders() const { return {data(), static_cast<std::size_t>(count()) + 1}; }
  /// Whether every inner border is a multiple of `step`.
  bool multiple_of(Index step) const {
    for (Index const border : borders())
      if (border % step != 0 && border != extent()) return false;
    return true;
  }
  bool operator==(AxisTiling const& other) const {
    if (whole_ != other.whole_) return false;
    if (several_ == other.several_) return true;
    return several_ != nullptr && other.several_ != nullptr && *several_ == *other.several_;
  }

 private:
  explicit AxisTiling(std::vector<Index> borders) {
    whole_[1] = borders.back();
    if (borders.size() > 2)
      several_ = std::make_shared<std::vector<Index> const>(std::move(borders));
  }
  Index const* data() const { return several_ == nullptr ? whole_.data() : several_->data(); }

  std::array<Index, 2> whole_{0, 1};
  std::shared_ptr<std::vector<Index> const> several_;  // of several tiles: all borders
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
  explicit Tiling(std::vector<AxisTiling> axes) : axes_(std::move(axes)) {
    if (axes_.size() > max_rank)
      throw ShapeError(concat("tiling: rank ", axes_.size(), " exceeds ", max_rank));
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
  std::vector<AxisTiling> axes_;
};

}  // namespace nntile
