#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A runtime whose type is forgotten, each call behind an indirect one.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/runtime_ref.hh"
#include "nntile/runtime/support/driving_thread.hh"

namespace nntile {

/// A recorded program of some runtime.
struct FacadeProgram {
  virtual ~FacadeProgram() = default;
};

/// Some runtime. `H` stands for its handles. What the runtime need not have is as defined here.
template <class H> class Facade {
 public:
  using Handle = H;
  using Program = std::unique_ptr<FacadeProgram>;

  virtual ~Facade() = default;
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

  virtual Handle adopt_read_only(std::span<std::byte const>, Place, Release) {
    throw ValueError("adopt: this runtime does not take const bytes; give it a copy");
  }
  virtual ScopeName open_scope(Lifetime, CallSite = {}) { return {}; }
  virtual void close_scope(Lifetime, ScopeName = {}) {}
  virtual support::DrivingThread::Inside drive(char const*) { return {}; }
  /// None: the runtime outlives what is made on it.
  virtual support::LinkRef<Handle> link() const { return {}; }
  virtual bool here() const { return true; }
  virtual void wait_and_retire(Handle handle) {
    (void)lock(handle, Access::write);
    unlock(handle);
    retire(handle);
  }
  virtual void discard(Handle) {}
  virtual Program record(std::span<ProgramTask const>, std::uint32_t,
                         std::span<ProgramParameter const>) {
    throw ValueError("record: this runtime does not replay programs");
  }
  virtual Event replay(Program const&, std::span<Handle const>, std::span<std::byte const>) {
    throw ValueError("replay: this runtime does not replay programs");
  }
};

/// Forwards to an R. `Handles` converts handles: wrap(own), and own(handle) back. `Base` is
/// Facade<Handles::Handle>, or derives from it.
template <Runtime R, class Handles, class Base = Facade<typename Handles::Handle>>
class FacadeOf : public Base {
 protected:
  using Own = typename R::Handle;

 public:
  using typename Base::Handle;
  using typename Base::Program;

  /// The runtime is what make() returns.
  template <class Make> explicit FacadeOf(Make&& make) : runtime_(make()) {}

  R& runtime() { return runtime_; }

  Handle allocate(std::size_t bytes, Place place, Lifetime lifetime) override {
    return handles_.wrap(runtime_.allocate(bytes, place, lifetime));
  }
  Handle adopt(std::span<std::byte> bytes, Place place, Release release) override {
    return handles_.wrap(runtime_.adopt(bytes, place, release));
  }
  Handle adopt_read_only(std::span<std::byte const> bytes, Place place, Release release) override {
    if constexpr (ReadOnlyRuntime<R>)
      return handles_.wrap(runtime_.adopt(bytes, place, release));
    else
      return Base::adopt_read_only(bytes, place, release);
  }
  void retire(Handle handle) override { runtime_.retire(own(handle)); }
  Event submit(Task<Handle> const& task) override {
    if constexpr (same) {
      return runtime_.submit(task);
    } else {
      std::vector<Use<Own>> uses;
      for (auto const& use : task.uses) uses.push_back({own(use.handle), use.access});
      return runtime_.submit(
          {task.codelet, uses, task.arguments, task.hints, task.label, task.cost});
    }
  }
  void wait(Event event) override { runtime_.wait(event); }
  bool done(Event event) override { return runtime_.done(event); }
  void wait_all() override { runtime_.wait_all(); }
  std::span<std::byte> lock(Handle handle, Access access) override {
    return runtime_.lock(own(handle), access);
  }
  void unlock(Handle handle) override { runtime_.unlock(own(handle)); }
  Workers workers() const override { return runtime_.workers(); }
  std::size_t workspace_bytes() const override { return lent_workspace_bytes(runtime_); }

  ScopeName open_scope(Lifetime lifetime, CallSite site) override {
    if constexpr (ScopedRuntime<R>) return detail::open_scope(runtime_, lifetime, site);
    return {};
  }
  void close_scope(Lifetime lifetime, ScopeName name) override {
    if constexpr (ScopedRuntime<R>) detail::close_scope(runtime_, lifetime, name);
  }
  void discard(Handle handle) override {
    if constexpr (DiscardingRuntime<R>) runtime_.discard(own(handle));
  }
  support::DrivingThread::Inside drive(char const* call) override {
    if constexpr (requires {
                    { runtime_.drive(call) } -> std::same_as<support::DrivingThread::Inside>;
                  })
      return runtime_.drive(call);
    else
      return {};
  }
  support::LinkRef<Handle> link() const override {
    if constexpr (linked)
      return runtime_.link();
    else
      return {};
  }
  bool here() const override {
    if constexpr (linked)
      return runtime_.here();
    else
      return true;
  }
  void wait_and_retire(Handle handle) override { detail::wait_and_retire(runtime_, own(handle)); }

  Program record(std::span<ProgramTask const> tasks, std::uint32_t binding_count,
                 std::span<ProgramParameter const> parameters) override {
    if constexpr (ReplayingRuntime<R>)
      return std::make_unique<Recorded>(runtime_.record(tasks, binding_count, parameters));
    else
      return Base::record(tasks, binding_count, parameters);
  }
  Event replay(Program const& program, std::span<Handle const> bindings,
               std::span<std::byte const> block) override {
    std::vector<Own> room;
    return replay_own(program, own(bindings, room), block);
  }

 protected:
  static constexpr bool same = std::same_as<Own, Handle>;

  Event replay_own(Program const& program, std::span<Own const> bindings,
                   std::span<std::byte const> block) {
    if constexpr (ReplayingRuntime<R>)
      return runtime_.replay(recorded<Recorded>(program).program, bindings, block);
    else
      return Base::replay(program, {}, block);
  }

  /// The program as what this facade made of it. Throws ValueError for another's.
  template <class P> static P const& recorded(Program const& program) {
    auto const* const own = dynamic_cast<P const*>(program.get());
    if (own == nullptr)
      throw ValueError("replay: the program was recorded on another runtime, or is none");
    return *own;
  }
  Own own(Handle const& handle) const { return handles_.own(handle); }
  /// `room` holds them if they must be converted.
  std::span<Own const> own(std::span<Handle const> handles, std::vector<Own>& room) const {
    if constexpr (same) {
      return handles;
    } else {
      for (Handle const& handle : handles) room.push_back(own(handle));
      return room;
    }
  }

  Handles handles_;

 private:
  static constexpr bool linked = same && LinkedRuntime<R>;

  struct Recorded final : FacadeProgram {
    using P = program_t<R>;
    explicit Recorded(P&& recorded) : program(static_cast<P&&>(recorded)) {}
    P program;
  };

 protected:
  R runtime_;  // last: its destructor waits for tasks while the rest still stands
};

}  // namespace nntile
