#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Tasks that submit tasks, as far as programs without them pay for it: their bodies, and the calls
// that submit them. What these do is in nest.hh of the runtime's folder.

#include <concepts>
#include <cstddef>
#include <exception>
#include <span>
#include <string>
#include <utility>

#include "nntile/runtime/concept.hh"

namespace nntile {

template <class Calls> class Nested;
template <class Calls> struct NestingTask;

/// Customisation by which an R runs tasks that submit: `Calls`, into which their bodies submit, and
/// submit(R&, NestingTask<Calls>&&) -> Event. Specialized by nest.hh of the runtime's folder, which
/// a program that nests includes.
template <class R> struct Nesting {
  static_assert(sizeof(R) == 0,
                "orchestrate: include nest.hh of the runtime's folder, as "
                "nntile/runtime/ring/nest.hh");
};

/// Argument of the body of a task of R that submits.
template <class R> using nested_t = Nested<typename Nesting<R>::Calls>;

/// The body of a task that submits: a callable f(Nested<Calls>&), moved to the heap. What it
/// throws fails its task.
template <class Calls> class NestingBody {
 public:
  NestingBody() = default;
  template <class F>
  requires(!std::same_as<F, NestingBody>)
  NestingBody(F f)
      : callable_(new F(std::move(f))),
        call_([](void* callable, Nested<Calls>& nested) {
          if constexpr (std::invocable<F&, Nested<Calls>&>)
            (*static_cast<F*>(callable))(nested);
          else
            static_assert(sizeof(F) == 0,
                          "orchestrate: the body of the task stands first, a callable as "
                          "[](auto& nested) { nested.submit(...); }");
        }),
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
  std::string run(Nested<Calls>& nested) noexcept {
    try {
      NestingBody const body(std::move(*this));
      return call(body, nested);
    } catch (...) {
      return "no memory";  // for the text; this one needs none
    }
  }

 private:
  static std::string call(NestingBody const& body, Nested<Calls>& nested) {
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
  void (*call_)(void*, Nested<Calls>&) = nullptr;
  void (*destroy_)(void*) noexcept = nullptr;
};

/// Gives `orchestrate(f, uses...)` to a runtime, and the same with hints and a label.
template <class Self> struct Orchestrates {
  /// Submits a task whose body f(nested) submits tasks in its turn, on these buffers or on its own;
  /// f takes `auto&`, or nested_t<Self>&. It ends when the body has returned and all its tasks have
  /// ended; the body need not wait. Throws what `submit` does.
  template <class F, class... Handles> Event orchestrate(F f, Use<Handles> const&... uses) {
    using Handle = typename Self::Handle;
    Use<Handle> const list[] = {uses..., Use<Handle>{}};
    return static_cast<Self&>(*this).submit_nesting(
        std::move(f), std::span<Use<Handle> const>(list, sizeof...(uses)));
  }
  template <class F, class S = Self>
  Event submit_nesting(F f, std::span<Use<typename S::Handle> const> uses, Hints const& hints = {},
                       TaskLabel const& label = {}) {
    using Calls = typename Nesting<S>::Calls;
    return Nesting<S>::submit(
        static_cast<S&>(*this),
        NestingTask<Calls>{NestingBody<Calls>(std::move(f)), uses, hints, label});
  }
};

}  // namespace nntile
