// SPDX-License-Identifier: BSD-3-Clause
// Calls of devices that fail, once or for good.
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

}  // namespace

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
