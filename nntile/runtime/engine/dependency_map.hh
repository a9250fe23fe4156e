#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The last users of each buffer: the order of tasks follows from them.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nntile/core/last_users.hh"
#include "nntile/runtime/engine/task_node.hh"
#include "nntile/runtime/support/groups.hh"
#include "nntile/runtime/support/parts.hh"

namespace nntile::support {

/// The last users of each buffer, by its index. Law: LastUsers; tasks that accumulate commute, and
/// so do those that write disjoint bytes. The driver only.
class DependencyMap {
 public:
  /// Makes room for the buffers up to this index.
  void prepare(std::uint32_t index) {
    if (index >= buffers_.size()) buffers_.resize(2 * static_cast<std::size_t>(index) + 1);
  }
  /// Forgets a buffer's tasks, when its record is taken into use; after `prepare`.
  void reset(std::uint32_t index) noexcept {
    forget_order(index);
    buffers_[index].unordered.clear();
  }
  /// Whether all tasks of a buffer have ended, and those of parts that share bytes with it.
  bool is_idle(Buffer const& buffer) const noexcept {
    bool idle = true;
    auto const look = [&](TaskReference const& task) { idle &= has_ended(task); };
    each_user(buffer, Access::write, look);
    each_unordered(buffer, look);
    return idle;
  }
  /// Calls visit(task) for each task to which the order does not apply, and which names a buffer or
  /// a part that shares bytes with it: it holds the buffer.
  template <class Visit> void each_unordered(Buffer const& buffer, Visit visit) const {
    for (TaskReference const& task : buffers_[buffer.index].unordered) visit(task);
    for (Overlap const& other : overlaps_of(buffer))
      for (TaskReference const& task : buffers_[other.buffer->index].unordered) visit(task);
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
    if (node.groups != Groups::none) [[unlikely]]
      return collect_groups(node, uses, join);
    for (Use<Buffer*> const& use : uses) {
      if (writes(use.access)) continue;
      Users& users = buffers_[use.handle->index];
      users.begin_group(Access::read, join);
      make_room(users.readers, uses.size());
    }
    producers_.clear();
    auto const before = [&](TaskReference const& task) { add_producer(node, task); };
    for (Use<Buffer*> const& use : uses) {
      buffers_[use.handle->index].each_before(use.access, before);
      for (Overlap const& other : overlaps_of(*use.handle))
        each_user(buffers_[other.buffer->index], use.access, before);
    }
    return producers_;
  }

  /// Each task that has not ended and holds the buffer or a part of it, once; likewise.
  std::span<TaskReference const> collect_holders(TaskNode const& node, Buffer& buffer) {
    Use<Buffer*> const use[] = {{&buffer, Access::write}};
    (void)collect(node, use, [](auto const&) { return TaskReference{}; });  // no group begins
    each_unordered(buffer, [&](TaskReference const& task) { add_producer(node, task); });
    return producers_;
  }

  /// Notes what the node touches; after `collect` of the same uses.
  void insert(TaskNode& node, std::span<Use<Buffer*> const> uses) noexcept {
    TaskReference const self{&node, node.number};
    if (node.groups != Groups::none) [[unlikely]]
      return insert_groups(node, uses, self);
    for (Use<Buffer*> const& use : uses) enter(use, self);
  }

 private:
  /// Readers, or tasks of another group.
  class Group : public std::vector<TaskReference> {
   public:
    Access kind() const { return kind_; }
    void set_kind(Access kind) { kind_ = kind; }
    void clear() {
      vector::clear();
      kind_ = Access::read;
    }

   private:
    Access kind_ = Access::read;
  };
  struct Users : LastUsers<TaskReference, Group> {
    std::vector<TaskReference> unordered;  // in no order
  };

  /// For uses of which some are in groups, or in no order.
  template <class Join>
  [[gnu::noinline]] std::span<TaskReference const> collect_groups(
      TaskNode const& node, std::span<Use<Buffer*> const> uses, Join& join) {
    for (std::size_t i = 0; i < uses.size(); ++i) {
      Users& users = buffers_[uses[i].handle->index];
      Access const order = order_of(uses, i, node.groups);
      if (is_group(order) || order == Access::read) {
        users.begin_group(order, join);
        make_room(users.readers, uses.size());
      } else if (order == Access::unordered) {
        make_room(users.unordered, uses.size());
      }
    }
    producers_.clear();
    auto const before = [&](TaskReference const& task) { add_producer(node, task); };
    for (std::size_t i = 0; i < uses.size(); ++i) {
      Users const& users = buffers_[uses[i].handle->index];
      Access const order = order_of(uses, i, node.groups);
      if (order == Access::unordered) continue;
      if (is_group(order))
        users.each_before_group(before);
      else
        users.each_before(order, before);
      for (Overlap const& other : overlaps_of(*uses[i].handle))
        each_user(buffers_[other.buffer->index], order, before);
    }
    return producers_;
  }
  [[gnu::noinline]] void insert_groups(TaskNode const& node, std::span<Use<Buffer*> const> uses,
                                       TaskReference const& self) noexcept {
    for (std::size_t i = 0; i < uses.size(); ++i) {
      Access const order = order_of(uses, i, node.groups);
      if (is_group(order))
        buffers_[uses[i].handle->index].enter_group(order, self);
      else if (order == Access::unordered)
        buffers_[uses[i].handle->index].unordered.push_back(self);
      else
        enter(uses[i], self);
    }
  }

  template <class Visit> static void each_user(Users const& users, Access access, Visit& visit) {
    visit(users.writer);
    if (writes(access) || users.readers.kind() != Access::read)
      for (TaskReference const& reader : users.readers) visit(reader);
  }
  /// Behind a writer, parts that name no other bytes have no users of their own.
  void enter(Use<Buffer*> const& use, TaskReference const& self) noexcept {
    buffers_[use.handle->index].enter(use.access, self);
    if (!writes(use.access)) return;
    for (Overlap const& other : overlaps_of(*use.handle))
      if (other.covered) forget_order(other.buffer->index);
  }

  void forget_order(std::uint32_t index) noexcept {
    buffers_[index].writer = {};
    buffers_[index].readers.clear();
  }

  [[gnu::always_inline]] void add_producer(TaskNode const& node, TaskReference const& task) {
    if (has_ended(task) || task.node->seen_by == node.number) return;
    producers_.push_back(task);
    task.node->seen_by = node.number;
  }

  /// Room for `more` tasks, by dropping those that have ended, else by doubling: amortised
  /// constant.
  static void make_room(std::vector<TaskReference>& tasks, std::size_t more) {
    if (tasks.capacity() - tasks.size() >= more) return;
    // Without readers a writer follows the last writer, which ended readers imply has ended too.
    std::erase_if(tasks, [](TaskReference const& task) { return has_ended(task); });
    if (tasks.capacity() < 2 * (tasks.size() + more)) tasks.reserve(2 * (tasks.size() + more));
  }

  std::vector<Users> buffers_;
  std::vector<TaskReference> producers_;
};

}  // namespace nntile::support
