#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Base of adaptors: an inner runtime, and every call forwarded to it.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "nntile/core/call_site.hh"
#include "nntile/core/region.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/runtime_ref.hh"

namespace nntile {

/// Owns an R and models what it models. An adaptor derives from it and hides what it changes.
template <Runtime R> class Forward {
 public:
  using Handle = typename R::Handle;
  using Program = program_t<R>;
  static constexpr bool heeds_hints = HintedRuntime<R>;
  static constexpr bool coherent = CoherentRuntime<R>;
  static constexpr bool reads_costs = CostedRuntime<R>;

  /// Builds the runtime from the arguments.
  template <class... Arguments>
  requires std::constructible_from<R, Arguments...>
  explicit Forward(Arguments&&... arguments) : runtime_(static_cast<Arguments&&>(arguments)...) {}
  Forward(Forward const&) = delete;
  Forward& operator=(Forward const&) = delete;

  /// The runtime underneath.
  R& inner() noexcept { return runtime_; }

  Handle allocate(std::size_t bytes, Place place = host, Lifetime lifetime = Lifetime::persistent) {
    return runtime_.allocate(bytes, place, lifetime);
  }
  Handle adopt(std::span<std::byte> bytes, Place place = host, Release release = {}) {
    return runtime_.adopt(bytes, place, release);
  }
  template <std::same_as<std::byte const> Byte, std::size_t count>
  Handle adopt(std::span<Byte, count> bytes, Place place = host, Release release = {})
  requires ReadOnlyRuntime<R> {
    return runtime_.adopt(bytes, place, release);
  }
  void retire(Handle handle) { runtime_.retire(handle); }
  Event submit(Task<Handle> const& task) { return runtime_.submit(task); }
  void wait(Event event) { runtime_.wait(event); }
  bool done(Event event) { return runtime_.done(event); }
  void wait_all() { runtime_.wait_all(); }
  std::span<std::byte> lock(Handle handle, Access access) { return runtime_.lock(handle, access); }
  void unlock(Handle handle) { runtime_.unlock(handle); }
  void discard(Handle handle)
  requires DiscardingRuntime<R> {
    runtime_.discard(handle);
  }
  auto drive(char const* call)
  requires DrivenRuntime<R> {
    return runtime_.drive(call);
  }
  auto link() const
  requires LinkedRuntime<R> {
    return runtime_.link();
  }
  bool here() const
  requires LinkedRuntime<R> {
    return runtime_.here();
  }
  void wait_and_retire(Handle handle)
  requires requires(R& inner) { inner.wait_and_retire(handle); } {
    runtime_.wait_and_retire(handle);
  }
  Workers workers() const { return runtime_.workers(); }
  std::size_t workspace_bytes() const
  requires LendingRuntime<R> {
    return runtime_.workspace_bytes();
  }

  auto& device() noexcept
  requires requires(R& inner) { inner.device(); } {
    return runtime_.device();
  }

  Handle region(Handle handle, Region const& part)
  requires requires(R& inner) { inner.region(handle, part); } {
    return runtime_.region(handle, part);
  }
  Handle find(void const* address)
  requires requires(R& inner) { inner.find(address); } {
    return runtime_.find(address);
  }
  Handle region_at(void const* address, Region const& part)
  requires requires(R& inner) { inner.region_at(address, part); } {
    return runtime_.region_at(address, part);
  }
  void pause()
  requires PausingRuntime<R> {
    runtime_.pause();
  }
  void resume()
  requires PausingRuntime<R> {
    runtime_.resume();
  }
  bool paused() const
  requires PausingRuntime<R> {
    return runtime_.paused();
  }

  ScopeName open_scope(Lifetime lifetime, CallSite site = CallSite::here())
  requires ScopedRuntime<R> {
    return detail::open_scope(runtime_, lifetime, site);
  }
  void close_scope(Lifetime lifetime, ScopeName name = {})
  requires ScopedRuntime<R> {
    detail::close_scope(runtime_, lifetime, name);
  }

  Program record(std::span<ProgramTask const> tasks, std::uint32_t binding_count,
                 std::span<ProgramParameter const> parameters)
  requires ReplayingRuntime<R> {
    return runtime_.record(tasks, binding_count, parameters);
  }
  Event replay(Program const& program, std::span<Handle const> bindings,
               std::span<std::byte const> block)
  requires ReplayingRuntime<R> {
    return runtime_.replay(program, bindings, block);
  }

  /// As Orchestrates has it; the body is given the calls of the inner runtime.
  template <class F, class... Handles>
  Event orchestrate(F f, Use<Handles> const&... uses)
  requires NestingRuntime<R> {
    return runtime_.orchestrate(std::move(f), uses...);
  }
  template <class F>
  Event submit_nesting(F f, std::span<Use<Handle> const> uses, Hints const& hints = {},
                       TaskLabel const& label = {})
  requires NestingRuntime<R> {
    return runtime_.submit_nesting(std::move(f), uses, hints, label);
  }

 private:
  R runtime_;
};

}  // namespace nntile
