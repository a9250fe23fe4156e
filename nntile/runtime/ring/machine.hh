#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The part of a ring that its domains share: threads, scheduler, buffers, failures, tokens; and the
// running and ending of ready tasks, those of programs in `flight_tasks.hh`.

#include <atomic>
#include <cstdint>
#include <utility>

#include "nntile/runtime/ring/broadcast.hh"
#include "nntile/runtime/ring/claiming_slots.hh"
#include "nntile/runtime/ring/domain.hh"
#include "nntile/runtime/ring/flight_tasks.hh"
#include "nntile/runtime/ring/kinds.hh"
#include "nntile/runtime/ring/pause_gate.hh"
#include "nntile/runtime/ring/payload.hh"
#include "nntile/runtime/ring/pending.hh"
#include "nntile/runtime/ring/pieces.hh"
#include "nntile/runtime/ring/scheduler.hh"
#include "nntile/runtime/ring/successors.hh"
#include "nntile/runtime/support/buffer_table.hh"
#include "nntile/runtime/support/claims.hh"
#include "nntile/runtime/support/device_tasks.hh"
#include "nntile/runtime/support/driving_thread.hh"
#include "nntile/runtime/support/failures.hh"
#include "nntile/runtime/support/options.hh"
#include "nntile/runtime/support/run_body.hh"
#include "nntile/runtime/support/tokens.hh"
#include "nntile/runtime/support/workspaces.hh"

namespace nntile::detail::ring {

template <class Policy> class Beside;

/// Runs and ends tasks on any of its threads.
template <class Policy> class Machine : public FlightTasks<Policy> {
  using Flights = FlightTasks<Policy>;
  using Flights::end_device_task;
  using Flights::end_program_task;
  using Flights::launch;
  using Flights::run_program;
  using typename Flights::Behind;

 public:
  using Flights::flush;
  using Beside = ring::Beside<Policy>;
  template <class T> using Atomic = typename Policy::template Atomic<T>;
  using Hot = HotSlot<Policy>;
  static constexpr std::uint32_t outside = ~0u;  // the number of a thread that is no worker
  /// Makes run_task leave out the timing of the body.
  struct NotTimed {
    static int begin() { return 0; }
    static void end(int) {}
  };

  /// Notes the thread that drives in `driver`, if any; hands what follows to the devices.
  template <class... Arguments>
  explicit Machine(RuntimeOptions const& requested, std::atomic<std::uintptr_t>* driver = nullptr,
                   WorkerKinds const& its_kinds = {}, std::uint32_t window = Policy::Sizes::window,
                   Arguments&&... device)
      : options(support::check_options(requested, "ring")),
        kinds(its_kinds, options.workers),
        devices(static_cast<Arguments&&>(device)...),
        thread(options.spawned, driver),
        table(failures, devices.source(), &thread),
        workspaces(static_cast<std::size_t>(options.workers)),
        trace(options.workers),
        scheduler(static_cast<std::uint32_t>(options.workers), window,
                  options.workers == 1 && !options.own_driver, &kinds),
        root(*this, root_domain, window),
        tokens(this, &token_ended, nullptr, &thread) {}
  Machine(Machine const&) = delete;
  Machine& operator=(Machine const&) = delete;

  /// Runs one ready task as worker `self`. Returns one of the root that it made ready, which the
  /// caller runs or gives away, or no_task. The caller is InTask, with the default floating-point
  /// mode. `timed` has calls for the beginning and the end of a plain body of the root.
  template <class Timed = NotTimed>
  ReadyTask run(std::uint32_t self, ReadyTask ready, Timed timed = {}) {
    if (is_program(ready)) {
      count(scheduler.worker(self).executed);
      return run_program(self, scheduler.flights[flight_of(ready)], task_of(ready));
    }
    if (ring::domain_of(ready) != root_domain) [[unlikely]] {
      if (is_block(ready)) return run_block(self, ready);
      Domain<Policy>& domain = domains[ring::domain_of(ready)];
      if (domain.offers.take_popped(slot_of(ready), group_of(ready)))
        run_child(self, domain, slot_of(ready));
      return no_task;
    }
    count(scheduler.worker(self).executed);
    flush(self);
    Hot& slot = root.window.at(slot_of(ready));
    if (slot.kind != SlotKind::task) [[unlikely]]
      return run_unusual(self, slot);
    if (self != submitter) root.window.prefetch_consumer(slot);
    run_task(self, root, slot, timed);
    std::uint32_t const edges = Window<Policy>::finish(
        slot, [this](Reference task) { parking.completed(root.name_of(task)); },
        self == submitter ? slot.consumers.close_own() : slot.consumers.close());
    if (edges == EdgeList<Policy>::none) return no_task;
    Successors successors{*this, self};
    root.window.walk(edges, successors);
    return successors.end();
  }

  /// For the body of a task on worker `self` that waits: runs a task of it, or of these in turn;
  /// false if none is ready.
  bool help(std::uint32_t self, Family<Policy>& family) {
    Domain<Policy>* domain = nullptr;
    std::uint32_t slot = Offers<Policy>::none;
    family.each_below([&](Domain<Policy>& below) {
      domain = &below;
      slot = below.offers.take();
      return slot != Offers<Policy>::none;
    });
    if (slot == Offers<Policy>::none) return false;
    run_child(self, *domain, slot);
    return true;
  }
  /// Sleeps until something of it may be ready, or has ended; at most for nap(), as a token may
  /// have been opened before the announcement. over(): what the body waits for ends now, or has.
  template <class Nap, class Over> void sleep(Family<Policy>& family, Nap nap, Over over) {
    std::uint64_t const round = bodies.announce();
    auto const offers_some = [](Domain<Policy>& below) { return below.offers.any(); };
    if (!over() && !family.each_below(offers_some)) return bodies.sleep(round, nap());
    bodies.cancel();
    Policy::Clock::yield_core();
  }
  /// Counts off what has ended of a task that submits, and ends the task with the last of it; and
  /// so on outwards.
  void leave(std::uint32_t self, Family<Policy>* family, std::uint32_t count) {
    while (family != nullptr && family->live.fetch_sub(count, std::memory_order_acq_rel) == count) {
      Pending<Policy>& task = *family->outer;
      Family<Policy>* const above = task.domain->family;
      family->close();
      close_pending(self, task);
      family = above;
      count = 1;
    }
    bodies.wake_all();
  }
  /// Ends a pending task.
  void end_pending(Pending<Policy>& pending, std::uint32_t self = outside) {
    Family<Policy>* const family = pending.domain->family;
    close_pending(self, pending);
    if (family != nullptr) leave(self, family, 1);
  }

  /// Makes a ready task available to every worker. Called by executing threads and by the driver.
  [[gnu::always_inline]] void give(Domain<Policy>& domain, Hot const& slot) {
    if (!domain.is_root()) [[unlikely]]
      return offer(domain, slot);
    if (slot.worker != -1) [[unlikely]]
      return give_named(domain.task(slot), slot.level, slot.worker);
    if (scheduler.push_lone(domain.task(slot), slot.level)) return;
    scheduler.push_shared(domain.task(slot), slot.level);
    parking.wake(1);
  }
  /// The same for one of normal level that any worker may run.
  [[gnu::always_inline]] void give_usual(Domain<Policy>& domain, Hot const& slot) {
    if (!domain.is_root()) [[unlikely]]
      return offer(domain, slot);
    ReadyTask const task = domain.task(slot);
    if (scheduler.push_lone(task, normal_level)) return;
    scheduler.push_shared(task, normal_level);
    parking.wake(1);
  }
  void give(ReadyTask ready) {
    if (!is_program(ready)) return give(root, root.window.at(slot_of(ready)));
    scheduler.flights[flight_of(ready)].lane(level_of(ready)).push(task_of(ready));
    parking.wake(1);
  }

  [[gnu::noinline]] void give_named(ReadyTask ready, std::uint8_t level, std::int16_t worker) {
    scheduler.push_named(ready, level, worker);
    wake_for(worker, 1);
  }
  /// Wakes up to `count` of the workers that may run what has that worker in its slot.
  void wake_for(std::int16_t worker, std::uint32_t count) {
    if (worker >= -1)
      parking.wake(count);
    else
      parking.wake_kind(count, scheduler.kind_of(worker));
  }

  /// For a worker that has kept one task behind the other: one of their level that waits, if there
  /// is any, and then all may take the task in its place; else that task.
  [[gnu::noinline]] ReadyTask take_turns(std::uint32_t self, ReadyTask kept) {
    ReadyTask const other = scheduler.next_beside(self, level_of(kept));
    if (other == no_task) return kept;
    give(kept);
    return other;
  }

  /// Whether something more urgent waits for worker `self` than this task, which is its to run.
  bool should_wait(std::uint32_t self, ReadyTask ready) {
    return scheduler.more_urgent(self, level_of(ready));
  }

  /// Whether a task ends after its body has returned.
  bool ends_later(Codelet const& codelet, std::span<Use<support::Buffer*> const> uses) const {
    return codelet.cpu == nullptr || devices.own(uses);
  }

  /// The domain of an event's name; null for one that never was. Any thread.
  Domain<Policy>* domain_of(EventName const& name) {
    return name.domain == root_domain ? &root : domains.find(name.domain);
  }

  /// Whether all but the submitter leave tiny tasks to it, or there are no others.
  bool all_leave() const {
    return leaving.load(std::memory_order_relaxed) + 1 == scheduler.workers();
  }

  void const* owner = nullptr;  // named by events
  support::CheckedOptions const options;
  /// The number of the worker that submits as well, or `outside`.
  std::uint32_t const submitter = options.own_driver ? outside : 0;
  Kinds const kinds;
  support::Failures failures;
  [[no_unique_address]] support::DeviceTasks<typename Policy::Device> devices;
  support::DrivingThread thread;
  support::BufferTable table;
  support::Workspaces const workspaces;  // one a worker
  support::Claims<Policy> claims;
  [[no_unique_address]] typename Policy::Trace trace;
  Scheduler<Policy> scheduler;
  Parking<Policy> parking;
  PauseGate<Policy> gate;
  Broadcast<Policy> bodies;  // that wait
  typename Policy::Mutex families;
  Atomic<bool> stop{false};
  Atomic<bool> polling{false};  // an idle worker calls the polls
  /// Workers that leave tiny tasks to the submitter. Not the policy's: it decides only who runs
  /// one.
  std::atomic<std::uint32_t> leaving{0};
  Pieces<Policy> pieces;  // memory of the heaps of bodies, and what each of these may have
  HeapCapacity body_heaps{};
  Domain<Policy> root;
  DomainPool<Policy> domains{*this};
  support::BasicTokens<Policy>
      tokens;  // last, so that no thread is inside `finish` when the others die

 private:
  friend class ring::FlightTasks<Policy>;
  friend struct ring::ChildSuccessors<Policy>;
  using Successors = ring::Successors<Policy>;
  using ChildSuccessors = ring::ChildSuccessors<Policy>;

  /// Runs and ends a task beside the root's, whose slot was taken from the offers of the domain
  /// where it lies.
  [[gnu::noinline]] void run_child(std::uint32_t self, Domain<Policy>& place, std::uint32_t slot) {
    Domain<Policy>& domain = *place.host;
    Family<Policy>* const family = domain.family;
    Hot& hot = place.window.at(slot);
    count(scheduler.worker(self).executed);
    flush(self);
    ChildSuccessors successors{*this, domain, self};
    if (hot.kind == SlotKind::task) {
      run_task(self, place, hot);
      domain.window.complete(hot, successors);
    } else {
      run_pending(self, place, hot, successors);
    }
    successors.end();
    if (family != nullptr) leave(self, family, 1);
  }

  /// Makes a task of a domain beside the root available to all: called by its submitter.
  [[gnu::noinline]] void offer(Domain<Policy>& domain, Hot const& slot) {
    (void)queue(domain.worker, domain, slot);
    parking.wake(1);
    bodies.wake_all();
  }
  /// Whether it is in the deque of `self` now.
  bool queue(std::uint32_t self, Domain<Policy>& domain, Hot const& slot) {
    auto const [level, worker] = std::pair<std::uint8_t, std::int16_t>{slot.level, slot.worker};
    Domain<Policy>& place = domain.place_of(slot);
    ReadyTask const task = place.task(slot);
    if (!place.offers.offer(slot_of(task), group_of_worker(worker))) return false;
    if (worker < -1)
      give_named(task, level, worker);
    else if (worker >= 0)
      scheduler.push_named(task, level, worker);
    else if (self == outside)
      scheduler.push_shared(task, level);
    else
      return scheduler.push_local(self, task, level);
    return false;
  }

  template <class Timed = NotTimed>
  [[gnu::always_inline]] void run_task(std::uint32_t self, Domain<Policy>& place, Hot& slot,
                                       Timed timed = {}) {
    ColdSlot const& cold = place.window.own_cold(slot.id);
    auto const [pointers, arguments] = Payload::operands(slot, cold);
    auto const& codelet = *static_cast<Codelet const*>(cold.work);
    std::uint64_t const sequence = slot.sequence.load(std::memory_order_relaxed);
    trace.begin(static_cast<int>(self), sequence, codelet);
    Payload unpacked;
    char text[status_text_bytes];
    auto const entry = codelet.cpu;
    auto const begin = timed.begin();
    (void)support::run_entry(failures, entry, {pointers, arguments, text, workspaces[self]},
                             [&] { return unpacked.body(slot, cold); });
    timed.end(begin);
    support::DefaultFloatEnvironment::renew();
    trace.end(static_cast<int>(self), sequence);
  }

  [[gnu::noinline]] ReadyTask run_block(std::uint32_t self, ReadyTask ready) {
    flush(self);
    auto& range = scheduler.blocks[range_of(ready)];
    range.run(*this, self, range, block_of(ready));
    return no_task;
  }

  using Waiters = ClaimingSlots<Policy>;

  /// Whether it holds all claims of its task now; if not, it is not the caller's any more.
  bool take_claims(Hot& slot) {
    Payload unpacked;
    Waiters const waiters{root, unpacked};
    slot.next[1] = 0;
    if (!support::Claims<Policy>::take(waiters, waiters.name(slot))) return false;
    slot.kind = SlotKind::claimed;
    return true;
  }
  void release_claims(std::span<Use<support::Buffer*> const> uses, Successors& successors) {
    Payload unpacked;
    Waiters const waiters{root, unpacked};
    support::Claims<Policy>::release(waiters, uses, [&](support::ClaimWaiter task) {
      Hot& slot = waiters.slot(task);
      slot.kind = SlotKind::claimed;
      successors.ready(slot);
    });
  }

  /// Of a slot of the root that is no plain task's.
  [[gnu::noinline]] ReadyTask run_unusual(std::uint32_t self, Hot& slot) {
    if (slot.kind == SlotKind::claiming && !take_claims(slot)) {
      count(scheduler.worker(self).executed, -1);  // it is taken again
      return no_task;
    }
    Successors successors{*this, self};
    if (slot.kind == SlotKind::claimed && slot.runs_as == SlotKind::task) {
      run_task(self, root, slot);
      Payload unpacked;
      release_claims(Waiters{root, unpacked}.uses(slot), successors);
      root.window.complete(slot, successors);
    } else {
      run_pending(self, root, slot, successors);
    }
    return successors.end();
  }

  /// Its slot ends before it can, so that none who sees a task behind it run finds it unfinished:
  /// where it begins, or where a device has it, for which others of its stream wait.
  template <class Sink>
  [[gnu::noinline]] void run_pending(std::uint32_t self, Domain<Policy>& place, Hot& slot,
                                     Sink& successors) {
    void const* const work = place.window.own_cold(slot.id).work;
    auto& pending = *static_cast<Pending<Policy>*>(const_cast<void*>(work));
    std::uint64_t const sequence = slot.sequence.load(std::memory_order_relaxed);
    auto const end_slot = [&] { place.host->window.complete(slot, successors); };
    if (!pending.on_device()) end_slot();
    if (pending.flight != nullptr) return launch(self, *pending.flight);
    trace.begin(static_cast<int>(self), sequence, *pending.body.codelet);
    bool ended = false;
    if (pending.start != nullptr)
      pending.start(*this, self, pending);
    else
      ended = run_with_token(self, pending, end_slot);
    trace.end(static_cast<int>(self), sequence);
    if (ended) end_pending(pending, self);
  }

  /// Runs a body that may end elsewhere; true if it has ended, else it must not be touched again.
  /// launched() is called where it goes to a device, before it can end.
  template <class Task, class... Launched>
  bool run_with_token(std::uint32_t self, Task& task, Launched... launched) {
    auto* const token = static_cast<TokenTask<Policy>*>(&task);
    if (devices.run_body(failures, tokens, task.body, token, workspaces[self], launched...) ==
        support::Ran::ended)
      return true;
    parking.wake(1);  // some thread must poll, if only to find nothing to poll
    parking.call_driver();
    bodies.wake_all();
    return false;
  }

  /// The successors of a pending task go to the shared queues: no worker is there to keep one. But
  /// in a domain beside the root they are for the worker that ends it: where others' older tasks
  /// went before them, outer tasks would stay open as long as any are left.
  void close_pending(std::uint32_t self, Pending<Policy>& pending) {
    Domain<Policy>& domain = *pending.domain;
    if (!domain.is_root()) [[unlikely]]
      return close_pending(pending, domain, ChildSuccessors{*this, domain, self});
    Successors successors{*this, outside};
    if (pending.claims()) release_claims(pending.body.uses, successors);
    close_pending(pending, domain, successors);
  }
  template <class Sink>
  void close_pending(Pending<Policy>& pending, Domain<Policy>& domain, Sink successors) {
    domain.window.walk(domain.pending.close(pending), successors);
    Reference const reference = reference_to_pending(pending.index);
    domain.pending.ended(pending);
    parking.completed(domain.name_of(reference));
    (void)successors.end();
  }

  static void token_ended(void* runtime, void* task, Status status) noexcept {
    auto& self = *static_cast<Machine*>(runtime);
    auto& with_token = *static_cast<TokenTask<Policy>*>(task);
    if (with_token.is_pending) {
      auto& pending = static_cast<Pending<Policy>&>(with_token);
      self.devices.settle(self.failures, pending.body, status);
      return self.end_pending(pending);
    }
    Flight<Policy>& flight = *with_token.flight;
    self.devices.settle(self.failures, static_cast<Prepared<Policy>&>(with_token).body, status);
    RecordedTask const& recorded = flight.image().task(with_token.offset);
    if constexpr (Policy::Device::exists)
      (void)self.end_device_task(outside, flight, recorded, Behind::end);
    else
      (void)self.end_program_task(outside, flight, recorded);
  }

  std::uint32_t level_of(ReadyTask ready) {
    if (!is_program(ready)) return root.window.at(slot_of(ready)).level;
    return scheduler.flights[flight_of(ready)].image().task(task_of(ready)).level;
  }

  static void count(Atomic<std::uint64_t>& counter, int more = 1) {
    counter.store(counter.load(std::memory_order_relaxed) + static_cast<std::uint64_t>(more),
                  std::memory_order_relaxed);
  }
};

}  // namespace nntile::detail::ring
