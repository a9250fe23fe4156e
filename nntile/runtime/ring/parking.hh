#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Sleeping and waking of idle threads.

#include <cstdint>

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
/// may take any permit.
template <class Policy> class Parking {
  using Mutex = typename Policy::Mutex;
  using Condition = typename Policy::Condition;

 public:
  /// Announces a sleeper. Then look for work, and call `cancel` or one of the sleeps.
  void announce() { sleepers_.fetch_add(1, std::memory_order_seq_cst); }

  /// Takes the announcement back, or the permit that has answered it. Blocks: no.
  void cancel() {
    detail::Lock<Mutex> lock(mutex_);
    leave();
  }

  /// Sleeps until a permit comes.
  void sleep() {
    detail::Lock<Mutex> lock(mutex_);
    work_.wait(lock, [this] { return permits_ > 0; });
    --permits_;
  }

  /// Sleeps for at most `nanoseconds`: for a thread that has polls to call.
  void nap(std::int64_t nanoseconds) {
    detail::Lock<Mutex> lock(mutex_);
    if (work_.wait_for(lock, nanoseconds, [this] { return permits_ > 0; }))
      --permits_;
    else
      leave();
  }

  /// Sleeps until the expected end has rung, or until a permit comes if the driver has announced
  /// itself as well. `nanoseconds` below 0 is no limit. The driver may return to its caller without
  /// looking for work, so it rather takes back an announcement than uses up a permit that a worker
  /// was woken for.
  void sleep_driver(bool announced, std::int64_t nanoseconds) {
    detail::Lock<Mutex> lock(mutex_);
    auto const ready = [&] { return rung_ || (announced && permits_ > 0); };
    driver_sleeps_ = true;
    if (nanoseconds < 0)
      bell_.wait(lock, ready);
    else
      bell_.wait_for(lock, nanoseconds, ready);
    driver_sleeps_ = false;
    rung_ = false;
    if (announced) leave();
  }

  /// Wakes up to `count` sleepers, after work for them has been pushed.
  void wake(std::uint32_t count) {
    if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
    std::uint32_t taken;
    bool driver_sleeps;
    {
      detail::Lock<Mutex> lock(mutex_);
      std::uint32_t const sleepers = sleepers_.load(std::memory_order_relaxed);
      taken = sleepers < count ? sleepers : count;
      sleepers_.fetch_sub(taken, std::memory_order_seq_cst);
      permits_ += taken;
      driver_sleeps = driver_sleeps_;
    }
    if (taken == 0) return;
    if (taken == 1)
      work_.notify_one();
    else
      work_.notify_all();
    if (driver_sleeps) bell_.notify_one();
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
  void completed(std::uint64_t producer) {
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

  /// Takes back one announcement, or one permit. With the mutex.
  void leave() {
    if (sleepers_.load(std::memory_order_relaxed) != 0)
      sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    else
      --permits_;
  }

  // Unanswered announcements. Grows at any time, shrinks only with the mutex.
  alignas(apart) typename Policy::template Atomic<std::uint32_t> sleepers_{0};
  typename Policy::template Atomic<std::uint64_t> expected_{0};  // what the driver waits for
  alignas(apart) Mutex mutex_;
  Condition work_;
  Condition bell_;
  std::uint32_t permits_ = 0;
  bool rung_ = false;
  bool driver_sleeps_ = false;
};

}  // namespace nntile::detail::ring
