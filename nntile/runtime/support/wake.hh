#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Sleeping until another thread has changed something, without losing a notification.

#include <atomic>
#include <cstdint>

#include "nntile/core/threads.hh"

namespace nntile::support {

/// An eventcount. Law: the notifier makes the condition true by a seq_cst operation (or under a
/// lock that the sleeper's check takes too), and calls `notify` after it. Then either the notifier
/// sees the sleeper, or the sleeper, announced before its check, sees the change.
class Wake {
 public:
  /// Cost without sleepers: one load.
  void notify() noexcept {
    if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
    detail::Lock guard(mutex_);
    ++notified_;
    changed_.notify_all();
  }

  /// Announces a sleeper, which then checks its condition once more and calls `cancel`, `sleep` or
  /// `nap`.
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
  /// As sleep, but for about 50 microseconds at most: for callers that have polls to call in
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

}  // namespace nntile::support
