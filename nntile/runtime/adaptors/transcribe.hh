#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// An adaptor that writes down a run, so that it can be repeated elsewhere.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "nntile/runtime/adaptors/transcribed_calls.hh"
#include "nntile/runtime/archetype.hh"
#include "nntile/runtime/orchestrate.hh"
#include "nntile/runtime/regions.hh"
#include "nntile/runtime/runtime_ref.hh"
#include "nntile/runtime/transcript.hh"

namespace nntile {

namespace detail {

struct OrchestratesNot {};
template <class R, class Self>
using orchestrates_as = std::conditional_t<NestingRuntime<R>, Orchestrates<Self>, OrchestratesNot>;

}  // namespace detail

/// Keeps the law of R and a transcript of every call that went well, and of waits. Copies what is
/// adopted, and what a lock for writing leaves. Does not replay, so that every task is seen. What
/// else writes to adopted memory is not seen, nor what a body does beside its calls. Makes regions
/// of handles, not of addresses.
template <Runtime R> class Transcribe : public detail::orchestrates_as<R, Transcribe<R>> {
 public:
  using Handle = detail::TranscribedHandle<typename R::Handle>;
  static constexpr bool heeds_hints = HintedRuntime<R>;

  /// Builds the runtime from the arguments.
  template <class... Arguments>
  requires std::constructible_from<R, Arguments...>
  explicit Transcribe(Arguments&&... arguments)
      : runtime_(static_cast<Arguments&&>(arguments)...) {}
  Transcribe(Transcribe const&) = delete;
  Transcribe& operator=(Transcribe const&) = delete;

  R& inner() noexcept { return runtime_; }
  /// All calls so far. Throws LifetimeError while a task that submits has not ended.
  Transcript transcript() {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "transcript");
    std::size_t open = 0;
    for (auto const& outer : calls_.outers()) open += !runtime_.done(outer.event);
    if (open != 0)
      throw LifetimeError(
          concat("transcript: ", open, " tasks that submit have not ended: wait for them first"));
    return detail::joined(calls_);
  }

  Handle allocate(std::size_t bytes, Place place = host, Lifetime lifetime = Lifetime::persistent) {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "allocate");
    return calls_.note_made({.kind = Kind::allocate, .bytes = bytes, .lifetime = lifetime},
                            [&] { return runtime_.allocate(bytes, place, lifetime); });
  }
  Handle adopt(std::span<std::byte> bytes, Place place = host, Release release = {}) {
    return adopt_any(bytes, place, release);
  }
  template <std::same_as<std::byte const> Byte, std::size_t count>
  Handle adopt(std::span<Byte, count> bytes, Place place = host, Release release = {})
  requires ReadOnlyRuntime<R> {
    return adopt_any(std::span<std::byte const>(bytes), place, release);
  }
  /// As RegionRuntime has it.
  Handle region(Handle handle, Region const& part)
  requires RegionRuntime<R> {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "region");
    return calls_.note_made({.kind = Kind::region, .of = handle.number, .region = part},
                            [&] { return runtime_.region(handle.inner, part); });
  }
  void retire(Handle handle) {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "retire");
    calls_.retire(runtime_, handle);
  }

  void wait_and_retire(Handle handle) {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "wait_and_retire");
    calls_.make_room();
    detail::wait_and_retire(runtime_, handle.inner);
    calls_.note({.kind = Kind::retire, .buffer = handle.number});
  }

  Event submit(Task<Handle> const& task) {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "submit");
    return calls_.submit(runtime_, task);
  }
  void wait(Event event) {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "wait");
    calls_.wait(runtime_, event);
  }
  bool done(Event event) { return runtime_.done(event); }
  void wait_all() {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "wait_all");
    calls_.wait_all(runtime_);
  }

  std::span<std::byte> lock(Handle handle, Access access) {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "lock");
    return calls_.lock(runtime_, handle, access);
  }
  void unlock(Handle handle) {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "unlock");
    calls_.unlock(runtime_, handle);
  }

  ScopeName open_scope(Lifetime lifetime, CallSite site = CallSite::here())
  requires ScopedRuntime<R> {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "open_scope");
    calls_.make_room();
    ScopeName const name = detail::open_scope(runtime_, lifetime, site);
    calls_.note({.kind = Kind::open_scope, .lifetime = lifetime});
    return name;
  }
  void close_scope(Lifetime lifetime, ScopeName name = {})
  requires ScopedRuntime<R> {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "close_scope");
    calls_.make_room();
    detail::close_scope(runtime_, lifetime, name);
    calls_.note({.kind = Kind::close_scope, .lifetime = lifetime});
  }

  void discard(Handle handle)
  requires DiscardingRuntime<R> {
    runtime_.discard(handle.inner);
  }
  auto drive(char const* call)
  requires DrivenRuntime<R> {
    return runtime_.drive(call);
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

 private:
  using Call = TranscribedCall;
  using Kind = Call::Kind;
  friend struct Nesting<Transcribe>;

  template <class Byte> Handle adopt_any(std::span<Byte> bytes, Place place, Release release) {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "adopt");
    if (!host_reaches(place))
      throw ValueError(concat("adopt: a transcript has copies of what is adopted, and the host ",
                              "cannot follow memory of ", to_string(place),
                              ": allocate it there, and copy to it by a task of copy_codelet"));
    Call call{.kind = Kind::adopt, .read_only = std::is_const_v<Byte>};
    call.contents.resize(bytes.size());
    std::byte* const copy = call.contents.data();
    return calls_.note_made(std::move(call), [&] {
      auto const handle = runtime_.adopt(bytes, place, release);
      if (!bytes.empty()) std::memcpy(copy, bytes.data(), bytes.size());
      return handle;
    });
  }

  // First: bodies may run until the runtime has ended.
  detail::TranscribedRun<typename R::Handle> run_;
  detail::TranscribedCalls<typename R::Handle> calls_{run_};
  R runtime_;
};
static_assert(Runtime<Transcribe<RuntimeArchetype>>);

/// Makes it a NestingRuntime where R is one.
template <class R> struct Nesting<Transcribe<R>> {
  using Calls = detail::TranscribedBody<typename R::Handle>;
  static Event submit(Transcribe<R>& runtime, NestingTask<Calls>&& task) {
    [[maybe_unused]] auto const inside = detail::drive(runtime.runtime_, "orchestrate");
    return runtime.calls_.submit_nesting(task, [&](auto& body, auto uses, TaskLabel const& label) {
      return detail::submit_transcribed(runtime.runtime_, body, std::move(task), uses, label);
    });
  }
};

}  // namespace nntile
