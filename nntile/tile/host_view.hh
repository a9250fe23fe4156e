#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// HostView: the elements of a buffer, while it is locked.

#include <span>
#include <type_traits>

#include "nntile/core/dtype.hh"
#include "nntile/runtime/runtime_ref.hh"

namespace nntile {

/// Host access to a tile or buffer: waits for its tasks, and until it ends no task may name the
/// handle. A view for reading gives T const. What it views lives as long as it does, unless the
/// runtime ends: then every use throws LifetimeError.
template <Element T, Runtime R, Access access> class [[nodiscard]] HostView {
 public:
  using Value = std::conditional_t<access == Access::read, T const, T>;

  HostView(R& runtime, typename R::Handle handle)
      : runtime_(runtime), handle_(handle), bytes_(runtime.lock(handle, access)) {}
  HostView(HostView const&) = delete;
  HostView& operator=(HostView const&) = delete;
  ~HostView() { runtime_.unlock(handle_); }

  std::span<Value> span() const {
    (void)runtime_.get("view");
    return {reinterpret_cast<Value*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }
  /// Looks each time whether the runtime lives: loops take the span.
  Value& operator[](std::size_t i) const { return span()[i]; }

 private:
  RuntimeRef<R> runtime_;
  typename R::Handle handle_;
  std::span<std::byte> bytes_;
};

namespace detail {

/// A tile as bytes, while it is locked. Waits for its tasks.
template <Runtime R, Access access> class TileBytes {
 public:
  using Byte = std::conditional_t<access == Access::read, std::byte const, std::byte>;
  TileBytes(R& runtime, typename R::Handle tile) : view_(runtime, tile) {}
  Byte* data() const { return reinterpret_cast<Byte*>(view_.span().data()); }

 private:
  HostView<std::int32_t, R, access> view_;
};

}  // namespace detail

}  // namespace nntile
