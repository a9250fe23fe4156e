#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Buffers that end together, on any runtime.

#include <cstddef>
#include <utility>

#include "nntile/core/call_site.hh"
#include "nntile/core/dynamic_array.hh"
#include "nntile/core/error.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/runtime_ref.hh"

namespace nntile {

/// An open scope of one lifetime: closing it retires exactly the buffers that were allocated in it
/// and not retired before, and never blocks; tasks in flight keep what they use. It closes when it
/// dies. On a ScopedRuntime, runtime.allocate(.., lifetime) belongs to it too; elsewhere `allocate`
/// of the scope is the only way in, and closing the only way out. If the runtime ends before it,
/// closing does nothing.
template <RequiredRuntime R> class [[nodiscard]] Scope {
 public:
  /// Throws LifetimeError for `persistent`.
  Scope(R& runtime, Lifetime lifetime, CallSite site = CallSite::here())
      : runtime_(runtime), lifetime_(lifetime) {
    if (lifetime == Lifetime::persistent)
      throw LifetimeError("scope: persistent buffers belong to no scope");
    if constexpr (ScopedRuntime<R>) name_ = detail::open_scope(runtime, lifetime, site);
  }
  Scope(Scope&& other) noexcept
      : runtime_(std::move(other.runtime_)),
        lifetime_(other.lifetime_),
        name_(other.name_),
        buffers_(std::move(other.buffers_)) {}
  Scope& operator=(Scope&&) = delete;
  ~Scope() {
    try {
      close();
    } catch (...) {  // a buffer in it is locked, or a scope open: it ends with the runtime
    }
  }

  /// Makes a buffer of this scope; the innermost one of its lifetime, on a ScopedRuntime. Throws as
  /// Runtime::allocate.
  typename R::Handle allocate(std::size_t bytes, Place place = host) {
    R& runtime = runtime_.get("scope");
    if constexpr (ScopedRuntime<R>) {
      return runtime.allocate(bytes, place, lifetime_);
    } else {
      [[maybe_unused]] auto const inside = detail::drive(runtime, "allocate");
      if (buffers_.size() == buffers_.capacity()) buffers_.reserve(2 * buffers_.size() + 4);
      return buffers_.emplace_back(runtime.allocate(bytes, place, Lifetime::persistent));
    }
  }

  /// Retires the buffers, once. Throws LifetimeError while one of them is locked, and on a
  /// ScopedRuntime while a scope is open that was opened later.
  void close() {
    if (!runtime_.alive()) return;
    R& runtime = runtime_.get("scope");
    [[maybe_unused]] auto const inside = detail::drive(runtime, "close_scope");
    if constexpr (ScopedRuntime<R>) detail::close_scope(runtime, lifetime_, name_);
    while (!buffers_.empty()) {
      runtime.retire(buffers_.back());
      buffers_.pop_back();
    }
    runtime_ = {};
  }

 private:
  RuntimeRef<R> runtime_;
  Lifetime lifetime_;
  ScopeName name_;
  DynamicArray<typename R::Handle> buffers_;  // if the runtime keeps no scopes
};

/// Opens a scope: auto const step = scope(runtime, Lifetime::step). Errors name it by `site`.
template <Runtime R> auto scope(R& runtime, Lifetime lifetime, CallSite site = CallSite::here()) {
  return Scope<R>(runtime, lifetime, site);  // not named above: clang 14 would require more of R
}

}  // namespace nntile
