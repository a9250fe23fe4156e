// SPDX-License-Identifier: BSD-3-Clause
// Tasks that accumulate into one buffer are not ordered, exclude each other, and are ordered with
// all others.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "nntile/runtime/engine/engine.hh"
#include "nntile/runtime/ring/ring.hh"
#include "tests/runtime/gate.hh"
#include "tests/support/catch.hh"
#include "tests/support/runtimes.hh"

namespace {

using namespace nntile;

using test::Gate, test::wait_codelet;

/// buffer 0 += the argument.
constexpr Codelet add_codelet{"add", +[](KernelCall const& call) noexcept -> Status {
                                std::int64_t more, sum;
                                std::memcpy(&more, call.arguments, sizeof more);
                                std::memcpy(&sum, call.buffers[0], sizeof sum);
                                sum += more;
                                std::memcpy(call.buffers[0], &sum, sizeof sum);
                                return {};
                              }};
/// Multiplies buffer 0 by the argument.
constexpr Codelet scale_codelet{"scale", +[](KernelCall const& call) noexcept -> Status {
                                  std::int64_t factor, sum;
                                  std::memcpy(&factor, call.arguments, sizeof factor);
                                  std::memcpy(&sum, call.buffers[0], sizeof sum);
                                  sum *= factor;
                                  std::memcpy(call.buffers[0], &sum, sizeof sum);
                                  return {};
                                }};
/// Copies buffer 0 to buffer 1.
constexpr Codelet copy_cell_codelet{"copy", +[](KernelCall const& call) noexcept -> Status {
                                      std::memcpy(call.buffers[1], call.buffers[0], 8);
                                      return {};
                                    }};
/// Writes the argument to buffer 0.
constexpr Codelet set_codelet{"set", +[](KernelCall const& call) noexcept -> Status {
                                std::memcpy(call.buffers[0], call.arguments, 8);
                                return {};
                              }};
constexpr Codelet look_codelet{"look", +[](KernelCall const&) noexcept -> Status { return {}; }};

template <class R>
Event submit(R& runtime, Codelet const& codelet, std::vector<Use<typename R::Handle>> const& uses,
             std::int64_t argument) {
  return runtime.submit({&codelet, uses, std::as_bytes(std::span(&argument, 1)), {}, {}});
}

std::int64_t value_in(std::span<std::byte const> bytes) {
  std::int64_t value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

/// Counters that start at 0, and a runtime of two workers.
template <class R> struct Scene {
  R runtime{RuntimeOptions{2, true, false}};
  typename R::Handle counter(std::int64_t start = 0) {
    auto const handle = runtime.allocate(sizeof start, host, Lifetime::persistent);
    auto const bytes = runtime.lock(handle, Access::write);
    std::memcpy(bytes.data(), &start, sizeof start);
    runtime.unlock(handle);
    return handle;
  }
  std::int64_t value(typename R::Handle handle) {
    std::int64_t const value = value_in(runtime.lock(handle, Access::read));
    runtime.unlock(handle);
    return value;
  }
  Event hold(Gate& gate, std::vector<Use<typename R::Handle>> const& uses) {
    Event const event = submit(runtime, wait_codelet, uses, reinterpret_cast<std::int64_t>(&gate));
    while (!gate.open) (void)runtime.done(event);
    return event;
  }
};

}  // namespace

TEMPLATE_LIST_TEST_CASE("a task that accumulates does not wait for one before it",
                        "[runtime][accumulate]", test::CommutingRuntimes) {
  Gate gate;
  Scene<TestType> scene;
  auto const source = scene.counter(), sum = scene.counter();
  (void)scene.hold(gate, {{source, Access::update}});
  Event const first =
      submit(scene.runtime, add_codelet, {{sum, Access::accumulate}, {source, Access::read}}, 1);
  Event const second = submit(scene.runtime, add_codelet, {{sum, Access::accumulate}}, 2);
  scene.runtime.wait(second);
  CHECK(!scene.runtime.done(first));
  gate.token.complete();
  CHECK(scene.value(sum) == 3);
}

TEMPLATE_LIST_TEST_CASE("all tasks that accumulate come before a later reader or writer",
                        "[runtime][accumulate]", test::CommutingRuntimes) {
  for (std::int64_t const count : {3, 20})  // 20 are more than are kept by name
    for (Access const later : {Access::read, Access::update, Access::write}) {
      Gate gate;
      Scene<TestType> scene;
      auto const source = scene.counter(), sum = scene.counter(1), seen = scene.counter();
      (void)scene.hold(gate, {{source, Access::update}});
      for (std::int64_t i = 0; i < count; ++i) {
        std::vector<Use<typename TestType::Handle>> uses{{sum, Access::accumulate}};
        if (i % 9 == 0) uses.push_back({source, Access::read});
        (void)submit(scene.runtime, add_codelet, uses, 1);
      }
      if (later == Access::write)
        (void)submit(scene.runtime, set_codelet, {{sum, later}}, -1);
      else
        (void)submit(scene.runtime, copy_cell_codelet, {{sum, later}, {seen, Access::write}}, 0);
      Event const last = submit(scene.runtime, copy_cell_codelet,
                                {{sum, Access::read}, {seen, Access::update}}, 0);
      for (int i = 0; i < 20; ++i)  // time for them to run too early
        scene.runtime.wait(submit(scene.runtime, look_codelet, {}, 0));
      CHECK(!scene.runtime.done(last));
      gate.token.complete();
      CHECK(scene.value(seen) == (later == Access::write ? -1 : count + 1));
    }
}

TEMPLATE_LIST_TEST_CASE(
    "a group that accumulates comes after the readers before it, and after the "
    "next ones",
    "[runtime][accumulate]", test::CommutingRuntimes) {
  Gate gate, second;
  Scene<TestType> scene;
  auto const sum = scene.counter();
  (void)submit(scene.runtime, look_codelet, {{sum, Access::read}}, 0);
  (void)scene.hold(gate, {{sum, Access::read}});
  Event const first = submit(scene.runtime, add_codelet, {{sum, Access::accumulate}}, 1);
  Event const other = submit(scene.runtime, add_codelet, {{sum, Access::accumulate}}, 1);
  CHECK(!scene.runtime.done(first));
  CHECK(!scene.runtime.done(other));
  gate.token.complete();
  (void)submit(scene.runtime, look_codelet, {{sum, Access::read}}, 0);
  (void)scene.hold(second, {{sum, Access::read}});
  Event const last = submit(scene.runtime, add_codelet, {{sum, Access::accumulate}}, 1);
  CHECK(scene.runtime.done(other));
  CHECK(!scene.runtime.done(last));
  second.token.complete();
  CHECK(scene.value(sum) == 3);
}

TEMPLATE_LIST_TEST_CASE("a token holds what its task accumulates into", "[runtime][accumulate]",
                        test::CommutingRuntimes) {
  Gate gate;
  Scene<TestType> scene;
  auto const one = scene.counter(), other = scene.counter();
  (void)scene.hold(gate, {{one, Access::accumulate}});
  Event const blocked = submit(scene.runtime, add_codelet,
                               {{other, Access::accumulate}, {one, Access::accumulate}}, 1);
  Event const free = submit(scene.runtime, scale_codelet, {{scene.counter(), Access::update}}, 1);
  scene.runtime.wait(free);
  CHECK(!scene.runtime.done(blocked));
  gate.token.complete();
  scene.runtime.wait(blocked);
  CHECK(scene.value(other) == 1);
}

TEMPLATE_LIST_TEST_CASE("tasks that accumulate into several buffers in any order all end",
                        "[runtime][accumulate]", test::CommutingRuntimes) {
  Scene<TestType> scene;
  std::vector<typename TestType::Handle> sums;
  for (int i = 0; i < 4; ++i) sums.push_back(scene.counter());
  constexpr std::int64_t rounds = 500;
  for (std::size_t i = 0; i < rounds; ++i)
    for (std::size_t first = 0; first < 4; ++first)
      (void)submit(
          scene.runtime, add_codelet,
          {{sums[first], Access::accumulate}, {sums[(first + 1 + i % 3) % 4], Access::accumulate}},
          1);
  for (auto const sum : sums) CHECK(scene.value(sum) == rounds);
}

TEMPLATE_LIST_TEST_CASE("a buffer that a task accumulates into and reads is updated",
                        "[runtime][accumulate]", test::CommutingRuntimes) {
  Gate gate;
  Scene<TestType> scene;
  auto const source = scene.counter(), sum = scene.counter(1);
  (void)scene.hold(gate, {{source, Access::update}});
  (void)submit(scene.runtime, add_codelet, {{sum, Access::accumulate}, {source, Access::read}}, 1);
  (void)submit(scene.runtime, scale_codelet,
               {{sum, Access::accumulate}, {sum, Access::read}, {source, Access::read}}, 10);
  Event const last = submit(scene.runtime, add_codelet, {{sum, Access::accumulate}}, 1);
  for (int i = 0; i < 20; ++i)  // time for it to run too early
    scene.runtime.wait(submit(scene.runtime, look_codelet, {}, 0));
  CHECK(!scene.runtime.done(last));
  gate.token.complete();
  CHECK(scene.value(sum) == 21);
}

TEMPLATE_LIST_TEST_CASE("a lock waits for all tasks that accumulate", "[runtime][accumulate]",
                        test::CommutingRuntimes) {
  for (bool const read_between : {false, true}) {
    Gate gate;
    Scene<TestType> scene;
    auto const source = scene.counter(), sum = scene.counter();
    (void)scene.hold(gate, {{source, Access::update}});
    for (int i = 0; i < 3; ++i)
      (void)submit(scene.runtime, add_codelet, {{sum, Access::accumulate}, {source, Access::read}},
                   1);
    if (read_between) (void)submit(scene.runtime, look_codelet, {{sum, Access::read}}, 0);
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      gate.token.complete();
    });
    CHECK(scene.value(sum) == 3);
    later.join();
  }
}
