#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Handles of several types as one type, and programs on a runtime that cannot replay.

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/runtime/dynamic/facade.hh"
#include "nntile/runtime/dynamic/task_list.hh"

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

  /// Converts the handles of one of them.
  template <class Own> struct Of {
    using Handle = typename ErasedHandles::Handle;

    static Handle wrap(Own const& handle) {
      if constexpr (same) {
        return handle;
      } else {
        static_assert(std::is_trivially_copyable_v<Own>,
                      "Dynamic: handles of different types must be plain bytes");
        Handle erased;
        std::memcpy(erased.bytes, &handle, sizeof(Own));
        return erased;
      }
    }
    static Own own(Handle const& erased) {
      if constexpr (same) {
        return erased;
      } else {
        Own handle;
        std::memcpy(&handle, erased.bytes, sizeof(Own));
        return handle;
      }
    }
  };
};

/// A runtime that cannot replay: the tasks of a program are submitted one by one, and one event
/// stands for them all.
template <Runtime R, class Handles> class ListingFacade final : public FacadeOf<R, Handles> {
  using Base = FacadeOf<R, Handles>;
  static_assert(std::has_unique_object_representations_v<typename Base::Own>,
                "Dynamic: handles of a runtime without replay must be comparable as bytes");

 public:
  using Base::Base;
  using typename Base::Handle;
  using typename Base::Program;

  void wait(Event event) override {
    if (event.runtime != this) return Base::wait(event);
    EventRange const range = range_of(event);
    std::exception_ptr failed;  // the first; the tasks behind it are waited for all the same
    for (std::uint64_t i = 0; i < range.count; ++i) try {
        Base::wait({range.first.runtime, range.first.sequence + i});
      } catch (TaskError const&) {
        if (!failed) failed = std::current_exception();
      }
    if (failed) std::rethrow_exception(failed);
  }
  bool done(Event event) override {
    if (event.runtime != this) return Base::done(event);
    EventRange const range = range_of(event);
    for (std::uint64_t i = 0; i < range.count; ++i)
      if (!Base::done({range.first.runtime, range.first.sequence + i})) return false;
    return true;
  }
  Program record(std::span<ProgramTask const> tasks, std::uint32_t binding_count,
                 std::span<ProgramParameter const> parameters) override {
    if (tasks.size() > most_tasks - TaskList::begin_tasks)
      throw ValueError(concat("record: ", tasks.size(), " tasks where ",
                              most_tasks - TaskList::begin_tasks, " are possible"));
    return std::make_unique<Listed>(TaskList(tasks, binding_count, parameters));
  }
  Event replay(Program const& program, std::span<Handle const> bindings,
               std::span<std::byte const> block) override {
    auto const inside = Base::drive("replay");  // no other thread submits among its tasks
    TaskList const& list = Base::template recorded<Listed>(program).list;
    std::vector<typename Base::Own> room;
    auto const bound = this->own(bindings, room);
    list.check(bound, block);
    EventRange const range = list.submit(this->runtime_, bound, block);
    if (range.count > most_tasks || range.first.sequence > UINT64_MAX >> count_bits)
      throw ValueError(concat(
          "replay: the runtime has numbered tasks from ", range.first.sequence, " on, ",
          range.count, " of them, and an event here holds numbers up to ", UINT64_MAX >> count_bits,
          ", ", most_tasks, " of them: let it number tasks from 1 on, one by one"));
    sequences_of_.store(range.first.runtime, std::memory_order_relaxed);
    return {this, range.first.sequence << count_bits | range.count};
  }

 private:
  // An event of a program packs the first sequence and the number of them: runtimes number tasks
  // upwards from 1 or so, and perhaps some of their own between them.
  static constexpr unsigned count_bits = 24;
  static constexpr std::uint64_t most_tasks = (std::uint64_t{1} << count_bits) - 1;

  struct Listed final : FacadeProgram {
    explicit Listed(TaskList&& tasks) : list(static_cast<TaskList&&>(tasks)) {}
    TaskList list;
  };

  EventRange range_of(Event event) const {
    return {{sequences_of_.load(std::memory_order_relaxed), event.sequence >> count_bits},
            event.sequence & most_tasks};
  }

  std::atomic<void const*> sequences_of_{nullptr};  // the runtime in the events of runtime_
};

}  // namespace nntile::detail
