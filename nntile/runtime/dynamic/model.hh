#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A runtime behind virtual calls, and how handles of several types share one.

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/dynamic/task_list.hh"
#include "nntile/runtime/runtime_ref.hh"
#include "nntile/runtime/support/driving_thread.hh"

namespace nntile::detail {

/// The bytes of a handle of one of several types.
template <class... Handles> struct HandleBytes {
  alignas(Handles...) std::byte bytes[std::max({sizeof(Handles)...})]{};
};

/// One handle type for all: their own where they have one in common, bytes otherwise.
template <class First, class... Rest> struct ErasedHandles {
  static constexpr bool same = (std::same_as<First, Rest> && ...);
  using Handle = typename std::conditional_t<same, std::type_identity<First>,
                                             std::type_identity<HandleBytes<First, Rest...>>>::type;

  template <class H> static Handle wrap(H const& handle) {
    if constexpr (same) {
      return handle;
    } else {
      static_assert(std::is_trivially_copyable_v<H>,
                    "Dynamic: handles of different types must be plain bytes");
      Handle erased;
      std::memcpy(erased.bytes, &handle, sizeof(H));
      return erased;
    }
  }
  template <class H> static H unwrap(Handle const& erased) {
    if constexpr (same) {
      return erased;
    } else {
      H handle;
      std::memcpy(&handle, erased.bytes, sizeof(H));
      return handle;
    }
  }
  /// The same handles as a span of their own type; `room` holds them if they must be converted.
  template <class H>
  static std::span<H const> unwrap(std::span<Handle const> erased, std::vector<H>& room) {
    if constexpr (same) {
      return erased;
    } else {
      room.clear();
      for (Handle const& handle : erased) room.push_back(unwrap<H>(handle));
      return room;
    }
  }
};

/// A program of some runtime, type-erased.
struct DynamicProgram {
  virtual ~DynamicProgram() = default;
};

/// A runtime, its type forgotten.
template <class Erased> struct DynamicModel {
  using Handle = typename Erased::Handle;

  virtual ~DynamicModel() = default;
  virtual Handle allocate(std::size_t bytes, Place place, Lifetime lifetime) = 0;
  virtual Handle adopt(std::span<std::byte> bytes, Place place, Release release) = 0;
  virtual Handle adopt_read_only(std::span<std::byte const> bytes, Place place,
                                 Release release) = 0;
  virtual void retire(Handle handle) = 0;
  virtual Event submit(Task<Handle> const& task) = 0;
  virtual void wait(Event event) = 0;
  virtual bool done(Event event) = 0;
  virtual void wait_all() = 0;
  virtual std::span<std::byte> lock(Handle handle, Access access) = 0;
  virtual void unlock(Handle handle) = 0;
  virtual support::DrivingThread::Inside drive(char const* call) = 0;
  virtual support::LinkRef<Handle> link() const = 0;
  virtual bool here() const = 0;
  virtual void wait_and_retire(Handle handle) = 0;
  virtual Workers workers() const = 0;
  virtual std::size_t workspace_bytes() const = 0;
  virtual void open_scope(Lifetime lifetime) = 0;
  virtual void close_scope(Lifetime lifetime) = 0;
  virtual std::unique_ptr<DynamicProgram> record(std::span<ProgramTask const> tasks,
                                                 std::uint32_t binding_count,
                                                 std::span<ProgramParameter const> parameters) = 0;
  virtual Event replay(DynamicProgram const& program, std::span<Handle const> bindings,
                       std::span<std::byte const> block) = 0;
};

/// Forwards to an R.
template <Runtime R, class Erased> class DynamicModelOf final : public DynamicModel<Erased> {
  using Own = typename R::Handle;

 public:
  using Handle = typename Erased::Handle;

  explicit DynamicModelOf(RuntimeOptions const& options)
  requires std::constructible_from<R, RuntimeOptions const&>
      : runtime_(options) {}
  explicit DynamicModelOf(RuntimeOptions const&)
  requires(!std::constructible_from<R, RuntimeOptions const&>) {}

  Handle allocate(std::size_t bytes, Place place, Lifetime lifetime) override {
    return Erased::wrap(runtime_.allocate(bytes, place, lifetime));
  }
  Handle adopt(std::span<std::byte> bytes, Place place, Release release) override {
    return Erased::wrap(runtime_.adopt(bytes, place, release));
  }
  Handle adopt_read_only(std::span<std::byte const> bytes, Place place, Release release) override {
    if constexpr (ReadOnlyRuntime<R>)
      return Erased::wrap(runtime_.adopt(bytes, place, release));
    else
      throw ValueError("adopt: this runtime does not take const bytes; give it a copy");
  }
  void retire(Handle handle) override { runtime_.retire(own(handle)); }
  Event submit(Task<Handle> const& task) override {
    if constexpr (Erased::same) {
      return runtime_.submit(task);
    } else {
      uses_.clear();
      for (auto const& use : task.uses) uses_.push_back({own(use.handle), use.access});
      return runtime_.submit({task.codelet, uses_, task.arguments, task.hints, task.label});
    }
  }
  void wait(Event event) override {
    if (event.runtime != this) return runtime_.wait(event);
    EventRange const range = range_of(event);
    for (std::uint64_t i = 0; i < range.count; ++i)
      runtime_.wait({range.first.runtime, range.first.sequence + i});
  }
  bool done(Event event) override {
    if (event.runtime != this) return runtime_.done(event);
    EventRange const range = range_of(event);
    for (std::uint64_t i = 0; i < range.count; ++i)
      if (!runtime_.done({range.first.runtime, range.first.sequence + i})) return false;
    return true;
  }
  void wait_all() override { runtime_.wait_all(); }
  std::span<std::byte> lock(Handle handle, Access access) override {
    return runtime_.lock(own(handle), access);
  }
  void unlock(Handle handle) override { runtime_.unlock(own(handle)); }
  support::DrivingThread::Inside drive(char const* call) override {
    if constexpr (requires {
                    { runtime_.drive(call) } -> std::same_as<support::DrivingThread::Inside>;
                  })
      return runtime_.drive(call);
    else
      return {};
  }
  /// None where handles are wrapped: then the runtime outlives what is made on it.
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
  void wait_and_retire(Handle handle) override {
    if constexpr (linked) {
      runtime_.wait_and_retire(handle);
    } else {
      (void)runtime_.lock(own(handle), Access::write);
      runtime_.unlock(own(handle));
      runtime_.retire(own(handle));
    }
  }
  Workers workers() const override { return runtime_.workers(); }
  std::size_t workspace_bytes() const override { return lent_workspace_bytes(runtime_); }

  void open_scope(Lifetime lifetime) override {
    if constexpr (ScopedRuntime<R>) runtime_.open_scope(lifetime);
  }
  void close_scope(Lifetime lifetime) override {
    if constexpr (ScopedRuntime<R>) runtime_.close_scope(lifetime);
  }

  std::unique_ptr<DynamicProgram> record(std::span<ProgramTask const> tasks,
                                         std::uint32_t binding_count,
                                         std::span<ProgramParameter const> parameters) override {
    if constexpr (ReplayingRuntime<R>)
      return std::make_unique<Replayed>(runtime_.record(tasks, binding_count, parameters));
    else if (tasks.size() >= most_tasks)
      throw ValueError(
          concat("record: ", tasks.size(), " tasks where ", most_tasks - 1, " are possible"));
    else
      return std::make_unique<Listed>(TaskList(tasks, binding_count, parameters));
  }
  Event replay(DynamicProgram const& program, std::span<Handle const> bindings,
               std::span<std::byte const> block) override {
    std::span<Own const> const bound = Erased::template unwrap<Own>(bindings, bindings_);
    static_assert(ReplayingRuntime<R> || std::has_unique_object_representations_v<Own>,
                  "Dynamic: handles of a runtime without replay must be comparable as bytes");
    if constexpr (ReplayingRuntime<R>) {
      auto const* const replayed = dynamic_cast<Replayed const*>(&program);
      if (replayed == nullptr)
        throw ValueError("replay: the program was recorded on another runtime");
      return runtime_.replay(replayed->program, bound, block);
    } else {
      auto const* const listed = dynamic_cast<Listed const*>(&program);
      if (listed == nullptr)
        throw ValueError("replay: the program was recorded on another runtime");
      listed->list.check(bound, block);
      EventRange const range = listed->list.submit(runtime_, bound, block);
      sequences_of_.store(range.first.runtime, std::memory_order_relaxed);
      return {this, range.first.sequence << count_bits | range.count};
    }
  }

 private:
  static constexpr bool linked = Erased::same && LinkedRuntime<R>;

  // An event of a program packs the first sequence and their number: runtimes number tasks 1, 2, 3.
  static constexpr unsigned count_bits = 24;
  static constexpr std::uint64_t most_tasks = (std::uint64_t{1} << count_bits) - 1;

  struct Listed final : DynamicProgram {
    explicit Listed(TaskList&& tasks) : list(static_cast<TaskList&&>(tasks)) {}
    TaskList list;
  };
  struct Replayed final : DynamicProgram {
    using Program = program_t<R>;
    explicit Replayed(Program&& recorded) : program(static_cast<Program&&>(recorded)) {}
    Program program;
  };

  static Own own(Handle const& handle) { return Erased::template unwrap<Own>(handle); }
  EventRange range_of(Event event) const {
    return {{sequences_of_.load(std::memory_order_relaxed), event.sequence >> count_bits},
            event.sequence & most_tasks};
  }

  std::vector<Use<Own>> uses_;
  std::vector<Own> bindings_;
  std::atomic<void const*> sequences_of_{nullptr};  // the runtime in the events of runtime_
  R runtime_;
};

}  // namespace nntile::detail
