#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The open scopes of one runtime, innermost last.

#include <cstddef>
#include <cstdint>
#include <string>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/error.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/support/buffer.hh"

namespace nntile::support {

/// One of them. Its buffers are a list through their records, and those of a memory that gives
/// records out in order, which are a range of positions.
struct Scope {
  Lifetime lifetime;
  std::uint32_t number;
  std::uint32_t last = 0;   // index + 1 of the latest buffer in the list
  std::uint64_t first = 0;  // position of the first in the range
  CallSite site;            // of the call that opened it
};

/// One submitter's. Records of buffers are given by the caller: records[index] is one.
class Scopes {
 public:
  void reserve(std::size_t count) { scopes_.reserve(count); }

  /// Throws LifetimeError for `persistent`, ValueError for what is no lifetime.
  static void check_open(Lifetime lifetime) {
    if (lifetime == Lifetime::persistent)
      throw LifetimeError("open_scope: persistent buffers belong to no scope");
    if (lifetime > Lifetime::staging)
      throw ValueError(concat("open_scope: ", static_cast<int>(lifetime), " is no lifetime"));
  }
  /// Throws what check_open does, std::bad_alloc.
  Scope& open(Lifetime lifetime, CallSite site) {
    check_open(lifetime);
    if (++number_ == 0) ++number_;
    return scopes_.emplace_back(Scope{lifetime, number_, 0, 0, site});
  }
  /// The innermost one, which is to close: of that lifetime, and the named one, if a name is given.
  /// Throws LifetimeError: no such scope is open; another is open inside it.
  Scope& closing(Lifetime lifetime, ScopeName name) {
    if (!scopes_.empty() && is(scopes_.back(), lifetime, name)) [[likely]]
      return scopes_.back();
    fail_close(lifetime, name);
  }
  /// Calls visit(buffer) for each buffer in a scope's list, the latest first.
  template <class Records, class Visit>
  static void each(Scope const& scope, Records const& records, Visit visit) {
    for (std::uint32_t i = scope.last; i != 0; i = records[i - 1].scope_previous)
      visit(records[i - 1]);
  }
  /// Forgets the innermost one, `scope`, and calls visit(buffer) for each that was in its list, the
  /// latest first, and is in none now.
  template <class Records, class Visit>
  void end(Scope const& scope, Records const& records, Visit visit) {
    std::uint32_t next = scope.last;
    scopes_.pop_back();
    while (next != 0) {
      Buffer& buffer = records[next - 1];
      next = buffer.scope_previous;
      buffer.scope = 0;
      visit(buffer);
    }
  }
  void clear() noexcept { scopes_.clear(); }
  /// Number of the latest that was opened; the next one's is the one behind.
  std::uint32_t number() const noexcept { return number_; }
  void number_behind(std::uint32_t number) noexcept { number_ = number; }

  /// The scope that an allocation belongs to; null for `persistent`. Throws LifetimeError: none is
  /// open.
  Scope* of(Lifetime lifetime) {
    if (lifetime == Lifetime::persistent) return nullptr;
    if (!scopes_.empty() && scopes_.back().lifetime == lifetime) [[likely]]
      return &scopes_.back();
    return outer(lifetime);
  }
  /// Adds a buffer to a scope's list.
  template <class Records>
  static void join(Scope& scope, Buffer& buffer, Records const& records) noexcept {
    buffer.scope = scope.number;
    buffer.scope_previous = scope.last;
    buffer.scope_next = 0;
    if (scope.last != 0) records[scope.last - 1].scope_next = buffer.index + 1;
    scope.last = buffer.index + 1;
  }
  /// Removes a buffer from the list that it is in, if any.
  template <class Records> void leave(Buffer& buffer, Records const& records) noexcept {
    if (buffer.scope == 0) return;
    if (buffer.scope_previous != 0)
      records[buffer.scope_previous - 1].scope_next = buffer.scope_next;
    if (buffer.scope_next != 0)
      records[buffer.scope_next - 1].scope_previous = buffer.scope_previous;
    else
      for (Scope& scope : scopes_)  // not by its number, which a body's later scope may have again
        if (scope.last == buffer.index + 1) scope.last = buffer.scope_previous;
    buffer.scope = 0;
  }
  /// The site that opened the scope whose range holds a position; {} if there is none.
  CallSite site_of(Lifetime lifetime, std::uint64_t position) const noexcept {
    for (std::size_t i = scopes_.size(); i-- > 0;)
      if (scopes_[i].lifetime == lifetime && scopes_[i].first <= position) return scopes_[i].site;
    return {};
  }

 private:
  static bool is(Scope const& scope, Lifetime lifetime, ScopeName name) noexcept {
    return scope.lifetime == lifetime && (name.number == 0 || scope.number == name.number);
  }
  [[gnu::noinline]] Scope* outer(Lifetime lifetime) {
    for (std::size_t i = scopes_.size(); i-- > 0;)
      if (scopes_[i].lifetime == lifetime) return &scopes_[i];
    throw LifetimeError(concat("allocate: no open scope of lifetime ", name_of(lifetime),
                               ": open one, or ask for persistent"));
  }
  [[noreturn, gnu::noinline]] void fail_close(Lifetime lifetime, ScopeName name) const {
    Scope const* asked = nullptr;
    for (Scope const& scope : scopes_)
      if (is(scope, lifetime, name)) asked = &scope;
    if (asked == nullptr && name.number != 0)
      throw LifetimeError(concat("close_scope: the scope of lifetime ", name_of(lifetime),
                                 " has been closed before, or is another runtime's"));
    if (asked == nullptr)
      throw LifetimeError(concat("close_scope: no open scope of lifetime ", name_of(lifetime)));
    throw LifetimeError(concat("close_scope: the scope ", describe(*asked),
                               " cannot close before the one inside it, ", describe(scopes_.back()),
                               ": close scopes in reverse order"));
  }
  /// "of lifetime step (opened at a.cc:12)".
  static std::string describe(Scope const& scope) {
    return concat("of lifetime ", name_of(scope.lifetime), " (opened at ",
                  scope.site.file != nullptr ? scope.site.file : "?", ":", scope.site.line, ")");
  }

  DynamicArray<Scope> scopes_;
  std::uint32_t number_ = 0;
};

}  // namespace nntile::support
