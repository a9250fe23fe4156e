// SPDX-License-Identifier: BSD-3-Clause
// How workers of the ring leave tiny tasks to the submitter, and take several tasks at a time.

#include <atomic>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "nntile/runtime/ring/nest.hh"
#include "nntile/runtime/ring/ring.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::test;
using namespace nntile::detail::ring;

namespace {

/// Workers take every body for tiny.
struct EagerPolicy : RingPolicy {
  struct Sizes : RingSizes {
    static constexpr std::uint32_t timed_every = 1;
    static constexpr std::int64_t tiny_ns = std::int64_t{1} << 40;
    static constexpr std::uint32_t most_rounds = 64;
  };
};
using EagerRing = BasicRing<EagerPolicy>;
using Queue = ReadyQueue<RingPolicy>;

constexpr std::int64_t big = RingSizes::tiny_ns, tiny = big - 1;

/// Tasks that the thread of its making has run, and others.
struct Runners {
  std::thread::id const driver = std::this_thread::get_id();
  std::atomic<int> own{0}, others{0};

  static void count(Runners* runners) {
    ++(std::this_thread::get_id() == runners->driver ? runners->own : runners->others);
  }
};
constexpr Codelet count_codelet{"count", [](KernelCall const& call) noexcept -> Status {
                                  Runners::count(*static_cast<Runners* const*>(call.arguments));
                                  return {};
                                }};

/// Every worker, or any, and every priority in turn.
Hints hints_of(int number) { return {number % 4 - 1, number % 8 - 2}; }

}  // namespace

TEST_CASE("one body of many is timed, and each behind a tiny one", "[runtime][ring][backoff]") {
  Backoff<RingPolicy> backoff;
  for (std::uint32_t i = 1; i <= 3 * RingSizes::timed_every; ++i)
    REQUIRE(backoff.is_due() == (i % RingSizes::timed_every == 0));
  REQUIRE(backoff.judge(tiny, 100));
  for (int i = 0; i < 3; ++i) REQUIRE(backoff.is_due());
}

TEST_CASE("behind tiny bodies a worker waits twice as long each time, up to a limit",
          "[runtime][ring][backoff]") {
  Backoff<RingPolicy> backoff;
  std::uint64_t activity = 0;
  for (std::uint32_t expected : {16u, 32u, 64u, 128u, 256u, 512u, 512u, 512u}) {
    REQUIRE(backoff.judge(tiny, activity += 1000));
    REQUIRE(backoff.rounds() == expected);
  }
  REQUIRE(!backoff.judge(big, activity += 1000));
  REQUIRE(!backoff.waits());
  REQUIRE(backoff.judge(tiny, activity += 1000));
  REQUIRE(backoff.rounds() == 16);
}

TEST_CASE("a worker does not wait for a submitter that does nothing, or little",
          "[runtime][ring][backoff]") {
  Backoff<RingPolicy> backoff;
  std::uint64_t activity = 7;
  REQUIRE(backoff.judge(tiny, activity));
  REQUIRE(!backoff.judge(tiny, activity));  // nothing
  REQUIRE(!backoff.judge(tiny, activity));
  for (int i = 0; i < 6; ++i) REQUIRE(backoff.judge(tiny, activity += 1000));
  REQUIRE(!backoff.judge(tiny, activity += 512 / 16));  // one task in 16 rounds
  REQUIRE(!backoff.waits());
}

TEST_CASE("several tasks are taken together where enough are there, in their order",
          "[runtime][ring][backoff]") {
  Queue queue(512);
  ReadyTask tasks[4], last = 0, next = 0;
  for (; last < 1000; ++last) {  // names of positions wrap amid these
    queue.push(last);
    bool const enough = last + 1 - next >= 8;
    REQUIRE(queue.pop_several(tasks, 4, 8) == enough);
    for (int i = 0; enough && i < 4; ++i) REQUIRE(tasks[i] == next++);
  }
  while (next < last) {
    REQUIRE(queue.pop(tasks[0]));
    REQUIRE(tasks[0] == next++);
  }
  REQUIRE(!queue.pop_several(tasks, 1, 1));
  REQUIRE(queue.empty());
}

TEST_CASE("a queue of fewer tasks than are asked for gives none together",
          "[runtime][ring][backoff]") {
  Queue queue(4);
  ReadyTask tasks[4];
  for (ReadyTask task = 0; task < 4; ++task) {
    REQUIRE(!queue.pop_several(tasks, 2, 16));  // beyond the queue's cells
    queue.push(task);
  }
  REQUIRE(queue.pop_several(tasks, 4, 4));
  REQUIRE(tasks[3] == 3);
}

TEST_CASE("a submitter to whom all leave tiny tasks runs them before its window is full",
          "[runtime][ring][backoff]") {
  if (support::allowed_cores().size() < 2) return;  // threads that share a core leave no tasks
  bool ran = false;
  for (int attempt = 0; attempt < 1000 && !ran; ++attempt) {
    Runners runners;
    EagerRing ring({2, false, false});
    auto const submit_one = [&ring, at = &runners] {
      ring.submit({&count_codelet, {}, std::as_bytes(std::span(&at, 1)), {}, {}});
    };
    submit_one();
    while (runners.others == 0) std::this_thread::yield();
    for (std::uint32_t i = 1; i < RingSizes::window; ++i) submit_one();
    ran = runners.own > 0;
  }
  CHECK(ran);
}

TEST_CASE("what workers leave is run, in order, whatever its hints", "[runtime][ring][backoff]") {
  for (int const workers : {2, 3}) {
    EagerRing ring({workers, false, false});
    std::vector<DataHandle> cells;
    for (int c = 0; c < 5; ++c) cells.push_back(cell(ring, 0));
    long expected = 0;
    for (int i = 0; i < 3000; ++i) {
      for (DataHandle const target : cells) {
        Use<DataHandle> const uses[] = {{target, Access::update}};
        long const value = i;
        ring.submit({&step_codelet,
                     uses,
                     std::as_bytes(std::span(&value, 1)),
                     i % 3 == 0 ? hints_of(i) : Hints{},
                     {}});
      }
      expected = affine(expected, 3, i);
    }
    for (DataHandle const target : cells) REQUIRE(read(ring, target) == expected);
  }
}

TEST_CASE("workers leave tasks of bodies that submit, too", "[runtime][ring][backoff]") {
  EagerRing ring({3, false, false});
  std::vector<DataHandle> cells;
  for (int c = 0; c < 8; ++c) cells.push_back(cell(ring, 1));
  auto const steps = [](auto& nested, DataHandle target) {
    for (long i = 0; i < 40; ++i) submit(nested, step_codelet, {{target, Access::update}}, i);
  };
  long expected = 1;
  for (int round = 0; round < 10; ++round) {
    for (DataHandle const target : cells) {
      Use<DataHandle> const use{target, Access::update};
      ring.orchestrate([=](auto& nested) { steps(nested, target); }, use);
      steps(ring, target);
    }
    for (int twice = 0; twice < 2; ++twice)
      for (long i = 0; i < 40; ++i) expected = affine(expected, 3, i);
  }
  for (DataHandle const target : cells) REQUIRE(read(ring, target) == expected);
}
