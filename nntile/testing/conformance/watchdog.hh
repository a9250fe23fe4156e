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
  /// call of a good runtime waits for 10^5 tasks.
  double seconds = 120;
  /// Called with the report so far, whose `hang` names check, configuration and step, on a thread
  /// of its own. Does not throw. If it returns, the check counts as failed, and the battery goes on
  /// waiting.
  std::function<void(Report const&)> on_hang = print_report_and_exit;

  /// A hang of the runtime hangs the battery.
  static Watchdog off() { return {.seconds = 0}; }
};

namespace detail {

/// The time without progress, from periodic samples.
class Stillness {
 public:
  Stillness(double limit, double period) : limit_(limit), period_(period) {}

  /// Takes a sample; true when the limit is reached, once per hang. Counts at most two periods a
  /// sample, since a process that was stopped could make no progress.
  bool look(double seconds_since_last, std::uint64_t returned) {
    bool const reported = seconds_ >= limit_;
    seconds_ += std::min(seconds_since_last, 2 * period_);
    if (std::exchange(returned_, returned) != returned) seconds_ = 0;
    return seconds_ >= limit_ && !reported;
  }

 private:
  double const limit_;
  double const period_;
  double seconds_ = 0;
  std::uint64_t returned_ = 0;
};

/// Calls `hung` from its own thread each time that `returned` has not grown for the limit's time.
class WatchdogThread {
 public:
  using Clock = std::chrono::steady_clock;

  WatchdogThread(double seconds, std::function<std::uint64_t()> returned,
                 std::function<void()> hung)
      : limit_(seconds), returned_(std::move(returned)), hung_(std::move(hung)) {
    if (seconds > 0) thread_ = std::thread([this] { watch(); });
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
    double const period = std::min(limit_ / 8, 1.0);
    Stillness stillness(limit_, period);
    auto last = Clock::now();
    for (std::unique_lock lock(mutex_);;) {
      if (wake_.wait_for(lock, std::chrono::duration<double>(period), [&] { return stop_; }))
        return;
      auto const now = Clock::now();
      std::chrono::duration<double> const since = now - std::exchange(last, now);
      if (!stillness.look(since.count(), returned_())) continue;
      lock.unlock();
      hung_();
      lock.lock();
    }
  }

  double const limit_;
  std::function<std::uint64_t()> const returned_;
  std::function<void()> const hung_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace detail

}  // namespace nntile::testing
