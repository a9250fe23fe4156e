#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A thread that detects a hang and reports the call that does not return.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "nntile/testing/conformance/report.hh"

namespace nntile::testing {

/// Writes the report so far to stderr and ends the process with status 1, without destructors: a
/// thread that hangs inside a runtime cannot be unwound.
[[noreturn]] inline void print_report_and_exit(Report const& report) {
  if (ftrylockfile(stdout) == 0) {  // keeps the caller's earlier output
    std::fflush(stdout);
    funlockfile(stdout);
  }
  std::fputs(to_string(report).c_str(), stderr);
  std::_Exit(EXIT_FAILURE);
}

/// The battery's action on a runtime that hangs.
struct Watchdog {
  /// So long without the return of any call to a runtime is a hang; 0 watches nothing. The longest
  /// call of a good runtime waits for 10^5 tasks, whose bodies may wait for each other.
  double seconds = 120;
  /// Called with the report so far, whose `hang` names check, configuration and step, on a thread
  /// of its own. Does not throw. If it returns, the check counts as failed, and the battery goes on
  /// waiting.
  std::function<void(Report const&)> on_hang = print_report_and_exit;
  /// The same where no body, poll or token of the battery is under way either, so that the runtime
  /// alone could go on. 0: no sooner than `seconds`.
  double idle_seconds = 20;

  /// A hang of the runtime hangs the battery.
  static Watchdog off() { return {.seconds = 0}; }
};

namespace detail {

/// A sample of what goes on: a count that grows with every progress, and whether the runtime alone
/// can make it.
struct Activity {
  std::uint64_t progress = 0;
  bool idle = false;
};

/// The time without progress, from periodic samples.
class Stillness {
 public:
  Stillness(double limit, double idle_limit, double period)
      : limit_(limit), idle_limit_(std::min(limit, idle_limit)), period_(period) {}

  /// Takes a sample; true when a limit is reached, once per hang. Counts at most two periods a
  /// sample, since a process that was stopped could make no progress.
  bool look(double seconds_since_last, Activity now) {
    bool const reported = reached();
    double const passed = std::min(seconds_since_last, 2 * period_);
    bool const still = std::exchange(progress_, now.progress) == now.progress;
    seconds_ = still ? seconds_ + passed : 0;
    idle_ = still && now.idle ? idle_ + passed : 0;
    return reached() && !reported;
  }
  /// Seconds without progress.
  double seconds() const { return seconds_; }

 private:
  bool reached() const { return seconds_ >= limit_ || idle_ >= idle_limit_; }

  double const limit_, idle_limit_;
  double const period_;
  double seconds_ = 0, idle_ = 0;
  std::uint64_t progress_ = 0;
};

/// Calls hung(seconds) from its own thread each time that a limit of the watchdog is reached.
class WatchdogThread {
 public:
  using Clock = std::chrono::steady_clock;

  WatchdogThread(Watchdog const& limits, std::function<Activity()> activity,
                 std::function<void(double)> hung)
      : limit_(limits.seconds),
        idle_limit_(limits.idle_seconds > 0 ? limits.idle_seconds : limits.seconds),
        activity_(std::move(activity)),
        hung_(std::move(hung)) {
    if (limit_ > 0) thread_ = std::thread([this] { watch(); });
  }
  WatchdogThread(WatchdogThread const&) = delete;
  ~WatchdogThread() {
    {
      std::lock_guard const hold(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void watch() {
    double const period = std::min({limit_ / 8, idle_limit_ / 8, 1.0});
    Stillness stillness(limit_, idle_limit_, period);
    auto last = Clock::now();
    for (std::unique_lock lock(mutex_);;) {
      if (wake_.wait_for(lock, std::chrono::duration<double>(period), [&] { return stop_; }))
        return;
      auto const now = Clock::now();
      std::chrono::duration<double> const since = now - std::exchange(last, now);
      if (!stillness.look(since.count(), activity_())) continue;
      lock.unlock();
      hung_(stillness.seconds());
      lock.lock();
    }
  }

  double const limit_, idle_limit_;
  std::function<Activity()> const activity_;
  std::function<void(double)> const hung_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace detail

}  // namespace nntile::testing
