#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Finds out whether a worker's help pays.

#include <algorithm>
#include <cstdint>

#include "nntile/runtime/ring/policy.hh"

namespace nntile::detail::ring {

/// Tasks submitted and tasks run, together, and when they were counted.
struct Progress {
  std::int64_t ns = 0;
  std::uint64_t done = 0;
};

/// One worker's trials, where the submitter runs tasks as well. Small tasks whose lines go from
/// core to core may take two threads several times as long as one: that depends on the machine, on
/// where the system has put the threads, and on who wrote what a body reads. So it is measured: now
/// and then the worker leaves all tasks to others for a spell. Where these get on clearly better
/// without it, it stays away, four times as long each time, unless they slow down meanwhile. Where
/// they do not, the next trial comes later.
template <class Policy> class Trial {
 public:
  /// Whether the worker is away.
  bool away() const { return spells_ != 0; }
  /// It goes back to work.
  void stop() { spells_ = stretches_ = calls_ = 0; }

  /// Called now and then while it works: whether `leave` wants to be asked.
  bool is_due() { return Policy::Sizes::most_rounds != 0 && ++calls_ % calls_a_stretch_ == 0; }
  /// Whether to leave now. The first stretch of work is not counted, as caches are cold; idle
  /// moments of the others matter little, as the best one counts.
  bool leave(Progress now) {
    double const rate = rate_until(now);
    best_ = stretches_ == 0 ? 0 : std::max(best_, rate);
    if (++stretches_ <= counted_stretches) return false;
    stretches_ = 0;
    if (best_ < least_rate) return false;
    spells_ = 1;
    waits_ = 0;
    return true;
  }

  /// A moment away.
  static void wait() {
    for (std::uint32_t i = 0; i < Policy::Sizes::most_rounds / 2; ++i) relax();
  }
  /// Called behind each: whether to stay away. Where nothing was done meanwhile, tasks are not
  /// small any more, or there are none.
  bool stay(Progress now) {
    if (now.done == latest_.done) {
      stop();
      return false;
    }
    latest_ = now;
    if (++waits_ % waits_a_spell != 0) return true;
    double const rate = rate_until(now);
    switch (++spells_) {
      case 2:
        break;  // others had to fetch what it wrote
      case 3:
        judge(rate);
        break;
      default:
        if (rate < alone_ / 2) most_spells_ = first_spells;
        if (rate < alone_ / 2 || spells_ > most_spells_) stop();
    }
    return away();
  }

 private:
  static constexpr std::uint32_t counted_stretches = 3;               // behind one that is not
  static constexpr std::uint32_t fewest_calls = 4, most_calls = 256;  // a stretch
  static constexpr std::uint32_t waits_a_spell = 4;
  static constexpr std::uint32_t first_spells = 8, longest = 256;  // away, growing by four
  static constexpr double least_rate = 1e-3;  // of a nanosecond: two microseconds a task
  static constexpr double enough = 9. / 8;

  void judge(double rate) {
    alone_ = rate;
    if (alone_ >= enough * best_) {
      calls_a_stretch_ = fewest_calls;
      most_spells_ = std::min(4 * most_spells_, longest);
      return;
    }
    calls_a_stretch_ = std::min(4 * calls_a_stretch_, most_calls);
    most_spells_ = first_spells;
    stop();
  }
  double rate_until(Progress now) {
    auto const ns = std::max<std::int64_t>(now.ns - since_.ns, 1);
    double const rate = static_cast<double>(now.done - since_.done) / static_cast<double>(ns);
    latest_ = since_ = now;
    return rate;
  }

  Progress since_, latest_;
  double best_ = 0, alone_ = 0;  // of progress a nanosecond
  std::uint32_t calls_ = 0, calls_a_stretch_ = fewest_calls, stretches_ = 0;
  // `spells_` is 1 from when it leaves.
  std::uint32_t waits_ = 0, spells_ = 0, most_spells_ = first_spells;
};

}  // namespace nntile::detail::ring
