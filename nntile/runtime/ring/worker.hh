#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Worker threads: the scheduling loop and its idle back-off.

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/ring/beside.hh"
#include "nntile/runtime/ring/machine.hh"

namespace nntile::detail::ring {

/// The back-off before a thread sleeps. First it spins, unless threads share cores; then it yields
/// some times: where the producer of work shares its core, sleeping would cost both a wake-up for
/// each task.
template <class Policy> class Spin {
 public:
  explicit Spin(bool oversubscribed) : oversubscribed_(oversubscribed) { reset(); }

  /// Waits a moment; false if it is time to sleep, and then the next wait is the first again.
  bool again() {
    if (spinning_) {
      if (started_ == 0) started_ = Policy::Clock::nanoseconds();
      for (int i = 0; i < 4; ++i) relax();
      spinning_ = Policy::Clock::nanoseconds() - started_ < Policy::Sizes::spin_ns;
      return true;
    }
    if (yields_++ < Policy::Sizes::yields) {
      Policy::Clock::yield_core();
      return true;
    }
    reset();
    return false;
  }
  void reset() {
    spinning_ = !oversubscribed_ && Policy::Sizes::spin_ns > 0;
    yields_ = 0;
    started_ = 0;
  }

 private:
  bool const oversubscribed_;
  bool spinning_;
  int yields_;
  std::int64_t started_;
};

/// Nanoseconds that a thread sleeps while there are polls to call, and while one could still be
/// added.
inline constexpr std::int64_t nap_ns = 50'000;
inline constexpr std::int64_t long_nap_ns = 1'000'000;

template <class Tokens> std::int64_t nap_of(Tokens const& tokens) {
  return tokens.polls() != 0 ? nap_ns : tokens.outstanding() != 0 ? long_nap_ns : -1;
}

/// One executing thread of the ring. Machine is another in tests that try all orders of sleeping
/// and waking.
template <class Policy, class Machine = ring::Machine<Policy>> class Worker {
 public:
  Worker(Machine& machine, std::uint32_t self)
      : machine_(machine),
        beside_{machine, self},
        self_(self),
        kind_(machine.scheduler.kind(self)) {}

  /// Runs tasks until the machine stops.
  void operator()() {
    support::DrivingThread::InTask const in_task(machine_.thread);
    support::DefaultFloatEnvironment const environment;
    if (machine_.options.pin) pin();
    ReadyTask ready = no_task;
    std::uint32_t kept = 0;
    for (;;) {
      if (ready == no_task) ready = find(), kept = 0;
      if (ready == no_task) return;
      ready = beside_.run(ready);
      if (machine_.tokens.due(false)) [[unlikely]]
        poll();
      if (ready == no_task) continue;
      if (machine_.should_wait(self_, ready)) {
        machine_.give(ready);
        ready = no_task;
        continue;
      }
      // A block or a body's task may come in its place, and runs next: `give` is for the root's.
      if (++kept == Policy::Sizes::most_kept) [[unlikely]]
        ready = machine_.take_turns(self_, ready), kept = 0;
    }
  }

 private:
  /// The next task, however long it takes to come; no_task when the machine stops.
  ReadyTask find() {
    ReadyTask ready = beside_.next();
    if (ready != no_task) return ready;
    machine_.flush(self_);
    Spin<Policy> spin(machine_.options.oversubscribed);
    for (bool slept = false;;) {
      if (machine_.stop.load(std::memory_order_acquire)) return no_task;
      if (machine_.scheduler.paused()) {
        machine_.gate.pass();
      } else if (!spin.again()) {
        wait();
        slept = true;
      }
      ready = beside_.next();
      if (ready == no_task) continue;
      if (slept) hand_on();
      return ready;
    }
  }

  /// Wakes another thread: there may be work for two, or polls that no thread calls any more.
  void hand_on() {
    if (machine_.scheduler.any_of_kind(self_)) machine_.parking.wake_kind(1, kind_);
    if (machine_.scheduler.any(self_) || nap_of(machine_.tokens) >= 0) machine_.parking.wake(1);
  }

  /// Polls or sleeps. A thread that sleeps because another one polls checks `polling` after it has
  /// announced itself; the other one clears `polling` before it looks for sleepers to take the
  /// polls over (see find), so one of the two sees the other. So do this thread and one that opens
  /// a token, which looks for sleepers behind that, and wakes any of them: so `polling` is clear
  /// while the thread that has polled for the last token sleeps.
  void wait() {
    bool const polls = nap_of(machine_.tokens) >= 0 && !machine_.polling.exchange(true);
    if (polls) poll();
    machine_.parking.announce(kind_);
    std::int64_t const nap = nap_of(machine_.tokens);
    bool const nobody_polls = nap >= 0 && !polls && !machine_.polling.load();
    bool const polls_nothing = polls && nap < 0;
    if (nobody_polls || polls_nothing || machine_.scheduler.paused() ||
        machine_.scheduler.any(self_) || machine_.stop.load()) {
      machine_.parking.cancel(kind_);
      Policy::Clock::yield_core();  // a push or a pop may be in progress on a preempted thread
    } else if (polls) {
      machine_.parking.nap(nap, kind_);
    } else {
      machine_.parking.sleep(kind_);
    }
    if (polls) machine_.polling.store(false);
  }

  void poll() { (void)machine_.tokens.poll(false); }

  void pin() {
    auto const& cores = machine_.options.cores;
    (void)support::pin_to_core(cores[self_ % cores.size()]);
  }

  Machine& machine_;
  typename Machine::Beside beside_;
  std::uint32_t const self_;
  std::uint32_t const kind_;  // of workers
};

/// The threads of a ring. Destruction stops and joins them: by then there must be nothing to run.
/// In a child process there are none.
template <class Policy> class Workers {
 public:
  explicit Workers(Machine<Policy>& machine) : machine_(machine) {
    auto const first = static_cast<std::uint32_t>(machine.options.own_driver ? 0 : 1);
    try {
      for (std::uint32_t i = first; i < machine.scheduler.workers(); ++i)
        if (!threads_.emplace_back().start(Worker<Policy>(machine, i)))
          throw OutOfMemory(concat("ring: ", threads_.size() - 1,
                                   " threads run, and there is no "
                                   "memory for another one of ",
                                   machine.scheduler.workers(),
                                   " workers, or this user may not have more; ask for fewer "
                                   "workers"));
    } catch (...) {
      join();
      throw;
    }
  }
  Workers(Workers const&) = delete;
  Workers& operator=(Workers const&) = delete;
  ~Workers() { join(); }

 private:
  void join() {
    if (machine_.thread.in_child()) return;
    machine_.stop.store(true, std::memory_order_seq_cst);
    machine_.parking.wake_all();
    for (auto& thread : threads_) thread.join();
  }

  Machine<Policy>& machine_;
  DynamicArray<typename Policy::Thread> threads_;
};

}  // namespace nntile::detail::ring
