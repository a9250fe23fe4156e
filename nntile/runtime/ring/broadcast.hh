#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Sleeping and waking of threads each of which waits for something else.

#include <cstdint>

#include "nntile/core/threads.hh"
#include "nntile/runtime/ring/policy.hh"

namespace nntile::detail::ring {

/// An eventcount whose every wake-up is for all sleepers. With anonymous permits, as Parking has
/// them, one that finds nothing and sleeps again could use up that of another.
///
/// Law: as Parking's. A sleeper announces itself, then looks, then sleeps; a producer changes
/// something, then calls `wake_all`: all of these are sequentially consistent.
template <class Policy> class Broadcast {
  using Mutex = typename Policy::Mutex;

 public:
  /// Announces a sleeper. Returns the round for `sleep`; `cancel` takes the announcement back.
  std::uint64_t announce() {
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    Lock<Mutex> guard(mutex_);
    return round_;
  }
  void cancel() { sleepers_.fetch_sub(1, std::memory_order_relaxed); }

  /// Sleeps until a wake-up behind that announcement, at most for `nanoseconds`; below 0 is no
  /// limit.
  void sleep(std::uint64_t round, std::int64_t nanoseconds) {
    {
      Lock<Mutex> lock(mutex_);
      auto const woken = [&] { return round_ != round; };
      if (nanoseconds < 0)
        wake_.wait(lock, woken);
      else
        (void)wake_.wait_for(lock, nanoseconds, woken);
    }
    cancel();
  }

  void wake_all() {
    if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
    {
      Lock<Mutex> guard(mutex_);
      ++round_;
    }
    wake_.notify_all();
  }

 private:
  alignas(apart) typename Policy::template Atomic<std::uint32_t> sleepers_{0};
  alignas(apart) Mutex mutex_;
  typename Policy::Condition wake_;
  std::uint64_t round_ = 0;
};

}  // namespace nntile::detail::ring
