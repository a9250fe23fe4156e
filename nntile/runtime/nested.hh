#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The runtime inside a task: the bodies of tasks that submit tasks submit into it. Included by
// nest.hh of each runtime.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "nntile/core/call_site.hh"
#include "nntile/core/error.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/orchestrate.hh"

namespace nntile {

/// One submission of a task that submits. All but the label's string is copied or moved.
template <class Calls> struct NestingTask {
  NestingBody<Calls> body;
  std::span<Use<typename Calls::Handle> const> uses;
  Hints hints = {};
  TaskLabel label = {};
};

namespace support {

/// Base of a runtime's own part of a body: the thread that may call it, and the time. Pooled, since
/// what names it may outlive the task.
class NestedCalls {
 protected:
  NestedCalls() = default;
  NestedCalls(NestedCalls const&) = delete;
  NestedCalls& operator=(NestedCalls const&) = delete;
  ~NestedCalls() = default;

  /// Lets in the calling thread until `end_body`. Returns the number of this body.
  std::uint64_t begin_body() noexcept {
    inside_ = nullptr;
    thread_.store(nntile::detail::this_thread(), std::memory_order_relaxed);
    std::uint64_t const body = body_.load(std::memory_order_relaxed) + 1;
    body_.store(body, std::memory_order_relaxed);
    return body;
  }
  void end_body() noexcept { thread_.store(0, std::memory_order_relaxed); }

 private:
  template <class> friend class nntile::Nested;
  std::atomic<std::uintptr_t> thread_{0};  // that runs the body; 0 when none does
  std::atomic<std::uint64_t> body_{0};
  char const* inside_ = nullptr;  // the call that the body is inside of
};

}  // namespace support

/// Argument of the body of a task that submits: the calls of a runtime, for tasks that are part of
/// it. `Calls` is the runtime's: these calls, and Handle; it derives from support::NestedCalls. A
/// copyable value, for the body's thread, until the body returns; elsewhere, later, and inside its
/// own tasks each call throws LifetimeError.
///
/// Its tasks are ordered among themselves as the runtime's are; others see the outer task alone.
/// They may name what the outer task declared, within its access, by the same handles (`write`
/// makes a buffer unwritten until one of them has written it), and what was allocated here;
/// anything else is refused: LifetimeError names the buffer, ValueError the access. Scopes are the
/// body's own: none of a runtime's or of another body's is open here.
template <class Calls> class Nested : public Orchestrates<Nested<Calls>> {
 public:
  using Handle = typename Calls::Handle;

  /// `body` is what calls.begin_body() returned.
  Nested(Calls& calls, std::uint64_t body) noexcept : calls_(&calls), body_(body) {}

  /// Host memory, unwritten. It ends when it is retired, when its scope closes, or with the outer
  /// task: what is persistent to a body lives as long as its tasks. From then on its handle is
  /// refused, until 4,096 other buffers of bodies have had its place: then it may name such a one.
  /// Throws as a runtime's, for scopes that were opened here: LifetimeError where none of that
  /// lifetime is open.
  Handle allocate(std::size_t bytes, Place place = host, Lifetime lifetime = Lifetime::persistent) {
    Inside const inside(*this, "allocate");
    return calls_->allocate(bytes, place, lifetime);
  }
  /// As a ScopedRuntime's; those that are left open end with the outer task. `site` names the scope
  /// in errors.
  ScopeName open_scope(Lifetime lifetime, CallSite site = CallSite::here()) {
    Inside const inside(*this, "open_scope");
    return calls_->open_scope(lifetime, site);
  }
  void close_scope(Lifetime lifetime, ScopeName name = {}) {
    Inside const inside(*this, "close_scope");
    calls_->close_scope(lifetime, name);
  }
  /// For what was allocated here. Throws LifetimeError for a declared operand.
  void retire(Handle handle) {
    Inside const inside(*this, "retire");
    calls_->retire(handle);
  }
  Event submit(Task<Handle> const& task) {
    Inside const inside(*this, "submit");
    return calls_->submit(task);
  }
  template <class F>
  Event submit_nesting(F f, std::span<Use<Handle> const> uses, Hints const& hints = {},
                       TaskLabel const& label = {}) {
    Inside const inside(*this, "orchestrate");
    return calls_->submit_nesting({NestingBody<Calls>(std::move(f)), uses, hints, label});
  }
  /// Runs tasks of this body, and of theirs, until that one has ended; an event of a task that is
  /// not part of this body is a LifetimeError. Throws OutOfMemory where waits are nested deeper
  /// than the stack allows, as do the other calls that wait: a full window makes `submit` one.
  void wait(Event event) {
    Inside const inside(*this, "wait");
    calls_->wait(event);
  }
  bool done(Event event) {
    Inside const inside(*this, "done");
    return calls_->done(event);
  }
  /// Throws TaskError for the oldest failure here not yet reported, which then fails the outer task
  /// no more: its marks stay.
  void wait_all() {
    Inside const inside(*this, "wait_all");
    calls_->wait_all();
  }
  /// As a runtime's, within the declared access. A lock ends with the outer task.
  std::span<std::byte> lock(Handle handle, Access access) {
    Inside const inside(*this, "lock");
    return calls_->lock(handle, access);
  }
  void unlock(Handle handle) {
    Inside const inside(*this, "unlock");
    calls_->unlock(handle);
  }

 private:
  /// Lives during a call. While one waits, tasks run on its thread, too.
  class Inside {
   public:
    Inside(Nested const& nested, char const* call) : calls_(*nested.calls_) {
      auto const relaxed = std::memory_order_relaxed;
      bool const here = calls_.thread_.load(relaxed) == nntile::detail::this_thread();
      if (!here || calls_.body_.load(relaxed) != nested.body_ || calls_.inside_ != nullptr)
          [[unlikely]]
        nested.refuse(call);
      calls_.inside_ = call;
    }
    Inside(Inside const&) = delete;
    Inside& operator=(Inside const&) = delete;
    ~Inside() { calls_.inside_ = nullptr; }

   private:
    support::NestedCalls& calls_;
  };
  support::NestedCalls& base() const { return *calls_; }
  [[noreturn]] void refuse(char const* call) const {
    bool const over = base().body_.load(std::memory_order_relaxed) != body_ ||
                      base().thread_.load(std::memory_order_relaxed) == 0;
    if (over)
      throw LifetimeError(concat(call, ": the task that this Nested was given to has returned"));
    if (base().thread_.load(std::memory_order_relaxed) != nntile::detail::this_thread())
      throw LifetimeError(concat(call,
                                 ": a Nested is for the thread that runs its task's body; this is "
                                 "another one"));
    throw LifetimeError(concat(call, ": called inside a task that was submitted here, while ",
                               base().inside_, " runs it; submit through that task's own Nested"));
  }

  Calls* calls_;
  std::uint64_t body_;
};

/// An open scope inside a body: as Scope of a runtime.
template <class Calls> class [[nodiscard]] NestedScope {
 public:
  /// Throws LifetimeError for `persistent`.
  NestedScope(Nested<Calls> nested, Lifetime lifetime, CallSite site = CallSite::here())
      : nested_(nested), lifetime_(lifetime), name_(nested_.open_scope(lifetime, site)) {}
  NestedScope(NestedScope&& other) noexcept
      : nested_(other.nested_),
        lifetime_(other.lifetime_),
        name_(other.name_),
        open_(std::exchange(other.open_, false)) {}
  NestedScope& operator=(NestedScope&&) = delete;
  ~NestedScope() {
    try {
      close();
    } catch (...) {  // a buffer in it is locked, or a scope open, or the body has returned
    }
  }

  /// Makes a buffer of the innermost scope of this lifetime.
  typename Calls::Handle allocate(std::size_t bytes) {
    return nested_.allocate(bytes, host, lifetime_);
  }
  /// Retires the buffers, once. Throws LifetimeError while one of them is locked, or a scope is
  /// open that was opened later.
  void close() {
    if (!open_) return;
    nested_.close_scope(lifetime_, name_);
    open_ = false;
  }

 private:
  Nested<Calls> nested_;
  Lifetime lifetime_;
  ScopeName name_;
  bool open_ = true;
};

/// Opens a scope inside a body: auto const step = scope(nested, Lifetime::step).
template <class Calls>
NestedScope<Calls> scope(Nested<Calls> nested, Lifetime lifetime,
                         CallSite site = CallSite::here()) {
  return NestedScope<Calls>(nested, lifetime, site);
}

}  // namespace nntile
