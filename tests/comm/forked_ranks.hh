#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Runs a body on every rank of a ProcessWorld, a forked process each.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "nntile/comm/processes.hh"
#include "tests/support/skip.hh"

namespace nntile::test {

/// False, having marked the test as skipped, where the kernel lets no process read another.
inline bool may_read_processes() {
  static char const sign = 'a';
  pid_t const process = ::fork();
  if (process < 0) throw Error("no process");
  if (process == 0)
    for (;;) ::pause();
  char seen = 0;
  iovec const here{&seen, 1}, there{const_cast<char*>(&sign), 1};
  bool const may = ::process_vm_readv(process, &here, 1, &there, 1, 0) == 1 && seen == sign;
  ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);
  if (!may) skip("the kernel lets no process read another (process_vm_readv)");
  return may;
}

/// Calls body(comm) in a process of each rank, where nothing may be CHECKed; what it returns or
/// throws is its text, by rank. A process that a signal ends has "signal N".
template <class Body> std::vector<std::string> on_processes(ProcessWorld& world, Body body) {
  struct Child {
    pid_t process;
    int text;
  };
  std::vector<Child> children;
  for (int rank = 0; rank < world.size(); ++rank) {
    int ends[2];
    if (::pipe(ends) != 0) throw Error("no pipe");
    pid_t const process = ::fork();
    if (process < 0) throw Error("no process");
    if (process == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      std::string said;
      try {
        ProcessComm comm(world, rank);
        said = body(comm);
      } catch (std::exception const& error) {
        said = error.what();
      }
      bool const well = ::write(ends[1], said.data(), said.size()) >= 0;
      std::_Exit(well ? 0 : 1);
    }
    ::close(ends[1]);
    children.push_back({process, ends[0]});
  }
  std::vector<std::string> texts;
  for (Child const& child : children) {
    std::string& text = texts.emplace_back();
    char piece[4096];
    for (ssize_t bytes; (bytes = ::read(child.text, piece, sizeof piece)) > 0;)
      text.append(piece, static_cast<std::size_t>(bytes));
    ::close(child.text);
    int status = 0;
    ::waitpid(child.process, &status, 0);
    if (WIFSIGNALED(status)) text = concat("signal ", WTERMSIG(status));
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
      text = concat("status ", WEXITSTATUS(status));
  }
  return texts;
}

}  // namespace nntile::test
