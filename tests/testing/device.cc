// SPDX-License-Identifier: BSD-3-Clause
// Tasks on emulated devices.
#include "nntile/testing/device.hh"

#include <atomic>
#include <climits>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nntile/runtime/dynamic/dynamic.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"
#include "tests/support/device_runtimes.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;
using testing::EmulatedDevice;
using testing::EmulatedOptions;

namespace {

constexpr Place on(int number) { return {Place::Kind::device, number}; }

template <class R> Event copy(R& runtime, typename R::Handle from, typename R::Handle to) {
  return submit(runtime, copy_codelet, {{from, Access::read}, {to, Access::write}},
                std::int64_t{sizeof(long)});
}

/// Whether f throws an Error whose text has all these parts.
template <class Error, class F> bool says(F f, auto... parts) {
  std::string const text = message_of<Error>(f);
  INFO(text);
  return (contains(text, parts) && ...);
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("a task whose buffer lives on a device runs there", "[testing][device]",
                        DeviceRuntimes) {
  TestType runtime(RuntimeOptions{}, EmulatedOptions{.seed = 1});
  auto const source = cell(runtime, 5), result = cell(runtime);
  auto const there = runtime.allocate(sizeof(long), on(0));
  copy(runtime, source, there);
  submit(runtime, step_codelet, {{there, Access::update}}, 2L);
  copy(runtime, there, result);
  CHECK(read(runtime, result) == 17);
  CHECK(runtime.device().memory().used(0) == sizeof(long));
  runtime.retire(there);
  runtime.wait_all();
  CHECK(runtime.device().memory().used(0) == 0);
}

TEMPLATE_LIST_TEST_CASE("the host locks no memory of a device, and is told to copy it",
                        "[testing][device]", DeviceRuntimes) {
  TestType runtime;
  auto const there = runtime.allocate(sizeof(long), on(0));
  for (Access const access : {Access::read, Access::write, Access::update})
    CHECK(says<ValueError>([&] { (void)runtime.lock(there, access); }, "lives on device 0",
                           "copy_codelet"));
  auto const reached = runtime.allocate(sizeof(long), pinned);
  runtime.lock(reached, Access::write);
  runtime.unlock(reached);
}

TEMPLATE_LIST_TEST_CASE("a place that a runtime with devices lacks is refused", "[testing][device]",
                        DeviceRuntimes) {
  TestType runtime(RuntimeOptions{}, EmulatedOptions{.devices = 2});
  for (Place const place : {on(2), on(-1), Place{Place::Kind::disk}, Place{Place::Kind::pinned, 1}})
    CHECK(says<ValueError>([&] { (void)runtime.allocate(8, place); }, "2 devices"));
  (void)runtime.allocate(8, on(1));
}

TEST_CASE("emulated devices that cannot be are refused", "[testing][device]") {
  auto const refusal = [](EmulatedOptions const& options) {
    return message_of<ValueError>([&] { EmulatedDevice const device(options); });
  };
  CHECK(refusal({.devices = 0}) == "emulated devices: 0 of them; there must be at least 1");
  CHECK(refusal({.devices = -1}) == "emulated devices: -1 of them; there must be at least 1");
  CHECK(refusal({.lanes = 0}) == "emulated devices: 0 lanes; there must be at least 1");
  CHECK(refusal({.devices = 65'536, .lanes = 65'536}) ==
        "emulated devices: 65536 of 65536 lanes each; 32768 lanes in all are possible");
  CHECK(refusal({.lanes = INT_MAX}) != "");
  CHECK(refusal({.seed = 1, .longest_delay_ns = -1}) ==
        "emulated devices: delays of up to -1 ns; 0 (none) or more");
  CHECK(refusal({.fault = {testing::EmulatedCall::job, 0}}) ==
        "emulated devices: a fault at call 0 of its kind; they count from 1");
  CHECK(refusal({.machine = {.peak = 0}}) == "emulated devices: a peak of 0 flop/s; above 0");
  CHECK(refusal({.host = {.peak = -1}}) ==
        "emulated devices: a host of a peak of -1 flop/s; above 0");
  CHECK(refusal({.link = {.bandwidth = 0}}) ==
        "emulated devices: a link of a bandwidth of 0 bytes/s; above 0");
}

TEMPLATE_LIST_TEST_CASE("a device has a capacity", "[testing][device]", DeviceRuntimes) {
  TestType runtime(RuntimeOptions{}, EmulatedOptions{.devices = 2, .capacity = 4096});
  auto const all = runtime.allocate(4096, on(0));
  CHECK(says<OutOfMemory>([&] { (void)runtime.allocate(1, on(0)); }, "device 0", "4096"));
  (void)runtime.allocate(4096, on(1));
  runtime.retire(all);
  (void)runtime.allocate(4096, on(0));
  CHECK(runtime.device().memory().peak(0) == 4096);
}

TEST_CASE("a device without a limit has no more addresses than there are", "[testing][device]") {
  EmulatedDevice device({.capacity = SIZE_MAX});
  for (std::size_t const bytes : {SIZE_MAX, SIZE_MAX - 4096, SIZE_MAX - 8192, SIZE_MAX / 2})
    CHECK(contains(message_of<OutOfMemory>([&] { (void)device.allocate(bytes, on(0)); }),
                   "no addresses"));
  void* const there = device.allocate(8, on(0));
  CHECK(device.place_of(there) == on(0));
  device.free(there, 8, on(0));
}

namespace {

struct NamedOnDevice : BasicSerial<EmulatedDevice> {
  using BasicSerial::BasicSerial;
  static constexpr char const* runtime_name = "serial on a device";
};

}  // namespace

TEST_CASE("a runtime that is chosen by name is given what is for its devices",
          "[testing][device]") {
  using Any = Dynamic<Serial, NamedOnDevice>;
  EmulatedOptions const two{.devices = 2};
  Any one("serial on a device", {}), both("serial on a device", {}, two), none("serial", {}, two);
  both.retire(both.allocate(8, on(1)));
  CHECK(says<ValueError>([&] { (void)one.allocate(8, on(1)); }, "1 device"));
  CHECK(says<ValueError>([&] { (void)none.allocate(8, on(1)); }, "the host only"));
}

TEMPLATE_LIST_TEST_CASE("a device counts what it has copied by direction", "[testing][device]",
                        DeviceRuntimes) {
  TestType runtime(RuntimeOptions{}, EmulatedOptions{.devices = 2});
  auto const here = cell(runtime, 5), back = cell(runtime);
  auto const a = runtime.allocate(sizeof(long), on(0)), b = runtime.allocate(sizeof(long), on(1));
  std::vector<testing::EmulatedTraffic> const nothing;
  CHECK(runtime.device().copies().take() == nothing);
  copy(runtime, here, a);
  submit(runtime, step_codelet, {{a, Access::update}}, 2L);  // not a copy
  copy(runtime, a, b);
  runtime.wait(copy(runtime, b, back));
  runtime.wait(copy(runtime, b, back));
  std::int64_t const bytes = sizeof(long);
  CHECK(runtime.device().copies().take() ==
        std::vector<testing::EmulatedTraffic>{
            {host, on(0), 1, bytes}, {on(0), on(1), 1, bytes}, {on(1), host, 2, 2 * bytes}});
  CHECK(runtime.device().copies().take() == nothing);
}

TEMPLATE_LIST_TEST_CASE("a task that no device can run, or on two of them, is refused",
                        "[testing][device]", DeviceRuntimes) {
  TestType runtime(RuntimeOptions{}, EmulatedOptions{.devices = 2});
  auto const a = runtime.allocate(sizeof(long), on(0)), b = runtime.allocate(sizeof(long), on(1));
  submit(runtime, put_codelet, {{a, Access::write}}, 1L);
  TokenKeeper keeper;
  CHECK(says<ValueError>([&] { submit(runtime, keep_codelet, {{a, Access::update}}, &keeper); },
                         "no entry for a device", "device 0"));
  CHECK(says<ValueError>(
      [&] { submit(runtime, copy_cell_codelet, {{b, Access::write}, {a, Access::read}}, 0L); },
      "device 1 and of 0", "copy"));
  auto const result = cell(runtime);
  copy(runtime, a, b);
  copy(runtime, b, result);
  CHECK(read(runtime, result) == 1);
}

TEMPLATE_LIST_TEST_CASE("a task that fails on a device marks what it writes", "[testing][device]",
                        DeviceRuntimes) {
  TestType runtime(RuntimeOptions{}, EmulatedOptions{.seed = 2});
  auto const a = runtime.allocate(sizeof(long), on(0)), result = cell(runtime);
  auto const other = runtime.allocate(sizeof(long), on(0));
  Event const failed = submit(runtime, fail_codelet, {{a, Access::write}}, 0L);
  Event const cancelled = copy(runtime, a, result);
  submit(runtime, put_codelet, {{other, Access::write}}, 4L);
  CHECK(says<TaskError>([&] { runtime.wait(failed); }, "broken", "it broke"));
  CHECK_THROWS_AS(runtime.wait(cancelled), TaskError);
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
  submit(runtime, put_codelet, {{a, Access::write}}, 3L);
  copy(runtime, a, result);
  runtime.wait_all();
  CHECK(read(runtime, result) == 3);
}

TEMPLATE_LIST_TEST_CASE("copies that are held until others have ended keep their order",
                        "[testing][device]", DeviceRuntimes) {
  TestType runtime(RuntimeOptions{}, EmulatedOptions{.seed = 4, .longest_delay_ns = 20'000});
  constexpr int length = 12;
  std::vector<DataHandle> chain, beside, results;
  for (int i = 0; i < length; ++i) {
    chain.push_back(runtime.allocate(sizeof(long), on(0)));
    beside.push_back(runtime.allocate(sizeof(long), on(0)));
    results.push_back(cell(runtime));
  }
  auto const source = cell(runtime, 7);
  for (int round = 0; round < 10; ++round) {
    for (auto const there : beside) copy(runtime, source, there);
    copy(runtime, source, chain[0]);
    for (std::size_t i = 1; i < length; ++i) copy(runtime, chain[i - 1], chain[i]);
    submit(runtime, step_codelet, {{chain.back(), Access::update}}, 1L);
    copy(runtime, chain.back(), source);
    for (std::size_t i = 0; i < length; ++i) copy(runtime, beside[i], results[i]);
  }
  long expected = 7, before = 0;
  for (int round = 0; round < 10; ++round) before = std::exchange(expected, 3 * expected + 1);
  CHECK(read(runtime, source) == expected);
  for (auto const result : results) CHECK(read(runtime, result) == before);
}

using Replaying = std::tuple<SerialOn<EmulatedDevice>, RingOn<EmulatedDevice>>;
TEMPLATE_LIST_TEST_CASE("programs replay on devices", "[testing][device]", Replaying) {
  TestType runtime(RuntimeOptions{}, EmulatedOptions{.seed = 3});
  long const value = 1;
  std::int64_t const bytes = sizeof(long);
  Use<Binding> const up[] = {{0, Access::read}, {1, Access::write}}, step[] = {{1, Access::update}},
                     down[] = {{1, Access::read}, {0, Access::write}};
  auto const argument = [](auto const& of) { return std::as_bytes(std::span(&of, 1)); };
  ProgramTask const tasks[] = {{&copy_codelet, up, argument(bytes), {}, {}},
                               {&step_codelet, step, argument(value), {}, {}},
                               {&copy_codelet, down, argument(bytes), {}, {}}};
  auto const program = runtime.record(tasks, 2);
  DataHandle const bindings[] = {cell(runtime, 1), runtime.allocate(sizeof(long), on(0))};
  for (int i = 0; i < 5; ++i) runtime.replay(program, bindings);
  CHECK(read(runtime, bindings[0]) == 364);
}

TEMPLATE_LIST_TEST_CASE("tasks of a stream are launched before those before them have ended",
                        "[testing][device]", DeviceRuntimes) {
  TestType runtime(RuntimeOptions{});
  auto const there = runtime.allocate(sizeof(long), on(0)), result = cell(runtime);
  std::atomic<bool> open{false};
  static constexpr Codelet gate{
      .name = "gate", .cpu = +[](KernelCall const& call) noexcept -> Status {
        auto* const opened = *static_cast<std::atomic<bool>* const*>(call.arguments);
        while (!*opened) nntile::detail::yield_core();
        cell_of(call, 0) = 1;
        return {};
      }};
  submit(runtime, gate, {{there, Access::write}}, &open);
  Event last{};
  for (int i = 0; i < 9; ++i) last = submit(runtime, step_codelet, {{there, Access::update}}, 1L);
  while (runtime.device().marks({0, 0}) != 10) (void)runtime.done(last);
  CHECK_FALSE(runtime.done(last));
  Event const copied = copy(runtime, there, result);  // on another lane: waits for the end
  CHECK(runtime.device().marks({0, 1}) == 0);
  open = true;
  runtime.wait(copied);
  CHECK(read(runtime, result) == 29524);
}

TEMPLATE_LIST_TEST_CASE("memory is adopted where it is, and nowhere else", "[testing][device]",
                        DeviceRuntimes) {
  TestType runtime(RuntimeOptions{}, EmulatedOptions{.devices = 2});
  std::vector<long> values(2, 3);
  auto const bytes = std::as_writable_bytes(std::span(values));
  auto& device = runtime.device();
  auto* const there = static_cast<std::byte*>(device.allocate(bytes.size(), on(1)));
  CHECK(says<ValueError>([&] { (void)runtime.adopt(bytes, on(0)); },
                         "adopt: 16 bytes as memory of device 0, and they are memory of the host",
                         "copy_codelet"));
  for (Place const wrong : {host, pinned, on(0)})
    CHECK(says<ValueError>([&] { (void)runtime.adopt(std::span(there, bytes.size()), wrong); },
                           "and they are memory of device 1: adopt them there"));
  auto const own = runtime.adopt(bytes);
  auto const its = runtime.adopt(std::span(there, bytes.size()), on(1));
  auto const result = cell(runtime);
  copy(runtime, own, its);
  copy(runtime, its, result);
  CHECK(read(runtime, result) == 3);
  runtime.retire(its);
  runtime.wait_all();
  device.free(there, bytes.size(), on(1));
  CHECK(says<ValueError>([&] { (void)runtime.adopt(std::span(there, bytes.size())); },
                         "memory of a device, and was freed"));
}
