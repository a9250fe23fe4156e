// SPDX-License-Identifier: BSD-3-Clause
// Regions of buffers as operands: order, marks, lifetimes and errors.
#include "nntile/runtime/regions.hh"

#include <atomic>
#include <bitset>
#include <chrono>
#include <cstdlib>
#include <map>
#include <thread>

#include "nntile/runtime/engine/nest.hh"
#include "nntile/runtime/ring/nest.hh"
#include "nntile/runtime/ring/trace.hh"
#include "nntile/runtime/serial/nest.hh"
#include "nntile/testing/conformance/draw_regions.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/runtimes.hh"
#include "tests/support/sanitized.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

using RegionRuntimes = std::tuple<Serial, Threads, Ring>;
/// Those that replay.
using ReplayingRuntimes = std::tuple<Serial, Ring>;
#ifdef NNTILE_HAVE_STARPU
static_assert(!RegionRuntime<StarPU>);
#endif

Region cell_region(std::size_t number) { return {number * sizeof(long), sizeof(long), {}}; }

constexpr Codelet nothing_codelet{
    "nothing", +[](KernelCall const&) noexcept -> Status { return {}; }, nullptr, nullptr};

testing::RegionShape shape_of(std::uint64_t number) {
  testing::RegionShape const shapes[] = {
      {},
      {.buffers = 1, .regions = 5, .tasks = 120},
      {.buffers = 3, .late = 15, .unwritten = 5},
      {.failing = 10, .late = 10},
      {.buffers = 4, .failing = 6, .unwritten = 4},
      {.buffers = 1, .regions = 4, .accumulating = 60},
      {.buffers = 1, .failing = 8, .late = 10, .accumulating = 50},
      {.buffers = 1, .regions = 4, .reordered = 70},
      {.failing = 6, .late = 15, .reordered = 50, .unwritten = 4}};
  return shapes[number % std::size(shapes)];
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("random programs over regions leave what one task at a time leaves",
                        "[runtime][regions]", RegionRuntimes) {
  char const* const asked = std::getenv("NNTILE_PROGRAMS");
  std::uint64_t const count = asked != nullptr ? std::strtoull(asked, nullptr, 10)
                              : sanitized      ? 60
                                               : 800;
  auto make = [](RuntimeOptions const& options) { return TestType(options); };
  for (std::uint64_t number = 0; number < count; ++number) {
    int const workers = most_workers<TestType> == 1 ? 1 : 1 + static_cast<int>(number / 9 % 3);
    testing::detail::SubjectOf<TestType> of_type(make, {.workers = workers});
    testing::Subject& subject = of_type;
    subject.open_scope(Lifetime::step);
    try {
      testing::RegionRun(subject, 77 + number, shape_of(number)).run();
    } catch (testing::Violation const& violation) {
      INFO("program " << number);
      FAIL(violation.text);
    }
  }
}

// As in ring_trace.cc: nothing runs meanwhile, so that each dependence needs an edge.
TEST_CASE("edges between regions are those of pairs that share bytes", "[runtime][regions]") {
  constexpr std::size_t count = 150, bytes = 240;
  BasicRing<RingTracePolicy> ring({.workers = 1});
  testing::Random random(5);
  std::size_t edges = 0, surplus = 0, missing = 0;
  for (int round = 0; round < 60; ++round) {
    auto const buffer = ring.allocate(bytes);
    (void)ring.lock(buffer, Access::write);
    ring.unlock(buffer);
    std::vector<Region> regions{{0, bytes, {}}};
    while (regions.size() < 17)  // empty ones are ordered with the whole, which outlives them
      if (Region const drawn = testing::draw_region(random, bytes); span_of(drawn) != 0)
        regions.push_back(drawn);
    struct Task {
      std::uint64_t sequence;
      std::vector<Use<Region>> operands;
    };
    std::vector<Task> tasks;
    ring.trace().clear();
    ring.pause();
    for (std::size_t t = 0; t < count; ++t) {
      Task task;
      std::vector<Use<DataHandle>> uses;
      testing::RegionTask const nothing{};
      for (std::size_t o = random.below(3); o < 3; ++o) {
        // The whole is rare: all else would hang from it.
        Region const& region = regions[random.chance(2) ? 0 : 1 + random.below(16)];
        Access const access = random.chance(70)   ? Access::read
                              : random.chance(50) ? Access::write
                                                  : Access::update;
        task.operands.push_back({region, access});
        uses.push_back({ring.region(buffer, region), access});
      }
      task.sequence =
          ring.submit(
                  {&testing::region_codelet, uses, std::as_bytes(std::span(&nothing, 1)), {}, {}})
              .sequence;
      tasks.push_back(task);
    }
    auto const conflict = [&](Task const& a, Task const& b) {
      for (Use<Region> const& x : a.operands)
        for (Use<Region> const& y : b.operands)
          if (writes(x.access) || writes(y.access)) {
            std::bitset<bytes> shared;
            each_run(x.handle, [&](std::size_t begin, std::size_t end) {
              for (; begin < end; ++begin) shared.set(begin);
            });
            bool some = false;
            each_run(y.handle, [&](std::size_t begin, std::size_t end) {
              for (; begin < end; ++begin) some |= shared[begin];
            });
            if (some) return true;
          }
      return false;
    };
    std::map<std::uint64_t, std::bitset<count>> behind;
    std::map<std::uint64_t, std::size_t> position;
    for (std::size_t t = 0; t < count; ++t) position[tasks[t].sequence] = t;
    for (TracedEdge const& edge : ring.trace().edges()) {
      ++edges;
      behind[edge.to] |= behind[edge.from];
      if ((edge.from & traced_join) != 0) continue;
      behind[edge.to].set(position.at(edge.from));
      if ((edge.to & traced_join) == 0)
        surplus += !conflict(tasks[position[edge.from]], tasks[position[edge.to]]);
    }
    for (std::size_t later = 0; later < count; ++later)
      for (std::size_t earlier = 0; earlier < later; ++earlier)
        missing +=
            !behind[tasks[later].sequence][earlier] && conflict(tasks[earlier], tasks[later]);
    ring.resume();
    ring.wait_all();
    ring.retire(buffer);
  }
  CHECK(missing == 0);
  CHECK(surplus == 0);
  CHECK(edges > 10'000);
}

TEMPLATE_LIST_TEST_CASE("one region has one handle, and all of a buffer is the buffer",
                        "[runtime][regions]", RegionRuntimes) {
  TestType runtime;
  auto const buffer = runtime.allocate(240);
  auto const box = runtime.region(buffer, {20, 4, {{3, 20}, {2, 60}}});
  CHECK(box == runtime.region(buffer, {20, 4, {{6, 20}}}));
  CHECK(!(box == runtime.region(buffer, {20, 4, {{5, 20}}})));
  CHECK(buffer == runtime.region(buffer, {0, 240, {}}));
  CHECK(buffer == runtime.region(buffer, {0, 20, {{12, 20}}}));
  CHECK(runtime.region(box, {0, 4, {}}) == runtime.region(buffer, {20, 4, {}}));
  runtime.retire(box);
  auto const again = runtime.region(buffer, {20, 4, {{6, 20}}});
  CHECK(!(box == again));
  CHECK_THROWS_AS(runtime.retire(box), LifetimeError);
  runtime.retire(again);
}

TEMPLATE_LIST_TEST_CASE("a buffer written region by region can be read", "[runtime][regions]",
                        RegionRuntimes) {
  TestType runtime;
  auto const buffer = runtime.allocate(3 * sizeof(long));
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(contains(message_of<LifetimeError>([&] { (void)runtime.lock(buffer, Access::read); }),
                   "nothing has written buffer "));
    CHECK(contains(message_of<LifetimeError>([&] {
                     test::submit(runtime, step_codelet,
                                  {{runtime.region(buffer, cell_region(i)), Access::update}}, 1);
                   }),
                   "nothing has written 8 bytes at byte " + std::to_string(8 * i) + " of buffer "));
    test::submit(runtime, put_codelet, {{runtime.region(buffer, cell_region(i)), Access::write}},
                 5 + static_cast<long>(i));
  }
  auto const words = runtime.lock(buffer, Access::read);
  long values[3];
  std::memcpy(values, words.data(), sizeof values);
  CHECK((values[0] == 5 && values[1] == 6 && values[2] == 7));
  runtime.unlock(buffer);
}

TEMPLATE_LIST_TEST_CASE("a discarded region is unwritten with all of its buffer",
                        "[runtime][regions]", RegionRuntimes) {
  TestType runtime;
  auto const buffer = runtime.allocate(2 * sizeof(long));
  test::submit(runtime, put_codelet, {{buffer, Access::write}}, 1);
  DataHandle const cells[] = {runtime.region(buffer, cell_region(0)),
                              runtime.region(buffer, cell_region(1))};
  runtime.discard(cells[0]);
  for (DataHandle const each : {buffer, cells[0], cells[1]})
    CHECK(contains(message_of<LifetimeError>([&] { runtime.lock(each, Access::read); }),
                   "the task that should have written "));
  test::submit(runtime, put_codelet, {{cells[1], Access::write}}, 2);
  CHECK(test::read(runtime, cells[1]) == 2);
  CHECK_THROWS_AS(runtime.lock(buffer, Access::read), LifetimeError);
}

TEMPLATE_LIST_TEST_CASE("marks lie on the bytes that a failed task was to write",
                        "[runtime][regions]", RegionRuntimes) {
  TestType runtime;
  auto const buffer = runtime.allocate(3 * sizeof(long));
  test::submit(runtime, put_codelet, {{buffer, Access::write}}, 1);
  DataHandle const cells[] = {runtime.region(buffer, cell_region(0)),
                              runtime.region(buffer, cell_region(1)),
                              runtime.region(buffer, cell_region(2))};
  auto const marked = [&](DataHandle handle) {
    try {
      (void)runtime.lock(handle, Access::read);
    } catch (TaskError const&) {
      return true;
    }
    runtime.unlock(handle);
    return false;
  };
  test::submit(runtime, fail_codelet, {{cells[1], Access::update}}, 1);
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
  CHECK((!marked(cells[0]) && marked(cells[1]) && !marked(cells[2]) && marked(buffer)));
  test::submit(runtime, put_codelet, {{cells[1], Access::write}}, 1);
  CHECK((!marked(cells[1]) && !marked(buffer)));
  test::submit(runtime, fail_codelet, {{buffer, Access::update}}, 1);
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
  for (DataHandle const cell : cells) {
    CHECK((marked(cell) && marked(buffer)));
    test::submit(runtime, put_codelet, {{cell, Access::write}}, 1);
    CHECK(!marked(cell));
  }
  CHECK(!marked(buffer));
  runtime.wait_all();
}

TEMPLATE_LIST_TEST_CASE("a locked region locks what overlaps it", "[runtime][regions]",
                        RegionRuntimes) {
  TestType runtime;
  auto const buffer = cell(runtime, 1);
  auto const low = runtime.region(buffer, {0, 4, {}}), high = runtime.region(buffer, {4, 4, {}});
  (void)runtime.lock(low, Access::update);
  for (auto const handle : {low, buffer}) {
    CHECK(contains(message_of<LifetimeError>([&] { (void)runtime.lock(handle, Access::read); }),
                   "lock: 4 bytes at byte 0 of buffer "));
    CHECK(contains(message_of<LifetimeError>([&] { runtime.retire(handle); }),
                   "retire: 4 bytes at byte 0 of buffer "));
    CHECK(contains(message_of<LifetimeError>(
                       [&] { test::submit(runtime, step_codelet, {{handle, Access::read}}, 1); }),
                   "4 bytes at byte 0 of buffer "));
  }
  CHECK_THROWS_AS(runtime.wait_all(), LifetimeError);
  (void)runtime.lock(high, Access::read);
  runtime.unlock(high);
  runtime.unlock(low);
  (void)runtime.lock(buffer, Access::read);
  CHECK_THROWS_AS(runtime.lock(high, Access::read), LifetimeError);
  CHECK_THROWS_AS(runtime.unlock(high), LifetimeError);
  runtime.unlock(buffer);
  runtime.retire(buffer);
  CHECK_THROWS_AS(runtime.lock(low, Access::read), LifetimeError);
}

TEMPLATE_LIST_TEST_CASE("a region ends with its buffer, whose memory waits for its tasks",
                        "[runtime][regions]", RegionRuntimes) {
  TestType runtime;
  for (Lifetime const lifetime : {Lifetime::persistent, Lifetime::step}) {
    runtime.open_scope(Lifetime::step);
    auto const buffer = runtime.allocate(sizeof(long), host, lifetime);
    auto const result = cell(runtime);
    auto const region = runtime.region(buffer, {0, 8, {}});
    auto const part = runtime.region(buffer, {0, 4, {}});
    test::submit(runtime, put_codelet, {{region, Access::write}}, 41);
    test::submit(runtime, copy_cell_codelet, {{result, Access::write}, {region, Access::read}}, 1);
    if (lifetime == Lifetime::persistent) runtime.retire(buffer);
    runtime.close_scope(Lifetime::step);
    CHECK(test::read(runtime, result) == 42);
    CHECK(contains(message_of<LifetimeError>([&] { (void)runtime.lock(part, Access::write); }),
                   "was retired"));
    CHECK_THROWS_AS(runtime.region(part, {0, 1, {}}), LifetimeError);
    CHECK_THROWS_AS(runtime.region(buffer, {0, 1, {}}), LifetimeError);
  }
}

TEMPLATE_LIST_TEST_CASE("memory is released behind a pending task that names a region of it",
                        "[runtime][regions]", RegionRuntimes) {
  TokenKeeper keeper;
  std::atomic<int> released{0};
  TestType runtime;
  alignas(64) std::array<std::byte, 64> bytes{};
  auto const buffer = runtime.adopt(
      bytes, host,
      {[](void* state) noexcept { ++*static_cast<std::atomic<int>*>(state); }, &released});
  auto const region = runtime.region(buffer, {8, 8, {}});
  test::submit(runtime, keep_codelet, {{region, Access::read}}, &keeper);
  runtime.retire(region);
  runtime.retire(buffer);
  auto const more = cell(runtime, 1);
  CHECK(released == 0);
  CHECK_THROWS_AS(runtime.adopt(bytes), ValueError);
  keeper.at(0).complete();
  runtime.wait_all();
  while (released == 0) CHECK(test::read(runtime, more) == 1);
  CHECK(released == 1);
  (void)runtime.adopt(bytes);
}

TEMPLATE_LIST_TEST_CASE("memory is released behind a pending task that names none of its bytes",
                        "[runtime][regions]", RegionRuntimes) {
  TokenKeeper keeper;
  std::atomic<int> released{0};
  TestType runtime;
  alignas(64) std::array<std::byte, 64> bytes{};
  auto const buffer = runtime.adopt(
      bytes, host,
      {[](void* state) noexcept { ++*static_cast<std::atomic<int>*>(state); }, &released});
  test::submit(runtime, keep_codelet, {{runtime.region(buffer, {8, 0, {}}), Access::read}},
               &keeper);
  auto const more = cell(runtime, 1);
  runtime.retire(buffer);
  CHECK(test::read(runtime, more) == 1);
  CHECK(released == 0);
  keeper.at(0).complete();
  runtime.wait_all();
  while (released == 0) CHECK(test::read(runtime, more) == 1);
}

TEMPLATE_LIST_TEST_CASE("a task waits for the pending ones that share bytes with it",
                        "[runtime][regions]", RegionRuntimes) {
  TokenKeeper keeper;
  TestType runtime;
  auto const buffer = runtime.allocate(4 * sizeof(long));
  test::submit(runtime, put_codelet, {{buffer, Access::write}}, 0);
  auto const pending = runtime.region(buffer, {0, 12, {}}),
             shares = runtime.region(buffer, {8, 8, {}}),
             apart = runtime.region(buffer, {16, 8, {}});
  test::submit(runtime, keep_codelet, {{pending, Access::update}}, &keeper);
  Completion const token = keeper.at(0);
  Event const behind = test::submit(runtime, step_codelet, {{shares, Access::update}}, 1);
  Event const beside = test::submit(runtime, step_codelet, {{apart, Access::update}}, 1);
  runtime.wait(beside);
  CHECK_FALSE(runtime.done(behind));
  token.complete();
  runtime.wait_all();
}

TEMPLATE_LIST_TEST_CASE("a lock waits for each pending task on a part, whichever ends first",
                        "[runtime][regions]", RegionRuntimes) {
  for (int const last : {0, 1}) {
    TokenKeeper keeper;
    TestType runtime;
    auto const buffer = runtime.allocate(2 * sizeof(long));
    test::submit(runtime, put_codelet, {{buffer, Access::write}}, 0);
    Event events[2];
    for (std::size_t i = 0; i < 2; ++i) {
      events[i] = test::submit(runtime, keep_codelet,
                               {{runtime.region(buffer, cell_region(i)), Access::update}}, &keeper);
      (void)keeper.at(i);  // tokens in the order of the tasks
    }
    keeper.at(static_cast<std::size_t>(1 - last)).complete();
    runtime.wait(events[1 - last]);
    std::atomic<bool> ended{false};
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ended = true;
      keeper.at(static_cast<std::size_t>(last)).complete();
    });
    (void)runtime.lock(buffer, Access::update);
    CHECK(ended);
    runtime.unlock(buffer);
    other.join();
  }
}

TEMPLATE_LIST_TEST_CASE("a lock waits for a pending replay that names a part", "[runtime][regions]",
                        ReplayingRuntimes) {
  TokenKeeper keeper;
  TestType runtime;
  auto const buffer = runtime.allocate(2 * sizeof(long));
  test::submit(runtime, put_codelet, {{buffer, Access::write}}, 0);
  TokenKeeper* const argument = &keeper;
  Use<Binding> const uses[] = {{0, Access::update}};
  ProgramTask const tasks[] = {
      {&keep_codelet, uses, std::as_bytes(std::span(&argument, 1)), {}, {}}};
  DataHandle const bindings[] = {runtime.region(buffer, cell_region(1))};
  runtime.replay(runtime.record(tasks, 1), bindings);
  std::atomic<bool> ended{false};
  std::thread other([&] {
    Completion const token = keeper.at(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ended = true;
    token.complete();
  });
  (void)runtime.lock(buffer, Access::update);
  CHECK(ended);
  runtime.unlock(buffer);
  other.join();
}

TEMPLATE_LIST_TEST_CASE("a region behind its buffer's end is a ValueError", "[runtime][regions]",
                        RegionRuntimes) {
  TestType runtime;
  auto const buffer = runtime.allocate(100);
  CHECK(contains(message_of<ValueError>([&] { runtime.region(buffer, {90, 11, {}}); }),
                 "region: 11 bytes at byte 90 of buffer "));
  CHECK_THROWS_AS(runtime.region(buffer, {101, 0, {}}), ValueError);
  CHECK_THROWS_AS(runtime.region(buffer, {0, 1, {{2, std::size_t{1} << 63}}}), ValueError);
  auto const region = runtime.region(buffer, {50, 10, {}});
  CHECK_THROWS_AS(runtime.region(region, {0, 51, {}}), ValueError);
  auto const empty = runtime.region(buffer, {100, 0, {}});
  test::submit(runtime, nothing_codelet, {{empty, Access::read}}, 0);
  runtime.wait_all();
}

TEMPLATE_LIST_TEST_CASE("a replay is ordered by the bytes of its bindings", "[runtime][regions]",
                        ReplayingRuntimes) {
  TestType runtime;
  auto const buffer = runtime.allocate(2 * sizeof(long));
  auto const low = runtime.region(buffer, cell_region(0)),
             high = runtime.region(buffer, cell_region(1));
  long const value = 1;
  auto const arguments = std::as_bytes(std::span(&value, 1));
  Use<Binding> const uses[] = {{0, Access::write}, {1, Access::read}};
  ProgramTask const tasks[] = {{&copy_cell_codelet, uses, arguments, {}, {}}};
  auto const program = runtime.record(tasks, 2);
  for (long i = 0; i < 20; ++i) {
    test::submit(runtime, put_codelet, {{buffer, Access::write}}, i);
    test::submit(runtime, put_codelet, {{high, Access::write}}, i);
    DataHandle const bindings[] = {low, high};
    runtime.replay(program, bindings);
    auto const words = runtime.lock(buffer, Access::read);
    long first;
    std::memcpy(&first, words.data(), sizeof first);
    CHECK(first == i + 1);
    runtime.unlock(buffer);
  }
  DataHandle const apart[] = {buffer, runtime.region(buffer, {8, 0, {}})};
  ProgramTask const both[] = {{&nothing_codelet, uses, {}, {}, {}}};
  runtime.replay(runtime.record(both, 2), apart);
  DataHandle const overlapping[] = {buffer, high};
  CHECK(contains(message_of<ValueError>([&] { runtime.replay(program, overlapping); }),
                 "replay: bindings 0 and 1 alias one buffer"));
}

TEMPLATE_LIST_TEST_CASE("operands of a task that submits may be regions apart",
                        "[runtime][regions]", RegionRuntimes) {
  TestType runtime;
  auto const buffer = runtime.allocate(2 * sizeof(long));
  auto const low = runtime.region(buffer, cell_region(0)),
             high = runtime.region(buffer, cell_region(1));
  auto const body = [=](auto& nested) {
    test::submit(nested, put_codelet, {{low, Access::write}}, 3);
    test::submit(nested, copy_cell_codelet, {{high, Access::write}, {low, Access::read}}, 1);
  };
  runtime.orchestrate(body, Use<DataHandle>{low, Access::write},
                      Use<DataHandle>{high, Access::write});
  test::submit(runtime, step_codelet, {{buffer, Access::update}}, 1);
  auto const words = runtime.lock(buffer, Access::read);
  long values[2];
  std::memcpy(values, words.data(), sizeof values);
  CHECK((values[0] == 10 && values[1] == 4));
  runtime.unlock(buffer);
  runtime.orchestrate([](auto&) {}, Use<DataHandle>{buffer, Access::update},
                      Use<DataHandle>{runtime.region(buffer, {8, 0, {}}), Access::read});
  CHECK(contains(message_of<ValueError>([&] {
                   runtime.orchestrate(body, Use<DataHandle>{low, Access::write},
                                       Use<DataHandle>{buffer, Access::write});
                 }),
                 "orchestrate: operands 0 and 1 are regions that overlap"));
}

TEST_CASE("a task of many operands follows one of many parts", "[runtime][regions]") {
  Ring ring({.workers = 1});  // which runs nothing before it is waited for
  constexpr std::size_t parts = 200, operands = 24;
  auto const buffer = ring.allocate(parts * sizeof(long));
  for (std::size_t i = 0; i < parts; ++i)
    test::submit(ring, put_codelet, {{ring.region(buffer, cell_region(i)), Access::write}}, 1);
  test::submit(ring, step_codelet, {{buffer, Access::update}}, 2);
  std::vector<Use<DataHandle>> uses;
  for (std::size_t i = 0; i < operands; ++i)
    uses.push_back({ring.region(buffer, cell_region(i)), Access::update});
  long const argument = 3;
  ring.submit({&step_codelet, uses, std::as_bytes(std::span(&argument, 1)), {}, {}});
  ring.wait_all();
  auto const words = ring.lock(buffer, Access::read);
  long first;
  std::memcpy(&first, words.data(), sizeof first);
  CHECK(first == (1 * 3 + 2) * 3 + 3);
  ring.unlock(buffer);
}
