#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The common part of recorded programs: checks of a recording, its access to each binding as a
// whole, its parameters; and a copy of its tasks in flat arrays.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/error.hh"
#include "nntile/runtime/support/buffer_state.hh"
#include "nntile/runtime/support/failures.hh"

namespace nntile::support {

/// "record: task 3, gelu of tensor 'h1', tile 0: ".
inline std::string recorded_name(std::span<ProgramTask const> tasks, std::size_t number) {
  ProgramTask const& task = tasks[number];
  return concat("record: task ", number, ", ", task_name(task.codelet, task.label, 0), ": ");
}

/// Throws ValueError for a task without an entry for a CPU worker or that needs more workspace than
/// is lent.
inline std::span<ProgramTask const> check_entries(std::span<ProgramTask const> tasks) {
  for (std::size_t number = 0; number < tasks.size(); ++number) {
    Codelet const* const codelet = tasks[number].codelet;
    if (codelet == nullptr || !codelet->runs_on_cpu())
      throw ValueError(concat(recorded_name(tasks, number), "no entry for a CPU worker"));
    if (codelet->workspace > max_workspace_bytes)
      throw ValueError(concat(recorded_name(tasks, number), "needs ", codelet->workspace,
                              " bytes of workspace where ", max_workspace_bytes, " are lent"));
  }
  return tasks;
}

/// Throws ValueError for a binding that is out of bounds, or whose access is none.
inline void check_bindings(std::span<ProgramTask const> tasks, std::uint32_t binding_count) {
  if (tasks.size() >= 1u << 29 || binding_count >= 1u << 29)
    throw ValueError(concat("record: ", tasks.size(), " tasks, ", binding_count,
                            " bindings, where fewer than 2^29 of each are possible"));
  for (std::size_t number = 0; number < tasks.size(); ++number)
    for (Use<Binding> const& use : tasks[number].uses) {
      if (use.handle >= binding_count)
        throw ValueError(concat(recorded_name(tasks, number), "uses binding ", use.handle, " of ",
                                binding_count));
      if (!is_access(use.access))
        check_access(use.access, concat(recorded_name(tasks, number), "binding ", use.handle));
    }
}

/// Returns the bytes of a parameter block. Throws ValueError for a parameter that is out of bounds.
inline std::size_t check_parameters(std::span<ProgramTask const> tasks,
                                    std::span<ProgramParameter const> parameters) {
  std::size_t bytes = 0;
  for (ProgramParameter const& parameter : parameters) {
    if (parameter.task >= tasks.size())
      throw ValueError(
          concat("record: a parameter of task ", parameter.task, " of ", tasks.size()));
    std::size_t const end = std::size_t{parameter.argument_offset} + parameter.bytes;
    std::size_t const size = tasks[parameter.task].arguments.size();
    if (end > size)
      throw ValueError(concat("record: a parameter ends at byte ", end, " of the ", size,
                              " argument bytes of task ", parameter.task));
    bytes = std::max(bytes, std::size_t{parameter.parameter_offset} + parameter.bytes);
  }
  return bytes;
}

/// The access of a program to each binding that it uses, as a whole, in the order of the first
/// uses: `read` first and written later is an update; written first, a write. Of accesses that may
/// be reordered it is the first, and the program as a whole is ordered as a writer. Throws
/// std::bad_alloc.
inline DynamicArray<Use<Binding>> binding_uses(std::span<ProgramTask const> tasks,
                                               std::uint32_t binding_count) {
  constexpr std::uint32_t none = ~0u;
  DynamicArray<Use<Binding>> uses;
  DynamicArray<std::uint32_t> first_task, place(binding_count, none);
  for (std::uint32_t t = 0; t < tasks.size(); ++t)
    for (Use<Binding> const& use : tasks[t].uses) {
      std::uint32_t& at = place[use.handle];
      if (at == none) {
        at = static_cast<std::uint32_t>(uses.size());
        uses.push_back(use);
        first_task.push_back(t);
        continue;
      }
      Access& whole = uses[at].access;
      if (whole == Access::read && writes(use.access)) whole = Access::update;
      // The task that writes it first reads it as well.
      if (!reads(whole) && reads(use.access) && first_task[at] == t) whole = Access::update;
    }
  return uses;
}

/// The destination of a parameter among argument bytes.
struct Patch {
  std::size_t to;
  std::uint32_t from;
  std::uint32_t bytes;
};

/// A checked recording, in whatever form a runtime keeps its tasks.
struct Recorded {
  DynamicArray<Use<Binding>> binding_uses;  // of the program as a whole
  std::uint32_t binding_count = 0;
  std::size_t parameter_bytes = 0;
  DynamicArray<Patch> patches;
  DynamicArray<std::size_t> binding_bytes;  // of each binding; none: buffers of any size
  bool asynchronous = false;                // some task ends by a token

  Recorded() = default;
  /// Leaves `patches` empty. Throws ValueError for a binding or a parameter that is out of bounds,
  /// and for what is no access.
  Recorded(std::span<ProgramTask const> tasks, std::uint32_t bindings,
           std::span<ProgramParameter const> parameters)
      : binding_count(bindings) {
    check_bindings(tasks, bindings);
    parameter_bytes = check_parameters(tasks, parameters);
    binding_uses = support::binding_uses(tasks, bindings);
    for (ProgramTask const& task : tasks)
      asynchronous = asynchronous || task.codelet == nullptr || task.codelet->cpu == nullptr;
  }

  /// Fills `patches`; arguments_at(task) is where the arguments of that task begin.
  template <class ArgumentsAt>
  void place_parameters(std::span<ProgramParameter const> parameters, ArgumentsAt arguments_at) {
    for (ProgramParameter const& parameter : parameters)
      patches.push_back({arguments_at(parameter.task) + parameter.argument_offset,
                         parameter.parameter_offset, parameter.bytes});
  }
  /// Writes the parameters over arguments.
  void patch(std::byte* arguments, std::span<std::byte const> block) const {
    for (Patch const& one : patches)
      std::memcpy(arguments + one.to, block.data() + one.from, one.bytes);
  }
};

/// The tasks of a program in flat arrays. Codelets and the strings of labels are the caller's.
struct Recording : Recorded {
  struct Step {
    Codelet const* codelet;
    Hints hints;
    TaskLabel label;
    std::uint32_t first_use;
    std::uint32_t use_count;
    std::size_t arguments;  // offset
    std::size_t argument_bytes;
  };
  DynamicArray<Step> steps;
  DynamicArray<Use<Binding>> uses;    // of all steps in turn
  DynamicArray<std::byte> arguments;  // of all steps, as recorded, aligned to 16
  std::uint32_t most_uses = 0;        // of one step

  /// Throws what Recorded does.
  Recording(std::span<ProgramTask const> tasks, std::uint32_t bindings,
            std::span<ProgramParameter const> parameters)
      : Recorded(tasks, bindings, parameters) {
    for (ProgramTask const& task : tasks) add(task);
    place_parameters(parameters, [this](std::uint32_t task) { return steps[task].arguments; });
  }

  std::span<Use<Binding> const> uses_of(Step const& step) const {
    return {uses.data() + step.first_use, step.use_count};
  }

 private:
  void add(ProgramTask const& task) {
    auto const count = static_cast<std::uint32_t>(task.uses.size());
    steps.push_back({task.codelet, task.hints, task.label, static_cast<std::uint32_t>(uses.size()),
                     count, arguments.size(), task.arguments.size()});
    for (Use<Binding> const& use : task.uses) uses.push_back(use);
    arguments.resize((arguments.size() + task.arguments.size() + 15) & ~std::size_t{15});
    if (!task.arguments.empty())
      std::memcpy(arguments.data() + steps.back().arguments, task.arguments.data(),
                  task.arguments.size());
    most_uses = std::max(most_uses, count);
  }
};

/// Throws ValueError: there is no program; the wrong number of bindings; too few parameters.
inline void check_replay(Recorded const* program, std::size_t bindings,
                         std::size_t parameter_bytes) {
  if (program == nullptr) throw ValueError("replay: the program is empty: record one first");
  if (bindings != program->binding_count)
    throw ValueError(
        concat("replay: ", bindings, " bindings where the program has ", program->binding_count));
  if (parameter_bytes < program->parameter_bytes)
    throw ValueError(concat("replay: ", parameter_bytes,
                            " bytes of parameters where the program takes ",
                            program->parameter_bytes));
}

[[noreturn]] inline void fail_aliased(std::size_t one, std::size_t other) {
  throw ValueError(concat("replay: bindings ", std::min(one, other), " and ", std::max(one, other),
                          " alias one buffer, but were distinct in the recording"));
}

}  // namespace nntile::support
