// SPDX-License-Identifier: BSD-3-Clause
// What the engine makes of an executor: order by dependences, helping, back-pressure.
#include "nntile/runtime/engine/engine.hh"

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "tests/runtime/codelets.hh"
#include "tests/runtime/models.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// Runs a random program of conflicting tasks over a few cells; what the cells hold afterwards.
template <class R> std::vector<long> run_program(R& runtime, unsigned seed, int tasks) {
  std::mt19937 random(seed);
  std::vector<typename R::Handle> cells;
  for (long i = 0; i < 12; ++i) cells.push_back(cell(runtime, i));
  for (int i = 0; i < tasks; ++i) {
    auto const a = cells[random() % cells.size()], b = cells[random() % cells.size()];
    long const value = static_cast<long>(random() % 7);
    switch (random() % 3) {
      case 0:
        submit(runtime, step_codelet, {{a, Access::update}}, value);
        break;
      case 1:
        submit(runtime, copy_cell_codelet,
               {{a, a == b ? Access::update : Access::write}, {b, Access::read}}, value);
        break;
      default:
        submit(runtime, put_codelet, {{a, Access::write}}, value);
        break;
    }
  }
  std::vector<long> values;
  for (auto const handle : cells) values.push_back(read(runtime, handle));
  runtime.wait_all();
  return values;
}

struct Gate {
  std::atomic<bool> open{false};
  std::atomic<int> inside{0};
};
/// Stays inside until the gate opens.
constexpr Codelet gated{"gated",
                        +[](KernelCall const& call) noexcept -> Status {
                          auto& gate = **static_cast<Gate* const*>(call.arguments);
                          ++gate.inside;
                          while (!gate.open) std::this_thread::yield();
                          return {};
                        },
                        nullptr, nullptr};

/// Memory of an executor's own.
struct Storing : ThreadExecutor {
  explicit Storing(std::atomic<int>* blocks) : ThreadExecutor({2, false, false}), live(blocks) {}
  void* allocate(std::size_t bytes, Place) {
    ++*live;
    return support::allocate_aligned(bytes);
  }
  void free(void* pointer, std::size_t, Place) {
    --*live;
    support::free_aligned(pointer);
  }
  std::atomic<int>* live;
};

}  // namespace

TEMPLATE_TEST_CASE("random programs leave what they leave on serial", "[runtime][engine]", Alone,
                   Four, Watched) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    Serial serial;
    TestType runtime;
    INFO("seed " << seed);
    CHECK(run_program(runtime, seed, 500) == run_program(serial, seed, 500));
  }
}

TEST_CASE("readers of one buffer run side by side", "[runtime][engine]") {
  Watched runtime;
  Gate gate;
  auto const a = cell(runtime, 1);
  for (int i = 0; i < 2; ++i) submit(runtime, gated, {{a, Access::read}}, &gate);
  while (gate.inside != 2) std::this_thread::yield();  // hangs if they do not
  gate.open = true;
  runtime.wait_all();
}

TEST_CASE("a writer waits for the readers before it", "[runtime][engine]") {
  Watched runtime;
  Gate gate;
  auto const a = cell(runtime, 1);
  submit(runtime, gated, {{a, Access::read}}, &gate);
  Event const writer = submit(runtime, put_codelet, {{a, Access::write}}, 2L);
  while (gate.inside != 1) std::this_thread::yield();
  CHECK_FALSE(runtime.done(writer));
  gate.open = true;
  CHECK(read(runtime, a) == 2);
}

TEST_CASE("waiting for one task does not wait for another", "[runtime][engine]") {
  Watched runtime;
  Gate gate;
  auto const a = cell(runtime, 1), b = cell(runtime, 1);
  Event const slow = submit(runtime, gated, {{a, Access::update}}, &gate);
  runtime.wait(submit(runtime, step_codelet, {{b, Access::update}}, 1L));
  CHECK(read(runtime, b) == 4);
  CHECK_FALSE(runtime.done(slow));
  gate.open = true;
  runtime.wait_all();
}

TEST_CASE("a lock for read waits for writers alone", "[runtime][engine]") {
  Watched runtime;
  Gate gate;
  auto const a = cell(runtime, 6);
  submit(runtime, gated, {{a, Access::read}}, &gate);
  CHECK(read(runtime, a) == 6);
  gate.open = true;
  runtime.wait_all();
}

TEST_CASE("a thousand readers and their writer keep the order", "[runtime][engine]") {
  Four runtime;
  auto const a = cell(runtime, 5);
  std::vector<DataHandle> copies;
  for (int i = 0; i < 1000; ++i) {
    copies.push_back(cell(runtime));
    submit(runtime, copy_cell_codelet, {{copies.back(), Access::write}, {a, Access::read}}, i);
  }
  submit(runtime, put_codelet, {{a, Access::write}}, -1L);
  CHECK(read(runtime, a) == -1);
  for (int i = 0; i < 1000; ++i)
    REQUIRE(read(runtime, copies[static_cast<std::size_t>(i)]) == 5 + i);
}

TEST_CASE("the driver executes where it is the only worker, and only in blocking calls",
          "[runtime][engine]") {
  Alone runtime;
  long value = 1;
  auto const a = runtime.adopt(std::as_writable_bytes(std::span(&value, 1)));
  Event const first = submit(runtime, step_codelet, {{a, Access::update}}, 1L);
  Event const second = submit(runtime, step_codelet, {{a, Access::update}}, 1L);
  CHECK(value == 1);
  runtime.wait(first);
  CHECK(value == 4);
  CHECK(runtime.done(second));  // runs one task
  CHECK(value == 13);
}

TEST_CASE("with own_driver no task runs on the driving thread", "[runtime][engine]") {
  static constexpr Codelet on_driver{
      "on_driver",
      +[](KernelCall const& call) noexcept -> Status {
        auto const driver = *static_cast<std::thread::id const*>(call.arguments);
        return std::this_thread::get_id() == driver ? Status{"ran on the driver"} : Status{};
      },
      nullptr, nullptr};
  Watched runtime;
  auto const me = std::this_thread::get_id();
  for (int i = 0; i < 1000; ++i) submit(runtime, on_driver, {}, me);
  runtime.wait_all();
}

TEST_CASE("submission past the bound blocks and helps, and everything runs", "[runtime][engine]") {
  Alone runtime;
  auto const a = cell(runtime, 0);
  constexpr int tasks = 3 * static_cast<int>(Alone::most_in_flight);
  for (int i = 0; i < tasks; ++i)
    submit(runtime, copy_cell_codelet, {{a, Access::update}, {a, Access::read}}, 1L);
  CHECK(read(runtime, a) == tasks);
}

TEMPLATE_TEST_CASE("more tasks than the bound may wait for a token that the driver completes later",
                   "[runtime][engine]", Alone, Four, Watched) {
  TestType runtime;
  TokenKeeper keeper;
  auto const a = cell(runtime, 1), b = cell(runtime, 0);
  Event const pending = submit(runtime, keep_codelet, {{a, Access::update}}, &keeper);
  while (runtime.waiting_for().empty()) (void)runtime.done(pending);
  int const tasks = static_cast<int>(TestType::most_in_flight) + 5000;
  for (int i = 0; i < tasks; ++i)
    submit(runtime, copy_cell_codelet, {{b, Access::write}, {a, Access::read}}, i);
  keeper.at(0).complete();
  CHECK(read(runtime, b) == tasks);
}

TEMPLATE_TEST_CASE("a task that submits or waits is refused, since tasks do not nest",
                   "[runtime][engine]", Alone, Four, Watched) {
  static constexpr Codelet nested{"nested",
                                  +[](KernelCall const& call) noexcept -> Status {
                                    auto& runtime =
                                        **static_cast<ThreadEngine* const*>(call.arguments);
                                    try {
                                      runtime.wait_all();
                                    } catch (LifetimeError const&) {
                                      try {
                                        (void)runtime.submit({&put_codelet, {}, {}, {}, {}});
                                      } catch (LifetimeError const&) {
                                        return {};
                                      }
                                    }
                                    return {"it did not throw"};
                                  },
                                  nullptr, nullptr};
  TestType runtime;
  for (int i = 0; i < 50; ++i)
    submit<ThreadEngine>(runtime, nested, {}, static_cast<ThreadEngine*>(&runtime));
  runtime.wait_all();
}

TEST_CASE("a task on the thread of a device is refused what any task is", "[runtime][engine]") {
  static constexpr int all = 8;
  struct OnDevices : ThreadExecutor {
    OnDevices() : ThreadExecutor({all, true, false}) {}
    Workers workers() const { return {.cpu = 0, .cuda = all}; }
  };
  struct Call {
    Engine<OnDevices>* runtime;
    std::atomic<bool> submitted{false};
    std::atomic<int> inside{0}, refused{0}, over{0};
  };
  static constexpr Codelet nested{
      "nested", +[](KernelCall const& call) noexcept -> Status {
        auto& its = **static_cast<Call* const*>(call.arguments);
        ++its.inside;
        while (!its.submitted || its.inside != all) std::this_thread::yield();
        its.refused += contains(message_of<LifetimeError>([&] { (void)its.runtime->allocate(8); }),
                                "inside a task");
        ++its.over;
        while (its.over != all) std::this_thread::yield();
        return {};
      }};
  Engine<OnDevices> runtime;
  Call call{&runtime};
  for (int i = 0; i < all; ++i) submit(runtime, nested, {}, &call);
  call.submitted = true;  // and so the driver is in no call
  while (call.over != all) std::this_thread::yield();
  CHECK(call.refused == all);
  runtime.wait_all();
}

TEST_CASE("another thread may take over driving", "[runtime][engine]") {
  Four runtime;
  auto const a = cell(runtime, 1);
  std::thread([&] {
    submit(runtime, step_codelet, {{a, Access::update}}, 1L);
    runtime.wait_all();
  }).join();
  CHECK(read(runtime, a) == 4);
}

TEST_CASE("the engine checks worker counts before it builds the executor", "[runtime][engine]") {
  CHECK_THROWS_AS(ThreadEngine(RuntimeOptions{0, false, false}), ValueError);
  CHECK_THROWS_AS(ThreadEngine(RuntimeOptions{1025, false, false}), ValueError);
  CHECK(ThreadEngine(RuntimeOptions{3, false, false}).workers().cpu == 3);
}

TEST_CASE("an executor's own memory is used and given back", "[runtime][engine]") {
  std::atomic<int> live{0};
  {
    Engine<Storing> runtime(&live);
    auto const a = cell(runtime, 1), b = cell(runtime, 2);
    CHECK(live == 2);
    runtime.retire(a);
    runtime.wait_all();
    CHECK(live == 1);
    CHECK(read(runtime, b) == 2);
  }
  CHECK(live == 0);
}

TEST_CASE("an executor's own memory is the host's, pinned or not", "[runtime][engine]") {
  std::atomic<int> live{0};
  Engine<Storing> runtime(&live);
  std::byte bytes[8];
  for (Place const place : {device(0), device(-1), disk, Place{Place::Kind::pinned, 1}}) {
    CAPTURE(name_of(place.kind), place.device);
    CHECK_THROWS_AS(runtime.allocate(8, place), ValueError);
    CHECK_THROWS_AS(runtime.adopt(std::span(bytes), place), ValueError);
  }
  CHECK(live == 0);
  runtime.retire(runtime.allocate(8, pinned));
}

TEST_CASE("an executor that gives a null pointer has no memory", "[runtime][engine]") {
  struct Empty : ThreadExecutor {
    using ThreadExecutor::ThreadExecutor;
    void* allocate(std::size_t, Place) { return nullptr; }
    void free(void*, std::size_t, Place) {}
  };
  Engine<Empty> runtime;
  CHECK(contains(message_of<OutOfMemory>([&] { (void)runtime.allocate(8); }),
                 "allocate: 8 bytes on host"));
  runtime.retire(runtime.allocate(0));
}

TEST_CASE("engines live side by side", "[runtime][engine]") {
  Four first, second;
  auto const a = cell(first, 1), b = cell(second, 2);
  for (int i = 0; i < 100; ++i) {
    submit(first, step_codelet, {{a, Access::update}}, 1L);
    submit(second, step_codelet, {{b, Access::update}}, 1L);
    if (i % 10 == 0) CHECK(read(first, a) * 2 + 1 <= read(second, b) * 2);
    submit(first, put_codelet, {{a, Access::write}}, 1L);
    submit(second, put_codelet, {{b, Access::write}}, 2L);
  }
  first.wait_all();
  second.wait_all();
}

TEMPLATE_TEST_CASE("the tasks that failures cancel are those that serial cancels",
                   "[runtime][engine]", Alone, Four, Watched) {
  auto const outcomes = [](auto& runtime, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<DataHandle> cells;
    for (long i = 0; i < 8; ++i) cells.push_back(cell(runtime, i));
    std::vector<Event> events;
    for (int i = 0; i < 300; ++i) {
      auto const a = cells[random() % 8], b = cells[random() % 8];
      auto const& codelet = random() % 9 == 0   ? fail_codelet
                            : random() % 3 == 0 ? put_codelet
                                                : copy_cell_codelet;
      Access const access = a == b || random() % 2 == 0 ? Access::update : Access::write;
      events.push_back(&codelet == &put_codelet
                           ? submit(runtime, codelet, {{a, Access::write}})
                           : submit(runtime, codelet, {{a, access}, {b, Access::read}}));
    }
    std::vector<std::string> texts;
    for (Event const& event : events)
      texts.push_back(message_of<TaskError>([&] { runtime.wait(event); }));
    (void)message_of<TaskError>([&] { runtime.wait_all(); });
    return texts;
  };
  for (unsigned seed = 1; seed <= 10; ++seed) {
    Serial serial;
    TestType runtime;
    INFO("seed " << seed);
    CHECK(outcomes(runtime, seed) == outcomes(serial, seed));
  }
}
