// SPDX-License-Identifier: BSD-3-Clause
// Random programs of tasks on the host and on devices, late ones and some whose calls fail: values,
// failures and cancellations are those of the same program on the host alone, one task at a time,
// where the same tasks fail. NNTILE_DEVICE_PROGRAMS says how many.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <type_traits>
#include <vector>

#include "tests/support/catch.hh"
#include "tests/support/device_runtimes.hh"
#include "tests/support/sanitized.hh"
#include "tests/testing/device_programs.hh"

using namespace nntile;
using namespace nntile::test;
using testing::EmulatedCall;
using testing::EmulatedFault;
using testing::EmulatedOptions;

namespace {

/// A call that fails, once or for good, for two programs of four.
EmulatedFault fault_of(std::uint64_t seed) {
  if (seed % 4 < 2) return {};
  std::uint64_t const bits = mix_bits(seed);
  auto const call = EmulatedCall(1 + bits % (testing::emulated_calls - 1));
  std::uint64_t const most = call == EmulatedCall::allocate ? 8 : 100;
  return {call, 1 + static_cast<int>(bits / 64 % most), seed % 4 == 3};
}

int programs() {
  char const* const asked = std::getenv("NNTILE_DEVICE_PROGRAMS");
  return asked != nullptr ? std::atoi(asked) : sanitized ? 12 : 50;
}

/// A thread that asks what is waited for, while it lives: it holds tokens while it reads their
/// names, so that it may be the one that ends a task.
template <class R> class Asking {
 public:
  Asking(R& runtime, bool asks) {
    if (!asks) return;
    thread_ = std::thread([this, &runtime] {
      while (!over_) (void)runtime.waiting_for();
    });
  }
  ~Asking() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace

TEMPLATE_LIST_TEST_CASE("random programs on devices leave what the host alone leaves",
                        "[testing][device_random]", DeviceRuntimes) {
  int failures = 0, losses = 0;
  for (int program = 1; program <= programs(); ++program) {
    auto const seed = static_cast<std::uint64_t>(program);
    int const devices = 1 << (program % 3);
    EmulatedFault const fault = fault_of(seed);
    CAPTURE(devices, seed, fault.call, fault.at, fault.lasts);
    std::vector<Place> places{host, pinned};
    for (int i = 0; i < devices; ++i) places.push_back(device(i));
    auto const steps = draw_steps(seed, devices + 2, seed % 4 == 1 ? 5 : 0);
    bool const alone = std::is_same_v<TestType, SerialOn<testing::EmulatedDevice>>;
    TestType runtime(
        RuntimeOptions{.workers = alone ? 1 : 1 + program / 3 % 2},
        EmulatedOptions{
            .devices = devices, .seed = seed, .longest_delay_ns = 20'000, .fault = fault});
    Outcome got;
    {
      Asking const asking(runtime, program % 2 == 1);
      got = run_steps(runtime, steps, places);
    }
    Serial oracle;
    CHECK(got == run_steps(oracle, steps, std::vector<Place>(places.size(), host), got));
    for (int i = 0; i < devices; ++i) CHECK(runtime.device().memory().used(i) == 0);
    auto const failed_tasks = std::count(got.tasks.begin(), got.tasks.end(), failed);
    if (seed % 4 == 2 && failed_tasks == 1) ++failures;
    if (seed % 4 == 3 && failed_tasks > 1) ++losses;
    if (fault.call == EmulatedCall::none && seed % 4 == 0) CHECK(failed_tasks == 0);
  }
  CHECK(failures >= programs() / 16);  // calls of a fault may not be made that often
  CHECK(losses >= programs() / 16);
}
