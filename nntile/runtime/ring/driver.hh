#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The driving thread's waits, and the tasks that it runs meanwhile.

#include <cstdint>

#include "nntile/core/error.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/ring/reclaim.hh"
#include "nntile/runtime/ring/worker.hh"

namespace nntile::detail::ring {

/// The driver's side of a domain: everything here is called by the driving thread only. Machine,
/// Domain and Reclaim are others in tests that try all orders of sleeping and waking.
template <class Policy, class Machine = ring::Machine<Policy>, class Domain = ring::Domain<Policy>,
          class Reclaim = ring::Reclaim<Policy>>
class Driver {
 public:
  explicit Driver(Domain& domain)
      : machine_(domain.machine),
        domain_(domain),
        reclaim_(domain),
        helps_(!machine_.options.own_driver),
        large_(domain.window.size() >= 1024) {}

  Reclaim& reclaim() { return reclaim_; }
  Reclaim const& reclaim() const { return reclaim_; }
  bool alone() const { return helps_ && machine_.scheduler.workers() == 1; }
  /// Whether there are tasks that no other thread runs.
  bool is_needed() const { return helps_ && machine_.kinds.is_alone(0); }

  /// The distance ahead from which the submitter should run tasks itself. Where no other thread
  /// does, or all leave them to it, a full window would only be colder.
  std::uint64_t most_ahead() const { return runs_all() ? lone_ahead : domain_.window.size(); }

  /// Runs some tasks, if any are ready.
  void keep_up() {
    if (helps_) {
      support::DefaultFloatEnvironment const environment;
      Helping const helping(machine_);
      ReadyTask ready = no_task;
      for (int left = batch(); left > 0; --left) {
        if (ready == no_task) ready = machine_.scheduler.next(0);
        if (ready == no_task) break;
        ready = helping.run(ready);
        if (machine_.tokens.due(true)) [[unlikely]]
          (void)poll();
      }
      machine_.flush(0);
      if (ready != no_task) machine_.give(ready);
    }
    hand_on();
    reclaim_.collect();
  }

  /// Blocks until a slot is free, and goes on to free some more if all workers are busy: blocking
  /// again at once would have its price again.
  void wait_for_slot() {
    block_until(
        [this] {
          reclaim_.collect();
          return !domain_.window.full();
        },
        [this] { return oldest(); });
    if (large_ && !machine_.parking.anyone_sleeps()) keep_up();
  }

  /// Blocks until fewer tasks are in flight on devices than the window has slots: theirs are free
  /// once they have been launched.
  void wait_for_devices() {
    auto const most = machine_.root.window.size();
    if (machine_.devices.in_flight() < most) return;
    block_until(
        [this, most] {
          reclaim_.collect();
          return machine_.devices.in_flight() < most;
        },
        [this] {
          Reference const pending = domain_.pending.oldest();
          return pending != no_reference ? pending : oldest();
        });
  }

  /// Waits until over() holds. Throws LifetimeError where it does not and the ring is paused, but
  /// for bodies, which end before it is. Before it sleeps it calls target(), which returns a task
  /// of the domain whose end will make a difference. None but this thread gives its slot to
  /// another, so that the end is seen there, or rings.
  ///
  /// Runs tasks meanwhile, one after the other and never one more than needed: a helper that ran
  /// off along a chain would stop submitting.
  template <class Over, class Target> void block_until(Over over, Target target) {
    reclaim_.collect();
    if (over()) return;
    if constexpr (requires { domain_.family; })
      if (domain_.family != nullptr) [[unlikely]]
        return block_in_body(over, target);
    if (machine_.scheduler.paused()) [[unlikely]]
      refuse_to_wait();
    Wait wait(*this);
    while (!over())
      if (!wait.advance()) sleep(target());
    wait.end();
  }

  /// The target of a wait for room: the oldest task of the window.
  Reference oldest() const { return reference_to(domain_.window.watermark()); }

  /// Lets no body run until `resume`: returns when all workers have come to the gate, each behind
  /// the body that it ran. Calls polls meanwhile, for bodies that wait.
  void pause() {
    if (machine_.scheduler.paused()) return;
    machine_.gate.close();
    machine_.scheduler.pause();
    machine_.parking.wake_all();
    auto const workers = static_cast<std::uint32_t>(machine_.options.spawned);
    while (!machine_.gate.wait_for(workers, long_nap_ns)) (void)poll();
    while (machine_.devices.busy())
      if (!poll()) Policy::Clock::yield_core();
  }
  void resume() {
    if (!machine_.scheduler.paused()) return;
    machine_.scheduler.resume();
    machine_.gate.open();
  }

  /// Runs one ready task, if there is one and this thread executes.
  bool help_once() {
    if (!helps_) return false;
    ReadyTask const ready = machine_.scheduler.next(0);
    if (ready == no_task) return false;
    support::DefaultFloatEnvironment const environment;
    ReadyTask const kept = Helping(machine_).run(ready);
    machine_.flush(0);
    if (kept != no_task) machine_.give(kept);
    hand_on();
    return true;
  }

  /// The same for the body of a task, of those that are part of it.
  void help_body_once() {
    support::DefaultFloatEnvironment const environment;
    (void)machine_.help(domain_.worker, *domain_.family);
    hand_on_from_body();
  }

  /// The first unfinished task that a host access to the buffer has to wait for, if any.
  Reference next_user(support::Buffer const& buffer, Access access) {
    Reference found = next_of(reclaim_.users(buffer), access);
    for (support::Overlap const& other : support::overlaps_of(buffer))
      if (found == no_reference) found = next_of(reclaim_.users(*other.buffer), access);
    return found;
  }

 private:
  Reference next_of(BufferUsers const& users, Access access) {
    if (!domain_.finished(users.writer)) return users.writer;
    if (writes(access) || !users.readers.only_read())
      for (Reference const reader : users.readers)
        if (!domain_.finished(reader)) return reader;
    return no_reference;
  }

  /// The same for the body of a task, which runs tasks that are part of it, and no others: one of
  /// these is being run elsewhere, or is ready, or waits for an older one, so that there is always
  /// progress; any other task could in its turn wait for what is below it on this stack.
  template <class Over, class Target>
  [[gnu::noinline]] void block_in_body(Over over, Target target) {
    check_stack(machine_.scheduler.worker(domain_.worker).stack, "ring");
    support::DefaultFloatEnvironment const environment;
    Spin<Policy> spin(machine_.options.oversubscribed);
    while (!over())
      if (!advance_in_body(spin)) sleep_in_body(target());
    hand_on_from_body();
  }
  void hand_on_from_body() {
    if (machine_.scheduler.keeps_some(domain_.worker)) machine_.parking.wake(1);
  }

  /// Runs what it can, or spins; false where it is time to sleep.
  bool advance_in_body(Spin<Policy>& spin) {
    bool const progress =
        machine_.help(domain_.worker, *domain_.family) || poll(machine_.thread.is_driver());
    reclaim_.collect();
    if (progress) spin.reset();
    return progress || spin.again();
  }

  void sleep_in_body(Reference awaited) {
    machine_.sleep(
        *domain_.family, [this] { return nap_of(machine_.tokens); },
        [&] { return domain_.finishing(awaited); });
  }

  [[noreturn]] void refuse_to_wait() const {
    throw LifetimeError(concat(
        machine_.thread.call(), ": would wait for tasks that have not ended (",
        domain_.window.head() - domain_.window.watermark(), " of ", domain_.window.size(),
        " slots are taken), and the ring is paused, so that none of them can: call resume()"));
  }

  /// Lives while the driver runs tasks, under the default floating-point mode.
  class Helping {
   public:
    explicit Helping(Machine& machine) : machine_(machine), in_task_(machine.thread) {}
    Helping(Helping const&) = delete;
    Helping& operator=(Helping const&) = delete;

    /// Runs one task; returns one that it made ready and that need not wait, or no_task.
    ReadyTask run(ReadyTask ready) const {
      ReadyTask const kept = machine_.run(0, ready);
      if (kept == no_task || !machine_.should_wait(0, kept)) return kept;
      machine_.give(kept);
      return no_task;
    }

   private:
    Machine& machine_;
    support::DrivingThread::InTask const in_task_;
  };

  /// The part that all waits of the driver share, compiled once: `block_until` adds what each one
  /// waits for.
  class Wait {
   public:
    explicit Wait(Driver& driver)
        : driver_(driver), spin_(driver.machine_.options.oversubscribed) {}

    /// Runs one task, polls or spins; false where it is time to sleep.
    bool advance() {
      ++round_;
      auto& machine = driver_.machine_;
      if (round_ % 8 == 0) (void)driver_.poll();
      if (round_ % Policy::Sizes::most_kept == 0) look_around();
      if (driver_.helps_ && ready_ == no_task) ready_ = machine.scheduler.next(0);
      if (ready_ != no_task) {
        ready_ = Helping(machine).run(ready_);
        spin_.reset();
      } else if (driver_.flush(); driver_.poll()) {
        spin_.reset();
      } else if (!spin_.again()) {
        driver_.reclaim_.collect();
        return false;
      }
      return true;
    }

    void end() {
      driver_.flush();
      if (ready_ != no_task) driver_.machine_.give(ready_);
      driver_.hand_on();
    }

   private:
    /// Once in as many rounds as a chain may have others wait.
    [[gnu::noinline]] void look_around() {
      driver_.reclaim_.collect();
      if (ready_ != no_task) ready_ = driver_.machine_.take_turns(0, ready_);
    }

    Driver& driver_;
    Spin<Policy> spin_;
    support::DefaultFloatEnvironment const environment_{};  // once, not at each of the tasks
    ReadyTask ready_ = no_task;
    std::uint32_t round_ = 0;
  };

  /// Publishes ends that were batched: where nothing is ready, and before the driver goes on.
  void flush() {
    if (helps_) machine_.flush(0);
  }

  /// Calls the polls; whether one has ended a token.
  bool poll(bool driver = true) { return machine_.tokens.poll(driver); }

  /// Wakes a worker for what the driver leaves in its deque. Tasks that it took in one batch were
  /// in no queue for a moment, so that a worker may have gone to sleep beside them. Wake-ups need
  /// not be passed on: see Parking::sleep_driver.
  void hand_on() {
    if (helps_ && machine_.scheduler.keeps_some(0)) machine_.parking.wake(1);
  }

  /// Whether tasks are left to this thread, which is to run some of a large window early then.
  bool runs_all() const { return helps_ && large_ && machine_.all_leave(); }
  /// Tasks to run at a time, which hold a submission up.
  int batch() const { return !large_ ? 1 : alone() ? 16 : runs_all() ? 8 : 32; }

  void sleep(Reference target) {
    auto& parking = machine_.parking;
    parking.expect(domain_.name_of(target));
    std::uint32_t const kind = machine_.scheduler.kind(0);
    if (helps_) parking.announce(kind);
    if (domain_.finishing(target) || (helps_ && machine_.scheduler.any(0))) {
      if (helps_) parking.cancel(kind);
      // A push, a pop or an end may be in progress on a preempted thread.
      Policy::Clock::yield_core();
    } else {
      parking.sleep_driver(helps_, nap_of(machine_.tokens), kind);
    }
    parking.stop_expecting();
  }

  static constexpr std::uint64_t lone_ahead = 128;  // 24 KiB, in the first-level cache

  Machine& machine_;
  Domain& domain_;
  Reclaim reclaim_;
  bool const helps_;
  bool const large_;
};

}  // namespace nntile::detail::ring
