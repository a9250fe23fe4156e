#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A stored tensor in pieces, read upwards.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "nntile/core/box.hh"
#include "nntile/graph/stored_bytes.hh"
#include "nntile/graph/stored_tensor.hh"

namespace nntile::detail {

/// Reads a stored tensor, or one tile of it, in pieces, each of which begins where the last one
/// ended; one that does not is the first of another pass, which sees what the tiles have then. A
/// tile that the host does not reach is copied there once in a pass, and the copy kept from its
/// first byte to its last; others are locked one at a time, within a piece. The tensor outlives it.
template <Runtime R> class StoredReads {
 public:
  using Stored = StoredTensor<typename R::Handle>;

  explicit StoredReads(Stored const& stored) : stored_(&stored), tiling_(stored.spec.tiling) {}
  StoredReads(Stored const& stored, Index tile)
      : stored_(&stored),
        tiling_(stored.spec.tiling.box(tile).extent),
        first_(static_cast<std::size_t>(tile)) {}

  Stored const& stored() const { return *stored_; }

  /// Calls visit(position from `offset`, bytes) for the runs of the piece in tiles that are wanted,
  /// the same ones in a pass.
  template <class Wanted, class Visit>
  void read(R& runtime, std::uint64_t offset, std::size_t size, Wanted&& wanted, Visit&& visit) {
    [[maybe_unused]] auto const inside = drive(runtime, "read");
    StoredSpec const& spec = stored_->spec;
    if (offset != next_) copies_.clear();
    next_ = UINT64_MAX;  // should this piece fail
    bool const copied = !host_reaches(spec.place);
    if (copied) copies_.resize(stored_->tiles.size());
    std::optional<Bytes> locked;
    std::size_t open = stored_->tiles.size();
    for_each_run_in(
        tiling_, size_of(spec.dtype), spec.column_unit, offset, size,
        [&](std::size_t number, std::uint64_t in_tile, std::uint64_t at, std::uint64_t count) {
          std::size_t const tile = first_ + number;
          if (!wanted(tile)) return;
          if (copied) {
            Copy& copy = copy_of(runtime, tile);
            visit(at, std::span<std::byte const>(copy.bytes->data() + in_tile, count));
            if ((copy.left -= count) == 0) copy.bytes.reset();
            return;
          }
          if (tile != open)
            locked.emplace(runtime, spec, stored_->tiles[tile], static_cast<Index>(tile));
          open = tile;
          visit(at, std::span<std::byte const>(locked->data() + in_tile, count));
        });
    next_ = offset + size;
  }

 private:
  using Bytes = StoredBytes<R, Access::read>;
  struct Copy {
    std::unique_ptr<Bytes> bytes;
    std::uint64_t left = 0;  // to be read
  };

  Copy& copy_of(R& runtime, std::size_t tile) {
    Copy& copy = copies_[tile];
    if (copy.bytes) return copy;
    StoredSpec const& spec = stored_->spec;
    Shape const extent = spec.tiling.box(static_cast<Index>(tile)).extent;
    copy.left = static_cast<std::uint64_t>(byte_count(extent, size_of(spec.dtype)));
    copy.bytes =
        std::make_unique<Bytes>(runtime, spec, stored_->tiles[tile], static_cast<Index>(tile));
    return copy;
  }

  Stored const* stored_;
  Tiling tiling_;
  std::size_t first_ = 0;     // number of the tile that is tile 0 of `tiling_`
  std::uint64_t next_ = 0;    // the end of the last piece
  std::vector<Copy> copies_;  // by tile; of those begun
};

}  // namespace nntile::detail
