#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Queues of serial: of the runtime, and of each task that submits and has not ended.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <utility>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/orchestrate.hh"
#include "nntile/runtime/serial/program.hh"
#include "nntile/runtime/support/buffer_table.hh"
#include "nntile/runtime/support/parts.hh"
#include "nntile/runtime/support/submitted.hh"

namespace nntile::detail::serial {

template <class S> class Level;
template <class S> class Levels;

/// A copied submission to an S, a replay, or the end of a retired buffer, that has not ended.
template <class S> struct Queued : Pending {
  std::uint64_t first = 0;  // sequences of its tasks; none for a retired buffer,
  std::uint64_t last = 0;   // it stands behind `last`
  std::unique_ptr<Flight> flight;
  NestingBody<Level<S>> submits;     // of a task that does
  DynamicArray<DataHandle> handles;  // its operands'
  DynamicArray<Use<support::Buffer*>> uses;
  DynamicArray<void*> pointers;
  DynamicArray<std::byte> arguments;
  support::Buffer* retired = nullptr;
  bool nests = false;  // also when its body has gone
  bool started = false;
  bool over = false;  // it may leave the queue
};

/// Tasks in the order of their submission. An open task, which waits for its token or for others,
/// holds back those that name one of its buffers, or of a buffer that has regions one of the bytes
/// that it names; all others pass it, and so do those of its stream once it is there.
template <class S> struct Line {
  using Queued = serial::Queued<S>;
  std::deque<std::unique_ptr<Queued>> queue;  // open ones; the driver's
  support::Submitted submitted;
  bool changed = false;    // something that is queued may be started
  std::uint64_t seen = 0;  // count of ended tokens at the last look
  std::uint64_t look = 0;  // the last look, if its marks are all that the next one needs; or 0
  std::size_t looked = 0;  // open ones in front that it saw

  /// Any thread may ask.
  bool has_ended(std::uint64_t sequence) const noexcept {
    if (sequence <= ended_.load(std::memory_order_acquire)) return true;
    Lock guard(mutex_);
    if (sequence <= ended_.load(std::memory_order_relaxed)) return true;
    auto const at = std::lower_bound(
        queue.begin(), queue.end(), sequence,
        [](auto const& queued, std::uint64_t number) { return queued->last < number; });
    return sequence <= submitted && (at == queue.end() || sequence < (*at)->first);
  }
  /// A task that ran when it was submitted, while nothing was queued.
  void end_at_once(std::uint64_t sequence) noexcept {
    ended_.store(sequence, std::memory_order_release);
  }
  /// Whether an open task names one of these buffers, or a byte of it.
  bool holds_back(std::span<Use<support::Buffer*> const> uses) const noexcept {
    for (Use<support::Buffer*> const& use : uses)
      if (last_user(*use.handle) != 0) return true;
    return false;
  }
  /// The sequence of the last task, if it is open, that names the buffer, or a byte of it; 0
  /// without one. Cost: of a buffer that has regions, linear in the queue.
  std::uint64_t last_user(support::Buffer& buffer) const noexcept {
    if (has_parts(buffer)) return last_user_of_part(buffer);
    auto const last = static_cast<std::uint64_t>(buffer.last_use);
    return has_ended(last) ? 0 : last;
  }

  /// Queues what fill(queued) returns, a Task, behind the others; its buffers are those of a table.
  /// Returns its sequence. Throws what Table::bind does, std::bad_alloc.
  template <class Table, class Fill> std::uint64_t push(Table& table, Fill fill) {
    auto queued = std::make_unique<Queued>();
    Queued& last = *queued;
    Task<DataHandle> const task = fill(last);
    last.uses.resize(task.uses.size());
    last.pointers.resize(task.uses.size());
    last.arguments.resize(task.arguments.size());
    if (!task.arguments.empty())
      std::memcpy(last.arguments.data(), task.arguments.data(), task.arguments.size());
    table.bind(task, last.uses.data(), last.pointers.data());
    last.body = {task.codelet,         submitted + 1,         last.uses,
                 last.pointers.data(), last.arguments.data(), task.label};
    bool const held = holds_back(last.uses);
    enter(std::move(queued), 1);
    last.nests = static_cast<bool>(last.submits);
    if (!held || S::goes_ahead(last.uses)) changed = true;
    if (std::any_of(last.uses.begin(), last.uses.end(),
                    [](Use<support::Buffer*> const& use) { return has_parts(*use.handle); }))
      look = 0;
    support::BufferTable::commit(last.uses, support::Ticket{last.last});
    support::commit_parts(last.uses, support::Ticket{last.last});
    return submitted;
  }
  /// Queues a replay of that many tasks, or one if there is none, whose uses the caller commits.
  /// Throws std::bad_alloc.
  void push(std::unique_ptr<Queued> flight, std::size_t tasks) {
    enter(std::move(flight), tasks == 0 ? 1 : tasks);
    changed = true;
    look = 0;
  }
  /// Queues the end of a retired buffer. Throws std::bad_alloc.
  void push_retired(support::Buffer& buffer) {
    auto queued = std::make_unique<Queued>();
    queued->retired = &buffer;
    enter(std::move(queued), 0);
    changed = true;
    if (has_parts(buffer)) look = 0;
  }
  /// Drops those that are over from `begin` to `end`, which have been looked at.
  void drop_over(std::size_t begin, std::size_t end) noexcept {
    Lock guard(mutex_);
    auto const at = [&](std::size_t place) {
      return queue.begin() + static_cast<std::ptrdiff_t>(place);
    };
    auto const kept =
        std::remove_if(at(begin), at(end), [](auto const& queued) { return queued->over; });
    looked = static_cast<std::size_t>(kept - queue.begin());
    queue.erase(kept, at(end));
    std::uint64_t const all = submitted;
    ended_.store(queue.empty() ? all : queue.front()->first - 1, std::memory_order_release);
  }
  /// The events of a level begin behind this sequence.
  void begin_behind(std::uint64_t sequence) noexcept {
    submitted = sequence;
    ended_.store(sequence, std::memory_order_relaxed);
  }

 private:
  /// The last use of a whole says nothing here: tasks on bytes apart pass each other.
  std::uint64_t last_user_of_part(support::Buffer const& buffer) const noexcept {
    auto const shares = [&](support::Buffer const& other) {
      if (&other == &buffer) return true;
      for (support::Overlap const& overlap : support::overlaps_of(buffer))
        if (overlap.buffer == &other) return true;
      return false;
    };
    for (auto at = queue.rbegin(); at != queue.rend(); ++at) {
      Queued const& queued = **at;
      if (queued.over) continue;
      for (Use<support::Buffer*> const& use : queued.uses)
        if (shares(*use.handle)) return queued.last;
      if (queued.flight == nullptr) continue;
      Flight& flight = *queued.flight;
      for (std::size_t number = flight.next(); number != flight.size(); ++number) {
        if (flight.has_ended(number)) continue;
        for (Use<Binding> const& use : flight.uses_of(number))
          if (shares(flight.buffer(use.handle))) return queued.last;
      }
    }
    return 0;
  }

  /// Of a buffer, a part may have been made since the last look, which did not mark it.
  static bool has_parts(support::Buffer const& buffer) noexcept {
    return buffer.is(support::Buffer::region | support::Buffer::divided);
  }

  void enter(std::unique_ptr<Queued> queued, std::size_t tasks) {
    queued->first = submitted + 1;
    queued->last = submitted + tasks;
    Lock guard(mutex_);
    queue.push_back(std::move(queued));
    submitted = submitted + tasks;
  }

  mutable Mutex mutex_;                  // of the queue's places, which threads that ask look at
  std::atomic<std::uint64_t> ended_{0};  // all up to here have
};

}  // namespace nntile::detail::serial
