#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A recorded program for a runtime that cannot replay: copies of its tasks, submitted one by one.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <type_traits>
#include <vector>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/error.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/support/recording.hh"
#include "nntile/runtime/unsubmitted.hh"

namespace nntile::detail {

/// The events of tasks that were submitted one after another, from the first to the last: those
/// between them too that a runtime numbers for itself.
struct EventRange {
  Event first;
  std::uint64_t count = 0;
};

/// A recorded program, whose tasks are submitted one by one.
class TaskList {
 public:
  /// Tasks that `submit` puts before those of the program.
  static constexpr std::uint64_t begin_tasks = 2;

  /// Throws ValueError for a binding, task or byte range that is out of bounds.
  TaskList(std::span<ProgramTask const> tasks, std::uint32_t binding_count,
           std::span<ProgramParameter const> parameters)
      : recording_(tasks, binding_count, parameters) {}

  /// Throws ValueError when the table or the block is too short, or two bindings that are used name
  /// one buffer.
  template <class Handle>
  requires std::has_unique_object_representations_v<Handle>
  void check(std::span<Handle const> bindings, std::span<std::byte const> block) const {
    support::check_replay(&recording_, bindings.size(), block.size());
    std::vector<std::size_t> order;  // of those that are used
    for (Use<Binding> const& use : recording_.binding_uses) order.push_back(use.handle);
    auto const compare = [&](std::size_t a, std::size_t b) {
      return std::memcmp(&bindings[a], &bindings[b], sizeof(Handle));
    };
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return compare(a, b) < 0; });
    for (std::size_t i = 1; i < order.size(); ++i)
      if (compare(order[i - 1], order[i]) == 0) support::fail_aliased(order[i - 1], order[i]);
  }

  /// Submits every task, with arguments patched from the parameters. Before them go two that do
  /// nothing with all bindings, so that a binding which is refused changes nothing. When a later
  /// submission throws, what it and the ones after it should have written is marked.
  template <Runtime R>
  EventRange submit(R& runtime, std::span<typename R::Handle const> bindings,
                    std::span<std::byte const> block) const {
    // Takes its memory here: behind the first tasks what is written counts as written.
    DynamicArray<std::byte> patched;
    if (!recording_.patches.empty()) patched = recording_.arguments;
    recording_.patch(patched.data(), block);
    std::byte const* const arguments =
        patched.empty() ? recording_.arguments.data() : patched.data();
    std::vector<Use<typename R::Handle>> uses;
    uses.reserve(std::max(recording_.binding_uses.size(), std::size_t{recording_.most_uses}));
    Event const first = begin(false, runtime, bindings, uses);
    Event last = begin(true, runtime, bindings, uses);
    for (std::size_t task = 0; task < recording_.steps.size(); ++task) {
      Step const& step = recording_.steps[task];
      uses.clear();
      for (Use<Binding> const& use : recording_.uses_of(step))
        uses.push_back({bindings[use.handle], use.access});
      try {
        last = runtime.submit({step.codelet,
                               uses,
                               {arguments + step.arguments, step.argument_bytes},
                               step.hints,
                               step.label});
      } catch (std::exception const& error) {
        mark_from(task, runtime, bindings, error.what());
        throw;
      }
    }
    return {first, last.sequence - first.sequence + 1};
  }

 private:
  using Step = support::Recording::Step;

  static Status do_nothing(KernelCall const&) noexcept { return {}; }
  static constexpr Codelet begin_codelet{"replay", &do_nothing, nullptr, nullptr};

  /// Submits one that does nothing with the bindings that are only read, or with the others. Marks
  /// cancel the former alone, which writes nothing: so neither leaves any that no task would.
  template <Runtime R>
  Event begin(bool written, R& runtime, std::span<typename R::Handle const> bindings,
              std::vector<Use<typename R::Handle>>& uses) const {
    uses.clear();
    for (auto const& [binding, access] : recording_.binding_uses)
      if (writes(access) == written)
        uses.push_back({bindings[binding], access == Access::update ? Access::accumulate : access});
    return runtime.submit({&begin_codelet, uses, {}, {}, {}});
  }

  template <Runtime R>
  void mark_from(std::size_t task, R& runtime, std::span<typename R::Handle const> bindings,
                 char const* cause) const noexcept {
    for (; task < recording_.steps.size(); ++task)
      for (Use<Binding> const& use : recording_.uses_of(recording_.steps[task]))
        if (writes(use.access))
          mark_unsubmitted(runtime, bindings[use.handle], cause, recording_.steps[task].label);
  }

  support::Recording recording_;
};

}  // namespace nntile::detail
