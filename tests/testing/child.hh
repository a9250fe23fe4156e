#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The output of a child process that ends in the midst of the battery.

#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "tests/support/catch.hh"

namespace nntile::test {

struct Ended {
  int status;  // -1: by a signal
  std::string output;
};

/// Runs the body in a child process; what it wrote to stdout and stderr.
template <class Body> Ended run_in_child(Body body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  pid_t const child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    body();
    _exit(0);
  }
  close(ends[1]);
  Ended ended{-1, {}};
  char bytes[4096];
  for (ssize_t count; (count = read(ends[0], bytes, sizeof bytes)) > 0;)
    ended.output.append(bytes, static_cast<std::size_t>(count));
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (WIFEXITED(status)) ended.status = WEXITSTATUS(status);
  return ended;
}

}  // namespace nntile::test
