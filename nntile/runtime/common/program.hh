#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The common part of recorded programs: checks of a recording, its access to each binding as a
// whole, and the look-up of bindings in a replay.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/core/later.hh"
#include "nntile/runtime/common/buffer_table.hh"
#include "nntile/runtime/common/failures.hh"

namespace nntile::common {

/// Throws ValueError for a task without an entry for a CPU worker or that needs more workspace than
/// is lent, and for a binding that is out of bounds.
template <std::same_as<ProgramTask> Task>
void check_recorded(std::span<Task const> tasks, std::uint32_t binding_count) {
  if (tasks.size() >= 1u << 30 || binding_count >= 1u << 30)
    throw ValueError(concat("record: ", tasks.size(), " tasks, ", binding_count,
                            " bindings, where fewer than 2^30 of each are possible"));
  for (std::size_t number = 0; number < tasks.size(); ++number) {
    Task const& task = tasks[number];
    auto const name = [&] {
      return concat("record: task ", number, ", ", task_name(task.codelet, task.label, 0), ": ");
    };
    if (task.codelet == nullptr || (task.codelet->cpu == nullptr && task.codelet->async == nullptr))
      throw ValueError(concat(name(), "no entry for a CPU worker"));
    if (task.codelet->workspace > max_workspace_bytes)
      throw ValueError(concat(name(), "needs ", task.codelet->workspace,
                              " bytes of workspace where ", max_workspace_bytes, " are lent"));
    for (ProgramUse const& use : task.uses)
      if (use.binding >= binding_count)
        throw ValueError(concat(name(), "uses binding ", use.binding, " of ", binding_count));
  }
}

/// Returns the bytes of a parameter block. Throws ValueError for a parameter that is out of bounds.
template <std::same_as<ProgramTask> Task>
std::size_t check_parameters(std::span<Task const> tasks,
                             std::span<ProgramParameter const> parameters) {
  std::size_t bytes = 0;
  for (ProgramParameter const& parameter : parameters) {
    if (parameter.task >= tasks.size())
      throw ValueError(
          concat("record: a parameter of task ", parameter.task, " of ", tasks.size()));
    std::size_t const end = std::size_t{parameter.attribute_offset} + parameter.bytes;
    std::size_t const size = tasks[parameter.task].attributes.size();
    if (end > size)
      throw ValueError(concat("record: a parameter ends at byte ", end, " of the ", size,
                              " attribute bytes of task ", parameter.task));
    bytes = std::max(bytes, std::size_t{parameter.parameter_offset} + parameter.bytes);
  }
  return bytes;
}

/// The access of a program to one of its bindings as a whole. `read` first and written later is an
/// update; written first, a write.
struct BindingUse {
  std::uint32_t binding;
  Access access;
};

/// The uses of all bindings that a program uses, in the order of their first ones. Throws
/// std::bad_alloc.
template <std::same_as<ProgramTask> Task>
std::vector<BindingUse> binding_uses(std::span<Task const> tasks, std::uint32_t binding_count) {
  constexpr std::uint32_t none = ~0u;
  std::vector<BindingUse> uses;
  std::vector<std::uint32_t> first_task, place(binding_count, none);
  for (std::uint32_t t = 0; t < tasks.size(); ++t)
    for (ProgramUse const& use : tasks[t].uses) {
      std::uint32_t& at = place[use.binding];
      if (at == none) {
        at = static_cast<std::uint32_t>(uses.size());
        uses.push_back({use.binding, use.access});
        first_task.push_back(t);
        continue;
      }
      Access& whole = uses[at].access;
      if (whole == Access::read && writes(use.access)) whole = Access::update;
      // The task that writes it first reads it as well.
      if (whole == Access::write && reads(use.access) && first_task[at] == t)
        whole = Access::update;
    }
  return uses;
}

/// The bindings of one replay, looked up as BufferTable::bind does it for a task.
template <std::same_as<BufferTable> Table> class Bindings {
 public:
  /// Room for that many, so that `bind` allocates nothing. Throws std::bad_alloc.
  void reserve(std::size_t count) {
    buffers_.reserve(count);
    uses_.reserve(count);
  }

  /// Throws ValueError (there is no program; the wrong number of bindings; too few parameters; two
  /// bindings that name one buffer), LifetimeError (a handle; a locked buffer; one that is read
  /// before anything wrote it) and std::bad_alloc.
  template <class Image>
  void bind(Table& table, Image const* image, std::span<DataHandle const> handles,
            std::size_t parameter_bytes) {
    if (image == nullptr) throw ValueError("replay: the program is empty: record one first");
    if (handles.size() != image->binding_count)
      throw ValueError(concat("replay: ", handles.size(), " bindings where the program has ",
                              image->binding_count));
    if (parameter_bytes < image->parameter_bytes)
      throw ValueError(concat("replay: ", parameter_bytes,
                              " bytes of parameters where the program takes ",
                              image->parameter_bytes));
    bind(table, image->binding_uses, handles);
  }

  /// By binding; null for one that is not used.
  std::span<Buffer* const> buffers() const { return buffers_; }
  /// Of the bindings that are used.
  std::span<BufferUse const> uses() const { return uses_; }

 private:
  void bind(Table& table, std::span<BindingUse const> uses, std::span<DataHandle const> handles) {
    buffers_.assign(handles.size(), nullptr);
    uses_.clear();
    ++replay_;
    for (BindingUse const& use : uses) {
      Buffer& buffer = table.find(handles[use.binding], "replay");
      if (buffer.replay == replay_) throw_alias(uses, handles, use.binding);
      if (buffer.is(forbidden_states(use.access))) [[unlikely]]
        throw_unfit(buffer, use);
      buffer.replay = replay_;
      buffers_[use.binding] = &buffer;
      uses_.push_back({&buffer, use.access});
    }
  }

  [[noreturn]] static void throw_alias(std::span<BindingUse const> uses,
                                       std::span<DataHandle const> handles, std::uint32_t second) {
    std::uint32_t first = second;
    for (BindingUse const& use : uses)
      if (use.binding != second && handles[use.binding] == handles[second]) first = use.binding;
    throw ValueError(concat("replay: bindings ", std::min(first, second), " and ",
                            std::max(first, second),
                            " alias one buffer, but were distinct in the recording"));
  }
  [[noreturn]] static void throw_unfit(Buffer const& buffer, BindingUse const& use) {
    std::string const who = concat("replay: binding ", use.binding, " (", name_of(use.access), ")");
    if (buffer.is(Buffer::locked))
      throw LifetimeError(
          concat(who, ": ", Table::describe(buffer), " is locked: unlock it first"));
    if (writes(use.access) && buffer.is(Buffer::read_only))
      throw ValueError(concat(who, ": ", Table::why_read_only(buffer)));
    throw LifetimeError(concat(who, ": nothing has written ", Table::describe(buffer),
                               ": submit a task that writes it, lock it for write, or adopt "
                               "written memory"));
  }

  std::uint64_t replay_ = 0;
  std::vector<later_t<Buffer, Table>*> buffers_;
  std::vector<later_t<BufferUse, Table>> uses_;
};

}  // namespace nntile::common
