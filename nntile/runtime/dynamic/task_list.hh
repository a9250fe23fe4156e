#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A recorded program for a runtime that cannot replay: copies of its tasks, submitted one by one.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/unsubmitted.hh"

namespace nntile::detail {

/// The events of tasks that were submitted one after another.
struct EventRange {
  Event first;
  std::uint64_t count = 0;
};

/// The arguments of `record`, copied and checked.
class TaskList {
 public:
  /// Throws ValueError for a binding, task or byte range that is out of bounds.
  TaskList(std::span<ProgramTask const> tasks, std::uint32_t binding_count,
           std::span<ProgramParameter const> parameters)
      : first_access_(binding_count) {
    std::size_t bytes = 0;
    for (ProgramTask const& task : tasks) {
      tasks_.push_back({task, uses_.size(), task.uses.size(), bytes, {}});
      uses_.insert(uses_.end(), task.uses.begin(), task.uses.end());
      bytes += padded(task.attributes.size());
    }
    for (ProgramUse const& use : uses_)
      if (use.binding >= binding_count)
        throw ValueError(
            concat("record: a task uses binding ", use.binding, " of ", binding_count));
    find_first_accesses();
    attributes_ = std::make_unique<std::max_align_t[]>(bytes / unit + 1);
    for (Recorded const& task : tasks_)
      if (!task.task.attributes.empty())
        std::memcpy(block() + task.attributes_at, task.task.attributes.data(),
                    task.task.attributes.size());
    add_parameters(parameters);
  }

  /// Throws ValueError when the table or the block is too short, or two bindings name one buffer.
  template <class Handle>
  requires std::has_unique_object_representations_v<Handle>
  void check(std::span<Handle const> bindings, std::span<std::byte const> parameters) const {
    if (bindings.size() != first_access_.size())
      throw ValueError(concat("replay: ", bindings.size(), " bindings where the program has ",
                              first_access_.size()));
    if (parameters.size() < parameter_bytes_)
      throw ValueError(concat("replay: ", parameters.size(),
                              " bytes of parameters where the program takes ", parameter_bytes_));
    std::vector<std::size_t> order(bindings.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    auto const compare = [&](std::size_t a, std::size_t b) {
      return std::memcmp(&bindings[a], &bindings[b], sizeof(Handle));
    };
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return compare(a, b) < 0; });
    for (std::size_t i = 1; i < order.size(); ++i)
      if (compare(order[i - 1], order[i]) == 0)
        throw ValueError(concat("replay: bindings ", std::min(order[i - 1], order[i]), " and ",
                                std::max(order[i - 1], order[i]),
                                " alias one buffer, but were distinct in the recording"));
  }

  /// Submits every task, with attributes patched from the parameters. Before them goes one that
  /// does nothing with all bindings, so that a binding which is refused changes nothing. When a
  /// later submission throws, what it and the ones after it should have written is marked.
  template <Runtime R>
  EventRange submit(R& runtime, std::span<typename R::Handle const> bindings,
                    std::span<std::byte const> parameters) const {
    std::vector<Use<typename R::Handle>> uses;
    for (std::size_t i = 0; i < bindings.size(); ++i)
      if (first_access_[i]) uses.push_back({bindings[i], *first_access_[i]});
    EventRange range{runtime.submit({&begin_codelet, uses, {}, {}, {}}), 1};
    std::vector<std::max_align_t> patched;
    for (Recorded const& task : tasks_) {
      uses.clear();
      for (ProgramUse const& use : uses_of(task))
        uses.push_back({bindings[use.binding], use.access});
      std::span<std::byte const> attributes{block() + task.attributes_at,
                                            task.task.attributes.size()};
      if (!task.parameters.empty()) attributes = patch(task, attributes, parameters, patched);
      try {
        runtime.submit({task.task.codelet, uses, attributes, task.task.hints, task.task.label});
        ++range.count;
      } catch (std::exception const& error) {
        mark_from(range.count - 1, runtime, bindings, error.what());
        throw;
      }
    }
    return range;
  }

 private:
  static constexpr std::size_t unit = sizeof(std::max_align_t);

  static Status do_nothing(KernelCall const&) noexcept { return {}; }
  static constexpr Codelet begin_codelet{"replay", &do_nothing, nullptr, nullptr};

  struct Recorded {
    ProgramTask task;  // its spans are void; only the sizes count
    std::size_t uses_at;
    std::size_t use_count;
    std::size_t attributes_at;
    std::vector<ProgramParameter> parameters;
  };

  static std::size_t padded(std::size_t bytes) { return (bytes + unit - 1) / unit * unit; }
  std::byte* block() const { return reinterpret_cast<std::byte*>(attributes_.get()); }

  std::span<ProgramUse const> uses_of(Recorded const& task) const {
    return {uses_.data() + task.uses_at, task.use_count};
  }

  /// A binding is read first if any use of it in the first task that names it reads.
  void find_first_accesses() {
    std::vector<std::size_t> first_task(first_access_.size());
    for (std::size_t t = 0; t < tasks_.size(); ++t)
      for (ProgramUse const& use : uses_of(tasks_[t])) {
        std::optional<Access>& first = first_access_[use.binding];
        if (!first) {
          first = Access::write;
          first_task[use.binding] = t;
        }
        if (first_task[use.binding] == t && reads(use.access)) first = Access::read;
      }
  }

  template <Runtime R>
  void mark_from(std::size_t task, R& runtime, std::span<typename R::Handle const> bindings,
                 char const* cause) const noexcept {
    for (; task < tasks_.size(); ++task)
      for (ProgramUse const& use : uses_of(tasks_[task]))
        if (writes(use.access))
          mark_unsubmitted(runtime, bindings[use.binding], cause, tasks_[task].task.label);
  }

  void add_parameters(std::span<ProgramParameter const> parameters) {
    for (ProgramParameter const& parameter : parameters) {
      if (parameter.task >= tasks_.size())
        throw ValueError(
            concat("record: a parameter of task ", parameter.task, " of ", tasks_.size()));
      Recorded& task = tasks_[parameter.task];
      std::size_t const end = std::size_t{parameter.attribute_offset} + parameter.bytes;
      if (end > task.task.attributes.size())
        throw ValueError(concat("record: a parameter ends at byte ", end, " of the ",
                                task.task.attributes.size(), " attribute bytes of task ",
                                parameter.task));
      task.parameters.push_back(parameter);
      parameter_bytes_ =
          std::max(parameter_bytes_, std::size_t{parameter.parameter_offset} + parameter.bytes);
    }
  }

  static std::span<std::byte const> patch(Recorded const& task,
                                          std::span<std::byte const> attributes,
                                          std::span<std::byte const> parameters,
                                          std::vector<std::max_align_t>& room) {
    room.resize(attributes.size() / unit + 1);
    auto* const bytes = reinterpret_cast<std::byte*>(room.data());
    std::memcpy(bytes, attributes.data(), attributes.size());
    for (ProgramParameter const& parameter : task.parameters)
      std::memcpy(bytes + parameter.attribute_offset,
                  parameters.data() + parameter.parameter_offset, parameter.bytes);
    return {bytes, attributes.size()};
  }

  std::vector<std::optional<Access>> first_access_;  // by binding; none: it is not used
  std::vector<Recorded> tasks_;
  std::vector<ProgramUse> uses_;
  std::unique_ptr<std::max_align_t[]> attributes_;  // padded, in the order of the tasks
  std::size_t parameter_bytes_ = 0;
};

}  // namespace nntile::detail
