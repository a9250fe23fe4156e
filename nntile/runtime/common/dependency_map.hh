#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The last writer of each buffer and its readers since: the order of tasks follows from them.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nntile/runtime/common/task_node.hh"

namespace nntile::common {

/// The last writer of each buffer and its readers since, by buffer index. Law: a task comes after
/// the last writer of what it reads (RAW), and after the last writer and all readers since of what
/// it writes, updates or accumulates into (WAW, WAR). The driver only.
class DependencyMap {
 public:
  /// Makes room for the buffers up to this index.
  void prepare(std::uint32_t index) {
    if (index >= buffers_.size()) buffers_.resize(2 * static_cast<std::size_t>(index) + 1);
  }
  /// Forgets a buffer's tasks, when its record is taken into use; after `prepare`.
  void reset(std::uint32_t index) noexcept {
    buffers_[index].writer = {};
    buffers_[index].readers.clear();
  }
  /// Whether all tasks of a buffer have ended.
  bool is_idle(std::uint32_t index) const noexcept {
    Tasks const& tasks = buffers_[index];
    for (TaskReference const& reader : tasks.readers)
      if (!has_ended(reader)) return false;
    return has_ended(tasks.writer);
  }

  /// Each task that has not ended and must come before the node, once; makes room for `insert`, and
  /// changes nothing else. The answer holds until the next call.
  std::span<TaskReference const> collect(TaskNode const& node, std::span<BufferUse const> uses) {
    producers_.clear();
    for (BufferUse const& use : uses) {
      Tasks& tasks = buffers_[use.buffer->index];
      if (!writes(use.access) || tasks.readers.empty()) add_producer(node, tasks.writer);
      if (writes(use.access))  // the readers came after the writer
        for (TaskReference const& reader : tasks.readers) add_producer(node, reader);
      else
        make_room(tasks, uses.size());
    }
    return producers_;
  }

  /// Notes what the node touches; after `collect` of the same uses.
  void insert(TaskNode& node, std::span<BufferUse const> uses) noexcept {
    TaskReference const self{&node, node.number};
    for (BufferUse const& use : uses)
      if (!writes(use.access)) buffers_[use.buffer->index].readers.push_back(self);
    for (BufferUse const& use : uses) {
      if (!writes(use.access)) continue;
      buffers_[use.buffer->index].writer = self;
      buffers_[use.buffer->index].readers.clear();
    }
  }

  TaskReference writer(std::uint32_t index) const noexcept { return buffers_[index].writer; }
  std::span<TaskReference const> readers(std::uint32_t index) const noexcept {
    return buffers_[index].readers;
  }

 private:
  struct Tasks {
    TaskReference writer;
    std::vector<TaskReference> readers;
  };

  void add_producer(TaskNode const& node, TaskReference const& task) {
    if (has_ended(task) || task.node->seen_by == node.number) return;
    producers_.push_back(task);
    task.node->seen_by = node.number;
  }

  /// Room for `more` readers, by dropping those that have ended, else by doubling: amortised
  /// constant.
  static void make_room(Tasks& tasks, std::size_t more) {
    auto& readers = tasks.readers;
    if (readers.capacity() - readers.size() >= more) return;
    // Without readers a writer follows the last writer, which ended readers imply has ended too.
    std::erase_if(readers, [](TaskReference const& reader) { return has_ended(reader); });
    if (readers.capacity() < 2 * (readers.size() + more))
      readers.reserve(2 * (readers.size() + more));
  }

  std::vector<Tasks> buffers_;
  std::vector<TaskReference> producers_;
};

}  // namespace nntile::common
