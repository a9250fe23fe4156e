#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Decides whether a worker leaves tiny tasks to the submitter.

#include <cstdint>

#include "nntile/runtime/ring/policy.hh"

namespace nntile::detail::ring {

/// One worker's exponential back-off, where the submitter runs tasks as well and bodies take less
/// time than their slots take from core to core: two threads are slower than one then. Some bodies
/// are timed. After a tiny one the worker waits, twice as long each time, before it looks for tasks
/// again; it goes on at once where a body is not tiny, or the submitter was not at work meanwhile,
/// so that a wait is at most about as long as the tiny tasks before it took.
template <class Policy> class Backoff {
 public:
  /// Whether to time the next body.
  bool is_due() { return waits() || ++runs_ % Policy::Sizes::timed_every == 0; }
  /// Whether the latest body that was timed was tiny.
  bool waits() const { return rounds_ != 0; }
  std::uint32_t rounds() const { return rounds_; }
  void stop() { rounds_ = 0; }

  /// Judges a body; whether to leave tasks alone for a while. `activity` counts what the submitter
  /// has submitted and run.
  bool judge(std::int64_t body_ns, std::uint64_t activity) {
    bool const alone = activity - seen_ <= rounds_ / rounds_a_task;
    seen_ = activity;
    if (body_ns >= Policy::Sizes::tiny_ns || alone) {
      stop();
      return false;
    }
    rounds_ = rounds_ == 0 ? first : rounds_ < Policy::Sizes::most_rounds ? 2 * rounds_ : rounds_;
    return true;
  }
  void wait() const {
    if constexpr (Policy::Sizes::most_rounds != 0)
      for (std::uint32_t i = 0; i < rounds_; ++i) relax();
  }

 private:
  static constexpr std::uint32_t first = 16;  // rounds
  /// A submitter that takes longer a task leaves most of its tasks to workers.
  static constexpr std::uint32_t rounds_a_task = 16;

  std::uint32_t runs_ = 0;
  std::uint32_t rounds_ = 0;  // of the latest wait
  std::uint64_t seen_ = 0;
};

}  // namespace nntile::detail::ring
