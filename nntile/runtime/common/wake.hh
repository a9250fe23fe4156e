#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Sleeping until another thread has changed something, without losing a notification.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace nntile::common {

/// A place to sleep at. Law: whoever makes a condition true does so by a seq_cst operation and
/// calls `notify` after it. Then either the notifier sees the sleeper, or the sleeper, who
/// announces itself before it looks, sees the change.
class Wake {
 public:
  /// Cost while nobody sleeps: one load.
  void notify() noexcept {
    if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
    std::lock_guard guard(mutex_);  // a sleeper is now either before its look or inside its sleep
    changed_.notify_all();
  }

  /// Returns once ready() holds. It is called under a lock: it must neither block nor call
  /// `notify`.
  template <class Ready> void sleep(Ready&& ready) {
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    while (!ready()) changed_.wait(lock);
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }

  /// Returns once ready() holds, or after about 50 microseconds: for callers who have polls to call
  /// in between.
  template <class Ready> void nap(Ready&& ready) {
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    if (!ready()) changed_.wait_for(lock, std::chrono::microseconds(50));
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace nntile::common
