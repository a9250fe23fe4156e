#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Executors with the faults that people make.

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "nntile/runtime/concept.hh"
#include "tests/testing/newest.hh"

namespace nntile::test {

enum class Fault {
  none,
  one_thread_short,  // forgets that with own_driver the driver is none of them
  sleeps_late,       // lets go of the lock between looking at the queue and falling asleep
  wakes_one          // wakes a thread only for the first job of a queue
};

/// One locked queue.
template <Fault fault> class FaultyThreads {
 public:
  explicit FaultyThreads(RuntimeOptions const& options) : workers_(options.workers.value_or(2)) {
    bool const all = options.own_driver && fault != Fault::one_thread_short;
    for (int i = all ? 0 : 1; i < workers_; ++i) threads_.emplace_back([this] { work(); });
  }
  ~FaultyThreads() {
    {
      std::lock_guard const hold(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  void spawn(Job job) {
    std::lock_guard const hold(mutex_);
    jobs_.push_back(job);
    if (!is(Fault::wakes_one) || jobs_.size() == 1) changed_.notify_one();
  }
  bool help() {
    std::unique_lock lock(mutex_);
    if (jobs_.empty()) return false;
    Job const job = jobs_.front();
    jobs_.pop_front();
    lock.unlock();
    job();
    return true;
  }
  void on_idle(Job) {}
  /// Ends the fault and what hangs by it, for a watchdog that has seen it.
  static void mend() {
    Newest<FaultyThreads>::visit([](FaultyThreads& self) {
      std::lock_guard const hold(self.mutex_);
      self.mended_ = true;
      self.changed_.notify_all();
    });
  }
  Workers workers() const { return {.cpu = workers_}; }

 private:
  bool is(Fault one) const { return fault == one && !mended_; }
  void work() {
    for (std::unique_lock lock(mutex_); !stop_; lock.lock()) {
      if (jobs_.empty() && is(Fault::sleeps_late)) {
        lock.unlock();
        std::this_thread::sleep_for(std::chrono::microseconds(20));
        lock.lock();
        if (stop_) return;
        changed_.wait(lock);
      } else if (jobs_.empty()) {
        changed_.wait(lock);
      }
      lock.unlock();
      (void)help();
    }
  }

  int const workers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool stop_ = false;
  bool mended_ = false;
  std::vector<std::thread> threads_;
  Newest<FaultyThreads> newest_{*this};
};

}  // namespace nntile::test
