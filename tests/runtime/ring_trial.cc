// SPDX-License-Identifier: BSD-3-Clause
// How workers of the ring find out whether their help pays.

#include <atomic>
#include <cstdint>
#include <thread>
#include <tuple>

#include "nntile/runtime/ring/ring.hh"
#include "tests/runtime/left_tasks.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::test;
using namespace nntile::detail::ring;

namespace {

/// A clock that moves where it is looked at: so tasks seem to take less time where a worker that
/// times them is away.
struct LookedAtClock : RingClock {
  static inline std::atomic<std::int64_t> now{0};
  static std::int64_t nanoseconds() { return now.fetch_add(100); }
};

/// No body is tiny, and each is timed.
struct TriedPolicy : RingPolicy {
  using Clock = LookedAtClock;
  struct Sizes : RingSizes {
    static constexpr std::uint32_t timed_every = 1;
    static constexpr std::int64_t tiny_ns = 0;
    static constexpr std::uint32_t most_rounds = 64;
  };
};
using TriedRing = BasicRing<TriedPolicy>;

/// Worker and submitter as Trial sees them: time goes on by calls, and progress at a rate.
struct Story {
  Trial<RingPolicy> trial;
  Progress now;

  void pass(std::int64_t ns, double rate) {
    now.ns += ns;
    now.done += static_cast<std::uint64_t>(static_cast<double>(ns) * rate);
  }
  /// Bodies that are timed until it leaves, 1000 at most.
  int until_left(double rate) {
    for (int calls = 1; calls <= 1000; ++calls) {
      pass(10'000, rate);
      if (trial.is_due() && trial.leave(now)) return calls;
    }
    return -1;
  }
  /// Waits until it comes back.
  int until_back(double rate) {
    for (int waits = 1;; ++waits) {
      pass(10'000, rate);
      if (!trial.stay(now)) return waits;
    }
  }
};

}  // namespace

TEST_CASE("a trial comes behind four stretches of work, and lasts two spells of four waits",
          "[runtime][ring][trial]") {
  Story story;
  REQUIRE(story.until_left(0.01) == 16);
  REQUIRE(story.trial.away());
  REQUIRE(story.until_back(0.01) == 8);
  REQUIRE(!story.trial.away());
}

TEST_CASE("where others do no better alone the next trial comes four times as late, up to a limit",
          "[runtime][ring][trial]") {
  Story story;
  for (int const calls : {16, 64, 256}) {
    REQUIRE(story.until_left(0.01) == calls);
    REQUIRE(story.until_back(0.011) == 8);  // a tenth is no clear win
  }
  for (int i = 0; i < 2; ++i) {
    REQUIRE(story.until_left(0.01) == -1);  // 1,024 calls
    REQUIRE(story.until_left(0.01) == 24);
    REQUIRE(story.until_back(0.005) == 8);
  }
}

TEST_CASE("where others do better alone a worker stays away, four times as long each time",
          "[runtime][ring][trial]") {
  Story story;
  for (int const spells : {32, 128, 256, 256}) {
    REQUIRE(story.until_left(0.01) == 16);
    REQUIRE(story.until_back(0.02) == 4 * spells);
  }
  REQUIRE(story.until_left(0.01) == 16);
  REQUIRE(story.until_back(0.01) == 8);
  REQUIRE(story.until_left(0.01) == 64);
  REQUIRE(story.until_back(0.02) == 4 * 32);
  REQUIRE(story.until_left(0.01) == 16);
}

TEST_CASE("the best stretch of work counts, but for the first", "[runtime][ring][trial]") {
  for (auto const& [first, third, waits] : {std::tuple{0.01, 0.03, 8}, {0.05, 0.01, 4 * 32}}) {
    Story story;
    bool left = false;
    for (double const rate : {first, 0.01, third, 0.01})
      for (int call = 0; call < 4; ++call) {
        story.pass(10'000, rate);
        if (story.trial.is_due()) left = story.trial.leave(story.now);
      }
    REQUIRE(left);
    REQUIRE(story.until_back(0.02) == waits);
  }
}

TEST_CASE("a worker that is away comes back where others slow down, or do nothing",
          "[runtime][ring][trial]") {
  Story story;
  for (int i = 0; i < 3; ++i) {
    REQUIRE(story.until_left(0.01) == 16);
    for (int wait = 0; wait < 12; ++wait) {
      story.pass(10'000, 0.02);
      REQUIRE(story.trial.stay(story.now));
    }
    if (i == 2) {
      story.now.ns += 10'000;
      REQUIRE(!story.trial.stay(story.now));
      continue;
    }
    REQUIRE(story.until_back(0.009) == 4);  // and the next time away is a short one again
  }
  REQUIRE(story.until_left(0.01) == 16);
  REQUIRE(story.until_back(0.02) == 4 * 128);  // which it was not for having nothing to do
  REQUIRE(story.until_left(0.01) == 16);
  REQUIRE(!story.trial.stay(story.now));
}

TEST_CASE("tasks that take over two microseconds are tried by no one", "[runtime][ring][trial]") {
  Story story;
  REQUIRE(story.until_left(0.9e-3) == -1);
  REQUIRE(story.until_left(1.1e-3) > 0);
}

TEST_CASE("a submitter that is faster alone runs tasks before its window is full",
          "[runtime][ring][trial]") {
  if (support::allowed_cores().size() < 2) return;  // threads that share a core make no trials
  bool ran = false;
  for (int attempt = 0; attempt < 1000 && !ran; ++attempt) {
    Runners runners;
    TriedRing ring({2, false, false});
    for (std::uint32_t i = 0; i < RingSizes::window; ++i) {
      submit_count(ring, runners);
      if (i < 64) std::this_thread::yield();
    }
    ran = runners.own > 0;
  }
  CHECK(ran);
}

TEST_CASE("what workers leave for a trial is run, in order, whatever its hints",
          "[runtime][ring][trial]") {
  check_order<TriedRing>(6000, 3000);  // a worker is never away where tasks have named some
}

TEST_CASE("a worker that is away comes for what the submitter's body waits for, and for a pause",
          "[runtime][ring][trial]") {
  TriedRing ring({2, false, false});
  check_nesting(ring, 20, 10, 0, [&ring] {
    ring.pause();
    ring.resume();
  });
}
