#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Queues of serial: of the runtime, and of each task that submits and has not ended.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "nntile/runtime/orchestrate.hh"
#include "nntile/runtime/serial/program.hh"
#include "nntile/runtime/support/buffer_table.hh"
#include "nntile/runtime/support/submitted.hh"

namespace nntile::detail::serial {

class Level;
class Levels;

/// A copied submission, a replay, or the end of a retired buffer, that waits for its turn.
struct Queued {
  support::TaskBody body;
  std::unique_ptr<Flight> flight;   // `body` is that of its next step
  NestingBody<Level> submits;       // of a task that does
  std::vector<DataHandle> handles;  // its operands'
  std::vector<Use<support::Buffer*>> uses;
  std::vector<void*> pointers;
  std::vector<std::byte> arguments;
  support::Buffer* retired = nullptr;
  bool started = false;
};

/// Tasks in the order of their submission.
struct Line {
  std::deque<Queued> queue;  // only the head has started
  support::Submitted submitted;
  std::atomic<std::uint64_t> ended{0};  // tasks end in order: all up to here have

  bool has_ended(std::uint64_t sequence) const noexcept {
    return sequence <= ended.load(std::memory_order_acquire);
  }

  /// Queues what fill(queued) returns, a Task, behind the others; its buffers are those of a table.
  /// Returns its sequence. Throws what Table::bind does, std::bad_alloc.
  template <class Table, class Fill> std::uint64_t push(Table& table, Fill fill) {
    Queued& last = queue.emplace_back();
    try {
      Task<DataHandle> const task = fill(last);
      last.uses.resize(task.uses.size());
      last.pointers.resize(task.uses.size());
      last.arguments.resize(task.arguments.size());
      if (!task.arguments.empty())
        std::memcpy(last.arguments.data(), task.arguments.data(), task.arguments.size());
      table.bind(task, last.uses.data(), last.pointers.data());
      last.body = {task.codelet,          0,         last.uses, last.pointers.data(),
                   last.arguments.data(), task.label};
    } catch (...) {
      queue.pop_back();
      throw;
    }
    last.body.sequence = ++submitted;
    support::BufferTable::commit(last.uses, support::Ticket{last.body.sequence});
    support::commit_parts(last.uses, support::Ticket{last.body.sequence});
    return last.body.sequence;
  }
  template <class Table> void push_retired(Table& table, DataHandle handle) {
    Queued& last = queue.emplace_back();
    try {
      last.retired = &table.begin_retire(handle);
    } catch (...) {
      queue.pop_back();
      throw;
    }
  }
};

}  // namespace nntile::detail::serial
