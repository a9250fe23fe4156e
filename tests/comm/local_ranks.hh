#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Runs a body on every rank of a LocalWorld, a thread each.
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "nntile/comm/local.hh"

namespace nntile::test {

/// Calls body(comm) on the thread of each rank; what a rank throws is its text, by rank.
template <class Body> std::vector<std::string> on_ranks(LocalWorld& world, Body body) {
  std::vector<std::string> thrown(static_cast<std::size_t>(world.size()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        LocalComm comm(world, rank);
        body(comm);
      } catch (std::exception const& error) {
        thrown[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

/// Tests until a request has ended; gives its error, and forgets others that have ended.
template <class C> std::string end_of(C& comm, Request request) {
  for (std::vector<EndedRequest> ended;;) {
    comm.test(ended);
    for (EndedRequest const& one : ended)
      if (one.request == request) return one.error;
    ended.clear();
    std::this_thread::yield();
  }
}

}  // namespace nntile::test
