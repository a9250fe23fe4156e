#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Tile: one contiguous piece of data on a runtime.

#include <concepts>
#include <string_view>

#include "nntile/tile/owned_tiles.hh"

namespace nntile {

/// Owns one buffer of a runtime: column-major, contiguous, 64-byte aligned. Ops on tiles are one
/// task.
template <RequiredElement T, RequiredRuntime R> class Tile : public OwnedTiles<T, R, Shape> {
  using Base = OwnedTiles<T, R, Shape>;

 public:
  /// Throws OutOfMemory.
  Tile(R& runtime, Shape const& shape, std::string_view name = "tile")
      : Base(runtime, shape, false, name) {
    this->allocate(runtime, Lifetime::persistent);
  }
  Tile(R&, std::integral auto, std::string_view = {}) = delete;  // a shape stands in braces: {4}
  Tile(Shape const&, R&, std::string_view = {}) = delete;        // the runtime stands first
  /// Of the innermost open scope of that lifetime, at whose end the tile is void: what uses it then
  /// throws LifetimeError, and its own end does nothing. Throws LifetimeError without one.
  Tile(R& runtime, Shape const& shape, Lifetime lifetime, std::string_view name = "tile")
  requires ScopedRuntime<R>
      : Base(runtime, shape, false, name) {
    this->allocate(runtime, lifetime);
  }
  /// Names the caller's memory without copying. With `release` the memory lives until that is
  /// called, and nothing here waits. Without one it lives as long as the tile, whose end waits for
  /// the tile's tasks, and resumes a ring that is paused before them. Throws ShapeError when sizes
  /// differ. Blocks: the destructor, as said.
  Tile(R& runtime, Shape const& shape, std::span<T> memory, Release release = {},
       std::string_view name = "tile")
      : Base(runtime, shape, release.call == nullptr, name) {
    this->adopt(runtime, memory, release);
  }
  /// The same for memory that is only read: it may overlap other such memory, and what would write
  /// the tile throws ValueError.
  template <std::same_as<T const> Value, std::size_t count>
  requires ReadOnlyRuntime<R>
  Tile(R& runtime, Shape const& shape, std::span<Value, count> memory, Release release = {},
       std::string_view name = "tile")
      : Base(runtime, shape, release.call == nullptr, name) {
    this->adopt(runtime, std::span<Value>(memory), release);
  }

  typename R::Handle handle() const { return this->buffer(0); }
  /// Waits for the tile's tasks and gives access to its elements: lock<Access::read>() to elements
  /// that are const.
  template <Access access> HostView<T, R, access> lock() const {
    return this->template view<access>(0);
  }
  void lock(Access) const = delete;  // lock<Access::read>(): what may be written is in the type
};

namespace detail {

/// For calls that leave the type of elements to be deduced, from nothing.
template <class R> consteval bool elements_have_a_type() {
  static_assert(sizeof(R) == 0,
                "a tile names the type of its elements, and its runtime: "
                "Tile<float, Ring> tile(runtime, {4, 4})");
  return true;
}

}  // namespace detail

template <class R>
requires(detail::elements_have_a_type<R>())
Tile(R&, Shape const&) -> Tile<float, R>;

}  // namespace nntile
