#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Tasks that submit tasks: their bodies, and what these submit into.

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <utility>

#include "nntile/core/error.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/concept.hh"

namespace nntile {

template <class Handle> class Nested;

/// The body of a task that submits: a callable f(Nested<Handle>&), moved to the heap. What it
/// throws fails its task.
template <class Handle> class NestingBody {
 public:
  NestingBody() = default;
  template <class F>
  requires(!std::same_as<F, NestingBody>) && std::invocable<F&, Nested<Handle>&>
  NestingBody(F f)
      : callable_(new F(std::move(f))),
        call_([](void* callable, Nested<Handle>& nested) { (*static_cast<F*>(callable))(nested); }),
        destroy_([](void* callable) noexcept { delete static_cast<F*>(callable); }) {}
  NestingBody(NestingBody&& other) noexcept
      : callable_(std::exchange(other.callable_, nullptr)),
        call_(other.call_),
        destroy_(other.destroy_) {}
  NestingBody& operator=(NestingBody other) noexcept {
    std::swap(callable_, other.callable_);
    std::swap(call_, other.call_);
    std::swap(destroy_, other.destroy_);
    return *this;
  }
  ~NestingBody() {
    if (callable_ != nullptr) destroy_(callable_);
  }
  explicit operator bool() const noexcept { return callable_ != nullptr; }
  /// Calls it once, and destroys it; returns what it threw, "" if it returned.
  std::string run(Nested<Handle>& nested) noexcept {
    try {
      NestingBody const body(std::move(*this));
      return call(body, nested);
    } catch (...) {
      return "no memory";  // for the text; this one needs none
    }
  }

 private:
  static std::string call(NestingBody const& body, Nested<Handle>& nested) {
    try {
      body.call_(body.callable_, nested);
      return {};
    } catch (std::exception const& error) {
      return *error.what() != 0 ? error.what() : "its body threw";
    } catch (...) {
      return "its body threw what is no std::exception";
    }
  }

  void* callable_ = nullptr;
  void (*call_)(void*, Nested<Handle>&) = nullptr;
  void (*destroy_)(void*) noexcept = nullptr;
};

/// One submission of a task that submits. All but the label's string is copied or moved.
template <class Handle> struct NestingTask {
  NestingBody<Handle> body;
  std::span<Use<Handle> const> uses;
  Hints hints = {};
  TaskLabel label = {};
};

/// Gives `orchestrate(f, uses...)` to what submits: Self has submit_nesting(NestingTask&&) ->
/// Event.
template <class Self> struct Orchestrates {
  /// Submits a task whose body f(Nested<Handle>&) submits tasks in its turn, on these buffers or on
  /// its own. It ends when the body has returned and all its tasks have ended; the body need not
  /// wait. Throws what `submit` does.
  template <class F, class... Handles> Event orchestrate(F f, Use<Handles> const&... uses) {
    using Handle = typename Self::Handle;
    Use<Handle> const list[] = {uses..., Use<Handle>{}};
    return static_cast<Self&>(*this).submit_nesting(
        NestingTask<Handle>{NestingBody<Handle>(std::move(f)), {list, sizeof...(uses)}});
  }
};

namespace support {

/// What a runtime implements for each body that submits; pooled, since what names it may outlive
/// the task.
template <class H> class NestedCalls {
 public:
  using Handle = H;

  virtual Handle allocate(std::size_t bytes) = 0;
  virtual void retire(Handle handle) = 0;
  virtual Event submit(Task<Handle> const& task) = 0;
  virtual Event submit_nesting(NestingTask<Handle>&& task) = 0;
  virtual void wait(Event event) = 0;
  virtual bool done(Event event) = 0;
  virtual void wait_all() = 0;
  virtual std::span<std::byte> lock(Handle handle, Access access) = 0;
  virtual void unlock(Handle handle) = 0;

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

/// What the body of a task that submits is given: the calls of a runtime, for tasks that are part
/// of it. A copyable value, for the body's thread, until the body returns; elsewhere, later, and
/// inside its own tasks each call throws LifetimeError.
///
/// Its tasks are ordered among themselves as the runtime's are; others see the outer task alone.
/// They may name what the outer task declared, within its access, by the same handles (`write`
/// makes a buffer unwritten until one of them has written it), and what was allocated here;
/// anything else is refused: LifetimeError names the buffer, ValueError the access.
template <class H> class Nested : public Orchestrates<Nested<H>> {
 public:
  using Handle = H;

  /// `body` is what calls.begin_body() returned.
  Nested(support::NestedCalls<Handle>& calls, std::uint64_t body) noexcept
      : calls_(&calls), body_(body) {}

  /// Host memory, unwritten. It ends when it is retired, or with the outer task.
  Handle allocate(std::size_t bytes) {
    Inside const inside(*this, "allocate");
    return calls_->allocate(bytes);
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
  Event submit_nesting(NestingTask<Handle>&& task) {
    Inside const inside(*this, "orchestrate");
    return calls_->submit_nesting(std::move(task));
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
    support::NestedCalls<Handle>& calls_;
  };
  [[noreturn]] void refuse(char const* call) const {
    bool const over = calls_->body_.load(std::memory_order_relaxed) != body_ ||
                      calls_->thread_.load(std::memory_order_relaxed) == 0;
    if (over)
      throw LifetimeError(concat(call, ": the task that this Nested was given to has returned"));
    if (calls_->thread_.load(std::memory_order_relaxed) != nntile::detail::this_thread())
      throw LifetimeError(concat(call,
                                 ": a Nested is for the thread that runs its task's body; this is "
                                 "another one"));
    throw LifetimeError(concat(call, ": called inside a task that was submitted here, while ",
                               calls_->inside_, " runs it; submit through that task's own Nested"));
  }

  support::NestedCalls<Handle>* calls_;
  std::uint64_t body_;
};

}  // namespace nntile
