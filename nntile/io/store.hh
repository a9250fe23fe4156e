#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A TensorStore seen by files: its tensors as sources and targets, in the order of file bytes,
// whatever their tiles.

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nntile/graph/store.hh"
#include "nntile/io/tensor_io.hh"

namespace nntile::io {

namespace detail {

/// Fills the tiles of one tensor from pieces that come upwards; one that does not begins the tensor
/// anew. A tile stays locked from its first byte to its last: a lock for `write` hands out all of
/// the tile, and a runtime that stages keeps nothing of what an earlier one was given.
template <Runtime R> class TileFill {
 public:
  TileFill(TensorStore<R>& store, typename TensorStore<R>::Stored const& to)
      : store_(store), to_(to), tiles_(to.tiles.size()) {}

  void write(std::uint64_t offset, std::span<std::byte const> bytes) {
    if (offset < end_) abandon();
    end_ = offset + bytes.size();
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

  /// Unlocks the tiles that are being filled, of which nothing holds then.
  void abandon() {
    for (Filling& filling : tiles_) filling.bytes.reset();
    end_ = 0;
  }

 private:
  struct Filling {
    std::unique_ptr<nntile::detail::StoredBytes<R, Access::write>> bytes;
    std::uint64_t left = 0;
  };
  void open(Filling& filling, std::size_t tile) {
    Shape const extent = to_.spec.tiling.box(static_cast<Index>(tile)).extent;
    filling.left = static_cast<std::uint64_t>(byte_count(extent, size_of(to_.spec.dtype)));
    filling.bytes = std::make_unique<nntile::detail::StoredBytes<R, Access::write>>(
        store_.runtime(), to_.spec, to_.tiles[tile], static_cast<Index>(tile));
  }

  TensorStore<R>& store_;
  typename TensorStore<R>::Stored const& to_;
  std::vector<Filling> tiles_;
  std::uint64_t end_ = 0;  // of what has come
};

/// Assigns tiles to the ranks that write them, alike on all ranks, from the tiles that each holds.
class ShareOut {
 public:
  static constexpr char here = '\1', elsewhere = '\2';  // in no name

  /// Of each rank a line for each tensor: where each tile is, the name. Throws PlanError where the
  /// lines are of different tensors.
  ShareOut(std::vector<std::vector<std::byte>> const& held, int rank) : bytes_(held.size()) {
    for (auto const& text : held)
      rest_.push_back({reinterpret_cast<char const*>(text.data()), text.size()});
    auto const same = [](char a, char b) { return a == b || (is_bit(a) && is_bit(b)); };
    std::string_view const own = rest_[static_cast<std::size_t>(rank)];
    for (std::size_t other = 0; other < rest_.size(); ++other)
      if (!std::equal(own.begin(), own.end(), rest_[other].begin(), rest_[other].end(), same))
        throw PlanError(concat("save: rank ", other, " holds other tensors than rank ", rank,
                               ", or in other tiles: all ranks compile the same graphs"));
  }

  /// The ranks that write the next tensor, by tile; one, if it writes all of it.
  std::vector<int> next(StoredSpec const& spec) {
    auto const tiles = static_cast<std::size_t>(spec.tiling.tile_count());
    std::vector<std::string_view> tiles_of;
    for (std::string_view& rest : rest_) {
      tiles_of.push_back(rest.substr(0, tiles));
      rest.remove_prefix(rest.find('\n') + 1);
    }
    std::vector<int> writers;
    std::size_t const size = size_of(spec.dtype);
    if (give(writers, byte_count(spec.tiling.shape(), size), [&](std::size_t rank) {
          return tiles_of[rank].find(elsewhere) == std::string_view::npos;
        }))
      return writers;
    for (std::size_t tile = 0; tile < tiles; ++tile)
      if (!give(writers, byte_count(spec.tiling.box(static_cast<Index>(tile)).extent, size),
                [&](std::size_t rank) { return tiles_of[rank][tile] == here; }))
        throw PlanError(concat("save: no rank holds tile ", tile, " of '", spec.name, "'"));
    return writers;
  }

 private:
  static bool is_bit(char c) { return c == here || c == elsewhere; }
  /// To the rank that has it and the fewest bytes so far; false if none has.
  template <class Has> bool give(std::vector<int>& writers, Index bytes, Has has) {
    std::size_t least = bytes_.size();
    for (std::size_t rank = 0; rank < bytes_.size(); ++rank)
      if (has(rank) && (least == bytes_.size() || bytes_[rank] < bytes_[least])) least = rank;
    if (least == bytes_.size()) return false;
    bytes_[least] += bytes;
    writers.push_back(static_cast<int>(least));
    return true;
  }

  std::vector<std::string_view> rest_;
  std::vector<Index> bytes_;
};

/// A tile that is here, as a tensor of its own.
template <Runtime R>
TensorSource tile_source(TensorStore<R>& store, typename TensorStore<R>::Stored const& from,
                         Index tile) {
  StoredSpec const& spec = from.spec;
  auto const reads = std::make_shared<typename TensorStore<R>::Reads>(from, tile);
  return {piece_name(spec.name, spec.tiling, tile), spec.dtype, piece_shape(spec.tiling, tile),
          [&store, reads](std::uint64_t offset, std::span<std::byte> out) {
            reads->read(
                store.runtime(), offset, out.size(), [](std::size_t) { return true; },
                [&](std::uint64_t at, std::span<std::byte const> run) {
                  std::memcpy(out.data() + at, run.data(), run.size());
                });
          }};
}

inline FileShape file_shape_of_stored(StoredSpec const& spec) {
  FileShape shape;
  for (Index const extent : spec.file_shape) shape.push_back(static_cast<std::uint64_t>(extent));
  return shape;
}

}  // namespace detail

/// The store's tensors that `wanted(spec)` admits, to be read. They refer to the store. Reading
/// waits for each tensor's tasks alone; across ranks it is TensorStore::gather, which all call for
/// the same tensors in one order: hash_tensors(sources_of(store, is_parameter)) on every rank is
/// the hash of one rank's, and holds a piece at a time, and the begun tiles of one tensor that the
/// host does not reach.
template <Runtime R, class Wanted>
std::vector<TensorSource> sources_of(TensorStore<R>& store, Wanted&& wanted) {
  std::vector<TensorSource> sources;
  for (auto const& stored : store.tensors()) {
    if (!wanted(stored->spec)) continue;
    StoredSpec const& spec = stored->spec;
    auto const reads = std::make_shared<typename TensorStore<R>::Reads>(*stored);
    sources.push_back({spec.name, spec.dtype, detail::file_shape_of_stored(spec),
                       [&store, reads](std::uint64_t offset, std::span<std::byte> out) {
                         store.gather_bytes(*reads, offset, out);
                       }});
  }
  return sources;
}

/// The same tensors, as all ranks write them into a checkpoint: each the tiles that it holds, of
/// those that several hold the one that has the fewest bytes to write. All ranks call it together,
/// behind their runs; on one rank every tensor is whole. Throws CommError, also where `wanted`
/// throws on another rank, and PlanError where ranks hold different tensors. Waits for the runs in
/// flight.
template <Runtime R, class Wanted>
std::vector<TensorShare> shares_of(TensorStore<R>& store, Wanted&& wanted) {
  std::vector<typename TensorStore<R>::Stored const*> tensors;
  auto const held = store.together("saving the tensors of the store", [&] {
    for (auto const& stored : store.tensors())
      if (wanted(stored->spec)) tensors.push_back(stored.get());
    std::string text;  // a line for each tensor
    for (auto const* stored : tensors) {
      for (bool const elsewhere : stored->elsewhere)
        text += elsewhere ? detail::ShareOut::elsewhere : detail::ShareOut::here;
      text += concat(stored->spec.name, '\n');
    }
    auto const bytes = std::as_bytes(std::span(std::string_view(text)));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  });
  detail::ShareOut share_out(held, store.link().rank);
  std::vector<TensorShare> shares;
  for (auto const* stored : tensors) {
    StoredSpec const& spec = stored->spec;
    TensorShare share{spec.name, spec.dtype, detail::file_shape_of_stored(spec), {}, {}};
    std::vector<int> const writers = share_out.next(spec);
    if (writers.size() == 1 && writers[0] == store.link().rank)
      share.own.push_back({spec.name, spec.dtype, share.shape,
                           [&store, reads = std::make_shared<typename TensorStore<R>::Reads>(
                                        *stored)](std::uint64_t offset, std::span<std::byte> out) {
                             store.read_bytes(*reads, offset, out);
                           }});
    if (writers.size() > 1) share.borders = borders_of(spec.tiling);
    for (std::size_t tile = 0; writers.size() > 1 && tile < writers.size(); ++tile)
      if (writers[tile] == store.link().rank)
        share.own.push_back(detail::tile_source(store, *stored, static_cast<Index>(tile)));
    shares.push_back(std::move(share));
  }
  return shares;
}

/// The same tensors, to be written: each byte once. A tile is locked while it is being filled; a
/// load that throws leaves none locked, and may be tried again. A rank takes the bytes of the tiles
/// that it holds. Throws GraphError for an adopted input.
template <Runtime R, class Wanted>
std::vector<TensorTarget> targets_of(TensorStore<R>& store, Wanted&& wanted) {
  std::vector<TensorTarget> targets;
  for (auto const& stored : store.tensors()) {
    if (!wanted(stored->spec)) continue;
    auto* const to = stored.get();
    if (to->storage == Storage::adopted)
      throw GraphError(concat("load: '", to->spec.name, "' is adopted, so that its values are in ",
                              "the caller's memory; leave it out, and bind memory that has been ",
                              "read into by bind_input(\"", to->spec.name, "\", span)"));
    auto const fill = std::make_shared<detail::TileFill<R>>(store, *to);
    targets.push_back({to->spec.name, to->spec.dtype, detail::file_shape_of_stored(to->spec),
                       [fill](std::uint64_t offset, std::span<std::byte const> bytes) {
                         fill->write(offset, bytes);
                       },
                       [to](Borders const& borders, Index tile) {
                         if (borders == borders_of(to->spec.tiling))
                           return !to->elsewhere[static_cast<std::size_t>(tile)];
                         return std::find(to->elsewhere.begin(), to->elsewhere.end(), false) !=
                                to->elsewhere.end();
                       },
                       [fill] { fill->abandon(); }});
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
