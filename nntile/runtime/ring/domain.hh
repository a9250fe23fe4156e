#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Everything that one ring owns, and how a ready task is run and ended.

#include <cstdint>
#include <utility>

#include "nntile/runtime/common/buffer_table.hh"
#include "nntile/runtime/common/driving_thread.hh"
#include "nntile/runtime/common/failures.hh"
#include "nntile/runtime/common/options.hh"
#include "nntile/runtime/common/run_body.hh"
#include "nntile/runtime/common/tokens.hh"
#include "nntile/runtime/common/workspaces.hh"
#include "nntile/runtime/ring/arguments.hh"
#include "nntile/runtime/ring/record.hh"
#include "nntile/runtime/ring/scheduler.hh"
#include "nntile/runtime/ring/window.hh"

namespace nntile::detail::ring {

/// The state of a ring, and what any of its threads may do with it: run tasks and end them.
template <class Policy> class Domain {
 public:
  template <class T> using Atomic = typename Policy::template Atomic<T>;
  using Hot = HotSlot<Policy>;
  static constexpr std::uint32_t outside = ~0u;  // the number of a thread that is no worker

  /// Notes the thread that drives in `driver`, if any.
  explicit Domain(RuntimeOptions const& requested, std::atomic<std::uintptr_t>* driver = nullptr)
      : options(common::check_options(requested, "ring")),
        thread(options.spawned, driver),
        table(failures, {}, &thread),
        workspaces(static_cast<std::size_t>(options.workers)),
        scheduler(static_cast<std::uint32_t>(options.workers)),
        tokens(this, &token_ended, nullptr, &thread) {}
  Domain(Domain const&) = delete;
  Domain& operator=(Domain const&) = delete;

  /// Runs one ready task as worker `self`. Returns a task that it made ready, which the caller runs
  /// or gives away, or no_item.
  Item run(std::uint32_t self, Item item) {
    count(scheduler.worker(self).executed);
    if (is_program(item))
      return run_program(self, scheduler.flights[flight_of(item)], task_of(item));
    flush(self);
    Hot& slot = window.hot(task_of(item));
    if (slot.kind == SlotKind::task)
      run_task(self, slot);
    else
      run_record(self, slot);
    Successors successors{*this, self};
    window.complete(slot, successors);
    return successors.end();
  }

  /// Makes a ready task available to every worker.
  void give(Hot const& slot) {
    scheduler.push_shared(slot.id, slot.level, slot.worker);
    parking.wake(1);
  }
  void give(Item item) {
    if (!is_program(item)) return give(window.hot(task_of(item)));
    scheduler.flights[flight_of(item)].lane(level_of(item)).push(task_of(item));
    parking.wake(1);
  }

  /// Whether something more urgent waits than this task, which is the caller's to run.
  bool should_wait(Item item) { return scheduler.more_urgent(level_of(item)); }

  /// Publishes the worker's batched sink completions to their flight; before the worker does
  /// anything else.
  void flush(std::uint32_t self) {
    auto& worker = scheduler.worker(self);
    if (worker.sinks != 0) flush(worker);
  }

  common::CheckedOptions const options;
  common::Failures failures;
  common::DrivingThread thread;
  common::BufferTable table;
  common::Workspaces const workspaces;  // one a worker
  Window<Policy> window;
  Records<Policy> records;
  Scheduler<Policy> scheduler;
  Parking<Policy> parking;
  Atomic<bool> stop{false};
  Atomic<bool> polling{false};  // an idle worker calls the polls
  common::Tokens tokens;        // last, so that no thread is inside `finish` when the others die

 private:
  /// Takes the tasks that a completion has made ready: keeps one, shares the others.
  struct Successors {
    Domain& domain;
    std::uint32_t self;
    Hot* kept = nullptr;
    std::uint32_t shared = 0;

    /// The list is walked from the youngest task to the oldest, and of several the oldest of the
    /// highest level is kept; the next older ones are then on top of the deque.
    void ready(Hot& slot) {
      bool const elsewhere = slot.worker >= 0 && static_cast<std::uint32_t>(slot.worker) != self;
      if (self == outside || elsewhere) return share(slot);
      if (kept != nullptr && slot.level < kept->level) return share(slot);
      if (kept != nullptr) share(*kept);
      kept = &slot;
    }
    void ended(Reference task) { domain.parking.completed(task); }
    void share(Hot& slot) {
      if (self == outside)
        domain.scheduler.push_shared(slot.id, slot.level, slot.worker);
      else
        domain.scheduler.push_local(self, slot.id, slot.level, slot.worker);
      ++shared;
    }
    Item end() {
      if (shared != 0) domain.parking.wake(shared);
      return kept == nullptr ? no_item : Item{kept->id};
    }
  };

  void run_task(std::uint32_t self, Hot& slot) {
    Arguments unpacked;
    common::TaskBody const body = unpacked.body(slot, window.cold(slot.id));
    Policy::Trace::begin(static_cast<int>(self), body.sequence);
    (void)common::run_body(failures, tokens, body, nullptr, workspaces[self]);
    Policy::Trace::end(static_cast<int>(self), body.sequence);
  }

  void run_record(std::uint32_t self, Hot& slot) {
    auto& record = *static_cast<Record<Policy>*>(const_cast<void*>(window.cold(slot.id).work));
    if (record.flight != nullptr) return launch(self, *record.flight);
    std::uint64_t const sequence = slot.sequence.load(std::memory_order_relaxed);
    Policy::Trace::begin(static_cast<int>(self), sequence);
    bool const ended = run_outstanding(self, record);
    Policy::Trace::end(static_cast<int>(self), sequence);
    if (ended) end_record(record);
  }

  /// Runs a body that may end elsewhere; true if it has ended, else it must not be touched again.
  template <class Task> bool run_outstanding(std::uint32_t self, Task& task) {
    auto* const token = static_cast<Outstanding<Policy>*>(&task);
    if (common::run_body(failures, tokens, task.body, token, workspaces[self]) ==
        common::Ran::ended)
      return true;
    parking.wake(1);  // some thread must poll, if only to find nothing to poll
    parking.call_driver();
    return false;
  }

  /// Starts a flight. The launch counts as a sink of it: otherwise a preempted worker could end the
  /// flight amid this, and its active bit would be set while it is free, or for the next replay.
  void launch(std::uint32_t self, Flight<Policy>& flight) {
    if (flight.image().size() == 0) return end_record(flight.record());
    auto const ready = static_cast<std::uint32_t>(flight.image().roots.size());
    flight.open_lanes();
    scheduler.flights.activate(flight);
    parking.wake(ready);
    end_sink(self, flight);
  }

  Item run_program(std::uint32_t self, Flight<Policy>& flight, std::uint32_t line) {
    auto& worker = scheduler.worker(self);
    if (worker.sinks != 0 && worker.sink_flight != &flight) flush(worker);
    RecordedTask const& task = flight.image().task(line);
    flight.rewind(line, task);
    flight.prefetch_successors(task);
    std::uint64_t const sequence = flight.sequence() + task.number;
    Policy::Trace::begin(static_cast<int>(self), sequence);
    bool ended = true;
    if (task.prepared)
      ended = run_outstanding(self, flight.prepared(task.attributes));
    else
      run_plain(self, flight, task);
    Policy::Trace::end(static_cast<int>(self), sequence);
    return ended ? end_program_task(self, flight, task) : no_item;
  }

  /// Runs a task whose operands are unpacked here. The rest of its body lies in cold lines, and is
  /// collected for marks and failures only.
  void run_plain(std::uint32_t self, Flight<Policy>& flight, RecordedTask const& task) {
    void* pointers[unpacked_operands];
    flight.bind(task, pointers);
    Use<common::Buffer*> uses[unpacked_operands];
    char text[status_text_bytes];
    (void)common::run_body(failures, task.codelet->cpu,
                           {pointers, flight.attributes(task), text, workspaces[self]},
                           [&] { return flight.body(task, uses, pointers); });
  }

  /// Counts the successors down. From the last count on the flight may be another's, but for those
  /// whose ready tasks this thread still holds.
  Item end_program_task(std::uint32_t self, Flight<Policy>& flight, RecordedTask const& task) {
    std::uint32_t const count = task.successor_count;
    if (count == 0) {
      end_sink(self, flight);
      return no_item;
    }
    Image const& image = flight.image();
    std::uint32_t const* const successors = task.successors();
    bool const local = flight.local();
    Item kept = no_item;
    std::uint32_t shared = 0;
    auto const share = [&](std::uint32_t line) {
      scheduler.push_program(self, flight, line, local ? normal_level : image.task(line).level);
      ++shared;
    };
    auto const less_urgent = [&](std::uint32_t line) {
      return !local && image.task(line).level < image.task(task_of(kept)).level;
    };
    // From the youngest to the oldest, as in a slot's list: see Successors.
    for (std::uint32_t i = count; i-- > 0;) {
      std::uint32_t const line = successors[i] >> 1;
      if ((successors[i] & 1) == 0 && !flight.count_down(line)) continue;
      if (self == outside || (kept != no_item && less_urgent(line))) {
        share(line);
        continue;
      }
      if (kept != no_item) share(task_of(kept));
      kept = program_item(flight.number(), line);
    }
    if (shared != 0) parking.wake(shared);
    return kept;
  }

  void end_sink(std::uint32_t self, Flight<Policy>& flight) {
    if (self == outside) {
      if (flight.count_sinks(1)) end_flight(flight);
      return;
    }
    scheduler.worker(self).sink_flight = &flight;
    ++scheduler.worker(self).sinks;
  }

  void flush(WorkerState<Policy>& worker) {
    std::uint32_t const sinks = std::exchange(worker.sinks, 0);
    if (worker.sink_flight->count_sinks(sinks)) end_flight(*worker.sink_flight);
  }

  void end_flight(Flight<Policy>& flight) {
    scheduler.flights.deactivate(flight);
    end_record(flight.record());
  }

  /// The successors of a record go to the shared queues: no worker is there to keep one.
  void end_record(Record<Policy>& record) {
    Successors successors{*this, outside};
    window.walk(records.close(record), successors);
    Reference const reference = reference_to_record(record.index);
    records.ended(record);
    parking.completed(reference);
    (void)successors.end();
  }

  static void token_ended(void* runtime, void* task, Status status) noexcept {
    auto& self = *static_cast<Domain*>(runtime);
    auto& outstanding = *static_cast<Outstanding<Policy>*>(task);
    if (outstanding.is_record) {
      auto& record = static_cast<Record<Policy>&>(outstanding);
      common::settle(self.failures, record.body, status);
      return self.end_record(record);
    }
    Flight<Policy>& flight = *outstanding.flight;
    common::settle(self.failures, static_cast<Prepared<Policy>&>(outstanding).body, status);
    (void)self.end_program_task(outside, flight, flight.image().task(outstanding.line));
  }

  std::uint32_t level_of(Item item) {
    if (!is_program(item)) return window.hot(task_of(item)).level;
    return scheduler.flights[flight_of(item)].image().task(task_of(item)).level;
  }

  static void count(Atomic<std::uint64_t>& counter) {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
};

/// Destroys a domain, but in a child process leaves it as it is: threads that are not there may
/// hold its locks and sleep at its conditions.
template <class Policy> struct EndOfDomain {
  Domain<Policy>& domain;
  /// Set at the end of the ring's constructor: one that throws destroys its variant member itself.
  bool constructed = false;
  ~EndOfDomain() {
    if (constructed && !domain.thread.in_child()) domain.~Domain();
  }
};

}  // namespace nntile::detail::ring
