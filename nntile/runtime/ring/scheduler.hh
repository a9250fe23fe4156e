#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Queues of ready tasks, and the order in which a worker searches them.

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/error.hh"
#include "nntile/core/hints.hh"
#include "nntile/core/stack.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/ring/block_ranges.hh"
#include "nntile/runtime/ring/deque.hh"
#include "nntile/runtime/ring/flight.hh"
#include "nntile/runtime/ring/kinds.hh"
#include "nntile/runtime/ring/parking.hh"
#include "nntile/runtime/ring/queue.hh"
#include "nntile/runtime/ring/ready_task.hh"

namespace nntile::detail::ring {

/// The state of one executing thread.
template <class Policy> struct alignas(apart) WorkerState {
  Deque<Policy, ReadyTask> deque;
  typename Policy::template Atomic<ReadyQueue<Policy>*> inbox{
      nullptr};  // tasks whose hint names this worker
  // Thieves look at the above, the worker alone writes what follows.
  alignas(apart) std::uint32_t victim = 0;
  std::uint32_t turns = 0;  // of chains with others
  std::uint32_t kind = 0;   // of WorkerKind
  StackOfThread stack;      // for bodies that wait
  // Ended sinks not yet published to their flight: one word that every worker counts down would
  // cost each of them a transfer of its line.
  Flight<Policy>* sink_flight = nullptr;
  std::uint32_t sinks = 0;
  // Written by the worker alone; atomic so that `stats` may look at any time.
  typename Policy::template Atomic<std::uint64_t> executed{0};
  typename Policy::template Atomic<std::uint64_t> stolen{0};
};

/// Queues of ready tasks: a deque for each worker, a queue for each priority, an inbox for each
/// worker that a hint has named, and for each kind of workers a queue for each priority. Where the
/// driver is the only worker, what it gives itself costs no atomic operation.
template <class Policy> class Scheduler {
  template <class T> using Atomic = typename Policy::template Atomic<T>;
  using Queue = ReadyQueue<Policy>;

 public:
  /// `lone_driver`: the driver is the only worker. Without `kinds` all are of kind cpu.
  Scheduler(std::uint32_t workers, std::uint32_t slots, bool lone_driver = false,
            Kinds const* kinds = nullptr)
      : flights(workers == 1), lone_driver_(lone_driver), workers_(workers), slots_(slots) {
    for (std::uint32_t i = 0; kinds != nullptr && i < workers; ++i)
      workers_[i].kind = static_cast<std::uint32_t>(kinds->of(i));
    prepare_level(normal_level);
    if (lone_driver_) lone_.grow(capacity());
  }

  std::uint32_t workers() const { return static_cast<std::uint32_t>(workers_.size()); }
  WorkerState<Policy>& worker(std::uint32_t index) { return workers_[index]; }
  WorkerState<Policy> const& worker(std::uint32_t index) const { return workers_[index]; }

  /// Keeps queues for as many levels, workers and kinds that no task has named yet. Before the
  /// first task. Throws std::bad_alloc.
  void reserve_queues(std::uint32_t count) {
    Lock guard(growth_);
    queues_.reserve(queues_.size() + count);
    spare_.reserve(count);
    while (spare_.size() < count) spare_.push_back(std::make_unique<Queue>(capacity()));
  }
  /// Queues that none was kept for. Any thread.
  std::uint64_t growths() const { return growths_.load(std::memory_order_relaxed); }

  /// Any thread, before a task of that level or hint is published. Takes a queue once for each.
  void prepare(std::uint8_t level, std::int16_t worker) {
    if (levels_[level].load(std::memory_order_relaxed) == nullptr) [[unlikely]]
      prepare_level(level);
    if (worker >= 0) prepare_inbox(static_cast<std::uint32_t>(worker));
    if (worker < -1) prepare_kind(kind_of(worker), level);
  }

  /// A slot's `worker` is one's number, -1 for any, or what Kinds::place says.
  static std::uint32_t kind_of(std::int16_t worker) {
    return static_cast<std::uint32_t>(-2 - worker);
  }
  /// Whether a task that names a worker, or a kind, names this one.
  bool named(std::uint32_t self, std::int16_t worker) const {
    return worker >= 0 ? static_cast<std::uint32_t>(worker) == self
                       : kind_of(worker) == workers_[self].kind;
  }

  /// Makes room in all queues for tasks of `slots` more slots, before one of these is published.
  /// Any thread. Tasks are in no queue for a moment: wake all sleepers behind it, also where it
  /// throws. Throws OutOfMemory (more slots together than a queue has room for), std::bad_alloc;
  /// no queue has less room then.
  void reserve(std::uint32_t slots) {
    Lock guard(growth_);
    if (slots_ + slots > Queue::most / 2)
      throw OutOfMemory(concat("ring: domains with ", slots_, " slots are in use, and of ",
                               Queue::most / 2, " there are not ", slots, " more"));
    std::uint32_t const before = std::exchange(slots_, slots_ + slots);
    if (capacity() == capacity(before)) return;
    try {
      if (lone_driver_) lone_.grow(capacity());
      for (auto& level : levels_) grow(level);
      for (auto& worker : workers_) grow(worker.inbox);
      for (auto& queue : kinds_) grow(queue);
    } catch (...) {  // queues that have grown may stay so
      slots_ = before;
      throw;
    }
  }

  /// Makes a slot's task, which names no worker, available to the driver, which calls this, if it
  /// is the only worker and the level is normal; false otherwise.
  bool push_lone(ReadyTask task, std::uint8_t level) {
    if (!lone_driver_ || level != normal_level) return false;
    lone_.push(task);
    return true;
  }
  /// Makes a slot's task available to every worker; from any thread. Wakes no thread.
  void push_shared(ReadyTask task, std::uint8_t level) {
    levels_[level].load(std::memory_order_acquire)->push(task);
  }
  /// The same for one that names a worker or a kind.
  void push_named(ReadyTask task, std::uint8_t level, std::int16_t worker) {
    auto const& queue = worker >= 0 ? workers_[static_cast<std::size_t>(worker)].inbox
                                    : of_kind(kind_of(worker), level);
    queue.load(std::memory_order_acquire)->push(task);
  }

  /// Makes a slot's task available, to this worker first unless it has a priority; whether it is in
  /// the worker's deque.
  bool push_local(std::uint32_t self, ReadyTask task, std::uint8_t level) {
    if (level == normal_level && workers_[self].deque.push(task)) return true;
    push_shared(task, level);
    return false;
  }

  /// Makes a task of a flight available, to this worker first if the program has no priorities.
  void push_program(std::uint32_t self, Flight<Policy>& flight, std::uint32_t task,
                    std::uint32_t level) {
    bool const mine = self < workers() && flight.local();
    if (!mine || !workers_[self].deque.push(flight_task(flight.number(), task)))
      flight.lane(level).push(task);
  }

  /// Lets no thread take a task, until `resume`, which the gate publishes. Where this does not find
  /// a sleeper's announcement, the sleeper finds it by `paused`.
  void pause() { used_.fetch_or(1u << pause_bit, std::memory_order_seq_cst); }
  void resume() { used_.fetch_and(~(1u << pause_bit), std::memory_order_relaxed); }
  bool paused() const { return is_paused(used_.load(std::memory_order_seq_cst)); }

  /// The next task for a worker: high priority, blocks, of its kind, own inbox and deque, shared
  /// queue, stolen, low priority.
  ReadyTask next(std::uint32_t self) {
    return next(self, [](Queue&, ReadyTask&) { return false; });
  }
  /// The same for a worker that takes some more from the shared queue for its own deque, where many
  /// are there, and calls coming(task) for each.
  template <class Coming> ReadyTask next_of_several(std::uint32_t self, Coming coming) {
    return next(self, [&](Queue& shared, ReadyTask& ready) {
      ReadyTask tasks[batch];
      if (!shared.pop_several(tasks, batch, 2 * workers() * batch)) return false;
      for (std::uint32_t i = batch; --i != 0;) {
        coming(tasks[i]);
        (void)workers_[self].deque.push(tasks[i]);
      }
      ready = tasks[0];
      return true;
    });
  }

  /// The next task of this level for a worker that has run a chain of it, or no_task. Its deque is
  /// looked at first and last in turn: chains that take turns in a queue may never leave it empty.
  ReadyTask next_beside(std::uint32_t self, std::uint32_t level) {
    std::uint32_t const used = used_levels();
    WorkerState<Policy>& own = workers_[self];
    bool const own_first = (++own.turns & 1u) == 0;
    ReadyTask ready;
    if (is_paused(used)) return no_task;
    if (own_first && level == normal_level && own.deque.pop(ready)) return ready;
    if (level == normal_level && (used >> blocks_bit & 1u) != 0)
      if (ready = blocks.claim(kind(self)); ready != no_task) return ready;
    if (pop_kind(used, self, level, ready)) return ready;
    if (level == normal_level && pop_inbox(used, self, ready)) return ready;
    if (pop_level(used, level, ready) || (level == normal_level && lone_.pop(ready))) return ready;
    if (flights.active() != 0)
      if (ready = pop_lane(self, 1u << level, false); ready != no_task) return ready;
    return level == normal_level && own.deque.pop(ready) ? ready : no_task;
  }

  /// Whether a task above this level waits for this worker, or the scheduler is paused.
  bool more_urgent(std::uint32_t self, std::uint32_t level) {
    std::uint32_t const used = used_levels();
    if (used >> (level + 1) != 0) [[unlikely]]
      if (is_paused(used) || any_above(self, level)) return true;
    return flights.any_lane(~1u << level, has_task);
  }

  /// Whether all tasks so far are such as any worker may run, of normal level, and none is paused
  /// or replayed.
  bool only_usual() {
    return used_.load(std::memory_order_relaxed) == 1u << normal_level && flights.active() == 0;
  }

  /// Whether a worker has tasks in its deque.
  bool keeps_some(std::uint32_t self) const { return !workers_[self].deque.empty(); }

  /// Whether any task waits for this worker. Sequentially consistent with pushes, for sleepers that
  /// have announced themselves.
  bool any(std::uint32_t self) {
    if (!lone_.empty()) return true;
    for (auto const& level : levels_)
      if (has_some(level)) return true;
    for (auto const& worker : workers_)
      if (!worker.deque.empty() || has_some(worker.inbox)) return true;
    for (Queue const* queue = older_.load(std::memory_order_seq_cst); queue != nullptr;
         queue = queue->older)
      if (serves(self, *queue) && !queue->empty()) return true;
    return any_of_kind(self) || blocks.any(kind(self)) || flights.any_lane(~0u, has_task);
  }
  /// Whether a task waits that is for this worker's kind alone.
  bool any_of_kind(std::uint32_t self) {
    if ((used_.load(std::memory_order_seq_cst) >> named_bit & 1u) == 0) return false;
    for (std::uint32_t level = 0; level < level_count; ++level)
      if (has_some(of_kind(kind(self), level))) return true;
    return false;
  }
  std::uint32_t kind(std::uint32_t self) const { return workers_[self].kind; }

  /// Opens the blocks of a task that has begun. `worker` is as in its slot.
  bool open_blocks(Pending<Policy>& task, std::uint32_t count, std::int16_t worker,
                   typename BlockRanges<Policy>::Run run) {
    used_.fetch_or(1u << blocks_bit, std::memory_order_relaxed);  // a sleeper looks by any()
    return blocks.open(task, count, worker < -1 ? static_cast<int>(kind_of(worker)) : -1, run);
  }

  Flights<Policy> flights;
  BlockRanges<Policy> blocks;

 private:
  /// Tasks that a worker takes at a time for its deque, which is empty then.
  static constexpr std::uint32_t batch =
      lane_batch < Policy::Sizes::deque ? lane_batch : Policy::Sizes::deque;
  /// One bit a level that has a queue: a thread that sees the bit sees the queue. The bit above
  /// these, which no task's level reaches, is set while the scheduler is paused: so this costs no
  /// task a look.
  static constexpr std::uint32_t pause_bit = level_count;
  /// The next one is set once a task has named a worker or a kind.
  static constexpr std::uint32_t named_bit = pause_bit + 1;
  /// And this one once a task of blocks has begun.
  static constexpr std::uint32_t blocks_bit = named_bit + 1;
  static constexpr std::uint32_t above_normal = ~0u << (normal_level + 1);
  std::uint32_t used_levels() const { return used_.load(std::memory_order_acquire); }
  static bool is_paused(std::uint32_t used) { return (used >> pause_bit & 1u) != 0; }
  bool pop_level(std::uint32_t used, std::uint32_t level, ReadyTask& ready) {
    return (used >> level & 1u) != 0 && levels_[level].load(std::memory_order_acquire)->pop(ready);
  }
  Atomic<Queue*>& of_kind(std::uint32_t kind, std::uint32_t level) {
    return kinds_[kind * level_count + level];
  }
  bool pop_kind(std::uint32_t used, std::uint32_t self, std::uint32_t level, ReadyTask& ready) {
    if ((used >> named_bit & 1u) == 0) return false;
    Queue* const queue = of_kind(kind(self), level).load(std::memory_order_acquire);
    return queue != nullptr && pop_grouped(*queue, ready);
  }
  bool pop_inbox(std::uint32_t used, std::uint32_t self, ReadyTask& ready) {
    if ((used >> named_bit & 1u) == 0) return false;
    Queue* const inbox = workers_[self].inbox.load(std::memory_order_acquire);
    return inbox != nullptr && inbox->pop(ready);
  }
  static bool pop_grouped(Queue& queue, ReadyTask& ready) {
    if (!queue.pop(ready)) return false;
    ready = in_group(ready, static_cast<std::uint32_t>(queue.kind + 1));
    return true;
  }
  bool serves(std::uint32_t self, Queue const& queue) const {
    return queue.kind < 0 || static_cast<std::uint32_t>(queue.kind) == kind(self);
  }

  /// several(queue, ready) may take more than one from the shared queue.
  template <class Several> ReadyTask next(std::uint32_t self, Several several) {
    std::uint32_t const used = used_levels();
    bool const lanes = flights.active() != 0;
    bool const levels = used != 1u << normal_level;
    ReadyTask ready;
    if (levels || (lanes && flights.ever_had(above_normal))) [[unlikely]] {
      if (is_paused(used)) return no_task;
      if (ready = before_own(self); ready != no_task) return ready;
    }
    WorkerState<Policy>& own = workers_[self];
    if (own.deque.pop(ready)) return ready;
    Queue& shared = *levels_[normal_level].load(std::memory_order_acquire);
    if (several(shared, ready) || shared.pop(ready)) return ready;
    if (lone_.pop(ready)) return ready;
    if (lanes) [[unlikely]]
      if (ready = pop_lane(self, 1u << normal_level); ready != no_task) return ready;
    return next_elsewhere(self);
  }

  [[gnu::noinline]] ReadyTask before_own(std::uint32_t self) {
    std::uint32_t const used = used_levels();
    ReadyTask ready;
    for (std::uint32_t level = level_count - 1; level > normal_level; --level)
      if (pop_kind(used, self, level, ready) || pop_level(used, level, ready)) return ready;
    if (ready = pop_lane(self, above_normal); ready != no_task) return ready;
    if ((used >> blocks_bit & 1u) != 0)
      if (ready = blocks.claim(kind(self)); ready != no_task) return ready;
    if ((used >> named_bit & 1u) == 0) return no_task;
    if (pop_kind(used, self, normal_level, ready)) return ready;
    return pop_inbox(used, self, ready) ? ready : no_task;
  }
  [[gnu::noinline]] bool any_above(std::uint32_t self, std::uint32_t level) {
    bool const kinds = (used_levels() >> named_bit & 1u) != 0;
    while (++level < level_count)
      if (has_some(levels_[level]) || (kinds && has_some(of_kind(kind(self), level)))) return true;
    return false;
  }
  static bool has_some(Atomic<Queue*> const& place) {
    Queue const* const queue = place.load(std::memory_order_seq_cst);
    return queue != nullptr && !queue->empty();
  }
  [[gnu::noinline]] ReadyTask next_elsewhere(std::uint32_t self) {
    ReadyTask ready;
    if (ready = steal(self); ready != no_task) return ready;
    std::uint32_t const used = used_levels();
    for (std::uint32_t level = normal_level; level-- > 0;)
      if (pop_kind(used, self, level, ready) || pop_level(used, level, ready)) return ready;
    if (ready = pop_lane(self, (1u << normal_level) - 1); ready != no_task) return ready;
    return pop_older(self);
  }

  [[gnu::noinline]] ReadyTask pop_older(std::uint32_t self) {
    ReadyTask ready;
    for (Queue* queue = older_.load(std::memory_order_acquire); queue != nullptr;
         queue = queue->older)
      if (serves(self, *queue) && pop_grouped(*queue, ready)) return ready;
    return no_task;
  }

  static bool has_task(Flight<Policy>& flight, std::uint32_t level) {
    return !flight.lane(level).empty();
  }

  /// A task from the lanes of these levels. Without priorities the worker takes some more for its
  /// own deque, if that is empty. It asks for the level as well: whether a flight has priorities
  /// may change until the worker takes its tasks.
  ReadyTask pop_lane(std::uint32_t self, std::uint32_t mask, bool empty = true) {
    ReadyTask ready = no_task;
    flights.any_lane(mask, [&](Flight<Policy>& flight, std::uint32_t level) {
      std::uint32_t tasks[batch];
      bool const several = empty && level == normal_level && flight.local();
      std::uint32_t count = flight.lane(level).pop(tasks, several ? batch : 1, 2 * workers());
      if (count == 0) return false;
      while (--count != 0)
        (void)workers_[self].deque.push(flight_task(flight.number(), tasks[count]));
      ready = flight_task(flight.number(), tasks[0]);
      return true;
    });
    return ready;
  }

  ReadyTask steal(std::uint32_t self) {
    std::uint32_t const count = workers();
    WorkerState<Policy>& own = workers_[self];
    for (std::uint32_t tried = 0; tried < count; ++tried) {
      std::uint32_t const other = own.victim < count ? own.victim : 0;
      if (other != self) {
        ReadyTask ready;
        if (workers_[other].deque.steal(ready)) return counted(own, ready);
        Queue* inbox = workers_[other].inbox.load(std::memory_order_acquire);
        if (inbox != nullptr && inbox->pop(ready)) return counted(own, ready);
      }
      own.victim = other + 1;  // a victim that had something is tried first the next time
    }
    return no_task;
  }

  static ReadyTask counted(WorkerState<Policy>& own, ReadyTask ready) {
    own.stolen.store(own.stolen.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return ready;
  }

  [[gnu::noinline]] void prepare_level(std::uint32_t level) {
    Lock guard(growth_);
    make(levels_[level]);
    used_.fetch_or(1u << level, std::memory_order_seq_cst);
  }
  void prepare_kind(std::uint32_t kind, std::uint32_t level) {
    prepare_named(of_kind(kind, level), static_cast<int>(kind));
  }
  void prepare_inbox(std::uint32_t index) { prepare_named(workers_[index].inbox, -1); }
  /// The bit comes first: a thread that pushes to the queue wakes those that look for the bit.
  void prepare_named(Atomic<Queue*>& place, int kind) {
    if (place.load(std::memory_order_relaxed) != nullptr) return;
    Lock guard(growth_);
    used_.fetch_or(1u << named_bit, std::memory_order_seq_cst);
    make(place, kind);
  }

  /// Capacity of a queue that holds the tasks of `slots`.
  static std::uint32_t capacity(std::uint32_t slots) { return 2 * std::bit_ceil(slots); }
  std::uint32_t capacity() const { return capacity(slots_); }

  void make(Atomic<Queue*>& place, int kind = -1) {
    if (place.load(std::memory_order_relaxed) != nullptr) return;
    if (!spare_.empty() && spare_.back()->capacity() == capacity()) {
      queues_.emplace_back() = std::move(spare_.back());  // there is a place for it first
      spare_.pop_back();
    } else {
      queues_.push_back(std::make_unique<Queue>(capacity()));
      growths_.fetch_add(1, std::memory_order_relaxed);
    }
    queues_.back()->kind = kind;
    place.store(queues_.back().get(), std::memory_order_seq_cst);
  }

  /// Puts a larger queue in the place of one, and moves its tasks. What a late producer, which has
  /// read the place before, pushes to the old one is found there by threads that find nothing else:
  /// a task of the slots that the old one has room for, since one of the new slots is published
  /// behind this.
  void grow(Atomic<Queue*>& place) {
    Queue* const old = place.load(std::memory_order_relaxed);
    if (old == nullptr || old->capacity() >= capacity()) return;
    queues_.push_back(std::make_unique<Queue>(capacity()));
    Queue* const grown = queues_.back().get();
    grown->kind = old->kind;
    old->older = older_.load(std::memory_order_relaxed);
    older_.store(old,
                 std::memory_order_seq_cst);  // first: a sleeper looks in one place or the other
    place.store(grown, std::memory_order_seq_cst);
    for (ReadyTask task; old->pop(task);) grown->push(task);
  }

  bool const lone_driver_;  // it alone touches `lone_`
  LoneQueue lone_;
  std::vector<WorkerState<Policy>> workers_;
  Atomic<Queue*> levels_[level_count] = {};
  Atomic<Queue*> kinds_[worker_kinds * level_count] = {};
  Atomic<std::uint32_t> used_{0};
  Atomic<Queue*> older_{nullptr};  // the queues that larger ones have replaced
  typename Policy::Mutex growth_;
  std::uint32_t slots_;
  DynamicArray<std::unique_ptr<Queue>> queues_;
  DynamicArray<std::unique_ptr<Queue>> spare_;
  std::atomic<std::uint64_t> growths_{0};  // not the policy's: it decides nothing
};

}  // namespace nntile::detail::ring
