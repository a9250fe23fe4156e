#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// An adaptor that counts and logs what is asked of a runtime.

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nntile/runtime/adaptors/forward.hh"
#include "nntile/runtime/archetype.hh"
#include "nntile/runtime/orchestrate.hh"

namespace nntile {

/// Counts of a runtime's calls. `done` is not counted: any thread may ask.
struct CallCounts {
  std::uint64_t allocates = 0;
  std::uint64_t adopts = 0;
  std::uint64_t retires = 0;
  std::uint64_t submits = 0;
  std::uint64_t records = 0;
  std::uint64_t replays = 0;
  std::uint64_t waits = 0;
  std::uint64_t wait_alls = 0;
  std::uint64_t locks = 0;

  bool operator==(CallCounts const&) const = default;
};

/// One call that orders tasks, in the order of the calls, or a task of a program.
struct LoggedCall {
  enum class Kind : std::uint8_t { submit, replay, wait, wait_all, lock };
  Kind kind;
  std::uint64_t sequence = 0;        // submit, replay, wait
  Codelet const* codelet = nullptr;  // submit; null of a task that submits
  std::string tensor{};              // submit: the label's, "" where it has none
  std::int64_t tile = -1;
  std::uint32_t operands = 0;    // submit; replay: bindings
  Access access = Access::read;  // lock
  Hints hints{};                 // submit

  bool operator==(LoggedCall const&) const = default;
};

/// Keeps the law of R. Calls that throw are neither counted nor logged, but for waits.
template <Runtime R> class Record : public Forward<R> {
  using Base = Forward<R>;
  using Kind = LoggedCall::Kind;

 public:
  using Handle = typename Base::Handle;
  using Program = typename Base::Program;
  using Base::Base;

  CallCounts const& counts() const { return counts_; }
  std::vector<LoggedCall> const& log() const { return log_; }
  /// The tasks of programs, in the order in which they were recorded.
  std::vector<LoggedCall> const& recorded() const { return recorded_; }
  /// Forgets what was counted and logged.
  void clear() {
    counts_ = {};
    log_.clear();
    recorded_.clear();
  }

  Handle allocate(std::size_t bytes, Place place = host, Lifetime lifetime = Lifetime::persistent) {
    [[maybe_unused]] auto const inside = detail::drive(this->inner(), "allocate");
    Handle const handle = Base::allocate(bytes, place, lifetime);
    ++counts_.allocates;
    return handle;
  }
  Handle adopt(std::span<std::byte> bytes, Place place = host, Release release = {}) {
    [[maybe_unused]] auto const inside = detail::drive(this->inner(), "adopt");
    Handle const handle = Base::adopt(bytes, place, release);
    ++counts_.adopts;
    return handle;
  }
  template <std::same_as<std::byte const> Byte, std::size_t count>
  Handle adopt(std::span<Byte, count> bytes, Place place = host, Release release = {})
  requires ReadOnlyRuntime<R> {
    [[maybe_unused]] auto const inside = detail::drive(this->inner(), "adopt");
    Handle const handle = Base::adopt(bytes, place, release);
    ++counts_.adopts;
    return handle;
  }
  void retire(Handle handle) {
    [[maybe_unused]] auto const inside = detail::drive(this->inner(), "retire");
    Base::retire(handle);
    ++counts_.retires;
  }
  void wait_and_retire(Handle handle)
  requires requires(R& inner) { inner.wait_and_retire(handle); } {
    [[maybe_unused]] auto const inside = detail::drive(this->inner(), "wait_and_retire");
    Base::wait_and_retire(handle);
    ++counts_.retires;
  }
  Event submit(Task<Handle> const& task) {
    [[maybe_unused]] auto const inside = detail::drive(this->inner(), "submit");
    LoggedCall call = logged(task, 0);
    make_room();
    Event const event = Base::submit(task);
    ++counts_.submits;
    call.sequence = event.sequence;
    log_.push_back(std::move(call));
    return event;
  }
  /// Counts and logs the task that submits, not those that its body submits.
  template <class F, class... Handles>
  Event orchestrate(F f, Use<Handles> const&... uses)
  requires NestingRuntime<R> {
    Use<Handle> const list[] = {uses..., Use<Handle>{}};
    return submit_nesting(std::move(f), std::span<Use<Handle> const>(list, sizeof...(uses)));
  }
  template <class F>
  Event submit_nesting(F f, std::span<Use<Handle> const> uses, Hints const& hints = {},
                       TaskLabel const& label = {})
  requires NestingRuntime<R> {
    [[maybe_unused]] auto const inside = detail::drive(this->inner(), "orchestrate");
    LoggedCall call = logged(Task<Handle>{nullptr, uses, {}, hints, label}, 0);
    make_room();
    Event const event = Base::submit_nesting(std::move(f), uses, hints, label);
    ++counts_.submits;
    call.sequence = event.sequence;
    log_.push_back(std::move(call));
    return event;
  }
  void wait(Event event) {
    [[maybe_unused]] auto const inside = detail::drive(this->inner(), "wait");
    log_.push_back({Kind::wait, event.sequence});
    ++counts_.waits;
    Base::wait(event);
  }
  void wait_all() {
    [[maybe_unused]] auto const inside = detail::drive(this->inner(), "wait_all");
    log_.push_back({Kind::wait_all});
    ++counts_.wait_alls;
    Base::wait_all();
  }
  std::span<std::byte> lock(Handle handle, Access access) {
    [[maybe_unused]] auto const inside = detail::drive(this->inner(), "lock");
    make_room();
    auto const bytes = Base::lock(handle, access);
    ++counts_.locks;
    log_.push_back({.kind = Kind::lock, .access = access});
    return bytes;
  }
  Program record(std::span<ProgramTask const> tasks, std::uint32_t binding_count,
                 std::span<ProgramParameter const> parameters)
  requires ReplayingRuntime<R> {
    [[maybe_unused]] auto const inside = detail::drive(this->inner(), "record");
    std::vector<LoggedCall> calls;
    for (ProgramTask const& task : tasks) calls.push_back(logged(task, 0));
    recorded_.reserve(recorded_.size() + calls.size());
    Program program = Base::record(tasks, binding_count, parameters);
    ++counts_.records;
    for (LoggedCall& call : calls) recorded_.push_back(std::move(call));
    return program;
  }
  Event replay(Program const& program, std::span<Handle const> bindings,
               std::span<std::byte const> block)
  requires ReplayingRuntime<R> {
    [[maybe_unused]] auto const inside = detail::drive(this->inner(), "replay");
    make_room();
    Event const event = Base::replay(program, bindings, block);
    ++counts_.replays;
    log_.push_back({.kind = Kind::replay,
                    .sequence = event.sequence,
                    .operands = static_cast<std::uint32_t>(bindings.size())});
    return event;
  }

 private:
  /// Before a call, which is not made twice for want of memory to log it.
  void make_room() {
    if (log_.size() == log_.capacity()) log_.reserve(2 * log_.size() + 16);
  }
  template <class Any> static LoggedCall logged(Task<Any> const& task, std::uint64_t sequence) {
    return {Kind::submit,    sequence,
            task.codelet,    task.label.tensor != nullptr ? task.label.tensor : "",
            task.label.tile, static_cast<std::uint32_t>(task.uses.size()),
            Access::read,    task.hints};
  }

  CallCounts counts_;
  std::vector<LoggedCall> log_;
  std::vector<LoggedCall> recorded_;
};
static_assert(Runtime<Record<RuntimeArchetype>>);

/// For bodies, which are given the calls of R.
template <class R> struct Nesting<Record<R>> {
  using Calls = typename Nesting<R>::Calls;
};

}  // namespace nntile
