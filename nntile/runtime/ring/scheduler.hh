#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Where ready tasks wait for a worker, and in which order a worker looks for them.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "nntile/runtime/ring/deque.hh"
#include "nntile/runtime/ring/parking.hh"
#include "nntile/runtime/ring/queue.hh"

namespace nntile::detail::ring {

/// Priorities -2 to 5 are told apart; others count as the nearest of these.
inline constexpr std::uint32_t level_count = 8;
inline constexpr std::uint32_t normal_level = 2;

constexpr std::uint8_t level_of(int priority) {
  return static_cast<std::uint8_t>(std::clamp(priority, -2, 5) + 2);
}

/// A ready task: the id of a slot's task, or a task of a program in flight.
using Item = std::uint64_t;
inline constexpr Item no_item = ~Item{0};

constexpr Item program_item(std::uint32_t flight, std::uint32_t task) {
  return Item{1} << 63 | Item{flight} << 32 | task;
}
constexpr bool is_program(Item item) { return item >> 63 != 0; }
constexpr std::uint32_t flight_of(Item item) {
  return static_cast<std::uint32_t>(item >> 32) & 0x7fffffffu;
}
constexpr std::uint32_t task_of(Item item) { return static_cast<std::uint32_t>(item); }

/// What one executing thread owns.
template <class Policy> struct alignas(apart) WorkerState {
  Deque<Policy, Item> deque;
  typename Policy::template Atomic<ReadyQueue<Policy>*> inbox{
      nullptr};  // tasks that wish for this worker
  std::uint32_t victim = 0;
  // Written by the worker alone; atomic so that `stats` may look at any time.
  typename Policy::template Atomic<std::uint64_t> executed{0};
  typename Policy::template Atomic<std::uint64_t> stolen{0};
};

/// Queues of ready tasks: a deque for each worker, a queue for each priority, an inbox for each
/// worker that tasks wish for.
template <class Policy> class Scheduler {
  template <class T> using Atomic = typename Policy::template Atomic<T>;
  using Queue = ReadyQueue<Policy>;

 public:
  explicit Scheduler(std::uint32_t workers) : workers_(workers) { prepare_level(normal_level); }

  std::uint32_t workers() const { return static_cast<std::uint32_t>(workers_.size()); }
  WorkerState<Policy>& worker(std::uint32_t index) { return workers_[index]; }
  WorkerState<Policy> const& worker(std::uint32_t index) const { return workers_[index]; }

  /// Submitter only, before a task of that level or with that wish is published. Allocates once for
  /// each.
  void prepare(std::uint8_t level, std::int16_t wish) {
    if (levels_[level].load(std::memory_order_relaxed) == nullptr) prepare_level(level);
    if (wish >= 0) prepare_inbox(static_cast<std::uint32_t>(wish));
  }

  /// Makes a task available to every worker; from any thread. Wakes nobody.
  void push_shared(std::uint32_t id, std::uint8_t level, std::int16_t wish) {
    if (wish >= 0)
      workers_[static_cast<std::uint32_t>(wish)].inbox.load(std::memory_order_acquire)->push(id);
    else
      levels_[level].load(std::memory_order_acquire)->push(id);
  }

  /// Makes a task available, to this worker first unless it has a priority or another wish.
  void push_local(std::uint32_t self, std::uint32_t id, std::uint8_t level, std::int16_t wish) {
    bool const mine =
        level == normal_level && (wish < 0 || static_cast<std::uint32_t>(wish) == self);
    if (!mine || !workers_[self].deque.push(id)) push_shared(id, level, wish);
  }

  /// The next task for a worker: urgent ones, its own, everybody's, somebody else's, those that may
  /// wait.
  Item next(std::uint32_t self) {
    std::uint32_t const used = used_.load(std::memory_order_relaxed);
    std::uint32_t id;
    if (used >> (normal_level + 1) != 0)
      for (std::uint32_t level = level_count - 1; level > normal_level; --level)
        if (pop_level(used, level, id)) return id;
    WorkerState<Policy>& own = workers_[self];
    if (Queue* inbox = own.inbox.load(std::memory_order_acquire);
        inbox != nullptr && inbox->pop(id))
      return id;
    Item item;
    if (own.deque.pop(item)) return item;
    if (pop_level(used, normal_level, id)) return id;
    if (Item const stolen = steal(self); stolen != no_item) return stolen;
    for (std::uint32_t level = normal_level; level-- > 0;)
      if (pop_level(used, level, id)) return id;
    return no_item;
  }

  /// Whether a task above this level waits.
  bool more_urgent(std::uint8_t level) const {
    std::uint32_t const used = used_.load(std::memory_order_relaxed);
    if (used >> (level + 1) == 0) return false;
    for (std::uint32_t above = level + 1u; above < level_count; ++above)
      if ((used >> above & 1u) != 0 && !levels_[above].load(std::memory_order_acquire)->empty())
        return true;
    return false;
  }

  /// Whether any task waits. Sequentially consistent with pushes, for sleepers that have announced
  /// themselves.
  bool any() const {
    for (auto const& level : levels_)
      if (Queue const* queue = level.load(std::memory_order_seq_cst);
          queue != nullptr && !queue->empty())
        return true;
    for (auto const& worker : workers_) {
      if (!worker.deque.empty()) return true;
      Queue const* inbox = worker.inbox.load(std::memory_order_seq_cst);
      if (inbox != nullptr && !inbox->empty()) return true;
    }
    return false;
  }

 private:
  bool pop_level(std::uint32_t used, std::uint32_t level, std::uint32_t& id) {
    return (used >> level & 1u) != 0 && levels_[level].load(std::memory_order_acquire)->pop(id);
  }

  Item steal(std::uint32_t self) {
    std::uint32_t const count = workers();
    WorkerState<Policy>& own = workers_[self];
    for (std::uint32_t tried = 0; tried < count; ++tried) {
      std::uint32_t const other = own.victim < count ? own.victim : 0;
      if (other != self) {
        Item item;
        if (workers_[other].deque.steal(item)) return counted(own, item);
        std::uint32_t id;
        Queue* inbox = workers_[other].inbox.load(std::memory_order_acquire);
        if (inbox != nullptr && inbox->pop(id)) return counted(own, id);
      }
      own.victim = other + 1;  // a victim that had something is tried first the next time
    }
    return no_item;
  }

  static Item counted(WorkerState<Policy>& own, Item item) {
    own.stolen.store(own.stolen.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return item;
  }

  void prepare_level(std::uint32_t level) {
    queues_.push_back(std::make_unique<Queue>());
    levels_[level].store(queues_.back().get(), std::memory_order_seq_cst);
    used_.store(used_.load(std::memory_order_relaxed) | 1u << level, std::memory_order_seq_cst);
  }

  void prepare_inbox(std::uint32_t index) {
    auto& inbox = workers_[index].inbox;
    if (inbox.load(std::memory_order_relaxed) != nullptr) return;
    queues_.push_back(std::make_unique<Queue>());
    inbox.store(queues_.back().get(), std::memory_order_seq_cst);
  }

  std::vector<WorkerState<Policy>> workers_;
  Atomic<Queue*> levels_[level_count] = {};
  Atomic<std::uint32_t> used_{0};
  std::vector<std::unique_ptr<Queue>> queues_;  // submitter only
};

}  // namespace nntile::detail::ring
