// SPDX-License-Identifier: BSD-3-Clause
// Thousands of open requests: their cost grows as their number does, or little more.
#include <time.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "nntile/comm/local.hh"
#include "nntile/comm/processes.hh"
#include "nntile/comm/self.hh"
#include "tests/comm/forked_ranks.hh"
#include "tests/support/catch.hh"
#include "tests/support/sanitized.hh"

using namespace nntile;

namespace {

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Sends `count` messages to itself and receives them, the last one first. Returns the requests
/// that ended well.
template <class C> std::int64_t pass(C& comm, std::int64_t count) {
  std::byte const one{1};
  std::vector<std::byte> rooms(static_cast<std::size_t>(count));
  for (std::int64_t n = 0; n < count; ++n) (void)comm.send({&one, 1}, {0, n});
  for (std::int64_t n = count - 1; n >= 0; --n)
    (void)comm.receive({&rooms[static_cast<std::size_t>(n)], 1}, {0, n});
  std::vector<EndedRequest> ended;
  while (ended.size() < 2 * rooms.size()) comm.test(ended);
  for (std::byte const room : rooms)
    if (room != one) return -1;
  return std::count_if(ended.begin(), ended.end(),
                       [](EndedRequest const& each) { return each.error.empty(); });
}

/// The same with all receives open at first, and a test behind each send.
template <class C> std::int64_t trickle(C& comm, std::int64_t count) {
  std::byte const one{1};
  std::vector<std::byte> rooms(static_cast<std::size_t>(count));
  for (std::int64_t n = 0; n < count; ++n)
    (void)comm.receive({&rooms[static_cast<std::size_t>(n)], 1}, {0, n});
  std::vector<EndedRequest> ended;
  for (std::int64_t n = count - 1; n >= 0; --n) {
    (void)comm.send({&one, 1}, {0, n});
    comm.test(ended);
  }
  comm.test(ended);
  return std::count_if(ended.begin(), ended.end(),
                       [](EndedRequest const& each) { return each.error.empty(); });
}

/// CPU seconds of a pass and a trickle at their quickest.
template <class C> double least_seconds(C& comm, std::int64_t count, int tries) {
  double least = HUGE_VAL;
  for (int i = 0; i < tries; ++i) {
    double const begin = thread_seconds();
    CHECK(pass(comm, count) == 2 * count);
    CHECK(trickle(comm, count) == 2 * count);
    least = std::min(least, thread_seconds() - begin);
  }
  return least;
}

constexpr int times = test::sanitized ? 16 : 32;
/// Of `times` as many requests: one to two times that where each costs its logarithm, its square
/// where it costs all. CPU time of this thread, and a bound far from both: no other load moves one
/// to the other.
template <class C> double growth(C& comm) {
  double const few = least_seconds(comm, 1000, test::sanitized ? 3 : 9);
  return least_seconds(comm, 1000 * times, test::sanitized ? 1 : 2) / few;
}
constexpr double most_growth = 6 * times;

}  // namespace

TEST_CASE("a rank to itself passes many open requests in near linear time", "[comm][many]") {
  SelfComm comm;
  CHECK(growth(comm) < most_growth);
}

TEST_CASE("a process passes many open requests in near linear time", "[comm][many]") {
  if (!test::may_read_processes()) return;
  ProcessWorld world(1);
  ProcessComm comm(world, 0);
  CHECK(growth(comm) < most_growth);
}

TEST_CASE("a thread passes many open requests in near linear time", "[comm][many]") {
  LocalWorld world(1);
  LocalComm comm(world, 0);
  CHECK(growth(comm) < most_growth);
}
