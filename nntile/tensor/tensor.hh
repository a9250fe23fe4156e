#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Tensor: a grid of tiles on a runtime.

#include "nntile/tile/tile.hh"

namespace nntile {

/// Owns the tiles of one tensor, cut by any Tiling. Ops on tensors submit one task per tile of the
/// op; tensors that share an axis must be cut alike along it.
template <RequiredElement T, RequiredRuntime R> class Tensor : public OwnedTiles<T, R, Tiling> {
  using Base = OwnedTiles<T, R, Tiling>;

 public:
  /// Allocates every tile. Throws OutOfMemory; ShapeError for more bytes or tiles than can be
  /// counted.
  Tensor(R& runtime, Tiling tiling, std::string_view name = "tensor")
      : Base(runtime, std::move(tiling), false, name) {
    this->allocate(runtime, Lifetime::persistent);
  }
  /// As of a Tile: of the innermost open scope of that lifetime.
  Tensor(R& runtime, Tiling tiling, Lifetime lifetime, std::string_view name = "tensor")
  requires ScopedRuntime<R>
      : Base(runtime, std::move(tiling), false, name) {
    this->allocate(runtime, lifetime);
  }

  Tiling const& tiling() const { return this->cut(); }
  /// Throws ShapeError where there is no such tile, as `lock` does.
  typename R::Handle handle(Index tile) const { return this->buffer(tile); }
  /// Waits for one tile's tasks and gives access to its elements: lock<Access::read>(tile) to
  /// elements that are const.
  template <Access access> HostView<T, R, access> lock(Index tile) const {
    return this->template view<access>(tile);
  }
  void lock(Index, Access) const = delete;  // lock<Access::read>(tile): see Tile
};

template <class R>
requires(detail::elements_have_a_type<R>())
Tensor(R&, Tiling const&) -> Tensor<float, R>;

}  // namespace nntile
