#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Compiles a list of tasks into an image. Linear in the number of operands.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/runtime/common/failures.hh"
#include "nntile/runtime/ring/program.hh"

namespace nntile::detail::ring {

/// One recording. Use: Recorder(tasks, bindings).image(parameters).
class Recorder {
 public:
  /// Throws ValueError for a task without an entry for a CPU worker, and for a binding that is out
  /// of bounds.
  Recorder(std::span<ProgramTask const> tasks, std::uint32_t binding_count) : recorded_(tasks) {
    image_.binding_count = binding_count;
    copy_tasks();
    find_dependences();
    link_successors();
    sort_by_level();
  }

  /// Throws ValueError for a parameter that is out of bounds.
  Image image(std::span<ProgramParameter const> parameters) {
    place_attributes(parameters);
    return static_cast<Image&&>(image_);
  }

 private:
  static constexpr std::uint32_t none = ~0u;

  /// What is known of a binding while the tasks are looked at in turn.
  struct Binding {
    std::uint32_t writer = none;
    std::uint32_t readers = none;  // first of a list in `readers_`
    std::uint32_t use = none;      // its place in the image's binding_uses
  };
  struct Reader {
    std::uint32_t task;
    std::uint32_t next;
  };

  void copy_tasks() {
    std::size_t uses = 0;
    for (ProgramTask const& task : recorded_) uses += task.uses.size();
    if (recorded_.size() >= (1u << 31) || uses >= none)
      throw ValueError(
          concat("record: ", recorded_.size(), " tasks with ", uses, " operands are too many"));
    image_.tasks.reserve(recorded_.size());
    image_.labels.reserve(recorded_.size());
    image_.uses.reserve(uses);
    for (ProgramTask const& task : recorded_) copy(task);
  }

  void copy(ProgramTask const& task) {
    Codelet const* const codelet = task.codelet;
    auto const name = [&] {
      return concat("record: task ", image_.tasks.size(), ", ",
                    common::task_name(codelet, task.label, 0), ": ");
    };
    if (codelet == nullptr || (codelet->cpu == nullptr && codelet->async == nullptr))
      throw ValueError(concat(name(), "no entry for a CPU worker"));
    ImageTask copy{};
    copy.codelet = codelet;
    copy.uses = static_cast<std::uint32_t>(image_.uses.size());
    copy.use_count = static_cast<std::uint32_t>(task.uses.size());
    copy.prepared = ImageTask::unprepared;
    if (codelet->cpu == nullptr || task.uses.size() > unpacked_operands) {
      copy.prepared = static_cast<std::uint32_t>(image_.prepared.size());
      image_.prepared.push_back(static_cast<std::uint32_t>(image_.tasks.size()));
    }
    for (ProgramUse const& use : task.uses) {
      if (use.binding >= image_.binding_count)
        throw ValueError(
            concat(name(), "uses binding ", use.binding, " of ", image_.binding_count));
      image_.uses.push_back(use);
    }
    image_.tasks.push_back(copy);
    image_.labels.push_back(task.label);
  }

  std::span<ProgramUse const> uses_of(ImageTask const& task) const {
    return {image_.uses.data() + task.uses, task.use_count};
  }

  /// As the submitter does it: all look-ups of a task before all its entries; who waits for readers
  /// need not wait for the writer before them.
  void find_dependences() {
    bindings_.resize(image_.binding_count);
    last_met_.assign(image_.tasks.size(), none);
    for (std::uint32_t t = 0; t < image_.tasks.size(); ++t) {
      ImageTask& task = image_.tasks[t];
      std::size_t const first = producers_.size();
      for (ProgramUse const& use : uses_of(task)) {
        Binding const& binding = bindings_[use.binding];
        if (!writes(use.access) || binding.readers == none) add_producer(binding.writer, t);
        if (!writes(use.access)) continue;
        for (std::uint32_t r = binding.readers; r != none; r = readers_[r].next)
          add_producer(readers_[r].task, t);
      }
      task.producers = static_cast<std::uint32_t>(producers_.size() - first);
      for (ProgramUse const& use : uses_of(task)) enter(use, t);
    }
  }

  void add_producer(std::uint32_t producer, std::uint32_t task) {
    if (producer == none || last_met_[producer] == task) return;
    last_met_[producer] = task;
    producers_.push_back(producer);
  }

  void enter(ProgramUse const& use, std::uint32_t task) {
    Binding& binding = bindings_[use.binding];
    combine(binding, use, task);
    if (writes(use.access)) {
      binding.writer = task;
      binding.readers = none;
    } else {
      readers_.push_back({task, binding.readers});
      binding.readers = static_cast<std::uint32_t>(readers_.size() - 1);
    }
  }

  /// A binding that its first task writes without reading it is written by the whole program.
  void combine(Binding& binding, ProgramUse const& use, std::uint32_t task) {
    if (binding.use == none) {
      binding.use = static_cast<std::uint32_t>(image_.binding_uses.size());
      image_.binding_uses.push_back({use.binding, use.access});
      first_task_.push_back(task);
      return;
    }
    Access& whole = image_.binding_uses[binding.use].access;
    if (whole == Access::read && writes(use.access)) whole = Access::update;
    if (whole == Access::write && reads(use.access) && first_task_[binding.use] == task)
      whole = Access::update;
  }

  /// Turns the lists of producers into lists of successors.
  void link_successors() {
    auto& tasks = image_.tasks;
    for (std::uint32_t const producer : producers_) ++tasks[producer].successor_count;
    std::uint32_t next = 0;
    for (ImageTask& task : tasks) {
      task.successors = next;
      next += task.successor_count;
      if (task.successor_count == 0) ++image_.sinks;
      task.successor_count = 0;
    }
    image_.successors.resize(next);
    auto producer = producers_.begin();
    for (std::uint32_t t = 0; t < tasks.size(); ++t)
      for (std::uint32_t i = 0; i < tasks[t].producers; ++i) {
        ImageTask& from = tasks[*producer++];
        image_.successors[from.successors + from.successor_count++] = {t & 0x7fffffffu,
                                                                       tasks[t].producers == 1};
      }
  }

  /// Ranks the priorities: as they are where the ring tells them apart, else by even shares.
  void sort_by_level() {
    std::vector<int> ranks;
    for (ProgramTask const& task : recorded_) ranks.push_back(task.hints.priority);
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    bool const exact =
        ranks.size() < 2 || (ranks.front() >= lowest_priority && ranks.back() <= highest_priority);
    for (std::uint32_t t = 0; t < recorded_.size(); ++t) {
      int const priority = recorded_[t].hints.priority;
      auto const rank = static_cast<std::size_t>(
          std::lower_bound(ranks.begin(), ranks.end(), priority) - ranks.begin());
      image_.tasks[t].level =
          exact ? level_of(priority) : static_cast<std::uint8_t>(rank * level_count / ranks.size());
    }
    for (std::uint32_t level = 0; level < level_count; ++level) {
      image_.roots_at[level] = static_cast<std::uint32_t>(image_.roots.size());
      std::uint32_t count = 0;
      for (std::uint32_t t = 0; t < image_.tasks.size(); ++t) {
        if (image_.tasks[t].level != level) continue;
        ++count;
        if (image_.tasks[t].producers == 0) image_.roots.push_back(t);
      }
      image_.tasks_at[level + 1] = image_.tasks_at[level] + count;
    }
    image_.roots_at[level_count] = static_cast<std::uint32_t>(image_.roots.size());
  }

  void place_attributes(std::span<ProgramParameter const> parameters) {
    for (ProgramParameter const& parameter : parameters) {
      check(parameter);
      image_.tasks[parameter.task].varying = true;
    }
    for (std::uint32_t t = 0; t < recorded_.size(); ++t) {
      ImageTask& task = image_.tasks[t];
      auto& bytes = task.varying ? image_.varying : image_.constant;
      if (bytes.size() + recorded_[t].attributes.size() + 16 >= none)
        throw ValueError("record: more than 4 GiB of attributes");
      task.attributes = static_cast<std::uint32_t>(bytes.size());
      bytes.insert(bytes.end(), recorded_[t].attributes.begin(), recorded_[t].attributes.end());
      bytes.resize((bytes.size() + 15) & ~std::size_t{15});
    }
    for (ProgramParameter const& parameter : parameters)
      image_.patches.push_back(
          {std::size_t{image_.tasks[parameter.task].attributes} + parameter.attribute_offset,
           parameter.parameter_offset, parameter.bytes});
  }

  void check(ProgramParameter const& parameter) {
    if (parameter.task >= recorded_.size())
      throw ValueError(
          concat("record: a parameter of task ", parameter.task, " of ", recorded_.size()));
    std::size_t const end = std::size_t{parameter.attribute_offset} + parameter.bytes;
    std::size_t const size = recorded_[parameter.task].attributes.size();
    if (end > size)
      throw ValueError(concat("record: a parameter ends at byte ", end, " of the ", size,
                              " attribute bytes of task ", parameter.task));
    image_.parameter_bytes =
        std::max(image_.parameter_bytes, std::size_t{parameter.parameter_offset} + parameter.bytes);
  }

  std::span<ProgramTask const> recorded_;
  Image image_;
  std::vector<Binding> bindings_;
  std::vector<Reader> readers_;
  std::vector<std::uint32_t> first_task_;  // of each binding use
  std::vector<std::uint32_t> last_met_;    // by producer: the last task that listed it
  std::vector<std::uint32_t> producers_;   // of all tasks in turn
};

}  // namespace nntile::detail::ring
