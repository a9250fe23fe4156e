// SPDX-License-Identifier: BSD-3-Clause
// Thousands of open requests: their cost grows as their number does, or little more.
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "nntile/comm/local.hh"
#include "nntile/comm/processes.hh"
#include "nntile/comm/self.hh"
#include "nntile/comm/transfers.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/comm/forked_ranks.hh"
#include "tests/comm/transfer_tasks.hh"
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

/// A runtime that polls, and counts the tasks that end well.
struct Polls {
  Completion token() { return {this, ++given, &finish, &add_poll}; }
  void poll() {
    for (auto& [function, state, token] : std::exchange(wanted, {}))
      if (!function(state, token)) wanted.push_back({function, state, token});
  }

  struct Poll {
    Completion::Poll function;
    void* state;
    Completion token;
  };
  std::vector<Poll> wanted;
  std::uint64_t given = 0;
  std::int64_t ended = 0;

 private:
  static void finish(void* self, std::uint64_t, Status status) noexcept {
    if (status.ok()) ++static_cast<Polls*>(self)->ended;
  }
  static void add_poll(void* self, std::uint64_t id, Completion::Poll function, void* state, bool) {
    static_cast<Polls*>(self)->wanted.push_back({function, state, {self, id, &finish, &add_poll}});
  }
};

/// An engine that passes `count` messages to its own rank in each of two runs, the second of which
/// is held back by the first: all receives are open, and a poll is behind each send. Returns the
/// transfers that ended well.
template <class C> std::int64_t transfer(C& comm, std::int64_t count) {
  Polls runtime;
  Transfers<C> engine(comm);
  std::byte one{1}, room{};
  auto const add = [&](bool sends, std::int64_t number, std::byte& byte) {
    TransferQueue::Transfer each;
    each.sends = sends;
    each.message = {0, number};
    each.bytes = {&byte, 1};
    each.token = runtime.token();
    engine.add(each);
  };
  for (std::int64_t n = 0; n < 2 * count; ++n) add(false, n % count, room);
  for (std::int64_t n = 0; n < 2 * count; ++n) {
    add(true, n % count, one);
    runtime.poll();
  }
  while (!runtime.wanted.empty()) runtime.poll();
  return runtime.ended;
}

/// CPU seconds of `work` at its quickest.
template <class Work> double least_seconds(int tries, Work work) {
  double least = HUGE_VAL;
  for (int i = 0; i < tries; ++i) {
    double const begin = thread_seconds();
    work();
    least = std::min(least, thread_seconds() - begin);
  }
  return least;
}

constexpr int times = test::sanitized ? 16 : 32;
/// Of `times` as many requests: one to two times that where each costs its logarithm, its square
/// where it costs all. CPU time of this thread, and a bound far from both: no other load moves one
/// to the other.
template <class Work> double growth_of(Work work) {
  double const few = least_seconds(test::sanitized ? 3 : 9, [&] { work(1000); });
  return least_seconds(test::sanitized ? 1 : 2, [&] { work(1000 * times); }) / few;
}
template <class C> double growth(C& comm) {
  return growth_of([&](std::int64_t count) {
    CHECK(pass(comm, count) == 2 * count);
    CHECK(trickle(comm, count) == 2 * count);
  });
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

TEST_CASE("an engine carries many open transfers in near linear time", "[comm][many]") {
  SelfComm comm;
  CHECK(growth_of([&](std::int64_t count) { CHECK(transfer(comm, count) == 4 * count); }) <
        most_growth);
}

TEST_CASE("serial takes many open transfers in near linear time", "[comm][many]") {
  SelfComm comm;
  CHECK(growth_of([&](std::int64_t count) {
          Transfers<SelfComm> engine(comm);
          Serial runtime;
          test::RankTasks tasks{runtime, engine};
          for (std::int64_t n = 0; n < count; ++n) tasks.receive(tasks.allocate(1), {0, n}, 1);
          engine.give_up("no more");
          CHECK_THROWS_AS(runtime.wait_all(), TaskError);
        }) < most_growth);
}
