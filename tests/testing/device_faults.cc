// SPDX-License-Identifier: BSD-3-Clause
// Calls of devices that fail, once or for good, and devices that do not keep their law.
#include <cstring>
#include <optional>
#include <vector>

#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"
#include "tests/support/device_runtimes.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;
using testing::EmulatedCall;
using testing::EmulatedFault;
using testing::EmulatedOptions;

namespace {

constexpr Place on(int number) { return {Place::Kind::device, number}; }
std::int64_t const bytes = sizeof(long);

/// result = 3 * (3 * 1 + 2) + 2, by two devices and the host; false where a call threw.
template <class R> bool run(R& runtime, DataHandle result) {
  try {
    auto const here = cell(runtime), first = runtime.allocate(sizeof(long), on(0)),
               second = runtime.allocate(sizeof(long), on(1));
    submit(runtime, put_codelet, {{here, Access::write}}, 1L);
    submit(runtime, copy_codelet, {{here, Access::read}, {first, Access::write}}, bytes);
    submit(runtime, step_codelet, {{first, Access::update}}, 2L);
    submit(runtime, copy_codelet, {{first, Access::read}, {second, Access::write}}, bytes);
    submit(runtime, step_codelet, {{second, Access::update}}, 2L);
    submit(runtime, copy_codelet, {{second, Access::read}, {result, Access::write}}, bytes);
    runtime.wait_all();
    for (DataHandle const handle : {here, first, second}) runtime.retire(handle);
    return true;
  } catch (Error const&) {
    return false;
  }
}

/// A device of no memory.
struct Full : testing::EmulatedDevice {
  using EmulatedDevice::EmulatedDevice;
  void* allocate(std::size_t, Place) { return nullptr; }
};
/// Gives these counts of devices, and of streams of each.
struct Counted : testing::EmulatedDevice {
  static inline int its_devices = 1, its_lanes = 1;
  int devices() const { return its_devices; }
  int lanes() const { return its_lanes; }
};
/// Writes a text before it knows whether there is an error.
struct Noting : testing::EmulatedDevice {
  Status launch(Stream stream, DeviceJob const& job, char* text) noexcept {
    std::strcpy(text, "about to be launched");
    return EmulatedDevice::launch(stream, job, text);
  }
};
/// Says that a job has failed, and not why.
struct Silent : testing::EmulatedDevice {
  StreamProgress query(Stream stream, std::uint64_t mark, char*) noexcept {
    char text[status_text_bytes];
    bool const runs = EmulatedDevice::query(stream, mark, text) == StreamProgress::running;
    return runs ? StreamProgress::running : StreamProgress::failed;
  }
};
template <Device D> using On = std::tuple<SerialOn<D>, EngineOn<D>, RingOn<D>>;

/// A task on device 0.
template <class R> Event put_there(R& runtime, DataHandle there) {
  return submit(runtime, put_codelet, {{there, Access::write}}, 4L);
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("a device that gives a null pointer has no memory",
                        "[testing][device_faults]", On<Full>) {
  TestType runtime;
  for (Place const place : {on(0), pinned})
    CHECK(contains(message_of<OutOfMemory>([&] { (void)runtime.allocate(8, place); }),
                   concat("allocate: 8 bytes on ", to_string(place))));
}

TEMPLATE_LIST_TEST_CASE("numbers of devices and of their streams that cannot be are refused",
                        "[testing][device_faults]", On<Counted>) {
  for (auto const& [devices, lanes] :
       {std::pair(-1, 1), {1, 0}, {1, -2}, {0, 0}, {65'536, 65'536}}) {
    Counted::its_devices = devices, Counted::its_lanes = lanes;
    CHECK(contains(message_of<ValueError>([] { TestType runtime; }),
                   concat("devices()=", devices, " and lanes()=", lanes)));
  }
}

TEMPLATE_LIST_TEST_CASE("the text of a launch that went well says nothing",
                        "[testing][device_faults]", On<Noting>) {
  TestType runtime;
  auto const there = runtime.allocate(sizeof(long), on(0)), result = cell(runtime);
  CHECK_NOTHROW(runtime.wait(put_there(runtime, there)));
  submit(runtime, copy_codelet, {{there, Access::read}, {result, Access::write}}, bytes);
  CHECK(read(runtime, result) == 4);
}

TEMPLATE_LIST_TEST_CASE("a device that does not say why a job failed is said to give no reason",
                        "[testing][device_faults]", On<Silent>) {
  TestType runtime;
  Event const event = put_there(runtime, runtime.allocate(sizeof(long), on(0)));
  CHECK(contains(message_of<TaskError>([&] { runtime.wait(event); }),
                 "failed: its device gave no reason"));
}

TEMPLATE_LIST_TEST_CASE("a call of a device that fails once is an error, and the next run is well",
                        "[testing][device_faults]", DeviceRuntimes) {
  for (int call = 1; call < testing::emulated_calls; ++call) {
    if (EmulatedCall(call) == EmulatedCall::query) continue;  // lasts
    bool const allocates = EmulatedCall(call) == EmulatedCall::allocate;
    for (int at = 1; at <= (allocates ? 2 : 5); ++at) {  // all that `run` makes
      CAPTURE(call, at);
      TestType runtime(RuntimeOptions{}, EmulatedOptions{.devices = 2,
                                                         .seed = 5,
                                                         .longest_delay_ns = 20'000,
                                                         .fault = {EmulatedCall(call), at}});
      auto const result = cell(runtime);
      CHECK_FALSE(run(runtime, result));
      if (!allocates) CHECK_THROWS_AS(read(runtime, result), TaskError);
      REQUIRE(run(runtime, result));
      CHECK(read(runtime, result) == 17);
    }
  }
}

TEMPLATE_LIST_TEST_CASE("a device that is lost fails its tasks with one sentence, and no others",
                        "[testing][device_faults]", DeviceRuntimes) {
  for (int call = 1; call < testing::emulated_calls; ++call)
    for (int at = 1; at <= 3; ++at) {
      CAPTURE(call, at);
      EmulatedFault const fault{EmulatedCall(call), at, true};
      std::optional<TestType> runtime;
      runtime.emplace(
          RuntimeOptions{},
          EmulatedOptions{.devices = 2, .seed = 6, .longest_delay_ns = 20'000, .fault = fault});
      auto const result = cell(*runtime), other = cell(*runtime);
      std::optional<DataHandle> there;
      if (call != int(EmulatedCall::allocate)) there = runtime->allocate(sizeof(long), on(0));
      if (run(*runtime, result)) continue;  // there are two allocations
      if (there)
        CHECK(contains(message_of<TaskError>([&] {
                         submit(*runtime, put_codelet, {{*there, Access::write}}, 1L);
                         runtime->wait_all();
                       }),
                       "the devices are lost: it was told to fail"));
      CHECK(contains(message_of<DeviceError>([&] { (void)runtime->allocate(8, on(1)); }),
                     "the devices are lost"));
      submit(*runtime, put_codelet, {{other, Access::write}}, 4L);
      CHECK(read(*runtime, other) == 4);
      runtime.reset();
      TestType next(RuntimeOptions{}, EmulatedOptions{.devices = 2});
      auto const again = cell(next);
      CHECK((run(next, again) && read(next, again) == 17));
    }
}
