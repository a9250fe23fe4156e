#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The open scopes of one runtime, innermost last.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nntile/core/call_site.hh"
#include "nntile/core/error.hh"
#include "nntile/runtime/support/buffer.hh"

namespace nntile::support {

/// One of them; its buffers are a list through their records.
struct Scope {
  Lifetime lifetime;
  std::uint32_t number;
  std::uint32_t last;  // index + 1 of the latest buffer in it
  CallSite site;       // where it was opened
};

/// Driving thread only.
class Scopes {
 public:
  void reserve(std::size_t count) { scopes_.reserve(count); }

  /// Throws LifetimeError for `persistent`.
  void open(Lifetime lifetime, CallSite site) {
    if (lifetime == Lifetime::persistent)
      throw LifetimeError("open_scope: persistent buffers belong to no scope");
    scopes_.push_back({lifetime, ++number_, 0, site});
  }
  void erase(Scope& scope) { scopes_.erase(scopes_.begin() + (&scope - scopes_.data())); }

  /// The scope that an allocation belongs to; null for `persistent`. Throws LifetimeError: none is
  /// open.
  Scope* of(Lifetime lifetime) {
    if (lifetime == Lifetime::persistent) return nullptr;
    if (!scopes_.empty() && scopes_.back().lifetime == lifetime) [[likely]]
      return &scopes_.back();
    return outer(lifetime);
  }
  /// Null if none is open.
  Scope* innermost(Lifetime lifetime) noexcept {
    for (std::size_t i = scopes_.size(); i-- > 0;)
      if (scopes_[i].lifetime == lifetime) return &scopes_[i];
    return nullptr;
  }
  /// Null if it is closed.
  Scope* find(std::uint32_t number) noexcept {
    for (Scope& scope : scopes_)
      if (scope.number == number) return &scope;
    return nullptr;
  }
  Scope const* find(std::uint32_t number) const noexcept {
    return const_cast<Scopes*>(this)->find(number);
  }

 private:
  [[gnu::noinline]] Scope* outer(Lifetime lifetime) {
    Scope* const scope = innermost(lifetime);
    if (scope == nullptr)
      throw LifetimeError(concat("allocate: no open scope of lifetime ", name_of(lifetime),
                                 ": open one, or ask for persistent"));
    return scope;
  }

  std::vector<Scope> scopes_;
  std::uint32_t number_ = 0;
};

}  // namespace nntile::support
