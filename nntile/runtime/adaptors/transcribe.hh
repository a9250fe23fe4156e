#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// An adaptor that writes down a run, so that it can be repeated elsewhere.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "nntile/runtime/archetype.hh"
#include "nntile/runtime/transcript.hh"

namespace nntile {

/// Keeps the law of R and a transcript of every call that went well, and of waits. Copies what is
/// adopted, and what a lock for writing leaves. Does not replay, so that every task is seen. What
/// else writes to adopted memory is not seen.
template <Runtime R> class Transcribe {
 public:
  struct Handle {
    typename R::Handle inner;
    std::uint32_t number;
  };
  static constexpr bool heeds_hints = HintedRuntime<R>;

  /// Builds the runtime from the arguments.
  template <class... Arguments>
  requires std::constructible_from<R, Arguments...>
  explicit Transcribe(Arguments&&... arguments)
      : runtime_(static_cast<Arguments&&>(arguments)...) {}
  Transcribe(Transcribe const&) = delete;
  Transcribe& operator=(Transcribe const&) = delete;

  R& inner() noexcept { return runtime_; }
  Transcript const& transcript() const { return transcript_; }

  Handle allocate(std::size_t bytes, Place place = host, Lifetime lifetime = Lifetime::persistent) {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "allocate");
    Handle const handle{runtime_.allocate(bytes, place, lifetime), buffers_};
    note({.kind = Kind::allocate, .buffer = buffers_++, .bytes = bytes, .lifetime = lifetime});
    return handle;
  }
  Handle adopt(std::span<std::byte> bytes, Place place = host, Release release = {}) {
    return adopt_any(bytes, place, release);
  }
  template <std::same_as<std::byte const> Byte, std::size_t count>
  Handle adopt(std::span<Byte, count> bytes, Place place = host, Release release = {})
  requires ReadOnlyRuntime<R> {
    return adopt_any(std::span<std::byte const>(bytes), place, release);
  }
  void retire(Handle handle) {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "retire");
    runtime_.retire(handle.inner);
    note({.kind = Kind::retire, .buffer = handle.number});
  }

  Event submit(Task<Handle> const& task) {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "submit");
    uses_.clear();
    Call call{.kind = Kind::submit,
              .codelet = task.codelet,
              .arguments = {task.arguments.begin(), task.arguments.end()},
              .hints = task.hints,
              .tensor = task.label.tensor != nullptr ? task.label.tensor : "",
              .tile = task.label.tile};
    for (auto const& use : task.uses) {
      uses_.push_back({use.handle.inner, use.access});
      call.uses.push_back({use.handle.number, use.access});
    }
    Event const event = runtime_.submit({task.codelet,
                                         uses_,
                                         task.arguments,
                                         task.hints,
                                         {kept(call.tensor), task.label.tile},
                                         task.cost});
    sequences_.push_back(event.sequence);
    note(static_cast<Call&&>(call));
    return event;
  }
  void wait(Event event) {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "wait");
    auto const at = std::lower_bound(sequences_.begin(), sequences_.end(), event.sequence);
    if (event.runtime == &runtime_ && at != sequences_.end() && *at == event.sequence)
      note({.kind = Kind::wait, .task = static_cast<std::uint32_t>(at - sequences_.begin())});
    runtime_.wait(event);
  }
  bool done(Event event) { return runtime_.done(event); }
  void wait_all() {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "wait_all");
    note({.kind = Kind::wait_all});
    runtime_.wait_all();
  }

  std::span<std::byte> lock(Handle handle, Access access) {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "lock");
    auto const bytes = runtime_.lock(handle.inner, access);
    locked_.push_back({handle.number, access, bytes});
    return bytes;
  }
  void unlock(Handle handle) {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "unlock");
    auto const at = std::find_if(locked_.begin(), locked_.end(),
                                 [&](Locked const& l) { return l.buffer == handle.number; });
    bool const changes = at != locked_.end() && writes(at->access);
    Call call{.kind = changes ? Kind::write : Kind::read, .buffer = handle.number};
    if (changes) call.contents.assign(at->bytes.begin(), at->bytes.end());
    runtime_.unlock(handle.inner);
    if (at != locked_.end()) locked_.erase(at);
    note(static_cast<Call&&>(call));
  }

  ScopeName open_scope(Lifetime lifetime, CallSite site = CallSite::here())
  requires ScopedRuntime<R> {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "open_scope");
    ScopeName const name = detail::open_scope(runtime_, lifetime, site);
    note({.kind = Kind::open_scope, .lifetime = lifetime});
    return name;
  }
  void close_scope(Lifetime lifetime, ScopeName name = {})
  requires ScopedRuntime<R> {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "close_scope");
    detail::close_scope(runtime_, lifetime, name);
    note({.kind = Kind::close_scope, .lifetime = lifetime});
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

 private:
  using Call = TranscribedCall;
  using Kind = Call::Kind;
  struct Locked {
    std::uint32_t buffer;
    Access access;
    std::span<std::byte> bytes;
  };

  template <class Byte> Handle adopt_any(std::span<Byte> bytes, Place place, Release release) {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "adopt");
    Handle const handle{runtime_.adopt(bytes, place, release), buffers_};
    note({.kind = Kind::adopt,
          .buffer = buffers_++,
          .read_only = std::is_const_v<Byte>,
          .contents = {bytes.begin(), bytes.end()}});
    return handle;
  }
  /// A string that lives as long as the runtime: a task may fail after the tile that it names has
  /// ended.
  char const* kept(std::string const& name) {
    if (name.empty()) return nullptr;
    auto const at = std::lower_bound(names_.begin(), names_.end(), name,
                                     [](auto const& known, auto const& n) { return *known < n; });
    if (at != names_.end() && **at == name) return (*at)->c_str();
    return (*names_.insert(at, std::make_unique<std::string>(name)))->c_str();
  }
  void note(Call call) { transcript_.calls.push_back(static_cast<Call&&>(call)); }

  std::vector<std::unique_ptr<std::string>> names_;  // ascending
  R runtime_;
  Transcript transcript_;
  std::uint32_t buffers_ = 0;
  std::vector<std::uint64_t> sequences_;  // of the tasks, ascending
  std::vector<Use<typename R::Handle>> uses_;
  std::vector<Locked> locked_;
};
static_assert(Runtime<Transcribe<RuntimeArchetype>>);

}  // namespace nntile
