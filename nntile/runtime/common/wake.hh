#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Sleeping until another thread has changed something, without losing a notification.

#include <atomic>
#include <cstdint>

#include "nntile/core/threads.hh"


namespace nntile::common {

/// A place to sleep at. Law: whoever makes a condition true does so by a seq_cst operation (or
/// under a lock that the sleeper's look takes too), and calls `notify` after it. Then either the
/// notifier sees the sleeper, or the sleeper, who announces itself before it looks, sees the
/// change.
class Wake {
 public:
  /// Cost while nobody sleeps: one load.
  void notify() noexcept {
    if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
    detail::Lock guard(mutex_);
    ++notified_;
    changed_.notify_all();
  }

  /// Announces a sleeper, who then looks once more at what it waits for and calls `cancel`, `sleep`
  /// or `nap`.
  std::uint64_t prepare() noexcept {
    detail::Lock guard(mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    return notified_;
  }
  void cancel() noexcept { sleepers_.fetch_sub(1, std::memory_order_relaxed); }
  /// Returns after a `notify` later than `prepare`, whose value `ticket` is.
  void sleep(std::uint64_t ticket) noexcept {
    detail::Lock lock(mutex_);
    while (notified_ == ticket) changed_.wait(lock);
    cancel();
  }
  /// As sleep, but for about 50 microseconds at most: for callers who have polls to call in
  /// between.
  void nap(std::uint64_t ticket) noexcept {
    detail::Lock lock(mutex_);
    (void)changed_.wait_for(lock, 50'000, [&] { return notified_ != ticket; });
    cancel();
  }

 private:
  std::atomic<int> sleepers_{0};
  detail::Mutex mutex_;
  detail::Condition changed_;
  std::uint64_t notified_ = 0;
};

}  // namespace nntile::common
