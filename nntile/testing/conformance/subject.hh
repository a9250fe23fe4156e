#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A runtime behind virtual calls, so that the battery is compiled once and not once for each
// runtime.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "nntile/runtime/concept.hh"
#include "nntile/runtime/dynamic/facade.hh"
#include "nntile/runtime/regions.hh"
#include "nntile/testing/conformance/nested_subject.hh"

namespace nntile::testing {

/// A handle of any runtime: its number among those that the runtime gave.
struct NumberedHandle {
  std::uint32_t number = 0;
};

/// The runtime under test, itself a Runtime.
class Subject : public Facade<NumberedHandle> {
 public:
  /// Gives the handle of `other`, a runtime of the same type, a number here: a foreign handle.
  virtual Handle borrow(Subject& other, Handle handle) = 0;
  virtual bool replays() const = 0;
  virtual bool has_scopes() const = 0;
  virtual bool nests() const = 0;
  virtual bool has_regions() const = 0;
  virtual Handle region(Handle, Region const&) { return {}; }
  virtual Handle find(void const*) { return {}; }
  virtual Handle region_at(void const*, Region const&) { return {}; }
  /// Whether both name one buffer, or region, of the runtime.
  virtual bool same(Handle, Handle) const { return false; }
  virtual bool pauses() const = 0;
  virtual void pause() {}
  virtual void resume() {}
  using Calls = NestedFacade<NumberedHandle>;
  virtual Event submit_body(NestingTask<Calls>&& task) = 0;
  template <class F>
  Event submit_nesting(F f, std::span<Use<Handle> const> uses, Hints const& hints = {},
                       TaskLabel const& label = {}) {
    return submit_body({NestingBody<Calls>(std::move(f)), uses, hints, label});
  }
  /// Notes that the next calls belong to that step of that program.
  virtual void at(std::uint64_t /*program*/, std::size_t /*step*/) {}
};
static_assert(Runtime<Subject>);

namespace detail {

template <class Own> struct NumberedHandles {
  using Handle = NumberedHandle;

  Handle wrap(Own const& handle) {
    given.push_back(handle);
    return {static_cast<std::uint32_t>(given.size() - 1)};
  }
  Own const& own(Handle handle) const { return given[handle.number]; }

  std::vector<Own> given;
};

/// Forwards to a runtime. Arguments that the law has a call copy are overwritten as soon as it
/// returns.
template <Runtime R>
class SubjectOf final : public FacadeOf<R, NumberedHandles<typename R::Handle>, Subject> {
  using Base = FacadeOf<R, NumberedHandles<typename R::Handle>, Subject>;
  using typename Base::Own;

 public:
  using typename Base::Handle;
  using typename Base::Program;

  template <class Make>
  SubjectOf(Make& make, RuntimeOptions const& options) : Base([&] { return make(options); }) {}

  Event submit(Task<Handle> const& task) override {
    std::vector<Use<Own>> uses;  // no member: a task of another thread may be here too
    for (auto const& use : task.uses) uses.push_back({this->own(use.handle), use.access});
    std::vector<std::byte> arguments(task.arguments.begin(), task.arguments.end());
    Event const event =
        this->runtime_.submit(Task<Own>{task.codelet, uses, arguments, task.hints, task.label});
    for (auto& use : uses) use = {uses.back().handle, Access::read};
    spoil(arguments);
    return event;
  }
  Event replay(Program const& program, std::span<Handle const> bindings,
               std::span<std::byte const> block) override {
    std::vector<Own> bound;
    for (Handle const handle : bindings) bound.push_back(this->own(handle));
    std::vector<std::byte> parameters(block.begin(), block.end());
    Event const event = Base::replay_own(program, bound, parameters);
    for (auto& one : bound) one = bound.back();
    spoil(parameters);
    return event;
  }
  Event submit_body(NestingTask<Subject::Calls>&& task) override {
    if constexpr (NestingRuntime<R>) {
      std::vector<std::pair<Handle, Own>> names;
      std::vector<Use<Own>> uses;
      for (auto const& use : task.uses) {
        names.push_back({use.handle, this->own(use.handle)});
        uses.push_back({names.back().second, use.access});
      }
      return this->runtime_.submit_nesting(
          [body = std::move(task.body), names = std::move(names)](auto& nested) mutable {
            using N = std::remove_reference_t<decltype(nested)>;
            RenamedNest<N, Handle>::run(nested, body, std::move(names));
          },
          std::span<Use<Own> const>(uses), task.hints, task.label);
    } else {
      throw ValueError("orchestrate: tasks of this runtime do not submit tasks");
    }
  }
  Handle borrow(Subject& other, Handle handle) override {
    return this->handles_.wrap(static_cast<SubjectOf&>(other).own(handle));
  }
  bool replays() const override { return ReplayingRuntime<R>; }
  bool has_scopes() const override { return ScopedRuntime<R>; }
  bool nests() const override { return NestingRuntime<R>; }
  bool has_regions() const override { return RegionRuntime<R>; }
  Handle region(Handle handle, Region const& region) override {
    if constexpr (RegionRuntime<R>)
      return this->handles_.wrap(this->runtime_.region(this->own(handle), region));
    else
      return Subject::region(handle, region);
  }
  Handle find(void const* address) override {
    if constexpr (RegionRuntime<R>)
      return this->handles_.wrap(this->runtime_.find(address));
    else
      return Subject::find(address);
  }
  Handle region_at(void const* address, Region const& region) override {
    if constexpr (RegionRuntime<R>)
      return this->handles_.wrap(this->runtime_.region_at(address, region));
    else
      return Subject::region_at(address, region);
  }
  bool same(Handle a, Handle b) const override {
    if constexpr (RegionRuntime<R>)
      return this->handles_.own(a) == this->handles_.own(b);
    else
      return Subject::same(a, b);
  }
  bool pauses() const override { return PausingRuntime<R>; }
  void pause() override {
    if constexpr (PausingRuntime<R>) this->runtime_.pause();
  }
  void resume() override {
    if constexpr (PausingRuntime<R>) this->runtime_.resume();
  }

 private:
  static void spoil(std::vector<std::byte>& bytes) {
    std::fill(bytes.begin(), bytes.end(), std::byte{0xa5});
  }
};

}  // namespace detail

}  // namespace nntile::testing
