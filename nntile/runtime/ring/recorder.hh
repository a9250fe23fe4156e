#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Compiles a list of tasks into an image. Linear in the number of operands.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/error.hh"
#include "nntile/core/last_users.hh"
#include "nntile/runtime/ring/program.hh"

namespace nntile::detail::ring {

/// One compilation. Use: Recorder(tasks, binding_count, parameters).image(). With devices any task
/// may end later: where its buffers live is not known here.
class Recorder {
 public:
  /// Throws ValueError for a task without an entry for a CPU worker or that names a kind of
  /// workers, and for a binding or a parameter that is out of bounds.
  Recorder(std::span<ProgramTask const> tasks, std::uint32_t binding_count,
           std::span<ProgramParameter const> parameters, bool with_devices = false)
      : recorded_(support::check_entries(tasks)),
        with_devices_(with_devices),
        parameters_(parameters),
        image_(tasks, binding_count, parameters) {
    image_.asynchronous |= with_devices_;
    draft_tasks();
    find_dependences();
    rank_priorities();
    place_arguments();
    place_tasks();
    link_successors();
    sort_by_level();
  }

  Image image() { return static_cast<Image&&>(image_); }

 private:
  static constexpr std::uint32_t none = ~0u;

  /// A task's place in the image.
  struct Draft {
    std::uint32_t producers = 0;
    std::uint32_t successors = 0;
    std::uint32_t offset = 0;
    std::uint32_t arguments = 0;
    std::uint8_t level = normal_level;
    bool varying = false;
    bool prepared = false;
  };

  void draft_tasks() {
    for (ProgramTask const& task : recorded_) {
      if (task.hints.worker <= any_of(WorkerKind::cpu))
        throw ValueError(concat("record: '", task.codelet->name,
                                "' names a kind of workers, and tasks of a program run on any: "
                                "submit it"));
      Draft draft;
      draft.prepared =
          with_devices_ || task.codelet->cpu == nullptr || task.uses.size() > unpacked_operands;
      drafts_.push_back(draft);
      image_.labels.push_back(task.label);
    }
  }

  /// The submitter's rule: all look-ups of a task before all its entries.
  void find_dependences() {
    DynamicArray<LastUsers<std::uint32_t>> users(image_.binding_count,
                                                 LastUsers<std::uint32_t>{none, {}});
    DynamicArray<std::uint32_t> last_met(recorded_.size(), none);  // last task that listed it
    for (std::uint32_t t = 0; t < recorded_.size(); ++t) {
      std::size_t const first = producers_.size();
      for (Use<Binding> const& use : recorded_[t].uses)
        users[use.handle].each_before(use.access, [&](std::uint32_t producer) {
          if (producer == none || last_met[producer] == t) return;
          last_met[producer] = t;
          producers_.push_back(producer);
          ++drafts_[producer].successors;
        });
      drafts_[t].producers = static_cast<std::uint32_t>(producers_.size() - first);
      for (Use<Binding> const& use : recorded_[t].uses) users[use.handle].enter(use.access, t);
    }
    if (producers_.size() >= none) throw ValueError("record: more than 2^32 dependences");
  }

  /// Ranks the priorities: as they are where the ring distinguishes them, else by even shares.
  void rank_priorities() {
    DynamicArray<int> ranks;
    for (ProgramTask const& task : recorded_) ranks.push_back(task.hints.priority);
    // std::sort would be instantiated in each file that includes a ring.
    auto const order = [](void const* a, void const* b) {
      int const x = *static_cast<int const*>(a), y = *static_cast<int const*>(b);
      return (x > y) - (x < y);
    };
    if (!ranks.empty()) std::qsort(ranks.data(), ranks.size(), sizeof(int), order);
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

  void place_arguments() {
    for (ProgramParameter const& parameter : parameters_) drafts_[parameter.task].varying = true;
    for (std::uint32_t t = 0; t < recorded_.size(); ++t)
      drafts_[t].arguments = drafts_[t].varying ? append(image_.varying, recorded_[t].arguments)
                                                : share(recorded_[t].arguments);
    image_.place_parameters(
        parameters_, [this](std::uint32_t task) { return std::size_t{drafts_[task].arguments}; });
  }

  static std::uint32_t append(DynamicArray<std::byte>& bytes, std::span<std::byte const> more) {
    if (bytes.size() + more.size() + 16 >= none)
      throw ValueError("record: more than 4 GiB of arguments");
    auto const offset = static_cast<std::uint32_t>(bytes.size());
    bytes.resize((bytes.size() + more.size() + 15) & ~std::size_t{15});
    if (!more.empty()) std::memcpy(bytes.data() + offset, more.data(), more.size());
    return offset;
  }

  /// Neighbouring tasks often have the same arguments: then one copy serves them.
  std::uint32_t share(std::span<std::byte const> arguments) {
    bool const same = arguments.size() == shared_.size() &&
                      std::equal(arguments.begin(), arguments.end(), shared_.begin());
    if (!same) shared_at_ = append(image_.constant, arguments);
    shared_ = arguments;
    return shared_at_;
  }

  void place_tasks() {
    std::uint64_t units = 0;
    for (std::uint32_t t = 0; t < recorded_.size(); ++t) {
      drafts_[t].offset = static_cast<std::uint32_t>(units);
      units += RecordedTask::units(drafts_[t].prepared ? 0 : recorded_[t].uses.size(),
                                   drafts_[t].successors);
      if (units >= 1u << 31) throw ValueError("record: a program of more than 128 GiB");
    }
    image_.storage.assign(units);
    for (std::uint32_t t = 0; t < recorded_.size(); ++t) write_task(t);
  }

  void write_task(std::uint32_t t) {
    ProgramTask const& task = recorded_[t];
    Draft const& draft = drafts_[t];
    auto const uses = static_cast<std::uint8_t>(draft.prepared ? 0 : task.uses.size());
    auto const arguments =
        draft.prepared ? static_cast<std::uint32_t>(image_.prepared.size()) : draft.arguments;
    // Successors are counted up again while they are written.
    auto* const written = new (&image_.storage.at(draft.offset)) RecordedTask{
        task.codelet,  t, arguments, 0, draft.producers, uses, draft.level, draft.varying,
        draft.prepared};
    for (std::uint32_t i = 0; i < uses; ++i) written->tail()[i] = RecordedTask::pack(task.uses[i]);
    if (draft.prepared)
      image_.prepared.emplace_back(draft.offset, t, draft.arguments, draft.varying)
          .uses.append(task.uses);
  }

  /// Turns the lists of producers into lists of successors.
  void link_successors() {
    auto producer = producers_.begin();
    for (std::uint32_t t = 0; t < recorded_.size(); ++t)
      for (std::uint32_t i = 0; i < drafts_[t].producers; ++i) {
        RecordedTask& from = image_.storage.at(drafts_[*producer++].offset);
        from.tail()[from.use_count + from.successor_count++] =
            drafts_[t].offset << 1 | (drafts_[t].producers == 1 ? 1u : 0u);
      }
  }

  /// Counts the tasks of each level and lists those without producers.
  void sort_by_level() {
    for (Draft const& draft : drafts_) {
      ++image_.tasks_at[draft.level + 1];
      if (draft.producers == 0) ++image_.roots_at[draft.level + 1];
      if (draft.successors == 0 || with_devices_) ++image_.sinks;
    }
    for (std::uint32_t level = 0; level < level_count; ++level) {
      image_.tasks_at[level + 1] += image_.tasks_at[level];
      image_.roots_at[level + 1] += image_.roots_at[level];
    }
    image_.roots.resize(image_.roots_at[level_count]);
    std::uint32_t next[level_count];
    std::copy(image_.roots_at, image_.roots_at + level_count, next);
    for (Draft const& draft : drafts_)
      if (draft.producers == 0) image_.roots[next[draft.level]++] = draft.offset;
  }

  std::span<ProgramTask const> recorded_;
  bool const with_devices_;
  std::span<ProgramParameter const> parameters_;
  Image image_;
  DynamicArray<Draft> drafts_;
  std::span<std::byte const> shared_;  // the latest arguments that do not vary
  std::uint32_t shared_at_ = 0;
  DynamicArray<std::uint32_t> producers_;  // of all tasks in turn
};

}  // namespace nntile::detail::ring
