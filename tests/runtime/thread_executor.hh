// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The plainest executor there is, for tests of the engine: one locked queue and threads.

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "nntile/runtime/concept.hh"
#include "nntile/runtime/support/options.hh"

namespace nntile::test {

class ThreadExecutor {
 public:
  explicit ThreadExecutor(RuntimeOptions const& options = {})
      : options_(support::check_options(options, "threads")) {
    try {
      for (int i = 0; i < options_.spawned; ++i) threads_.emplace_back([this] { work(); });
    } catch (...) {
      stop();
      throw;
    }
  }
  ~ThreadExecutor() { stop(); }

  void spawn(Job job) {
    {
      std::lock_guard guard(mutex_);
      jobs_.push_back(job);
    }
    changed_.notify_one();
  }
  bool help() {
    Job job;
    {
      std::lock_guard guard(mutex_);
      if (jobs_.empty()) return false;
      job = jobs_.front();
      jobs_.pop_front();
    }
    job();
    return true;
  }
  Workers workers() const { return {options_.workers, 0, options_.oversubscribed}; }
  void on_idle(Job job) {
    {
      std::lock_guard guard(mutex_);
      idle_ = job;
    }
    changed_.notify_all();
  }

 private:
  void stop() {
    {
      std::lock_guard guard(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  void work() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      lock.unlock();
      bool const helped = help();
      lock.lock();
      if (helped || stop_ || !jobs_.empty()) continue;
      if (idle_.call == nullptr) {
        changed_.wait(lock);
      } else {
        Job const idle = idle_;
        lock.unlock();
        idle();
        lock.lock();
        if (jobs_.empty() && !stop_) changed_.wait_for(lock, std::chrono::microseconds(100));
      }
    }
  }

  support::CheckedOptions const options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  Job idle_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};
static_assert(Executor<ThreadExecutor>);

}  // namespace nntile::test
