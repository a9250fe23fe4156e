#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The order that accesses to one buffer impose on tasks.

#include "nntile/core/access.hh"
#include "nntile/core/dynamic_array.hh"

namespace nntile {

/// The tasks that accessed a buffer last: its last writer, and its readers since.
///
/// Law: a task comes after the last writer of what it reads (RAW), and after the last writer and
/// all readers since of what it writes, updates or accumulates into (WAW, WAR). Where there are
/// readers, they come after the writer, and a task that waits for them need not wait for it. A task
/// that accesses several buffers looks up all of them before it enters any.
///
/// If tasks that accumulate are to commute, or those that write disjoint bytes, `readers` may be
/// such a group in place of readers, and `kind()` is then their access: the tasks of a group of any
/// kind come after `writer`, and not after one another. `begin_group` comes before a task of
/// another kind.
template <class Task, class Readers = DynamicArray<Task>> struct LastUsers {
  Task writer{};
  Readers readers{};

  /// Calls before(task) for each task that must come before one with this access; for `writer` too
  /// while nothing has written.
  template <class Before> void each_before(Access access, Before&& before) const {
    if (!writes(access) || readers.empty()) return before(writer);
    for (Task const& reader : readers) before(reader);
  }

  /// Notes a task with this access.
  void enter(Access access, Task const& task) {
    if (writes(access)) {
      writer = task;
      readers.clear();
    } else if (readers.empty() || !(readers.back() == task)) {
      readers.push_back(task);
    }
  }

  /// Ends the present group unless it is of that kind; join(group) is one task that comes after all
  /// of a group of several.
  template <class Join> void begin_group(Access kind, Join&& join) {
    if (readers.kind() == kind) return;
    if (!readers.empty())
      writer = readers.begin() + 1 == readers.end() ? readers.back() : join(readers);
    readers.clear();
  }
  /// Calls before(task) for each task that must come before one of the present group.
  template <class Before> void each_before_group(Before&& before) const { before(writer); }
  /// Notes a task of a group of that kind, which is not of readers.
  void enter_group(Access kind, Task const& task) {
    enter(Access::read, task);
    readers.set_kind(kind);
  }
};

}  // namespace nntile
