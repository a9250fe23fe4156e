#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A TensorStore seen by files: its tensors as sources and targets, in the order of file bytes,
// whatever their tiles.

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "nntile/graph/store.hh"
#include "nntile/io/tensor_io.hh"

namespace nntile::io {

namespace detail {

/// Fills the tiles of one tensor from pieces, each byte once. A tile stays locked from its first
/// byte to its last: a lock for `write` hands out all of the tile, and a runtime that stages keeps
/// nothing of what an earlier one was given.
template <Runtime R> class TileFill {
 public:
  TileFill(TensorStore<R>& store, typename TensorStore<R>::Stored const& to)
      : store_(store), to_(to), tiles_(to.tiles.size()) {}

  void write(std::uint64_t offset, std::span<std::byte const> bytes) {
    nntile::detail::for_each_run_in(
        to_.spec.tiling, size_of(to_.spec.dtype), to_.spec.column_unit, offset, bytes.size(),
        [&](std::size_t tile, std::uint64_t in_tile, std::uint64_t at, std::uint64_t count) {
          if (to_.elsewhere[tile]) return;
          Filling& filling = tiles_[tile];
          if (!filling.bytes) open(filling, tile);
          std::memcpy(filling.bytes->data() + in_tile, bytes.data() + at, count);
          if ((filling.left -= count) == 0) filling.bytes.reset();
        });
  }

 private:
  struct Filling {
    std::unique_ptr<nntile::detail::TileBytes<R, Access::write>> bytes;
    std::uint64_t left = 0;
  };
  void open(Filling& filling, std::size_t tile) {
    Shape const extent = to_.spec.tiling.box(static_cast<Index>(tile)).extent;
    filling.left = static_cast<std::uint64_t>(byte_count(extent, size_of(to_.spec.dtype)));
    filling.bytes = std::make_unique<nntile::detail::TileBytes<R, Access::write>>(store_.runtime(),
                                                                                  to_.tiles[tile]);
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
/// waits for each tensor's tasks alone; across ranks it is TensorStore::gather, which all call for
/// the same tensors in one order: hash_tensors(sources_of(store, is_parameter)) on every rank is
/// the hash of one rank's, and holds a piece at a time.
template <Runtime R, class Wanted>
std::vector<TensorSource> sources_of(TensorStore<R>& store, Wanted&& wanted) {
  std::vector<TensorSource> sources;
  for (auto const& stored : store.tensors()) {
    if (!wanted(stored->spec)) continue;
    auto* const from = stored.get();
    sources.push_back({from->spec.name, from->spec.dtype, detail::file_shape_of_stored(from->spec),
                       [&store, from](std::uint64_t offset, std::span<std::byte> out) {
                         store.gather_bytes(*from, offset, out);
                       }});
  }
  return sources;
}

/// The same tensors, to be written: each byte once. A tile is locked while it is being filled. A
/// rank takes the bytes of the tiles that it holds.
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
