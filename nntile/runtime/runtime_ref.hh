#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// References of tiles, stores, views and tasks to their runtime, which may end before them.

#include <string>
#include <type_traits>
#include <utility>

#include "nntile/core/error.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/link.hh"

namespace nntile {

/// Notifies the objects made on it of its end, and takes back from any thread the handles that its
/// driver is to retire or unlock: link(), a support::LinkRef, which may be empty; here(), whether
/// the calling thread is the driver, and inside no task; wait_and_retire(handle), which waits for
/// the handle's tasks, so that adopted memory may go.
template <class R>
concept LinkedRuntime = Runtime<R> && requires(R& runtime, typename R::Handle handle) {
  { runtime.link() } -> std::convertible_to<support::LinkRef<typename R::Handle>>;
  { runtime.here() } -> std::same_as<bool>;
  runtime.wait_and_retire(handle);
};

namespace detail {

/// Waits for a buffer's tasks and retires it, so that adopted memory may go, by what the runtime
/// has. No lock waits for the readers of memory that is only read: then all tasks are waited for.
template <Runtime R> void wait_and_retire(R& runtime, typename R::Handle handle) {
  if constexpr (requires { runtime.wait_and_retire(handle); }) {
    runtime.wait_and_retire(handle);
  } else {
    try {
      (void)runtime.lock(handle, Access::write);
      runtime.unlock(handle);
    } catch (ValueError const&) {
      runtime.wait_all();
    }
    runtime.retire(handle);
  }
}

}  // namespace detail

/// A runtime, or none. Where it models LinkedRuntime, its end is noticed, and nothing here that is
/// for destructors throws or depends on the thread; elsewhere the runtime outlives it. Cost: a
/// count up and down for each copy, a load for each use.
template <RequiredRuntime R> class RuntimeRef {
 public:
  using Handle = typename R::Handle;

  RuntimeRef() = default;
  explicit RuntimeRef(R& runtime) : runtime_(&runtime) {
    if constexpr (LinkedRuntime<R>) link_ = runtime.link();
  }
  RuntimeRef(RuntimeRef const&) = default;
  RuntimeRef& operator=(RuntimeRef const&) = default;
  RuntimeRef(RuntimeRef&& other) noexcept
      : runtime_(std::exchange(other.runtime_, nullptr)), link_(std::move(other.link_)) {}
  RuntimeRef& operator=(RuntimeRef&& other) noexcept {
    if (this == &other) return *this;
    runtime_ = std::exchange(other.runtime_, nullptr);
    link_ = std::move(other.link_);
    return *this;
  }

  /// Whether there is one, alive or not.
  explicit operator bool() const noexcept { return runtime_ != nullptr; }
  bool alive() const noexcept {
    if constexpr (LinkedRuntime<R>)
      if (link_ && !link_->alive()) return false;
    return runtime_ != nullptr;
  }
  /// Throws LifetimeError, in the words of its owner, when the runtime has ended or is no more
  /// referred to: get("tile", "a").
  R& get(char const* kind, char const* name = nullptr) const {
    if (!alive()) [[unlikely]]
      fail(kind, name);
    return *runtime_;
  }

  /// For destructors: retires the handle, at once on the driving thread, and otherwise by that
  /// thread, at its next call; when it is locked, with the end of the lock.
  void retire(Handle const& handle) const noexcept {
    let_go(handle, false, [&] { runtime_->retire(handle); });
  }
  /// The same, for the end of a lock.
  void unlock(Handle const& handle) const noexcept {
    let_go(handle, true, [&] { runtime_->unlock(handle); });
  }
  /// The same, but waits for the handle's tasks: a call that drives, on any thread, which waits for
  /// its turn. Inside a task nothing can be waited for: as `retire`.
  void wait_and_retire(Handle const& handle) const noexcept {
    bool const waited = in_turn([&] { detail::wait_and_retire(*runtime_, handle); });
    if (!waited) retire(handle);
  }
  /// Leaves a name to the tasks before; without a link it ends here.
  void keep(support::NameText&& name) const noexcept {
    if constexpr (LinkedRuntime<R>)
      if (link_) link_->keep(std::move(name));
  }
  /// Waits for a task likewise; wait_all reports its failure.
  void wait(Event event) const noexcept {
    (void)in_turn([&] { runtime_->wait(event); });
  }

 private:
  /// Calls call(), which drives, when no other thread does; false if it throws anything else, or
  /// cannot be called here. True where there is no runtime any more.
  template <class Call> bool in_turn(Call&& call) const noexcept {
    while (alive()) {
      Turn const turn(*this);
      if (!turn.alive) return true;
      try {
        if (turn.nested()) return false;
        call();
        return true;
      } catch (support::DrivenElsewhere const&) {
        detail::sleep_ns(50'000);
      } catch (...) {
        return false;
      }
    }
    return true;
  }
  /// Holds the end of the runtime off, where that can be.
  struct Turn {
    explicit Turn(RuntimeRef const& of) noexcept : ref(of) {
      if constexpr (LinkedRuntime<R>)
        if (of.link_) alive = of.link_->pin();
    }
    Turn(Turn const&) = delete;
    Turn& operator=(Turn const&) = delete;
    ~Turn() {
      if constexpr (LinkedRuntime<R>)
        if (ref.link_ && alive) ref.link_->unpin();
    }
    bool nested() const noexcept {
      if constexpr (LinkedRuntime<R>) return ref.link_ && ref.is_here() && !ref.runtime_->here();
      return false;
    }
    RuntimeRef const& ref;
    bool alive = true;
  };
  bool is_here() const noexcept
  requires LinkedRuntime<R> {
    return !link_ || link_->driver().load(std::memory_order_relaxed) == detail::this_thread();
  }

  template <class Now> void let_go(Handle const& handle, bool unlock, Now&& now) const noexcept {
    if (!alive()) return;
    if constexpr (LinkedRuntime<R>) {
      // The runtime does not end under its driver; others touch the link alone.
      bool const here =
          !link_ || link_->driver().load(std::memory_order_relaxed) == detail::this_thread();
      if (link_ && !(here && runtime_->here())) return link_->drop(handle, unlock);
    }
    try {
      now();
    } catch (...) {  // locked, or another thread has come meanwhile
      if constexpr (LinkedRuntime<R>)
        if (link_) link_->drop(handle, unlock);
    }
  }

  [[noreturn]] void fail(char const* kind, char const* name) const {
    std::string const who = name != nullptr ? concat(kind, " '", name, "'") : std::string(kind);
    if (runtime_ == nullptr)
      throw LifetimeError(concat(who, " was moved from: it has no buffer and no runtime any more"));
    throw LifetimeError(concat(who,
                               ": its runtime has ended; declare the runtime before what is "
                               "made on it, so that it ends after it"));
  }

  struct NoLink {
    explicit operator bool() const noexcept { return false; }
  };
  template <class Self> struct LinkOf {
    using type = NoLink;
  };
  template <LinkedRuntime Self> struct LinkOf<Self> {
    using type = support::LinkRef<Handle>;
  };

  R* runtime_ = nullptr;
  typename LinkOf<R>::type link_;
};

}  // namespace nntile
