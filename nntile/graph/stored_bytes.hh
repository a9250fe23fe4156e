#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The bytes of a stored tile, wherever it lives.

#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>

#include "nntile/core/copy.hh"
#include "nntile/graph/stored_spec.hh"
#include "nntile/runtime/unsubmitted.hh"
#include "nntile/tile/host_view.hh"

namespace nntile::detail {

/// Bytes of a tile, padding included.
inline Index bytes_of(StoredSpec const& spec, Index tile) {
  return tile_bytes(spec.tiling.box(tile).extent, spec.dtype, spec.column_unit);
}

/// Submits a copy of `bytes` from one handle to another, at any places.
template <Runtime R>
Event submit_copy(R& runtime, typename R::Handle from, typename R::Handle to, std::int64_t bytes,
                  TaskLabel label) {
  Use<typename R::Handle> const uses[] = {{from, Access::read}, {to, Access::write}};
  return runtime.submit({&copy_codelet, uses, std::as_bytes(std::span(&bytes, 1)), {}, label});
}

/// A stored tile as bytes, while it is locked. Waits for its tasks. One that the host does not
/// reach is copied to the host first, or back at the end. Throws what lock and submit do, a
/// LifetimeError in words about the tensor, of which `written` says whether it is known to have a
/// value.
template <Runtime R, Access access> class StoredBytes {
 public:
  using Handle = typename R::Handle;
  using Byte = typename TileBytes<R, access>::Byte;

  StoredBytes(R& runtime, StoredSpec const& spec, Handle tile, Index number, bool written = true)
      : runtime_(runtime),
        label_{spec.name.c_str(), number},
        tile_(tile),
        bytes_(bytes_of(spec, number)),
        staged_(!host_reaches(spec.place)) {
    try {
      open(runtime);
    } catch (LifetimeError const& error) {
      fail_lock(spec, written || access != Access::read, error);
    }
  }
  StoredBytes(StoredBytes const&) = delete;
  StoredBytes& operator=(StoredBytes const&) = delete;
  ~StoredBytes() {
    view_.reset();
    if (!staged_ || !runtime_.alive()) return;
    R& runtime = runtime_.get("store");
    if constexpr (access != Access::read) {
      try {
        runtime_.wait(submit_copy(runtime, stage_, tile_, bytes_, label_));
      } catch (Error const& error) {
        mark_unsubmitted(runtime, tile_, error.what(), label_);
      } catch (std::bad_alloc const&) {
        mark_unsubmitted(runtime, tile_, "no memory for a copy", label_);
      }
    }
    runtime_.retire(stage_);
  }

  Byte* data() const { return view_->data(); }

 private:
  void open(R& runtime) {
    if (!staged_) {
      view_.emplace(runtime, tile_);
      return;
    }
    stage_ = runtime.allocate(static_cast<std::size_t>(bytes_), host, Lifetime::persistent);
    try {
      if constexpr (access == Access::read) submit_copy(runtime, tile_, stage_, bytes_, label_);
      view_.emplace(runtime, stage_);
    } catch (...) {
      runtime.retire(stage_);
      throw;
    }
  }

  RuntimeRef<R> runtime_;
  TaskLabel label_;
  Handle tile_, stage_ = {};
  std::int64_t bytes_;
  bool staged_;
  std::optional<TileBytes<R, access>> view_;
};

}  // namespace nntile::detail
