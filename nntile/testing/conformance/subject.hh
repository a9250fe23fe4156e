#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A runtime behind virtual calls, so that the battery is compiled once and not once for each
// runtime.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/runtime/concept.hh"

namespace nntile::testing {

/// The runtime under test; itself a Runtime, whose handles are numbers.
class Subject {
 public:
  struct Handle {
    std::uint32_t number = 0;
  };

  virtual ~Subject() = default;
  virtual Handle allocate(std::size_t bytes, Place place, Lifetime lifetime) = 0;
  virtual Handle adopt(std::span<std::byte> bytes, Place place, Release release) = 0;
  virtual void retire(Handle handle) = 0;
  virtual Event submit(Task<Handle> const& task) = 0;
  virtual void wait(Event event) = 0;
  virtual bool done(Event event) = 0;
  virtual void wait_all() = 0;
  virtual std::span<std::byte> lock(Handle handle, Access access) = 0;
  virtual void unlock(Handle handle) = 0;
  virtual Workers workers() const = 0;
  virtual std::size_t workspace_bytes() const = 0;

  /// What `other`, a runtime of the same type, calls that handle, under a number here: a foreign
  /// handle.
  virtual Handle borrow(Subject& other, Handle handle) = 0;

  /// Whether the runtime models ReplayingRuntime; programs are numbers.
  virtual bool replays() const = 0;
  virtual std::size_t record(std::span<ProgramTask const> tasks, std::uint32_t bindings,
                             std::span<ProgramParameter const> parameters) = 0;
  virtual Event replay(std::size_t program, std::span<Handle const> bindings,
                       std::span<std::byte const> block) = 0;

  virtual bool has_scopes() const = 0;
  virtual void open_scope(Lifetime lifetime) = 0;
  virtual void close_scope(Lifetime lifetime) = 0;

  /// Notes that the next calls belong to that step of that program.
  virtual void at(std::uint64_t /*program*/, std::size_t /*step*/) {}
};
static_assert(Runtime<Subject>);

namespace detail {

/// Forwards to the runtime that `make` builds. Arguments that the law has a call copy are
/// overwritten as soon as it returns.
template <Runtime R> class SubjectOf final : public Subject {
 public:
  template <class Make>
  SubjectOf(Make& make, RuntimeOptions const& options) : runtime_(make(options)) {}

  Handle allocate(std::size_t bytes, Place place, Lifetime lifetime) override {
    return add(runtime_.allocate(bytes, place, lifetime));
  }
  Handle adopt(std::span<std::byte> bytes, Place place, Release release) override {
    return add(runtime_.adopt(bytes, place, release));
  }
  void retire(Handle handle) override { runtime_.retire(handles_[handle.number]); }

  Event submit(Task<Handle> const& task) override {
    std::vector<Use<typename R::Handle>>
        uses;  // no member: a task of another thread may be here too
    for (auto const& use : task.uses) uses.push_back({handles_[use.handle.number], use.access});
    std::vector<std::byte> arguments(task.arguments.begin(), task.arguments.end());
    Event const event = runtime_.submit(
        Task<typename R::Handle>{task.codelet, uses, arguments, task.hints, task.label});
    for (auto& use : uses) use = {uses.back().handle, Access::read};
    spoil(arguments);
    return event;
  }
  void wait(Event event) override { runtime_.wait(event); }
  bool done(Event event) override { return runtime_.done(event); }
  void wait_all() override { runtime_.wait_all(); }
  std::span<std::byte> lock(Handle handle, Access access) override {
    return runtime_.lock(handles_[handle.number], access);
  }
  void unlock(Handle handle) override { runtime_.unlock(handles_[handle.number]); }
  Workers workers() const override { return runtime_.workers(); }
  std::size_t workspace_bytes() const override { return lent_workspace_bytes(runtime_); }

  Handle borrow(Subject& other, Handle handle) override {
    return add(static_cast<SubjectOf&>(other).handles_[handle.number]);
  }

  bool replays() const override { return ReplayingRuntime<R>; }
  std::size_t record(std::span<ProgramTask const> tasks, std::uint32_t bindings,
                     std::span<ProgramParameter const> parameters) override {
    if constexpr (ReplayingRuntime<R>)
      programs_.push_back(std::make_unique<Program>(runtime_.record(tasks, bindings, parameters)));
    return programs_.size() - 1;
  }
  Event replay(std::size_t program, std::span<Handle const> bindings,
               std::span<std::byte const> block) override {
    if constexpr (ReplayingRuntime<R>) {
      std::vector<typename R::Handle> bound;
      for (Handle const handle : bindings) bound.push_back(handles_[handle.number]);
      std::vector<std::byte> parameters(block.begin(), block.end());
      Event const event = runtime_.replay(*programs_[program], bound, parameters);
      for (auto& one : bound) one = bound.back();
      spoil(parameters);
      return event;
    } else {
      return {};
    }
  }

  bool has_scopes() const override { return ScopedRuntime<R>; }
  void open_scope(Lifetime lifetime) override {
    if constexpr (ScopedRuntime<R>) runtime_.open_scope(lifetime);
  }
  void close_scope(Lifetime lifetime) override {
    if constexpr (ScopedRuntime<R>) runtime_.close_scope(lifetime);
  }

 private:
  using Program = program_t<R>;

  Handle add(typename R::Handle handle) {
    handles_.push_back(handle);
    return {static_cast<std::uint32_t>(handles_.size() - 1)};
  }
  static void spoil(std::vector<std::byte>& bytes) {
    std::fill(bytes.begin(), bytes.end(), std::byte{0xa5});
  }

  std::vector<typename R::Handle> handles_;
  std::vector<std::unique_ptr<Program>> programs_;
  R runtime_;  // last: its destructor waits for tasks while the rest still stands
};

}  // namespace detail

}  // namespace nntile::testing
