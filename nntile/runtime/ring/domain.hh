#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Everything that one ring owns, and how a ready task is run and ended.

#include <cstdint>

#include "nntile/runtime/common/buffer_table.hh"
#include "nntile/runtime/common/driving_thread.hh"
#include "nntile/runtime/common/failures.hh"
#include "nntile/runtime/common/marks.hh"
#include "nntile/runtime/common/options.hh"
#include "nntile/runtime/common/tokens.hh"
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

  explicit Domain(RuntimeOptions const& wished)
      : options(common::check_options(wished, "ring")),
        table(failures),
        thread(options.spawned),
        scheduler(static_cast<std::uint32_t>(options.workers)),
        tokens(this, &token_ended) {}
  Domain(Domain const&) = delete;
  Domain& operator=(Domain const&) = delete;

  /// Runs one ready task as worker `self`. Returns a task that it made ready, which the caller runs
  /// or gives away, or no_item.
  Item run(std::uint32_t self, Item item) {
    Hot& slot = window.hot(task_of(item));
    count(scheduler.worker(self).executed);
    if (slot.kind == SlotKind::task)
      run_task(self, slot);
    else
      run_record(self, slot);
    Successors successors{*this, self};
    window.complete(slot, successors);
    return successors.end();
  }

  /// Gives a ready task to whoever comes first.
  void give(Hot const& slot) {
    scheduler.push_shared(slot.id, slot.level, slot.worker);
    parking.wake(1);
  }
  void give(Item item) { give(window.hot(task_of(item))); }

  common::CheckedOptions const options;
  common::Failures failures;
  common::BufferTable table;
  common::DrivingThread thread;
  Window<Policy> window;
  Records<Policy> records;
  Scheduler<Policy> scheduler;
  Parking<Policy> parking;
  Atomic<bool> stop{false};
  Atomic<bool> polling{false};  // an idle worker looks after polls
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
    (void)common::run_body(failures, tokens, body, nullptr);
    Policy::Trace::end(static_cast<int>(self), body.sequence);
  }

  void run_record(std::uint32_t self, Hot& slot) {
    auto& record = *static_cast<Record<Policy>*>(const_cast<void*>(window.cold(slot.id).work));
    Policy::Trace::begin(static_cast<int>(self), slot.sequence());
    bool const ended =
        common::run_body(failures, tokens, record.body, &record) == common::Ran::ended;
    Policy::Trace::end(static_cast<int>(self), slot.sequence());
    if (ended) return end_record(record);
    parking.wake(1);  // somebody must poll, if only to learn that there is nothing to poll
    parking.call_driver();
  }

  /// The tasks that waited for a record go to everybody: its end has no worker to keep one.
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
    auto& record = *static_cast<Record<Policy>*>(task);
    common::settle(self.failures, record.body, status);
    self.end_record(record);
  }

  static void count(Atomic<std::uint64_t>& counter) {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
};

}  // namespace nntile::detail::ring
