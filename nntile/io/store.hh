#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A TensorStore seen by files: its tensors as sources and targets, in the order of file bytes,
// whatever their tiles.

#include <algorithm>
#include <string>
#include <vector>

#include "nntile/graph/store.hh"
#include "nntile/io/tensor_io.hh"

namespace nntile::io {

namespace detail {

/// Copies the bytes [offset, offset + size) of the whole column-major array between `values` and
/// the tiles.
template <Access access, Runtime R, class Copy>
void for_range(TensorStore<R>& store, typename TensorStore<R>::Stored const& stored,
               std::uint64_t offset, std::uint64_t size, Copy&& copy) {
  using Byte = std::conditional_t<access == Access::read, std::byte const, std::byte>;
  Shape const shape = stored.spec.tiling.shape();
  std::size_t const element = size_of(stored.spec.dtype);
  Index outer = 1;  // elements of one index of the outermost dimension
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) outer *= shape[d];
  for (std::size_t tile = 0; tile < stored.tiles.size(); ++tile) {
    TileBox const box = stored.spec.tiling.box(static_cast<Index>(tile));
    if (!shape.empty()) {
      auto const row = static_cast<std::uint64_t>(outer) * element;
      auto const first = static_cast<std::uint64_t>(box.begin[shape.size() - 1]);
      auto const last = first + static_cast<std::uint64_t>(box.extent[shape.size() - 1]);
      if (last * row <= offset || first * row >= offset + size) continue;
    }
    HostView<std::int32_t, R, access> const view(store.runtime(), stored.tiles[tile]);
    auto* const bytes = reinterpret_cast<Byte*>(view.span().data());
    nntile::detail::for_each_run(
        box, shape, element, [&](std::size_t at, std::size_t in_tile, std::size_t length) {
          std::uint64_t const begin = std::max<std::uint64_t>(at, offset);
          std::uint64_t const end = std::min<std::uint64_t>(at + length, offset + size);
          if (begin < end) copy(bytes + in_tile + (begin - at), begin - offset, end - begin);
        });
  }
}

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
    sources.push_back({from->spec.name, from->spec.dtype, detail::file_shape_of_stored(from->spec),
                       [&store, from](std::uint64_t offset, std::span<std::byte> out) {
                         detail::for_range<Access::read>(
                             store, *from, offset, out.size(),
                             [&](std::byte const* tile, std::uint64_t at, std::uint64_t bytes) {
                               std::memcpy(out.data() + at, tile, bytes);
                             });
                       }});
  }
  return sources;
}

/// The same tensors, to be written. A tensor that nothing has written yet is written tile by tile.
template <Runtime R, class Wanted>
std::vector<TensorTarget> targets_of(TensorStore<R>& store, Wanted&& wanted) {
  std::vector<TensorTarget> targets;
  for (auto const& stored : store.tensors()) {
    if (!wanted(stored->spec)) continue;
    auto* const to = stored.get();
    targets.push_back({to->spec.name, to->spec.dtype, detail::file_shape_of_stored(to->spec),
                       [&store, to](std::uint64_t offset, std::span<std::byte const> bytes) {
                         // A piece may cover a part of a tile only; the pieces together cover it,
                         // so `write`, which keeps what the storage holds, lets each add its part.
                         detail::for_range<Access::write>(
                             store, *to, offset, bytes.size(),
                             [&](std::byte* tile, std::uint64_t at, std::uint64_t count) {
                               std::memcpy(tile, bytes.data() + at, count);
                             });
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
