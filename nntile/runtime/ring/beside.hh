#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Takes and runs tasks on a worker that is not the submitter.

#include <cstdint>

#include "nntile/runtime/ring/backoff.hh"
#include "nntile/runtime/ring/machine.hh"
#include "nntile/runtime/ring/trial.hh"

namespace nntile::detail::ring {

/// One such worker: where many tasks are ready it takes several; to a submitter that runs tasks as
/// well it leaves tiny ones (Backoff), and small ones that others end sooner without it (Trial).
template <class Policy> class Beside {
 public:
  Beside(Machine<Policy>& machine, std::uint32_t self)
      : machine_(machine),
        self_(self),
        backs_off_(!machine.options.own_driver && !machine.options.oversubscribed) {}

  /// The next task, or no_task; then it may have waited.
  ReadyTask next() {
    // Replayed tasks come from lanes: a look at cells of the queue before is in vain mostly.
    if (machine_.scheduler.flights.active() != 0) return with_kept(machine_.scheduler.next(self_));
    if (leaves_) [[unlikely]]
      return with_kept(next_behind_a_wait());
    std::uint32_t more = 0;
    ReadyTask const ready = machine_.scheduler.next_of_several(self_, [&](ReadyTask coming) {
      if (domain_of(coming) == root_domain) machine_.root.window.prefetch(slot_of(coming));
      ++more;
    });
    if (more != 0) machine_.parking.wake(more);  // they were in no queue for a moment
    return with_kept(ready);
  }

  /// Machine::run.
  ReadyTask run(ReadyTask ready) {
    if (!backs_off_ || !backoff_.is_due()) return machine_.run(self_, ready);
    if (!is_usual(ready)) {
      backoff_.stop();
      note();
      return machine_.run(self_, ready);
    }
    return run_timed(ready);
  }

 private:
  struct Timed {
    std::int64_t& ns;
    static std::int64_t begin() { return Policy::Clock::nanoseconds(); }
    void end(std::int64_t begin) const { ns = Policy::Clock::nanoseconds() - begin; }
  };

  [[gnu::noinline]] ReadyTask run_timed(ReadyTask ready) {
    std::int64_t body_ns = 0;
    ReadyTask const kept = machine_.run(self_, ready, Timed{body_ns});
    bool const tiny = judge(body_ns);
    if (!tiny && !(trial_.is_due() && trial_.leave(progress()))) return kept;
    if (kept != no_task) machine_.give(kept);
    give_own();
    if (tiny)
      backoff_.wait();
    else
      note();
    return no_task;
  }
  /// The same task. Of several that it takes from a lane, where a flight may have become active
  /// amid the look, those that it keeps were in no queue for a moment.
  ReadyTask with_kept(ReadyTask ready) {
    if (is_program(ready) && ready != no_task && machine_.scheduler.keeps_some(self_))
      machine_.parking.wake(1);
    return ready;
  }
  /// For a worker that has left tasks to the submitter.
  [[gnu::noinline]] ReadyTask next_behind_a_wait() {
    bool const was_away = trial_.away();
    if (was_away) stay_away();
    ReadyTask const ready = machine_.scheduler.next(self_);
    if (!was_away && ready == no_task && judge(0)) backoff_.wait();
    return ready;
  }
  /// Until it is to work again, or what comes may need this worker, or all of them.
  void stay_away() {
    do trial_.wait();
    while (machine_.scheduler.only_usual() && !machine_.stop.load(std::memory_order_relaxed) &&
           trial_.stay(progress()));
    trial_.stop();
    note();
  }
  bool judge(std::int64_t body_ns) {
    bool const waits = backoff_.judge(body_ns, activity());
    note();
    return waits;
  }
  /// Has the submitter know whether it is alone now.
  void note() {
    if ((backoff_.waits() || trial_.away()) == leaves_) return;
    leaves_ = !leaves_;
    machine_.leaving.fetch_add(leaves_ ? 1u : ~0u, std::memory_order_relaxed);
  }
  /// Those in its deque, of any domain. From one of a program on they are left to thieves: it may
  /// come from its lane, which it enters once.
  void give_own() {
    auto& deque = machine_.scheduler.worker(self_).deque;
    for (ReadyTask own; deque.pop(own);) {
      bool const stays = is_program(own);
      if (stays)
        (void)deque.push(own);
      else
        machine_.scheduler.push_shared(own, normal_level);
      machine_.parking.wake(1);
      if (stays) return;
    }
  }

  /// Whether it is a plain task of the root that any worker may run, of normal level.
  bool is_usual(ReadyTask ready) const {
    if (is_program(ready) || domain_of(ready) != root_domain) return false;
    auto const& slot = machine_.root.window.at(slot_of(ready));
    return slot.kind == SlotKind::task && slot.level == normal_level && slot.worker == -1;
  }
  /// Counts what has been submitted and run.
  Progress progress() const {
    std::uint64_t done = machine_.root.window.head();
    for (std::uint32_t i = 0; i < machine_.scheduler.workers(); ++i)
      done += machine_.scheduler.worker(i).executed.load(std::memory_order_relaxed);
    return {Policy::Clock::nanoseconds(), done};
  }
  /// The same of the submitter.
  std::uint64_t activity() const {
    auto const& executed = machine_.scheduler.worker(machine_.submitter).executed;
    return machine_.root.window.head() + executed.load(std::memory_order_relaxed);
  }

  Machine<Policy>& machine_;
  std::uint32_t const self_;
  bool const backs_off_;
  Backoff<Policy> backoff_;
  Trial<Policy> trial_;
  bool leaves_ = false;  // as counted
};

}  // namespace nntile::detail::ring
