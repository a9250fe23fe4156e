// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Child processes of a test, for runtimes that were made before the fork.

#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <string>

#include "nntile/core/codelet.hh"
#include "nntile/core/error.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/message.hh"

namespace nntile::test {

/// Holds the threads of a runtime inside bodies, where they allocate nothing: a sanitizer's malloc
/// leaves a child the locks that threads of the parent hold, and the child would wait for ever.
class HeldThreads {
 public:
  /// Submits a task for each thread, and returns when all have begun. `threads`: those that are not
  /// the driver. Until `let_go` nothing else may run that the driver waits for.
  template <class R> void hold(R& runtime, int threads) {
    for (int i = 0; i < threads; ++i) submit(runtime, codelet, {}, this);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return held_ == threads; });
  }
  void let_go() {
    std::lock_guard const guard(mutex_);
    free_ = true;
    changed_.notify_all();
  }

 private:
  static Status wait(KernelCall const& call) noexcept {
    HeldThreads& self = **static_cast<HeldThreads* const*>(call.arguments);
    std::unique_lock lock(self.mutex_);
    ++self.held_;
    self.changed_.notify_all();
    self.changed_.wait(lock, [&] { return self.free_; });
    return {};
  }
  static constexpr Codelet codelet{"hold", &HeldThreads::wait};

  std::mutex mutex_;
  std::condition_variable changed_;
  int held_ = 0;
  bool free_ = false;
};

/// What child() returns in a process of its own; the negative number of the signal that ended it,
/// SIGALRM after five minutes.
template <class Child> int in_child(Child child) {
  pid_t const process = fork();
  if (process == 0) {
    (void)alarm(300);
    _exit(child());
  }
  int status = 0;
  (void)waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// Whether the call throws what every call of a runtime does in a child process.
template <class Call> bool refused_in_child(char const* name, Call call) {
  std::string const message = message_of<LifetimeError>(call);
  return contains(message, std::string(name) + ": called in a process that was forked");
}

}  // namespace nntile::test
