#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Requests to end a run: Ctrl-C, SIGTERM, SIGHUP of a terminal that is closed, and SIGPIPE of a
// reader that has gone.

#include <signal.h>

#include <atomic>
#include <csignal>

#include "machine.hh"

namespace gpt2 {

/// The first signal asks for an end behind the step in flight. One that comes at least a second
/// later asks for it at once; sooner it is the same request, which a terminal and a launcher may
/// both pass on, and so is SIGPIPE, which comes with all that is printed.
class EndSignals {
 public:
  /// From here on signals are requests; those that were ignored stay so, as by nohup or of a script
  /// in the background. `alone`: the second one ends this process as if it were not taken; else
  /// another thread looks at asked_again(), and pipes are those of a launcher, which looks after
  /// them.
  static void take(bool alone) {
    alone_ = alone;
    for (int const signal : {SIGINT, SIGTERM, SIGHUP})
      if (!is_ignored(signal)) std::signal(signal, &EndSignals::take_one);
    if (alone && !is_ignored(SIGPIPE)) std::signal(SIGPIPE, &EndSignals::take_one);
  }
  static bool asked() { return first_ != 0; }
  static bool asked_again() { return again_; }
  /// The time of the first one, as of seconds_now(); 0 where there was none.
  static double first_time() { return first_; }

 private:
  static bool is_ignored(int signal) {
    struct sigaction found{};
    return sigaction(signal, nullptr, &found) == 0 && found.sa_handler == SIG_IGN;
  }
  static void take_one(int signal) {
    double const now = seconds_now();
    double first = 0;
    if (first_.compare_exchange_strong(first, now) || now - first < 1 || signal == SIGPIPE) return;
    again_ = true;
    if (!alone_) return;
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }

  inline static std::atomic<double> first_ = 0;
  inline static std::atomic<bool> alone_ = true, again_ = false;
  static_assert(std::atomic<double>::is_always_lock_free, "as a handler of signals needs it");
};

}  // namespace gpt2
