// SPDX-License-Identifier: BSD-3-Clause
// What the ring does beyond the law: hints, back-pressure, joins, its smallest sizes, its counters.
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "nntile/runtime/ring/nest.hh"
#include "nntile/runtime/ring/ring.hh"

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "nntile/testing/conformance.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"
#include "tests/support/sanitized.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// A ring whose ids wrap after a thousand tasks.
struct SmallPolicy : RingPolicy {
  struct Sizes : RingSizes {
    // Every body is tiny:
    static constexpr std::uint32_t timed_every = 1;
    static constexpr std::int64_t tiny_ns = std::int64_t{1} << 40;
    static constexpr std::uint32_t most_rounds = 32;
    static constexpr std::uint32_t most_kept = 1;  // every task lets another go before it
    static constexpr std::uint32_t deque = 2;
    static constexpr std::uint32_t argument_bytes = 8192;
    static constexpr std::uint64_t first_sequence = (std::uint64_t{1} << 32) - 1000;
  };
};
using SmallRing = BasicRing<SmallPolicy>;

/// Adds 16 cells to the one behind them.
constexpr Codelet add_all_codelet{"add_all",
                                  +[](KernelCall const& call) noexcept -> Status {
                                    for (int i = 0; i < 16; ++i)
                                      cell_of(call, 16) += cell_of(call, i);
                                    return {};
                                  },
                                  nullptr, nullptr};

testing::Report battery(std::uint32_t window, bool own_driver, char const* only) {
  testing::ConformanceOptions options;
  options.max_workers = 2;
  options.own_driver = own_driver;
  options.rounds = 1;
  options.heavy = !test::sanitized;
  options.only = only;
  return testing::conformance(
      [=](RuntimeOptions const& o) { return SmallRing(o, {.window = window}); }, options);
}

RuntimeOptions workers(int count, bool own_driver = false) { return {count, own_driver, false}; }

Codelet const nothing_codelet{"nothing", +[](KernelCall const&) noexcept -> Status { return {}; },
                              nullptr, nullptr};

/// Appends its value to the vector whose address comes with it.
struct Entry {
  std::vector<int>* list;
  int value;
};
Codelet const append_codelet{"append",
                             +[](KernelCall const& call) noexcept -> Status {
                               Entry entry;
                               std::memcpy(&entry, call.arguments, sizeof entry);
                               entry.list->push_back(entry.value);
                               return {};
                             },
                             nullptr, nullptr};

Event append(Ring& ring, std::vector<int>& list, int value, Hints hints) {
  Entry const entry{&list, value};
  return ring.submit({&append_codelet, {}, std::as_bytes(std::span(&entry, 1)), hints, {}});
}

/// first = sum of the others + sum of the arguments' bytes
Codelet const sum_codelet{
    "sum",
    +[](KernelCall const& call) noexcept -> Status {
      std::uint32_t counts[2];
      std::memcpy(counts, call.arguments, sizeof counts);
      auto const* const bytes = static_cast<unsigned char const*>(call.arguments);
      long sum = std::accumulate(bytes + sizeof counts, bytes + counts[1], 0L);
      for (std::uint32_t i = 1; i < counts[0]; ++i) sum += cell_of(call, static_cast<int>(i));
      cell_of(call, 0) = sum;
      return {};
    },
    nullptr, nullptr};

/// Sums `operands` - 1 cells of 1 and `bytes` argument bytes of 1, and waits.
template <class R> long sum(R& ring, std::uint32_t operands, std::uint32_t bytes) {
  std::vector<Use<DataHandle>> uses{{cell(ring), Access::write}};
  while (uses.size() < operands) uses.push_back({cell(ring, 1), Access::read});
  std::vector<std::byte> arguments(8 + bytes, std::byte{1});
  std::uint32_t const counts[] = {operands, 8 + bytes};
  std::memcpy(arguments.data(), counts, sizeof counts);
  ring.submit({&sum_codelet, uses, arguments, {}, {}});
  std::fill(arguments.begin(), arguments.end(), std::byte{});  // submit has copied them
  return read(ring, uses[0].handle);
}

}  // namespace

TEST_CASE("a ring whose ids wrap keeps the law", "[runtime][ring]") {
  auto const report = battery(256, false, "");
  INFO(to_string(report));
  REQUIRE(report.passed());
}

TEST_CASE("rings of the smallest windows keep the law", "[runtime][ring]") {
  auto const two = battery(2, true, "random programs with "),
             four = battery(4, true, "random programs with "),
             eight = battery(8, true, "random programs with ");
  INFO(to_string(two) << to_string(four) << to_string(eight));
  REQUIRE(two.passed());
  REQUIRE(four.passed());
  REQUIRE(eight.passed());
}

TEST_CASE("arguments of any size reach the task", "[runtime][ring]") {
  Ring ring(workers(GENERATE(1, 2)));
  for (std::uint32_t const operands : {1u, 2u, 5u, 6u, 7u, 16u, 17u, 40u, 300u})
    for (std::uint32_t const bytes : {0u, 1u, 48u, 104u, 105u, 5000u})
      REQUIRE(sum(ring, operands, bytes) == operands - 1 + bytes);
  REQUIRE(sum(ring, 1, 1u << 20) == 1 << 20);  // larger than the argument ring
}

TEST_CASE("arguments wait for room behind unfinished tasks", "[runtime][ring]") {
  SmallRing ring(workers(GENERATE(1, 3), GENERATE(false, true)), {.window = 256});
  auto const target = cell(ring, 0);
  std::array<long, 150> value{};
  for (int i = 0; i < 30; ++i) {
    value[0] = i;
    submit(ring, step_codelet, {{target, Access::update}}, value);
    value[0] = 0;
  }
  long expected = 0;
  for (int i = 0; i < 30; ++i) expected = expected * 3 + i;
  REQUIRE(read(ring, target) == expected);
}

TEST_CASE("a lone worker runs the most urgent task first", "[runtime][ring]") {
  std::vector<int> order;
  Ring ring(workers(1));
  int const priorities[] = {-9, -1, 0, 1, 2, 3, 4, 99};
  for (int const priority : priorities) append(ring, order, priority, {-1, priority});
  ring.wait_all();
  REQUIRE(order == std::vector<int>{99, 4, 3, 2, 1, 0, -1, -9});
}

TEST_CASE("a lone worker runs a program's most urgent task first", "[runtime][ring]") {
  std::vector<int> order;
  std::vector<Entry> entries;
  std::vector<ProgramTask> tasks;
  for (int i = 0; i < 16; ++i) entries.push_back({&order, 10 * i});
  for (Entry const& entry : entries)
    tasks.push_back(
        {&append_codelet, {}, std::as_bytes(std::span(&entry, 1)), {-1, entry.value}, {}});
  Ring ring(workers(1));
  ring.wait(ring.replay(ring.record(tasks, 0), {}));
  REQUIRE(order ==
          std::vector<int>{140, 150, 120, 130, 100, 110, 80, 90, 60, 70, 40, 50, 20, 30, 0, 10});
}

TEST_CASE("wishes for workers are kept or not, but the task runs", "[runtime][ring]") {
  Ring ring(workers(GENERATE(1, 3), GENERATE(false, true)));
  std::vector<int> order;
  for (int i = 0; i < 300; ++i) {
    append(ring, order, i, {i % 7 - 2, i % 3 - 1});
    ring.wait_all();
  }
  REQUIRE(order.size() == 300);
}

TEST_CASE("more readers or producers than a slot has edges wait through joins", "[runtime][ring]") {
  Ring ring(workers(1));
  auto const source = cell(ring, 1);
  std::vector<DataHandle> copies;
  for (int i = 0; i < 100; ++i) {
    copies.push_back(cell(ring));
    submit(ring, copy_cell_codelet, {{copies.back(), Access::write}, {source, Access::read}}, 0L);
  }
  submit(ring, put_codelet, {{source, Access::write}}, 5L);
  auto const stats = ring.stats();
  REQUIRE(stats.joins >= 12);
  REQUIRE(stats.submitted == 102 + stats.joins);
  for (auto const copy : copies) REQUIRE(read(ring, copy) == 1);
}

TEST_CASE("tasks that wait for the same tasks share joins", "[runtime][ring]") {
  Ring ring(workers(1));
  std::vector<Use<DataHandle>> all;
  for (int i = 0; i < 16; ++i) {
    all.push_back({cell(ring), Access::read});
    submit(ring, put_codelet, {{all.back().handle, Access::write}}, long{i});
  }
  auto const sum = cell(ring, 0);
  for (int i = 0; i < 20; ++i) {
    auto uses = all;
    uses.push_back({sum, Access::update});
    ring.submit({&add_all_codelet, uses, {}, {}, {}});
  }
  for (auto const& [handle, access] : all) submit(ring, put_codelet, {{handle, Access::write}}, 1L);
  // Of 16 writers and, for each of 16 cells, of 20 readers.
  REQUIRE(ring.stats().joins <= 6);
  REQUIRE(read(ring, sum) == 20 * 120);
}

TEST_CASE("joins are not shared with pending tasks that had the same names before",
          "[runtime][ring]") {
  TokenKeeper keeper;
  Ring ring(workers(1));
  auto const held = cell(ring, 0), sum = cell(ring, 0);
  submit(ring, keep_codelet, {{held, Access::write}}, &keeper);
  submit(ring, step_codelet, {{held, Access::update}}, 1L);  // holds the watermark
  std::vector<Use<DataHandle>> uses;
  for (int i = 0; i < 16; ++i) uses.push_back({cell(ring, 0), Access::read});
  uses.push_back({sum, Access::update});
  for (std::size_t round = 0, started = 1; round < 4; ++round, started += 16) {
    for (std::size_t i = 0; i < 16; ++i)
      submit(ring, keep_codelet, {{uses[i].handle, Access::write}}, &keeper);
    Event const last = ring.submit({&add_all_codelet, uses, {}, {}, {}});
    while (keeper.count() < started + 16) REQUIRE(!ring.done(last));
    for (std::size_t i = 16; i-- > 0;) {
      REQUIRE(!ring.done(last));
      keeper.at(started + i).complete();
    }
    ring.wait(last);
  }
  keeper.at(0).complete();
  ring.wait_all();
}

TEST_CASE("no dependence is lost where the tags of collections come round", "[runtime][ring]") {
  for (int const before : {1, 2}) {  // so that either of two steps meets its producer there
    TokenKeeper keeper;
    Ring ring(workers(1));
    std::vector<Event> behind;
    for (int i = 0; i < before; ++i) (void)cell(ring, 0);
    for (int i = 0; i < 200; ++i) {
      auto const buffer = cell(ring);
      submit(ring, keep_codelet, {{buffer, Access::write}}, &keeper);
      behind.push_back(submit(ring, step_codelet, {{buffer, Access::update}}, 1L));
      behind.push_back(submit(ring, step_codelet, {{buffer, Access::update}}, 1L));
    }
    ring.wait(submit(ring, nothing_codelet, {}, 0L));
    for (Event const& event : behind) REQUIRE(!ring.done(event));
    for (std::size_t i = 0; i < 200; ++i) keeper.at(i).complete();
    ring.wait_all();
  }
}

TEST_CASE("a blocked submission runs one task at a time", "[runtime][ring]") {
  SmallRing ring(workers(1), {.window = 8});
  auto const target = cell(ring, 0);
  ring.wait_all();
  for (std::uint64_t i = 1; i <= 30; ++i) {
    submit(ring, step_codelet, {{target, Access::update}}, 1L);
    REQUIRE(ring.stats().executed == 1 + (i > 8 ? i - 8 : 0));
  }
}

TEST_CASE("memory comes back without anybody waiting for it", "[runtime][ring]") {
  Ring ring(workers(2));
  std::array<std::atomic<int>, 2000> released{};
  std::array<long, 2000> memory{};
  auto const add = [](void* state) noexcept {
    static_cast<std::atomic<int>*>(state)->fetch_add(1);
  };
  for (std::size_t i = 0; i < released.size(); ++i) {
    auto const cell = std::as_writable_bytes(std::span(&memory[i], 1));
    auto const handle = ring.adopt(cell, host, {add, &released[i]});
    submit(ring, nothing_codelet, {{handle, Access::update}}, 1L);
    ring.retire(handle);
  }
  while (released[1000].load() == 0) ring.retire(ring.allocate(8));
  ring.wait_all();
  for (auto const& times : released) REQUIRE(times.load() == 1);
}

TEST_CASE("counters tell what a ring has done", "[runtime][ring]") {
  Ring ring(workers(2, true));
  auto const target = cell(ring, 0);
  for (int i = 0; i < 10; ++i) submit(ring, step_codelet, {{target, Access::update}}, 1L);
  ring.wait_all();
  auto const stats = ring.stats();
  REQUIRE(stats.submitted == 11);
  REQUIRE(stats.executed == 11);
  REQUIRE(stats.outstanding == 0);
  REQUIRE(stats.joins == 0);
  REQUIRE(stats.blocked == 0);
  REQUIRE(stats.stolen <= 11);
  REQUIRE(ring.waiting_for().empty());
}

TEST_CASE("a ring is built and destroyed with any number of workers", "[runtime][ring]") {
  for (int round = 0; round < 20; ++round)
    for (int const count : {1, 2, 7, 30}) {
      Ring ring(workers(count, round % 2 == 0));
      for (int i = 0; i < round; ++i) (void)cell(ring, i);
    }
  RuntimeOptions const on_core{.workers = 1, .own_driver = true, .pin = true};
  Ring ring(on_core);
  REQUIRE(read(ring, cell(ring, 4)) == 4);
}

TEST_CASE("polls that drive amid the joins of a submission change nothing", "[runtime][ring]") {
  struct Intruder {
    SmallRing& ring;
    int refused = 0;
    bool over = false;
    static Status start(KernelCall const& call, Completion token) noexcept {
      token.poll(&poll, *static_cast<Intruder* const*>(call.arguments), true);
      return {};
    }
    static bool poll(void* state, Completion token) {
      auto& self = *static_cast<Intruder*>(state);
      try {
        (void)self.ring.allocate(8);
      } catch (LifetimeError const&) {
        ++self.refused;
      }
      if (self.over) token.complete();
      return self.over;
    }
  };
  static constexpr Codelet intrude{"intrude", nullptr, nullptr, &Intruder::start};
  SmallRing ring(workers(2, true), {.window = 16});
  Intruder intruder{ring};
  submit(ring, intrude, {}, &intruder);
  auto const source = cell(ring, 1);
  std::vector<DataHandle> copies;
  for (int i = 0; i < 50; ++i) {
    copies.push_back(cell(ring));
    submit(ring, copy_cell_codelet, {{copies.back(), Access::write}, {source, Access::read}}, 0L);
    if (i % 10 == 9) submit(ring, step_codelet, {{source, Access::update}}, 1L);
  }
  long expected = 1;
  for (int i = 0; i < 50; expected = i % 10 == 9 ? 3 * expected + 1 : expected, ++i)
    REQUIRE(read(ring, copies[static_cast<std::size_t>(i)]) == expected);
  intruder.over = true;
  ring.wait_all();
  REQUIRE(intruder.refused > 0);
}

TEST_CASE("polls are called between tasks, while none waits or is idle", "[runtime][ring]") {
  struct Chain {
    std::atomic<int> ended{0}, polls{0}, seen{0};
  };
  static constexpr Codelet polled{"polled", nullptr, nullptr,
                                  +[](KernelCall const& call, Completion token) noexcept -> Status {
                                    token.poll(
                                        [](void* state, Completion done) {
                                          auto& chain = *static_cast<Chain*>(state);
                                          if (++chain.polls < 3) return false;
                                          chain.seen = chain.ended.load();
                                          done.complete();
                                          return true;
                                        },
                                        *static_cast<Chain* const*>(call.arguments));
                                    return {};
                                  }};
  // What is left of the chain takes no time once the polls have come.
  static constexpr Codelet busy{"busy",
                                +[](KernelCall const& call) noexcept -> Status {
                                  auto& chain = **static_cast<Chain* const*>(call.arguments);
                                  if (chain.polls < 3) detail::sleep_ns(1'000'000);
                                  ++chain.ended;
                                  return {};
                                },
                                nullptr, nullptr};
  constexpr int length = 2000;
  // The one thread that executes is the driver, who submits; or it is another, and the driver away.
  for (bool const own_driver : {false, true}) {
    Ring ring(workers(1, own_driver));
    Chain chain;
    auto const counter = cell(ring, 0);
    ring.wait_all();  // a successor of what runs would go before the polled task
    submit(ring, polled, {}, &chain);
    for (int i = 0; i < length; ++i) submit(ring, busy, {{counter, Access::update}}, &chain);
    while (own_driver && chain.ended < length) detail::sleep_ns(1'000'000);
    ring.wait_all();
    CHECK(chain.polls == 3);
    CHECK(chain.seen < length / 2);
  }
}

#if defined(__x86_64__)
TEST_CASE("a poll on a worker leaves its floating-point mode to no task", "[runtime][ring]") {
  static std::atomic<unsigned> mode;
  static constexpr Codelet polled{"polled", nullptr, nullptr,
                                  +[](KernelCall const&, Completion token) noexcept -> Status {
                                    token.poll(
                                        [](void*, Completion done) {
                                          _mm_setcsr(0x9fc0);
                                          done.complete();
                                          return true;
                                        },
                                        nullptr);
                                    return {};
                                  }};
  static constexpr Codelet looks{"looks",
                                 +[](KernelCall const&) noexcept -> Status {
                                   mode = _mm_getcsr() & 0xffc0u;
                                   return {};
                                 },
                                 nullptr, nullptr};
  mode = 0;
  Ring ring({.workers = 1, .own_driver = true});
  auto const a = cell(ring, 0);
  submit(ring, polled, {{a, Access::update}});
  submit(ring, looks, {{a, Access::update}});
  while (mode == 0) std::this_thread::yield();  // the driver polls nothing meanwhile
  CHECK(mode == 0x1f80);
}
#endif

TEST_CASE("a ring that has just been idle wakes up", "[runtime][ring]") {
  Ring ring(workers(GENERATE(2, 4), GENERATE(false, true)));
  auto const target = cell(ring, 0);
  for (int i = 0; i < 35; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(i % 5 * 20));
    submit(ring, step_codelet, {{target, Access::update}}, 1L);
    if (i % 3 == 0) ring.wait_all();
  }
  long expected = 0;
  for (int i = 0; i < 35; ++i) expected = expected * 3 + 1;
  REQUIRE(read(ring, target) == expected);
}
