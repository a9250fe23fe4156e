#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Tasks of serial that submit tasks.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/error.hh"
#include "nntile/core/stack.hh"
#include "nntile/runtime/nested.hh"
#include "nntile/runtime/serial/serial.hh"
#include "nntile/runtime/support/event_name.hh"
#include "nntile/runtime/support/nested_buffers.hh"

namespace nntile {

namespace detail::serial {

/// Looks operands of a task that submits up in a table of buffers.
template <class Table> struct TableOfApart {
  Table& table;
  /// Throws what the table's does, ValueError (regions that overlap).
  void bind(Task<DataHandle> const& task, Use<support::Buffer*>* uses, void** pointers) {
    table.bind(task, uses, pointers);
    support::check_apart({uses, task.uses.size()});
  }
};

/// Queues a task that submits, whose operands are those of a table. Returns its sequence. Throws
/// what Line::push does, ValueError (operands that overlap).
template <class S, class Table>
std::uint64_t push_nesting(Line<S>& line, Table& table, NestingTask<Level<S>>&& task) {
  TableOfApart<Table> operands{table};
  return line.push(operands, [&](Queued<S>& last) {
    last.submits = std::move(task.body);
    for (Use<DataHandle> const& use : task.uses) last.handles.push_back(use.handle);
    return Task<DataHandle>{&support::nesting_codelet, task.uses, {}, task.hints, task.label};
  });
}

/// The tasks of one task that submits, `depth` levels below the runtime's own, whose domain that
/// is. They run when its body waits or has returned, so that a recursion without waits needs no
/// stack.
template <class S> class Level : public support::NestedCalls {
 public:
  using Handle = DataHandle;
  using Queued = serial::Queued<S>;

  Level(S& serial, Levels<S>& levels, std::uint32_t depth);

  /// Makes ready for a task that submits. Throws std::bad_alloc.
  void begin(Queued& task) {
    task_ = &task;
    buffers.begin(depth_, task.body, task.handles);
    first_ = line.submitted + 1;
  }
  /// Runs its body.
  void run(Queued& task) noexcept {
    Nested<Level> nested(*this, begin_body());
    cause_ = task.submits.run(nested);
    end_body();
  }
  /// Settles the task, whose tasks have all ended.
  void end() noexcept {
    std::string failed = serial_.failures_.reported(first_, line.submitted);
    if (cause_.empty()) cause_ = std::move(failed);
    buffers.end(std::exchange(cause_, {}));
    task_->ended.store(true, std::memory_order_relaxed);
  }

  DataHandle allocate(std::size_t bytes, Place place, Lifetime lifetime) {
    return buffers.handle_of(buffers.allocate(bytes, place, lifetime));
  }
  void retire(DataHandle handle) {
    support::Buffer& buffer = buffers.begin_retire(handle);
    if (line.has_ended(static_cast<std::uint64_t>(buffer.last_use))) return buffers.reclaim(buffer);
    try {
      line.push_retired(buffer);
    } catch (std::bad_alloc const&) {  // no memory to note it: it ends with the outer task
    }
  }
  ScopeName open_scope(Lifetime lifetime, CallSite site) {
    return {buffers.open_scope(lifetime, site).number};
  }
  void close_scope(Lifetime lifetime, ScopeName name) {
    buffers.close_scope(lifetime, name, [this](DataHandle handle) { retire(handle); });
  }
  Event submit(Task<DataHandle> const& task) {
    make_room();
    return {&serial_, line.push(buffers, [&](Queued&) { return task; })};
  }
  Event submit_nesting(NestingTask<Level>&& task) {
    make_room();
    return {&serial_, push_nesting(line, buffers, std::move(task))};
  }
  void wait(Event event) {
    check(event, "wait");
    drain(event.sequence);
    serial_.failures_.throw_if_failed(event.sequence);
  }
  bool done(Event event);
  void wait_all() {
    buffers.check_nothing_locked();
    drain_all();
    serial_.failures_.report(first_, line.submitted);
  }
  std::span<std::byte> lock(DataHandle handle, Access access) {
    support::Buffer& buffer = buffers.check_lock(handle, access);
    drain(static_cast<std::uint64_t>(buffer.last_use));
    serial_.failures_.check_lock(buffer, access);
    return buffers.begin_lock(buffer, access);
  }
  void unlock(DataHandle handle) { buffers.end_lock(handle); }

  Line<S> line;
  support::NestedBuffers buffers;

 private:
  static constexpr std::size_t many = 256;

  void make_room();
  void drain(std::uint64_t sequence);
  void drain_all();
  void check(Event event, char const* call) const {
    bool const own = event.sequence >= first_ && event.sequence <= line.submitted;
    if (event.runtime != nullptr && (event.runtime != &serial_ || !own))
      throw LifetimeError(support::foreign_event(call));
  }

  S& serial_;
  Levels<S>& levels_;
  std::uint32_t const depth_;
  Queued* task_ = nullptr;
  std::uint64_t first_ = 0;
  std::string cause_;
};

/// The open levels: of the tasks that submit and have not ended, each inside the one before.
template <class S> class Levels {
  using Level = serial::Level<S>;
  using Queued = serial::Queued<S>;

 public:
  explicit Levels(S& serial) : serial_(serial) {}

  /// Runs the tasks of the innermost level, then goes on where it was submitted, until those of
  /// level `base` are through, a task waits for its token, or `most` tasks were started.
  void run(std::uint64_t most, std::size_t base = 0) {
    auto const start = [this](Queued& head) { return this->start(head); };
    for (;;) {
      Level* const level = depth_ == 0 ? nullptr : levels_[depth_ - 1].get();
      Line<S>& line = level == nullptr ? serial_.line_ : level->line;
      if (!line.queue.empty()) {
        auto const looked = level == nullptr
                                ? serial_.look_through(line, serial_.buffers_, most, start)
                                : serial_.look_through(line, level->buffers, most, start);
        if (looked != S::Looked::opened && !line.queue.empty()) return;
      } else if (depth_ != base) {
        --depth_;
        level->end();
        (depth_ == 0 ? serial_.line_ : levels_[depth_ - 1]->line).changed = true;
      } else {
        return;
      }
    }
  }
  /// The same for the body of level `base`, which waits.
  void run_below(std::size_t base) {
    check_stack(stack_, "serial");
    run(S::no_limit, base);
  }
  /// For a body that asks whether a task is done.
  void do_some(std::size_t base) {
    check_stack(stack_, "serial");
    (void)serial_.tokens_.poll(true);
    run(1, base);
  }
  template <class Over> void drain(std::size_t base, Over over) {
    serial_.drain([&] { run_below(base); }, over);
  }

 private:
  /// Whether it has opened a level; if not, the task has ended or waits for its token.
  bool start(Queued& head) {
    if (head.submits) return start_nesting(head);
    serial_.start(head);
    return false;
  }
  /// Opens a level for the tasks of a task, and runs its body; false if it has ended instead.
  bool start_nesting(Queued& head) {
    support::DrivingThread::InTask const in_task(serial_.thread_);
    if (serial_.failures_.any_marked() && serial_.failures_.cancel_if_marked(head.body))
      return end_unstarted(head);
    support::DefaultFloatEnvironment const environment;
    try {
      if (depth_ + 1 >= support::EventName::domains)
        throw OutOfMemory(concat("serial: more than ", depth_,
                                 " tasks that submit are inside of each other, none of which has "
                                 "ended"));
      if (depth_ == levels_.size())
        levels_.push_back(
            std::make_unique<Level>(serial_, *this, static_cast<std::uint32_t>(depth_ + 1)));
      Level& level = *levels_[depth_];
      level.begin(head);
      ++depth_;
      level.run(head);
      return true;
    } catch (std::exception const& error) {  // no memory for its level
      serial_.failures_.fail(head.body, error.what());
    }
    return end_unstarted(head);
  }
  /// Ends a task whose body has not run, and what that holds: as if it had, inside the task.
  static bool end_unstarted(Queued& head) noexcept {
    head.submits = {};
    head.ended.store(true, std::memory_order_relaxed);
    return false;
  }

  S& serial_;
  std::size_t depth_ = 0;                        // levels in use, each below the one before
  DynamicArray<std::unique_ptr<Level>> levels_;  // by depth, from 1
  StackOfThread stack_;
};

template <class S>
Level<S>::Level(S& serial, Levels<S>& levels, std::uint32_t depth)
    : buffers(serial.failures_, serial.devices_.source()),
      serial_(serial),
      levels_(levels),
      depth_(depth) {
  line.begin_behind(support::EventName{depth, 0}.pack());
}
template <class S> bool Level<S>::done(Event event) {
  check(event, "done");
  if (!line.has_ended(event.sequence)) levels_.do_some(depth_);
  return line.has_ended(event.sequence);
}
template <class S> void Level<S>::make_room() {
  if (line.queue.size() >= many) levels_.run_below(depth_);
}
template <class S> void Level<S>::drain(std::uint64_t sequence) {
  if (!line.has_ended(sequence)) levels_.drain(depth_, [&] { return line.has_ended(sequence); });
}
template <class S> void Level<S>::drain_all() {
  if (!line.queue.empty()) levels_.drain(depth_, [&] { return line.queue.empty(); });
}

}  // namespace detail::serial

/// Makes Serial a NestingRuntime.
template <Device D> struct Nesting<BasicSerial<D>> {
  using S = BasicSerial<D>;
  using Calls = detail::serial::Level<S>;
  static Event submit(S& serial, NestingTask<Calls>&& task) {
    using Levels = detail::serial::Levels<S>;
    typename S::Inside const inside(serial, "orchestrate");
    if (serial.levels_ == nullptr) {
      serial.levels_ = {new Levels(serial), [](Levels* levels) { delete levels; }};
      serial.run_levels_ = [](Levels& levels, std::uint64_t most) { levels.run(most); };
    }
    if (!serial.line_.queue.empty()) serial.run_queue(S::no_limit);
    std::uint64_t const sequence =
        detail::serial::push_nesting(serial.line_, serial.buffers_, std::move(task));
    serial.run_queue(S::no_limit);
    return {&serial, sequence};
  }
};

}  // namespace nntile
