#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Queues of serial: of the runtime, and of each task that submits and has not ended.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/runtime/nested.hh"
#include "nntile/runtime/serial/program.hh"
#include "nntile/runtime/support/buffer_table.hh"
#include "nntile/runtime/support/event_name.hh"
#include "nntile/runtime/support/nested_buffers.hh"
#include "nntile/runtime/support/submitted.hh"

namespace nntile::detail::serial {

/// A copied submission, a replay, or the end of a retired buffer, that waits for its turn.
struct Queued {
  support::TaskBody body;
  std::unique_ptr<Flight> flight;   // `body` is that of its next step
  NestingBody<DataHandle> submits;  // of a task that does
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
    return last.body.sequence;
  }
  template <class Table> std::uint64_t push_nesting(Table& table, NestingTask<DataHandle>&& task) {
    return push(table, [&](Queued& last) {
      last.submits = std::move(task.body);
      for (Use<DataHandle> const& use : task.uses) last.handles.push_back(use.handle);
      return Task<DataHandle>{&support::nesting_codelet, task.uses, {}, task.hints, task.label};
    });
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

/// The tasks of one task that submits, `depth` levels below the runtime's own, whose domain that
/// is. They run when its body waits or has returned, so that a recursion without waits needs no
/// stack.
template <class Serial> class Level final : public support::NestedCalls<DataHandle> {
 public:
  Level(Serial& serial, std::uint32_t depth)
      : buffers(serial.failures_), serial_(serial), depth_(depth) {
    line.submitted = support::EventName{depth, 0}.pack();
    line.ended.store(line.submitted);
  }

  /// Makes ready for a task that submits. Throws std::bad_alloc.
  void begin(Queued const& task) {
    buffers.begin(depth_, task.body, task.handles);
    first_ = line.submitted + 1;
  }
  /// Runs its body.
  void run(Queued& task) noexcept {
    Nested<DataHandle> nested(*this, begin_body());
    cause_ = task.submits.run(nested);
    end_body();
  }
  /// Settles the task, whose tasks have all ended.
  void end() noexcept {
    try {
      serial_.failures_.report(first_, line.submitted);
    } catch (std::exception const& error) {
      if (cause_.empty()) cause_ = error.what();
    }
    buffers.end(std::exchange(cause_, {}));
  }

  DataHandle allocate(std::size_t bytes) override {
    return buffers.handle_of(buffers.allocate(bytes));
  }
  void retire(DataHandle handle) override { line.push_retired(buffers, handle); }
  Event submit(Task<DataHandle> const& task) override {
    make_room();
    return {&serial_, line.push(buffers, [&](Queued&) { return task; })};
  }
  Event submit_nesting(NestingTask<DataHandle>&& task) override {
    make_room();
    return {&serial_, line.push_nesting(buffers, std::move(task))};
  }
  void wait(Event event) override {
    check(event, "wait");
    drain(event.sequence);
    serial_.failures_.throw_if_failed(event.sequence);
  }
  bool done(Event event) override {
    check(event, "done");
    if (!line.has_ended(event.sequence)) serial_.do_some(depth_);
    return line.has_ended(event.sequence);
  }
  void wait_all() override {
    buffers.check_nothing_locked();
    drain(line.submitted);
    serial_.failures_.report(first_, line.submitted);
  }
  std::span<std::byte> lock(DataHandle handle, Access access) override {
    support::Buffer& buffer = buffers.check_lock(handle, access);
    drain(static_cast<std::uint64_t>(buffer.last_use));
    serial_.failures_.check_lock(buffer, access);
    return buffers.begin_lock(buffer, access);
  }
  void unlock(DataHandle handle) override { buffers.end_lock(handle); }

  Line line;
  support::NestedBuffers buffers;

 private:
  static constexpr std::size_t many = 256;

  void make_room() {
    if (line.queue.size() >= many) serial_.run_below(depth_);
  }
  void drain(std::uint64_t sequence) {
    if (!line.has_ended(sequence)) serial_.drain(depth_, [&] { return line.has_ended(sequence); });
  }
  void check(Event event, char const* call) const {
    bool const own = event.sequence >= first_ && event.sequence <= line.submitted;
    if (event.runtime != nullptr && (event.runtime != &serial_ || !own))
      throw LifetimeError(support::foreign_event(call));
  }

  Serial& serial_;
  std::uint32_t const depth_;
  std::uint64_t first_ = 0;
  std::string cause_;
};

}  // namespace nntile::detail::serial
