#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The last users of each buffer: the order of tasks follows from them.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nntile/core/last_users.hh"
#include "nntile/runtime/engine/task_node.hh"
#include "nntile/runtime/support/claims.hh"
#include "nntile/runtime/support/parts.hh"

namespace nntile::support {

/// The last users of each buffer, by its index. Law: LastUsers; tasks that accumulate commute. The
/// driver only.
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
  /// Whether all tasks of a buffer have ended, and those of parts that share bytes with it.
  bool is_idle(Buffer const& buffer) const noexcept {
    bool idle = true;
    each_user(buffer, Access::write, [&](TaskReference const& task) { idle &= has_ended(task); });
    return idle;
  }
  /// Calls visit(task) for each task that matters to one with this access to a buffer, or to a part
  /// of one.
  template <class Visit> void each_user(Buffer const& buffer, Access access, Visit visit) const {
    each_user(buffers_[buffer.index], access, visit);
    for (Overlap const& other : overlaps_of(buffer))
      each_user(buffers_[other.buffer->index], access, visit);
  }

  /// Each task that has not ended and must come before the node, once; makes room for `insert`, and
  /// changes nothing else, but that join(tasks) may stand for tasks before it: a TaskReference to
  /// one that comes after all of them. The answer holds until the next call.
  template <class Join>
  std::span<TaskReference const> collect(TaskNode const& node, std::span<Use<Buffer*> const> uses,
                                         Join&& join) {
    for (std::size_t i = 0; i < uses.size(); ++i) {
      Users& users = buffers_[uses[i].handle->index];
      bool const in_group = node.accumulates && commutes(uses, i);
      if (in_group || !writes(uses[i].access)) {
        users.begin_group(in_group, join);
        make_room(users, uses.size());
      }
    }
    producers_.clear();
    auto const before = [&](TaskReference const& task) { add_producer(node, task); };
    for (std::size_t i = 0; i < uses.size(); ++i) {
      Users const& users = buffers_[uses[i].handle->index];
      if (node.accumulates && commutes(uses, i))
        users.each_before_group(before);
      else
        users.each_before(uses[i].access, before);
      for (Overlap const& other : overlaps_of(*uses[i].handle))
        each_user(buffers_[other.buffer->index], uses[i].access, before);
    }
    return producers_;
  }

  /// Notes what the node touches; after `collect` of the same uses.
  void insert(TaskNode& node, std::span<Use<Buffer*> const> uses) noexcept {
    TaskReference const self{&node, node.number};
    for (std::size_t i = 0; i < uses.size(); ++i) {
      Users& users = buffers_[uses[i].handle->index];
      if (node.accumulates && commutes(uses, i))
        users.enter_group(self);
      else
        enter(uses[i], self);
    }
  }

 private:
  /// Readers, or tasks that accumulate.
  class Group : public std::vector<TaskReference> {
   public:
    bool accumulating() const { return accumulating_; }
    void set_accumulating() { accumulating_ = true; }
    void clear() {
      vector::clear();
      accumulating_ = false;
    }

   private:
    bool accumulating_ = false;
  };
  using Users = LastUsers<TaskReference, Group>;

  template <class Visit> static void each_user(Users const& users, Access access, Visit& visit) {
    visit(users.writer);
    if (writes(access) || users.readers.accumulating())
      for (TaskReference const& reader : users.readers) visit(reader);
  }
  /// Behind a writer, parts that name no other bytes have no users of their own.
  void enter(Use<Buffer*> const& use, TaskReference const& self) noexcept {
    buffers_[use.handle->index].enter(use.access, self);
    if (!writes(use.access)) return;
    for (Overlap const& other : overlaps_of(*use.handle))
      if (other.covered) reset(other.buffer->index);
  }

  void add_producer(TaskNode const& node, TaskReference const& task) {
    if (has_ended(task) || task.node->seen_by == node.number) return;
    producers_.push_back(task);
    task.node->seen_by = node.number;
  }

  /// Room for `more` readers, by dropping those that have ended, else by doubling: amortised
  /// constant.
  static void make_room(Users& users, std::size_t more) {
    auto& readers = users.readers;
    if (readers.capacity() - readers.size() >= more) return;
    // Without readers a writer follows the last writer, which ended readers imply has ended too.
    std::erase_if(readers, [](TaskReference const& reader) { return has_ended(reader); });
    if (readers.capacity() < 2 * (readers.size() + more))
      readers.reserve(2 * (readers.size() + more));
  }

  std::vector<Users> buffers_;
  std::vector<TaskReference> producers_;
};

}  // namespace nntile::support
