#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A TensorStore seen by files: its tensors as sources and targets, in the order of file bytes,
// whatever their tiles.

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nntile/graph/store.hh"
#include "nntile/io/tensor_io.hh"

namespace nntile::io {

namespace detail {

/// Calls copy(tile, in_tile, at, count) for each run of bytes that the bytes [offset, offset +
/// size) of the whole column-major array share with a tile: `count` bytes, `in_tile` bytes from the
/// tile's begin and `at` from `offset`.
template <class Copy>
void for_range(StoredSpec const& spec, std::uint64_t offset, std::uint64_t size, Copy&& copy) {
  Shape const shape = spec.tiling.shape();
  std::size_t const element = size_of(spec.dtype);
  Index outer = 1;  // elements of one index of the outermost dimension
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) outer *= shape[d];
  for (Index tile = 0; tile < spec.tiling.tile_count(); ++tile) {
    TileBox const box = spec.tiling.box(tile);
    if (!shape.empty()) {
      auto const row = static_cast<std::uint64_t>(outer) * element;
      auto const first = static_cast<std::uint64_t>(box.begin[shape.size() - 1]);
      auto const last = first + static_cast<std::uint64_t>(box.extent[shape.size() - 1]);
      if (last * row <= offset || first * row >= offset + size) continue;
    }
    nntile::detail::for_each_run(
        box, shape, element,
        [&](std::size_t at, std::size_t in_tile, std::size_t length) {
          std::uint64_t const begin = std::max<std::uint64_t>(at, offset);
          std::uint64_t const end = std::min<std::uint64_t>(at + length, offset + size);
          if (begin < end)
            copy(static_cast<std::size_t>(tile), in_tile + (begin - at), begin - offset,
                 end - begin);
        },
        spec.column_unit);
  }
}

/// A tile as bytes, while it is locked.
template <Runtime R, Access access> class TileBytes {
 public:
  TileBytes(R& runtime, typename R::Handle tile) : view_(runtime, tile) {}
  auto* data() const {
    using Byte = std::conditional_t<access == Access::read, std::byte const, std::byte>;
    return reinterpret_cast<Byte*>(view_.span().data());
  }

 private:
  HostView<std::int32_t, R, access> view_;
};

/// Fills the tiles of one tensor from pieces, each byte once. A tile stays locked from its first
/// byte to its last: a lock for `write` hands out all of the tile, and a runtime that stages keeps
/// nothing of what an earlier one was given.
template <Runtime R> class TileFill {
 public:
  TileFill(TensorStore<R>& store, typename TensorStore<R>::Stored const& to)
      : store_(store), to_(to), tiles_(to.tiles.size()) {}

  void write(std::uint64_t offset, std::span<std::byte const> bytes) {
    for_range(to_.spec, offset, bytes.size(),
              [&](std::size_t tile, std::uint64_t in_tile, std::uint64_t at, std::uint64_t count) {
                Filling& filling = tiles_[tile];
                if (!filling.bytes) open(filling, tile);
                std::memcpy(filling.bytes->data() + in_tile, bytes.data() + at, count);
                if ((filling.left -= count) == 0) filling.bytes.reset();
              });
  }

 private:
  struct Filling {
    std::unique_ptr<TileBytes<R, Access::write>> bytes;
    std::uint64_t left = 0;
  };
  void open(Filling& filling, std::size_t tile) {
    Shape const extent = to_.spec.tiling.box(static_cast<Index>(tile)).extent;
    filling.left = static_cast<std::uint64_t>(byte_count(extent, size_of(to_.spec.dtype)));
    filling.bytes =
        std::make_unique<TileBytes<R, Access::write>>(store_.runtime(), to_.tiles[tile]);
  }

  TensorStore<R>& store_;
  typename TensorStore<R>::Stored const& to_;
  std::vector<Filling> tiles_;
};

inline FileShape file_shape_of_stored(StoredSpec const& spec) {
  FileShape shape;
  for (Index const extent : spec.file_shape) shape.push_back(static_cast<std::uint64_t>(extent));
  return shape;
}

}  // namespace detail

/// The store's tensors that `wanted(spec)` admits, to be read. They refer to the store. Reading
/// waits for each tensor's tasks alone.
template <Runtime R, class Wanted>
std::vector<TensorSource> sources_of(TensorStore<R>& store, Wanted&& wanted) {
  std::vector<TensorSource> sources;
  for (auto const& stored : store.tensors()) {
    if (!wanted(stored->spec)) continue;
    auto* const from = stored.get();
    sources.push_back(
        {from->spec.name, from->spec.dtype, detail::file_shape_of_stored(from->spec),
         [&store, from](std::uint64_t offset, std::span<std::byte> out) {
           std::optional<detail::TileBytes<R, Access::read>> bytes;
           std::size_t open = from->tiles.size();
           detail::for_range(
               from->spec, offset, out.size(),
               [&](std::size_t tile, std::uint64_t in_tile, std::uint64_t at, std::uint64_t count) {
                 if (tile != open) bytes.emplace(store.runtime(), from->tiles[tile]);
                 open = tile;
                 std::memcpy(out.data() + at, bytes->data() + in_tile, count);
               });
         }});
  }
  return sources;
}

/// The same tensors, to be written: each byte once. A tile is locked while it is being filled.
template <Runtime R, class Wanted>
std::vector<TensorTarget> targets_of(TensorStore<R>& store, Wanted&& wanted) {
  std::vector<TensorTarget> targets;
  for (auto const& stored : store.tensors()) {
    if (!wanted(stored->spec)) continue;
    auto* const to = stored.get();
    auto const fill = std::make_shared<detail::TileFill<R>>(store, *to);
    targets.push_back({to->spec.name, to->spec.dtype, detail::file_shape_of_stored(to->spec),
                       [fill](std::uint64_t offset, std::span<std::byte const> bytes) {
                         fill->write(offset, bytes);
                       }});
  }
  return targets;
}

/// The tensors of a checkpoint: parameters and states, not constants, inputs or outputs.
inline bool is_saved(StoredSpec const& spec) {
  return spec.attributes.persistent && !spec.attributes.external;
}
/// Parameters alone: what `--hash` covers.
inline bool is_parameter(StoredSpec const& spec) {
  return spec.attributes.persistent && spec.attributes.requires_grad;
}

}  // namespace nntile::io
