// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Child processes of a test, for runtimes that were made before the fork.

#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "nntile/core/error.hh"
#include "tests/support/message.hh"

namespace nntile::test {

/// What child() returns in a process of its own; the negative number of the signal that ended it,
/// SIGALRM after two minutes.
template <class Child> int in_child(Child child) {
  pid_t const process = fork();
  if (process == 0) {
    (void)alarm(120);
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
