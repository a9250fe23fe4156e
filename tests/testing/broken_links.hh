#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The dependences of the runtime in broken.hh: its last writers, readers and groups of a buffer.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "nntile/runtime/concept.hh"
#include "tests/testing/broken_state.hh"
#include "tests/testing/defect.hh"

namespace nntile::test::broken {

/// Orders tasks by what they do to buffers, but for what the defect forgets.
class Links {
 public:
  Links(Defect defect, std::deque<Buffer>& buffers, std::deque<Record>& tasks)
      : defect_(defect), buffers_(buffers), tasks_(tasks) {}

  /// Has a submitted task follow those that it depends on. `replaying`: it belongs to a replay.
  void add(std::uint64_t id, bool replaying) {
    for (auto use : unite(tasks_[id - 1].uses)) {
      if (is(Defect::takes_updates_for_reads) && use.access == Access::update)
        use.access = Access::read;
      if (use.access == Access::unordered) continue;
      Buffer& buffer = buffers_[use.handle.number];
      if (use.access == Access::write_disjoint) {
        link_disjoint(id, buffer);
        continue;
      }
      if (!is(Defect::forgets_disjoint_writers))
        for (std::uint64_t const earlier : buffer.disjoint) follow(id, earlier);
      if (writes(use.access)) buffer.disjoint.clear();
      bool const at_once = use.access == Access::accumulate && is(Defect::runs_accumulates_at_once);
      bool const skips_writer =
          (is(Defect::skips_read_after_write) && use.access == Access::read) ||
          (is(Defect::replays_at_once) && replaying) ||
          (is(Defect::reorders_two_writers) && use.access == Access::write) || at_once;
      if (!skips_writer) {
        follow(id, buffer.writer);
        for (std::uint64_t const earlier : buffer.group) follow(id, earlier);
      }
      if (at_once) {
        buffer.group.push_back(id);
        continue;
      }
      buffer.group.clear();
      if (!writes(use.access)) {
        if (buffer.readers.size() == 8 && is(Defect::remembers_eight_readers))
          buffer.readers.erase(buffer.readers.begin());
        if (!replaying || !is(Defect::replay_leaves_no_readers)) buffer.readers.push_back(id);
        continue;
      }
      if (is(Defect::forgets_second_reader) && buffer.readers.size() > 1)
        buffer.readers.erase(buffer.readers.begin() + 1);
      if (!is(Defect::drops_write_after_read))
        for (std::uint64_t const reader : buffer.readers) follow(id, reader);
      buffer.readers.clear();
      buffer.writer = id;
    }
  }

 private:
  bool is(Defect defect) const { return defect_ == defect; }

  /// What a task does to each of its buffers: the union of its uses.
  std::vector<Use<Handle>> unite(std::vector<Use<Handle>> const& uses) const {
    std::vector<Use<Handle>> united;
    for (auto const& use : uses) {
      auto const found = std::find_if(united.begin(), united.end(), [&](auto const& other) {
        return other.handle.number == use.handle.number;
      });
      if (found == united.end())
        united.push_back(use);
      else if (found->access == Access::unordered)
        found->access = use.access;
      else if (use.access != Access::unordered && found->access != use.access &&
               !is(Defect::forgets_repeated_operands))
        found->access = Access::update;
      if (is(Defect::sees_one_operand)) break;
    }
    return united;
  }

  /// After all but those of its kind.
  void link_disjoint(std::uint64_t id, Buffer& buffer) {
    if (!is(Defect::runs_disjoint_writers_early)) {
      follow(id, buffer.writer);
      for (std::uint64_t const earlier : buffer.group) follow(id, earlier);
      for (std::uint64_t const reader : buffer.readers) follow(id, reader);
    }
    buffer.disjoint.push_back(id);
  }
  void follow(std::uint64_t id, std::uint64_t earlier) {
    if (earlier == 0 || earlier == id || tasks_[earlier - 1].finished()) return;
    tasks_[earlier - 1].successors.push_back(id);
    ++tasks_[id - 1].missing;
  }

  Defect const defect_;
  std::deque<Buffer>& buffers_;
  std::deque<Record>& tasks_;
};

}  // namespace nntile::test::broken
