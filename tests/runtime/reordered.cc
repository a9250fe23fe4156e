// SPDX-License-Identifier: BSD-3-Clause
// Tasks that write disjoint bytes of one buffer run at one time, and so do tasks in no order, where
// the runtime does not order more than the law asks for.

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "nntile/runtime/engine/nest.hh"
#include "nntile/runtime/regions.hh"
#include "nntile/runtime/ring/nest.hh"
#include "nntile/runtime/serial/nest.hh"
#include "tests/runtime/gate.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/runtimes.hh"

namespace {

using namespace nntile;

constexpr Access update = Access::update;
constexpr Access write_disjoint = Access::write_disjoint;
constexpr Access unordered = Access::unordered;

using Threaded = std::tuple<test::Threads, test::DynamicRing, Ring>;
using All = std::tuple<Serial, test::Threads, test::DynamicRing, Ring>;

using test::Gate, test::wait_codelet;

/// byte `argument` of buffer 0 = argument.
constexpr Codelet set_codelet{"set", +[](KernelCall const& call) noexcept -> Status {
                                std::int64_t at;
                                std::memcpy(&at, call.arguments, sizeof at);
                                static_cast<char*>(call.buffers[0])[at] = static_cast<char>(at);
                                return {};
                              }};
constexpr Codelet fail_codelet{
    "fail", +[](KernelCall const&) noexcept -> Status { return {"the younger failed"}; }};
constexpr Codelet look_codelet{"look", +[](KernelCall const&) noexcept -> Status { return {}; }};

template <class R, class Handle>
Event submit(R& runtime, Codelet const& codelet, Handle handle, Access access,
             std::int64_t argument = 0) {
  Use<Handle> const uses[] = {{handle, access}};
  return runtime.submit({&codelet, uses, std::as_bytes(std::span(&argument, 1)), {}, {}});
}
template <class R, class Handle> Event hold(R& runtime, Gate& gate, Handle handle, Access access) {
  Event const event =
      submit(runtime, wait_codelet, handle, access, reinterpret_cast<std::int64_t>(&gate));
  while (!gate.open) (void)runtime.done(event);
  return event;
}
template <class R> auto written(R& runtime, std::size_t bytes) {
  auto const handle = runtime.allocate(bytes, host, Lifetime::persistent);
  std::memset(runtime.lock(handle, Access::write).data(), 0, bytes);
  runtime.unlock(handle);
  return handle;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("tasks that write disjoint bytes do not wait for each other",
                        "[runtime][reordered]", Threaded) {
  for (Access const before : {update, Access::read}) {
    Gate first, group;
    TestType runtime(RuntimeOptions{2, true, false});
    auto const buffer = written(runtime, 64);
    Event const earlier = hold(runtime, first, buffer, before);
    Event const early = submit(runtime, set_codelet, buffer, write_disjoint, 1);
    CHECK(!runtime.done(early));
    first.token.complete();
    runtime.wait(early);
    CHECK(runtime.done(earlier));

    (void)hold(runtime, group, buffer, write_disjoint);
    for (int at = 2; at < 30; ++at)  // more than are kept by name
      runtime.wait(submit(runtime, set_codelet, buffer, write_disjoint, at));
    Event const reader = submit(runtime, look_codelet, buffer, Access::read);
    Event const later = submit(runtime, set_codelet, buffer, write_disjoint, 30);
    CHECK(!runtime.done(reader));
    CHECK(!runtime.done(later));
    group.token.complete();
    runtime.wait_all();
    auto const bytes = runtime.lock(buffer, Access::read);
    for (std::size_t at = 1; at < 31; ++at) CHECK(static_cast<int>(bytes[at]) == int(at));
    runtime.unlock(buffer);
  }
}

TEMPLATE_LIST_TEST_CASE("a task in no order waits for none, and none for it",
                        "[runtime][reordered]", Threaded) {
  for (Access const access : {update, write_disjoint, Access::accumulate, Access::read}) {
    Gate first, second;
    TestType runtime(RuntimeOptions{2, true, false});
    auto const buffer = written(runtime, 64);
    Event const ordered = hold(runtime, first, buffer, access);
    runtime.wait(submit(runtime, look_codelet, buffer, unordered));
    Event const free = hold(runtime, second, buffer, unordered);
    CHECK(!runtime.done(ordered));
    first.token.complete();
    runtime.wait(submit(runtime, set_codelet, buffer, update, 3));
    (void)runtime.lock(buffer, Access::read);
    runtime.unlock(buffer);
    CHECK(!runtime.done(free));
    second.token.complete();
    runtime.wait_all();
  }
}

TEMPLATE_LIST_TEST_CASE("of two failures in a group of writers the older one is the mark",
                        "[runtime][reordered]", Threaded) {
  for (bool const in_order : {true, false}) {
    Gate gate;
    TestType runtime(RuntimeOptions{2, true, false});
    auto const buffer = written(runtime, 64);
    Event const older = hold(runtime, gate, buffer, write_disjoint);
    auto const fail_older = [&] {
      gate.token.complete(Status{"the older failed"});
      CHECK(test::message_of<TaskError>([&] { runtime.wait(older); }) != "");
    };
    if (in_order) fail_older();
    Event const younger = submit(runtime, fail_codelet, buffer, write_disjoint);
    CHECK(test::message_of<TaskError>([&] { runtime.wait(younger); }) != "");
    if (!in_order) fail_older();
    std::string const mark =
        test::message_of<TaskError>([&] { (void)runtime.lock(buffer, Access::read); });
    INFO(mark);
    CHECK(mark.find("the older failed") != std::string::npos);
    CHECK_THROWS_AS(runtime.wait_all(), TaskError);
  }
}

TEMPLATE_LIST_TEST_CASE("wait_and_retire waits for a task in no order", "[runtime][reordered]",
                        All) {
  for (bool const late : {true, false}) {
    Gate gate;
    std::atomic<bool> ended{false};
    std::vector<std::byte> memory(64);
    TestType runtime(RuntimeOptions{std::is_same_v<TestType, Serial> ? 1 : 2, false, false});
    auto const buffer = runtime.adopt(std::span(memory), host);
    auto const other = written(runtime, 8);
    static std::atomic<bool>* flag;
    flag = &ended;
    constexpr static Codelet slow{"slow", +[](KernelCall const&) noexcept -> Status {
                                    std::this_thread::sleep_for(std::chrono::milliseconds(5));
                                    *flag = true;
                                    return {};
                                  }};
    std::thread outside;
    if (late) {
      (void)hold(runtime, gate, buffer, unordered);
      outside = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        ended = true;
        gate.token.complete();
      });
    } else {
      (void)submit(runtime, slow, buffer, unordered);
    }
    (void)submit(runtime, look_codelet, other, update);
    runtime.wait_and_retire(buffer);
    CHECK(ended);
    if (outside.joinable()) outside.join();
    CHECK(runtime.adopt(std::span(memory), host) != buffer);  // the memory is the caller's again
    runtime.wait_all();
  }
}

TEMPLATE_TEST_CASE("wait_and_retire waits for a task that accesses a region in no order",
                   "[runtime][reordered]", Serial, test::Threads, Ring) {
  Gate gate, other_gate;
  std::atomic<bool> ended{false};
  TestType runtime(RuntimeOptions{std::is_same_v<TestType, Serial> ? 1 : 2, false, false});
  auto const buffer = runtime.allocate(64);
  auto const region = runtime.region(buffer, {0, 32, {}});
  auto const other = runtime.region(buffer, {32, 32, {}});
  (void)hold(runtime, other_gate, other, unordered);  // is not waited for
  (void)hold(runtime, gate, region, unordered);
  std::thread outside([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ended = true;
    gate.token.complete();
  });
  runtime.wait_and_retire(region);
  CHECK(ended);
  outside.join();
  other_gate.token.complete();
  runtime.wait_all();
}

TEMPLATE_TEST_CASE("a retired region holds its bytes until all of its tasks have ended",
                   "[runtime][reordered]", test::Threads, Ring) {
  for (Access const access : {Access::read, write_disjoint}) {
    CAPTURE(name_of(access));
    Gate gate;
    TestType runtime(RuntimeOptions{2, false, false});
    auto const buffer = written(runtime, 64);
    auto const region = runtime.region(buffer, {0, 32, {}});
    (void)hold(runtime, gate, region, access);
    runtime.wait(submit(runtime, look_codelet, region, access));  // the last one, but not alone
    runtime.retire(region);
    (void)runtime.region(buffer, {32, 32, {}});  // ends the records that nothing uses
    Event const writer = submit(runtime, look_codelet, buffer, Access::write);
    for (int i = 0; i < 100; ++i) CHECK_FALSE(runtime.done(writer));
    gate.token.complete();
    runtime.wait_all();
  }
}

TEMPLATE_TEST_CASE("a task in no order holds its region's memory behind a writer of all of it",
                   "[runtime][reordered]", test::Threads, Ring) {
  Gate gate;
  int released = 0;
  std::vector<std::byte> memory(64);
  Release const release{[](void* count) noexcept { ++*static_cast<int*>(count); }, &released};
  TestType runtime(RuntimeOptions{2, false, false});
  auto const buffer = runtime.adopt(std::span(memory), host, release);
  (void)hold(runtime, gate, runtime.region(buffer, {0, 32, {}}), unordered);
  runtime.wait(submit(runtime, look_codelet, buffer, Access::write));
  runtime.retire(buffer);
  runtime.wait(submit(runtime, look_codelet, written(runtime, 8), Access::read));
  CHECK(released == 0);
  gate.token.complete();
  while (released == 0) runtime.wait_all();
}

TEMPLATE_LIST_TEST_CASE("a task in no order holds its buffer, however many others there are",
                        "[runtime][reordered]", Threaded) {
  Gate gate;
  int released = 0;
  std::vector<std::byte> memory(64);
  Release const release{[](void* count) noexcept { ++*static_cast<int*>(count); }, &released};
  TestType runtime(RuntimeOptions{2, false, false});
  auto const held = runtime.adopt(std::span(memory), host, release);
  auto const other = written(runtime, 64);
  (void)hold(runtime, gate, held, unordered);
  Event last;
  for (int i = 0; i < 200; ++i) last = submit(runtime, look_codelet, other, unordered);
  runtime.retire(held);
  runtime.wait(last);
  CHECK(released == 0);
  gate.token.complete();
  runtime.wait_all();
  CHECK(released == 1);
}

TEMPLATE_LIST_TEST_CASE("a lock wakes when the last reader before a group of writers has ended",
                        "[runtime][reordered]", Threaded) {
  Gate readers[2], rescue;
  std::atomic<bool> locked{false};
  TestType runtime(RuntimeOptions{2, true, false});
  auto const buffer = written(runtime, 64), other = written(runtime, 64);
  for (Gate& reader : readers) (void)hold(runtime, reader, buffer, Access::read);
  (void)hold(runtime, rescue, other, update);
  (void)submit(runtime, set_codelet, buffer, write_disjoint, 1);
  bool woke = false;
  std::thread outside([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    for (Gate& reader : readers) reader.token.complete();
    for (int i = 0; i < 10'000 && !locked; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    woke = locked;
    auto const poll = [](void*, Completion token) { return token.complete(), true; };
    rescue.token.poll(poll, nullptr);  // wakes a driver that still sleeps
  });
  (void)runtime.lock(buffer, Access::read);
  locked = true;
  runtime.unlock(buffer);
  outside.join();
  CHECK(woke);
  runtime.wait_all();
}

TEST_CASE("tasks of a body write disjoint bytes at one time in the ring", "[runtime][reordered]") {
  for (int const workers : {1, 2}) {
    Ring ring({.workers = workers});
    auto const buffer = ring.allocate(64);
    Gate gate, other;
    bool early = false;
    auto const body = [&](auto& nested) {
      submit(nested, set_codelet, buffer, Access::write, 0);
      (void)hold(nested, gate, buffer, write_disjoint);
      for (int at = 1; at < 20; ++at)
        nested.wait(submit(nested, set_codelet, buffer, write_disjoint, at));
      Event const reader = submit(nested, look_codelet, buffer, Access::read);
      early = nested.done(reader);
      gate.token.complete();
      nested.wait(reader);
      (void)hold(nested, other, buffer, update);
      nested.wait(submit(nested, look_codelet, buffer, unordered));
      other.token.complete();
    };
    ring.orchestrate(body, Use<DataHandle>{buffer, Access::write});
    ring.wait_all();
    CHECK(!early);
    CHECK(static_cast<int>(ring.lock(buffer, Access::read)[19]) == 19);
    ring.unlock(buffer);
  }
}

TEMPLATE_LIST_TEST_CASE("a task that submits passes its access on", "[runtime][reordered]", All) {
  TestType runtime(RuntimeOptions{1, false, false});
  auto const parts = runtime.allocate(64), free = written(runtime, 64);
  std::array<std::string, 3> errors;
  for (int outer = 0; outer < 4; ++outer) {
    auto const body = [&errors, parts, free, outer](auto& nested) {
      for (int at = 0; at < 16; ++at)
        submit(nested, set_codelet, parts, write_disjoint, 16 * outer + at);
      submit(nested, look_codelet, free, unordered);
      errors[0] =
          test::message_of<ValueError>([&] { submit(nested, look_codelet, parts, update); });
      errors[1] = test::message_of<ValueError>([&] { submit(nested, look_codelet, free, update); });
      errors[2] = test::message_of<ValueError>([&] { (void)nested.lock(parts, write_disjoint); });
    };
    runtime.orchestrate(body, Use<DataHandle>{parts, write_disjoint},
                        Use<DataHandle>{free, unordered});
  }
  runtime.wait_all();
  for (auto const& error : errors) CHECK(error != "");
  CHECK(static_cast<int>(runtime.lock(parts, Access::read)[63]) == 63);
  runtime.unlock(parts);
}

TEST_CASE("what shares bytes with a region keeps its order with it, whatever its group",
          "[runtime][reordered]") {
  Ring ring({.workers = 2, .own_driver = true});
  auto const buffer = written(ring, 64);
  auto const low = ring.region(buffer, {0, 32, {}}), high = ring.region(buffer, {32, 32, {}});
  Gate gate;
  (void)hold(ring, gate, low, write_disjoint);
  ring.wait(submit(ring, look_codelet, high, update));
  ring.wait(submit(ring, look_codelet, low, write_disjoint));
  ring.wait(submit(ring, look_codelet, buffer, unordered));
  ring.wait(submit(ring, look_codelet, low, unordered));
  Event const whole = submit(ring, look_codelet, buffer, write_disjoint);
  Event const reader = submit(ring, look_codelet, low, Access::read);
  CHECK(!ring.done(whole));
  CHECK(!ring.done(reader));
  gate.token.complete();
  ring.wait_all();
}

TEST_CASE("a program that begins in no order is as ordered as its other tasks",
          "[runtime][reordered]") {
  Ring ring({.workers = 2, .own_driver = true});
  auto const buffer = ring.allocate(64);
  Use<Binding> const free[] = {{0, unordered}}, reads[] = {{0, Access::read}},
                     parts[] = {{0, write_disjoint}};
  ProgramTask const tasks[] = {{&look_codelet, free, {}, {}, {}},
                               {&look_codelet, reads, {}, {}, {}}};
  auto const program = ring.record(tasks, 1, {});
  DataHandle const bound[] = {buffer};
  ring.wait(ring.replay(program, bound, {}));
  Gate gate;
  (void)hold(ring, gate, buffer, update);
  Event const replay = ring.replay(program, bound, {});
  CHECK(!ring.done(replay));
  gate.token.complete();
  ring.wait(replay);

  auto const fresh = ring.allocate(64);
  DataHandle const unwritten[] = {fresh};
  ProgramTask const writers[] = {{&look_codelet, parts, {}, {}, {}},
                                 {&look_codelet, reads, {}, {}, {}}};
  ring.wait(ring.replay(ring.record(writers, 1, {}), unwritten, {}));
  (void)ring.lock(fresh, Access::read);
  ring.unlock(fresh);
}
