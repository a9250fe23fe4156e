#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The gate at which the workers of a paused ring stay.

#include <cstdint>

#include "nntile/core/threads.hh"
#include "nntile/runtime/ring/policy.hh"

namespace nntile::detail::ring {

/// A gate that threads come to when they run nothing, and pass when it is open.
///
/// Law: the gate closes before the scheduler's pause is seen, and opens after it has ended; a
/// thread comes only when it has seen that pause. So a thread that is inside runs nothing until the
/// next resume, and one that is late for a pause which has ended passes.
template <class Policy> class PauseGate {
  using Mutex = typename Policy::Mutex;
  using Condition = typename Policy::Condition;

 public:
  void close() {
    Lock<Mutex> guard(mutex_);
    closed_ = true;
  }
  void open() {
    {
      Lock<Mutex> guard(mutex_);
      closed_ = false;
    }
    opened_.notify_all();
  }

  /// Waits while the gate is closed. The caller runs nothing meanwhile.
  void pass() {
    Lock<Mutex> lock(mutex_);
    if (!closed_) return;
    ++inside_;
    came_.notify_one();
    opened_.wait(lock, [this] { return !closed_; });
    --inside_;
  }

  /// Waits until that many threads are inside, at most for `nanoseconds`; whether they are.
  bool wait_for(std::uint32_t threads, std::int64_t nanoseconds) {
    Lock<Mutex> lock(mutex_);
    return came_.wait_for(lock, nanoseconds, [&] { return inside_ == threads; });
  }

 private:
  Mutex mutex_;
  Condition opened_;
  Condition came_;
  bool closed_ = false;
  std::uint32_t inside_ = 0;
};

}  // namespace nntile::detail::ring
