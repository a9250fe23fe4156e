#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// An input in the caller's memory: its tiles are pieces of it, adopted by the runtime.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>

#include "nntile/core/box.hh"
#include "nntile/core/dynamic_array.hh"
#include "nntile/core/error.hh"
#include "nntile/core/tiling.hh"
#include "nntile/graph/stored_spec.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/runtime_ref.hh"

namespace nntile::detail {

/// Calls the owner's release when the last tile has been released.
class SharedRelease {
 public:
  SharedRelease(Release const& owner, std::size_t tiles) : owner_(owner), left_(tiles) {}

  /// For each tile.
  Release of_tile() { return {&drop, this}; }
  /// Undoes an adoption that failed: the owner keeps the memory, `tiles` were not adopted.
  void cancel(std::size_t tiles) noexcept {
    owner_ = {};
    subtract(tiles);
  }

 private:
  static void drop(void* self) noexcept { static_cast<SharedRelease*>(self)->subtract(1); }
  void subtract(std::size_t tiles) noexcept {
    if (left_.fetch_sub(tiles, std::memory_order_acq_rel) != tiles) return;
    owner_();
    delete this;
  }

  Release owner_;
  std::atomic<std::size_t> left_;
};

/// Memory of the caller that holds a tensor, or what this rank holds of it, column-major. Where it
/// is `shared`, other inputs may overlap it: its elements were given as const.
struct CallerMemory {
  std::span<std::byte const> bytes;
  bool shared = false;

  bool operator==(CallerMemory const& other) const {
    return bytes.data() == other.bytes.data() && bytes.size() == other.bytes.size() &&
           shared == other.shared;
  }
  bool conflicts(CallerMemory const& other) const {
    if (bytes.empty() || other.bytes.empty() || (shared && other.shared)) return false;
    auto const address = [](std::byte const* p) { return reinterpret_cast<std::uintptr_t>(p); };
    return address(bytes.data()) < address(other.bytes.data()) + other.bytes.size() &&
           address(other.bytes.data()) < address(bytes.data()) + bytes.size();
  }
};

/// Throws ValueError where the elements of a tensor would not be aligned in the caller's memory.
inline void check_alignment(StoredSpec const& spec, CallerMemory const& memory) {
  std::size_t const size = size_of(spec.dtype);
  auto const past = reinterpret_cast<std::uintptr_t>(memory.bytes.data()) % size;
  if (past != 0)
    throw ValueError(concat("bind_input: the memory for '", spec.name, "' begins ", past,
                            " bytes past a multiple of ", size, ", which ", name_of(spec.dtype),
                            " needs to be adopted; align it, or leave the input out of "
                            "PlanOptions::adopted"));
}

/// Throws ValueError where the memory for a tensor conflicts with what another is bound to.
inline void check_apart(StoredSpec const& spec, CallerMemory const& memory, StoredSpec const& other,
                        CallerMemory const& bound) {
  if (memory.conflicts(bound))
    throw ValueError(concat("bind_input: the ", memory.bytes.size(), " bytes for '", spec.name,
                            "' overlap the ", bound.bytes.size(), " that '", other.name,
                            "' is bound to; bind both as spans of const elements, or memory that "
                            "does not overlap"));
}

/// Adopts the tiles that are not elsewhere of a tiling whose tiles are consecutive, to be read;
/// `bytes` are those of a box of whole tiles. `release` is called once, after the last task of the
/// last tile. Throws what adopt does; then nothing is adopted, and `release` is not called.
template <Runtime R>
DynamicArray<typename R::Handle> adopt_tiles(R& runtime, Tiling const& tiling,
                                             DynamicArray<bool> const& elsewhere,
                                             TileBox const& box, std::size_t element,
                                             std::span<std::byte const> bytes, Release release) {
  auto const count =
      static_cast<std::size_t>(std::count(elsewhere.begin(), elsewhere.end(), false));
  DynamicArray<typename R::Handle> tiles;
  tiles.reserve(elsewhere.size());
  SharedRelease* const shared =
      release.call == nullptr || count == 0 ? nullptr : new SharedRelease(release, count);
  std::size_t adopted = 0;
  try {
    for (std::size_t tile = 0; tile < elsewhere.size(); ++tile) {
      tiles.push_back({});
      if (elsewhere[tile]) continue;
      TileBox const its = tiling.box(static_cast<Index>(tile));
      Index begin = 0;  // elements of the box before the tile
      for (std::size_t d = tiling.rank(); d-- > 0;)
        begin = begin * box.extent[d] + its.begin[d] - box.begin[d];
      auto const piece =
          bytes.subspan(static_cast<std::size_t>(begin) * element,
                        static_cast<std::size_t>(element_count(its.extent)) * element);
      Release const of_tile = shared == nullptr ? Release{} : shared->of_tile();
      if constexpr (ReadOnlyRuntime<R>)
        tiles.back() = runtime.adopt(piece, host, of_tile);
      else  // no task of a plan writes it
        tiles.back() = runtime.adopt(std::span(const_cast<std::byte*>(piece.data()), piece.size()),
                                     host, of_tile);
      ++adopted;
    }
  } catch (...) {
    if (shared != nullptr) shared->cancel(count - adopted);
    for (std::size_t tile = 0, left = adopted; left > 0; ++tile)
      if (!elsewhere[tile]) runtime.retire(tiles[tile]), --left;
    throw;
  }
  if (count == 0) release();
  return tiles;
}

}  // namespace nntile::detail
