// SPDX-License-Identifier: BSD-3-Clause
// Ranks of other hosts: a killed process, a stopped one, one that ends well, one that never
// answers.
#include "nntile/comm/heartbeats.hh"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "nntile/comm/local.hh"
#include "tests/comm/local_ranks.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// A process that answers until it is ended; `ends` well where a pipe says so.
struct Answering {
  pid_t child = -1;
  int farewell = -1;
  detail::HeartbeatCard card;

  Answering() {
    int cards[2], ends[2];
    REQUIRE(::pipe(cards) == 0);
    REQUIRE(::pipe(ends) == 0);
    child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close(ends[1]);
      {
        detail::Answers answers("other");
        (void)!::write(cards[1], &answers.card(), sizeof answers.card());
        timeval wait{0, 1000};
        fd_set read;
        for (int ready = 0; ready <= 0; wait = {0, 1000}) {
          answers.answer();
          FD_ZERO(&read);
          FD_SET(ends[0], &read);
          ready = ::select(ends[0] + 1, &read, nullptr, nullptr, &wait);
        }
      }
      ::_exit(0);
    }
    ::close(cards[1]), ::close(ends[0]);
    farewell = ends[1];
    auto const size = ::read(cards[0], &card, sizeof card);
    ::close(cards[0]);
    REQUIRE(size == sizeof card);
  }
  ~Answering() { end(SIGKILL); }
  void end(int signal) {
    if (child < 0) return;
    if (signal != 0) ::kill(child, signal);
    ::close(farewell);
    ::waitpid(child, nullptr, 0);
    child = -1;
  }
};

constexpr int tries = 24'000;  // 2 minutes at least: a hang, on however busy a machine

/// Asks until it is so.
template <class Condition> bool until(detail::Asks& asks, Condition const& condition) {
  for (int i = 0; i < tries; ++i) {
    asks.ask();
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

}  // namespace

TEST_CASE("a killed rank is dead, a stopped one is silent until it goes on", "[comm][heartbeats]") {
  Answering other;
  detail::Asks asks(other.card);
  CHECK(asks.silent() == 0);
  REQUIRE(until(asks, [&] { return asks.heard(); }));
  ::kill(other.child, SIGSTOP);
  CHECK(until(asks, [&] { return asks.silent() > 0.2; }));
  CHECK_FALSE(asks.dead());
  ::kill(other.child, SIGCONT);
  CHECK(until(asks, [&] { return asks.silent() == 0; }));
  other.end(SIGKILL);
  CHECK(until(asks, [&] { return asks.dead(); }));
  CHECK_FALSE(asks.ended());
}

TEST_CASE("a rank that says farewell has not died", "[comm][heartbeats]") {
  Answering other;
  detail::Asks asks(other.card);
  REQUIRE(until(asks, [&] { return asks.heard(); }));
  other.end(0);
  CHECK(until(asks, [&] { return asks.ended() || asks.dead(); }));
  for (int i = 0; i < 10; ++i) asks.ask();
  CHECK(asks.ended());
  CHECK_FALSE(asks.dead());
  CHECK(asks.silent() == 0);
}

TEST_CASE("a process that was forked says no farewell for its parent", "[comm][heartbeats]") {
  std::optional<detail::Answers> answers(std::in_place, "here");
  detail::Asks asks(answers->card());
  auto const goes_on = [&] {
    answers->answer();
    return asks.heard();
  };
  REQUIRE(until(asks, goes_on));
  pid_t const child = ::fork();
  if (child == 0) {
    answers.reset();
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  for (int i = 0; i < 10; ++i) asks.ask();
  CHECK_FALSE(asks.ended());
  answers.reset();
  CHECK(until(asks, [&] { return asks.ended(); }));
}

TEST_CASE("nothing is said of a rank that has never answered", "[comm][heartbeats]") {
  Answering other;
  detail::HeartbeatCard wrong = other.card;
  ++wrong.token;  // the port is another program's
  detail::Asks asks(wrong);
  for (int i = 0; i < 20; ++i) {
    asks.ask();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  other.end(SIGKILL);
  for (int i = 0; i < 20; ++i) {
    asks.ask();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  CHECK_FALSE(asks.heard());
  CHECK_FALSE(asks.dead());
  CHECK(asks.silent() == 0);
}

TEST_CASE("a pause of the one who asks is no silence of the other", "[comm][heartbeats]") {
  Answering other;
  detail::Asks asks(other.card);
  REQUIRE(until(asks, [&] { return asks.heard(); }));
  ::kill(other.child, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  asks.ask();
  CHECK(asks.silent() < 1.5);
}

TEST_CASE("the lowest rank of each host asks that of the next", "[comm][heartbeats]") {
  char const* const hosts[] = {"north", "north", "south", "north", "south", "west"};
  int const asked[] = {2, -1, 5, -1, -1, 0};
  LocalWorld world(6);
  std::atomic<int> heard = 0;
  auto const thrown = on_ranks(world, [&](LocalComm& comm) {
    Heartbeats beats(comm, hosts[comm.rank()]);
    int const peer = beats.peer() ? beats.peer()->process.rank : -1;
    if (peer != asked[comm.rank()]) throw Error(concat("asks ", peer));
    if (peer >= 0 && beats.peer()->host != hosts[peer]) throw Error(beats.peer()->host);
    bool counted = peer < 0;
    for (int i = 0; i < tries && heard < 3; ++i) {
      beats.beat();
      if (beats.heard() && !counted) counted = true, ++heard;
      if (beats.dead()) throw Error("dead");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (peer < 0 && (beats.heard() || beats.silent() > 0)) throw Error("hears");
    comm.barrier();
  });
  CHECK(thrown == std::vector<std::string>(6));
  CHECK(heard == 3);
  LocalWorld one(2);
  CHECK(on_ranks(one, [](LocalComm& comm) {
          Heartbeats beats(comm);
          beats.beat();
          if (beats.peer() || beats.dead()) throw Error("asks");
          comm.barrier();
        }) == std::vector<std::string>(2));
}
