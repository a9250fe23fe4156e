#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Compiles a list of tasks into an image. Linear in the number of operands.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/runtime/ring/program.hh"

namespace nntile::detail::ring {

/// One recording. Use: Recorder<Policy>(tasks, bindings).image(parameters). Any policy makes the
/// same image; as a template it costs nothing in programs that do not record.
template <class Policy> class Recorder {
 public:
  /// Throws ValueError for a task without an entry for a CPU worker, and for a binding that is out
  /// of bounds.
  Recorder(std::span<ProgramTask const> tasks, std::uint32_t binding_count) : recorded_(tasks) {
    image_.binding_count = binding_count;
    look_at_tasks();
    find_dependences();
    rank_priorities();
  }

  /// Throws ValueError for a parameter that is out of bounds.
  Image image(std::span<ProgramParameter const> parameters) {
    place_attributes(parameters);
    place_tasks();
    link_successors();
    sort_by_level();
    return static_cast<Image&&>(image_);
  }

 private:
  static constexpr std::uint32_t none = ~0u;

  /// A task's place in the image.
  struct Draft {
    std::uint32_t producers = 0;
    std::uint32_t successors = 0;
    std::uint32_t line = 0;
    std::uint32_t attributes = 0;
    std::uint8_t level = normal_level;
    bool varying = false;
    bool prepared = false;
  };
  /// The state of a binding during the pass over the tasks.
  struct Binding {
    std::uint32_t writer = none;
    std::uint32_t readers = none;  // first of a list in `readers_`
  };
  struct Reader {
    std::uint32_t task;
    std::uint32_t next;
  };

  void look_at_tasks() {
    common::check_recorded(recorded_, image_.binding_count);
    image_.binding_uses = common::binding_uses(recorded_, image_.binding_count);
    for (ProgramTask const& task : recorded_) {
      bool const asynchronous = task.codelet->cpu == nullptr;
      Draft draft;
      draft.prepared = asynchronous || task.uses.size() > unpacked_operands;
      drafts_.push_back(draft);
      image_.asynchronous = image_.asynchronous || asynchronous;
      image_.labels.push_back(task.label);
    }
  }

  /// The submitter's rule: all look-ups of a task before all its entries; a task that waits for
  /// readers need not wait for the writer before them.
  void find_dependences() {
    bindings_.resize(image_.binding_count);
    last_met_.assign(recorded_.size(), none);
    for (std::uint32_t t = 0; t < recorded_.size(); ++t) {
      std::size_t const first = producers_.size();
      for (ProgramUse const& use : recorded_[t].uses) {
        Binding const& binding = bindings_[use.binding];
        if (!writes(use.access) || binding.readers == none) add_producer(binding.writer, t);
        if (!writes(use.access)) continue;
        for (std::uint32_t r = binding.readers; r != none; r = readers_[r].next)
          add_producer(readers_[r].task, t);
      }
      drafts_[t].producers = static_cast<std::uint32_t>(producers_.size() - first);
      for (ProgramUse const& use : recorded_[t].uses) enter(use, t);
    }
    if (producers_.size() >= none) throw ValueError("record: more than 2^32 dependences");
  }

  void add_producer(std::uint32_t producer, std::uint32_t task) {
    if (producer == none || last_met_[producer] == task) return;
    last_met_[producer] = task;
    producers_.push_back(producer);
    ++drafts_[producer].successors;
  }

  void enter(ProgramUse const& use, std::uint32_t task) {
    Binding& binding = bindings_[use.binding];
    if (writes(use.access)) {
      binding.writer = task;
      binding.readers = none;
    } else {
      readers_.push_back({task, binding.readers});
      binding.readers = static_cast<std::uint32_t>(readers_.size() - 1);
    }
  }

  /// Ranks the priorities: as they are where the ring distinguishes them, else by even shares.
  void rank_priorities() {
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
      drafts_[t].level =
          exact ? level_of(priority) : static_cast<std::uint8_t>(rank * level_count / ranks.size());
    }
  }

  void place_attributes(std::span<ProgramParameter const> parameters) {
    image_.parameter_bytes = common::check_parameters(recorded_, parameters);
    for (ProgramParameter const& parameter : parameters) drafts_[parameter.task].varying = true;
    for (std::uint32_t t = 0; t < recorded_.size(); ++t)
      drafts_[t].attributes = drafts_[t].varying ? append(image_.varying, recorded_[t].attributes)
                                                 : share(recorded_[t].attributes);
    for (ProgramParameter const& parameter : parameters)
      image_.patches.push_back(
          {std::size_t{drafts_[parameter.task].attributes} + parameter.attribute_offset,
           parameter.parameter_offset, parameter.bytes});
  }

  static std::uint32_t append(std::vector<std::byte>& bytes, std::span<std::byte const> more) {
    if (bytes.size() + more.size() + 16 >= none)
      throw ValueError("record: more than 4 GiB of attributes");
    auto const offset = static_cast<std::uint32_t>(bytes.size());
    bytes.insert(bytes.end(), more.begin(), more.end());
    bytes.resize((bytes.size() + 15) & ~std::size_t{15});
    return offset;
  }

  /// Neighbouring tasks often have the same attributes: then one copy serves them.
  std::uint32_t share(std::span<std::byte const> attributes) {
    bool const same = attributes.size() == shared_.size() &&
                      std::equal(attributes.begin(), attributes.end(), shared_.begin());
    if (!same) shared_at_ = append(image_.constant, attributes);
    shared_ = attributes;
    return shared_at_;
  }

  void place_tasks() {
    std::uint64_t lines = 0;
    for (std::uint32_t t = 0; t < recorded_.size(); ++t) {
      drafts_[t].line = static_cast<std::uint32_t>(lines);
      lines += TaskView::lines(drafts_[t].prepared ? 0 : recorded_[t].uses.size(),
                               drafts_[t].successors);
      if (lines >= 1u << 31) throw ValueError("record: a program of more than 128 GiB");
    }
    image_.lines.assign(lines);
    for (std::uint32_t t = 0; t < recorded_.size(); ++t) write_task(t);
  }

  void write_task(std::uint32_t t) {
    ProgramTask const& task = recorded_[t];
    Draft const& draft = drafts_[t];
    auto const operands = static_cast<std::uint32_t>(draft.prepared ? 0 : task.uses.size());
    std::uint32_t* const words = image_.lines.at(draft.line);
    std::memcpy(words, &task.codelet, sizeof task.codelet);
    words[2] = t;
    words[3] = draft.attributes;
    words[4] = 0;  // successors: counted up again while they are written
    words[5] = draft.producers;
    words[6] = TaskView::pack(operands, draft.level, draft.varying, draft.prepared);
    for (std::uint32_t i = 0; i < operands; ++i)
      words[TaskView::head_words + i] =
          task.uses[i].binding << 2 | static_cast<std::uint32_t>(task.uses[i].access);
    if (!draft.prepared) return;
    words[3] = static_cast<std::uint32_t>(image_.prepared.size());
    image_.prepared.push_back(
        {draft.line, t, draft.attributes, draft.varying, {task.uses.begin(), task.uses.end()}});
  }

  /// Turns the lists of producers into lists of successors.
  void link_successors() {
    auto producer = producers_.begin();
    for (std::uint32_t t = 0; t < recorded_.size(); ++t)
      for (std::uint32_t i = 0; i < drafts_[t].producers; ++i) {
        std::uint32_t* const from = image_.lines.at(drafts_[*producer++].line);
        std::uint32_t const operands = TaskView(from).operand_count();
        from[TaskView::head_words + operands + from[4]++] =
            drafts_[t].line << 1 | (drafts_[t].producers == 1 ? 1u : 0u);
      }
  }

  /// Counts the tasks of each level and lists those without producers.
  void sort_by_level() {
    for (Draft const& draft : drafts_) {
      ++image_.tasks_at[draft.level + 1];
      if (draft.producers == 0) ++image_.roots_at[draft.level + 1];
      if (draft.successors == 0) ++image_.sinks;
    }
    for (std::uint32_t level = 0; level < level_count; ++level) {
      image_.tasks_at[level + 1] += image_.tasks_at[level];
      image_.roots_at[level + 1] += image_.roots_at[level];
    }
    image_.roots.resize(image_.roots_at[level_count]);
    std::uint32_t next[level_count];
    std::copy(image_.roots_at, image_.roots_at + level_count, next);
    for (Draft const& draft : drafts_)
      if (draft.producers == 0) image_.roots[next[draft.level]++] = draft.line;
  }

  std::span<ProgramTask const> recorded_;
  Image image_;
  std::vector<Draft> drafts_;
  std::span<std::byte const> shared_;  // the latest attributes that do not vary
  std::uint32_t shared_at_ = 0;
  std::vector<Binding> bindings_;
  std::vector<Reader> readers_;
  std::vector<std::uint32_t> last_met_;   // by producer: the last task that listed it
  std::vector<std::uint32_t> producers_;  // of all tasks in turn
};

}  // namespace nntile::detail::ring
