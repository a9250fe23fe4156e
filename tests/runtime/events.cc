// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/runtime/support/events.hh"

#include <thread>
#include <vector>

#include "tests/support/catch.hh"

using namespace nntile::support;

TEST_CASE("a task has ended once its end was reported, in any order", "[runtime][events]") {
  Events events;
  std::vector<Events::Block*> blocks;
  for (std::uint64_t i = 1; i <= 10; ++i) blocks.push_back(&events.begin(i));
  for (std::uint64_t const i : {7u, 2u, 10u}) events.end(*blocks[i - 1], i);
  for (std::uint64_t i = 1; i <= 10; ++i)
    CHECK(events.has_ended(i) == (i == 7 || i == 2 || i == 10));
}

TEST_CASE("0 has ended, and what has not begun has not", "[runtime][events]") {
  Events events;
  CHECK(events.has_ended(0));
  CHECK_FALSE(events.has_ended(1));
  events.begin(1);
  CHECK_FALSE(events.has_ended(1));
  CHECK_FALSE(events.has_ended(Events::block_size + 1));
}

TEST_CASE("one open task among many blocks is the only one open", "[runtime][events]") {
  Events events;
  Events::Block* open = nullptr;
  std::uint64_t const tasks = 5 * Events::block_size + 17;
  for (std::uint64_t i = 1; i <= tasks; ++i) {
    Events::Block& block = events.begin(i);
    if (i == 4242)
      open = &block;
    else
      events.end(block, i);
  }
  std::uint64_t ended = 0;
  for (std::uint64_t i = 1; i <= tasks; ++i) ended += events.has_ended(i) ? 1 : 0;
  CHECK(ended == tasks - 1);
  CHECK_FALSE(events.has_ended(4242));
  events.end(*open, 4242);
  CHECK(events.has_ended(4242));
}

TEST_CASE("ends on several threads all count", "[runtime][events]") {
  Events events;
  constexpr std::uint64_t tasks = 4 * Events::block_size;
  std::vector<Events::Block*> blocks;
  for (std::uint64_t i = 1; i <= tasks; ++i) blocks.push_back(&events.begin(i));
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 1 + t; i <= tasks; i += 4) events.end(*blocks[i - 1], i);
    });
  for (std::thread& thread : threads) thread.join();
  bool all = true;
  for (std::uint64_t i = 1; i <= tasks; ++i) all = all && events.has_ended(i);
  CHECK(all);
}
