#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Sleeping and waking of idle threads.

#include <cstdint>

#include "nntile/core/hints.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/ring/policy.hh"
#include "nntile/runtime/ring/users.hh"

namespace nntile::detail::ring {

/// An eventcount for executing threads, and a bell for the driver, which also waits for
/// completions.
///
/// Law: a sleeper announces itself, then looks at every queue, then sleeps; a producer pushes, then
/// looks at the count of sleepers. All of these are sequentially consistent, so one of the two sees
/// the other. A wake turns announcements into as many permits, so a burst of pushes wakes each
/// sleeper once, not once per push; announcements and permits together are always as many as the
/// threads that have announced themselves and not yet come back. Permits are anonymous: any sleeper
/// of a kind may take any permit of that kind. A task that a kind alone may run wakes by
/// `wake_kind`: with other permits, one that may not could use up that of one that may. Other wakes
/// are for the last kind first: the driver, which may use up a permit and look for no work, is of
/// the first kind that there is.
template <class Policy> class Parking {
  using Mutex = typename Policy::Mutex;
  using Condition = typename Policy::Condition;

 public:
  /// Announces a sleeper of a kind. Then look for work, and call `cancel` or one of the sleeps for
  /// that kind.
  void announce(std::uint32_t kind = 0) {
    sleepers_.fetch_add(one(kind), std::memory_order_seq_cst);
  }

  /// Takes the announcement back, or the permit that has answered it. Blocks: no.
  void cancel(std::uint32_t kind = 0) {
    detail::Lock<Mutex> lock(mutex_);
    leave(kind);
  }

  /// Sleeps until a permit comes.
  void sleep(std::uint32_t kind = 0) {
    detail::Lock<Mutex> lock(mutex_);
    work_[kind].wait(lock, [this, kind] { return permits_[kind] > 0; });
    --permits_[kind];
  }

  /// Sleeps for at most `nanoseconds`: for a thread that has polls to call.
  void nap(std::int64_t nanoseconds, std::uint32_t kind = 0) {
    detail::Lock<Mutex> lock(mutex_);
    if (work_[kind].wait_for(lock, nanoseconds, [this, kind] { return permits_[kind] > 0; }))
      --permits_[kind];
    else
      leave(kind);
  }

  /// Sleeps until the expected end has rung, or until a permit comes if the driver has announced
  /// itself as well. `nanoseconds` below 0 is no limit. The driver may return to its caller without
  /// looking for work, so it rather takes back an announcement than uses up a permit that a worker
  /// was woken for.
  void sleep_driver(bool announced, std::int64_t nanoseconds, std::uint32_t kind = 0) {
    detail::Lock<Mutex> lock(mutex_);
    auto const ready = [&] { return rung_ || (announced && permits_[kind] > 0); };
    driver_sleeps_ = true;
    if (nanoseconds < 0)
      bell_.wait(lock, ready);
    else
      bell_.wait_for(lock, nanoseconds, ready);
    driver_sleeps_ = false;
    rung_ = false;
    if (announced) leave(kind);
  }

  /// Wakes up to `count` sleepers of any kind, after work for them has been pushed.
  void wake(std::uint32_t count) {
    if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
    permit(count, 0, kinds);
  }
  /// The same for sleepers of one kind.
  void wake_kind(std::uint32_t count, std::uint32_t kind) {
    if (of(sleepers_.load(std::memory_order_seq_cst), kind) != 0) permit(count, kind, kind + 1);
  }

  void wake_all() { wake(~0u); }

  /// Whether some executing thread may find nothing to do.
  bool anyone_sleeps() const { return sleepers_.load(std::memory_order_relaxed) != 0; }

  /// The driver announces that it waits for the end of a task, by Domain::name_of. It looks at that
  /// one's edge list next: a list that is open then will be closed by a thread that calls
  /// `completed` afterwards.
  void expect(std::uint64_t producer) { expected_.store(producer, std::memory_order_seq_cst); }
  void stop_expecting() { expected_.store(0, std::memory_order_relaxed); }

  /// To be called after every end.
  [[gnu::always_inline]] void completed(std::uint64_t producer) {
    std::uint64_t expected = expected_.load(std::memory_order_seq_cst);
    if (expected != producer) [[likely]]
      return;
    if (expected_.compare_exchange_strong(expected, 0, std::memory_order_seq_cst)) ring();
  }

  /// Makes a driver that sleeps look around: there may be something to poll now.
  void call_driver() {
    if (expected_.load(std::memory_order_seq_cst) != 0) ring();
  }

 private:
  void ring() {
    {
      detail::Lock<Mutex> lock(mutex_);
      rung_ = true;
    }
    bell_.notify_one();
  }

  /// Turns up to `count` announcements of the kinds from `first` to `end` into permits.
  [[gnu::noinline]] void permit(std::uint32_t count, std::uint32_t first, std::uint32_t end) {
    std::uint32_t taken[kinds] = {};
    std::uint64_t all = 0;
    bool driver_sleeps;
    {
      detail::Lock<Mutex> lock(mutex_);
      std::uint64_t const sleepers = sleepers_.load(std::memory_order_relaxed);
      for (std::uint32_t kind = end; kind-- > first;) {
        taken[kind] = of(sleepers, kind) < count ? of(sleepers, kind) : count;
        count -= taken[kind];
        all += taken[kind] * one(kind);
        permits_[kind] += taken[kind];
      }
      sleepers_.fetch_sub(all, std::memory_order_seq_cst);
      driver_sleeps = driver_sleeps_;
    }
    if (all == 0) return;
    for (std::uint32_t kind = first; kind < end; ++kind) {
      if (taken[kind] == 1) work_[kind].notify_one();
      if (taken[kind] > 1) work_[kind].notify_all();
    }
    if (driver_sleeps) bell_.notify_one();
  }

  /// Takes back one announcement, or one permit. With the mutex.
  void leave(std::uint32_t kind) {
    if (of(sleepers_.load(std::memory_order_relaxed), kind) != 0)
      sleepers_.fetch_sub(one(kind), std::memory_order_seq_cst);
    else
      --permits_[kind];
  }

  /// Announcements are counted in one word, 16 bits a kind.
  static constexpr std::uint32_t kinds = worker_kinds;
  static_assert(16 * kinds <= 64);
  static constexpr std::uint64_t one(std::uint32_t kind) { return std::uint64_t{1} << 16 * kind; }
  static constexpr std::uint32_t of(std::uint64_t sleepers, std::uint32_t kind) {
    return static_cast<std::uint16_t>(sleepers >> 16 * kind);
  }

  // Unanswered announcements. Grows at any time, shrinks only with the mutex.
  alignas(apart) typename Policy::template Atomic<std::uint64_t> sleepers_{0};
  typename Policy::template Atomic<std::uint64_t> expected_{0};  // awaited by the driver
  alignas(apart) Mutex mutex_;
  Condition work_[kinds];
  Condition bell_;
  std::uint32_t permits_[kinds] = {};
  bool rung_ = false;
  bool driver_sleeps_ = false;
};

}  // namespace nntile::detail::ring
