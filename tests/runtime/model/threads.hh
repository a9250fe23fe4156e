// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Mutexes, conditions and threads of the exploration, as those of core/threads.hh.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "nntile/core/threads.hh"
#include "tests/runtime/model/exploration.hh"
#include "tests/runtime/model/mutant.hh"
#include "tests/runtime/model/site.hh"

namespace nntile::test::model {

class Mutex {
 public:
  Mutex() = default;
  Mutex(Mutex const&) = delete;
  Mutex& operator=(Mutex const&) = delete;

  void lock() {
    Exploration& exploration = *Exploration::current;
    if (exploration.concurrent()) {
      exploration.begin_operation([this] { return held_; });
      exploration.end_operation(&object_, Effect::change);
    }
    held_ = true;
    exploration.seen().join(released_);
  }
  /// Not an event: nothing that another thread does in between would differ.
  void unlock() {
    Exploration& exploration = *Exploration::current;
    held_ = false;
    released_ = exploration.seen();
    exploration.tick();
    exploration.leave(object_);
  }

 private:
  Object object_;
  Clock released_;
  bool held_ = false;
};

/// No wake-ups without a notification; one of several that wait is each in some execution. Limits
/// of time pass when no thread has anything else to do.
class Condition {
 public:
  Condition() = default;
  Condition(Condition const&) = delete;
  Condition& operator=(Condition const&) = delete;

  template <class Ready> void wait(nntile::detail::Lock<Mutex>& lock, Ready ready) {
    while (!ready()) (void)wait_once(lock, false);
  }
  template <class Ready>
  bool wait_for(nntile::detail::Lock<Mutex>& lock, std::int64_t, Ready ready) {
    while (!ready())
      if (!wait_once(lock, true)) return ready();
    return true;
  }
  void notify_one(Site site = Site::here()) { notify(1, site); }
  void notify_all(Site site = Site::here()) { notify(most_threads, site); }

 private:
  struct Waiter {
    std::size_t thread;
    bool* woken;
  };

  bool wait_once(nntile::detail::Lock<Mutex>& lock, bool limited) {
    Exploration& exploration = *Exploration::current;
    exploration.begin_operation();
    exploration.end_operation(&object_, Effect::change);
    bool woken = false;
    waiters_.push_back({exploration.self(), &woken});
    lock.unlock();
    if (limited) exploration.yield();
    if (!limited || woken) exploration.block_while([&woken] { return !woken; });
    if (woken) exploration.follow(object_);
    std::erase_if(waiters_, [&](Waiter const& waiter) { return waiter.woken == &woken; });
    lock.lock();
    return woken;
  }

  void notify(std::size_t most, Site const& site) {
    Exploration& exploration = *Exploration::current;
    if (mutation(site, Kind::notify, std::memory_order_seq_cst).dropped) return;
    if (!exploration.concurrent()) return;
    exploration.begin_operation();
    for (; most != 0 && !waiters_.empty(); --most) {
      std::size_t const which = most == 1 ? exploration.choose(waiters_.size()) : 0;
      *waiters_[which].woken = true;
      waiters_.erase(waiters_.begin() + static_cast<std::ptrdiff_t>(which));
    }
    exploration.end_operation(&object_, Effect::change);
  }

  Object object_;
  std::vector<Waiter> waiters_;
};

class Thread {
 public:
  Thread() = default;
  Thread(Thread&& other) noexcept
      : number_(other.number_), runs_(std::exchange(other.runs_, false)) {}
  Thread& operator=(Thread&&) = delete;

  template <class Body> bool start(Body body) {
    number_ = Exploration::current->start(std::move(body));
    return runs_ = true;
  }
  void join() {
    if (std::exchange(runs_, false)) Exploration::current->join(number_);
  }

 private:
  std::size_t number_ = 0;
  bool runs_ = false;
};

}  // namespace nntile::test::model
