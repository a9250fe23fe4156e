// SPDX-License-Identifier: BSD-3-Clause
// Tasks of a stream that are not launched ahead: behind what waits itself, or is on another stream.
#include <atomic>
#include <cstdint>
#include <cstring>

#include "nntile/core/region.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/regions.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"
#include "tests/support/device_runtimes.hh"

using namespace nntile;
using namespace nntile::test;
using testing::EmulatedOptions;

namespace {

constexpr Place there{Place::Kind::device, 0};
constexpr Stream kernels{0, 0}, copies{0, 1};

/// A kernel that runs until it is let through.
struct Gate {
  std::atomic<bool> open{false};
};
constexpr Codelet gate_codelet{.name = "gate",
                               .cpu = +[](KernelCall const& call) noexcept -> Status {
                                 while (!(**static_cast<Gate* const*>(call.arguments)).open)
                                   nntile::detail::yield_core();
                                 cell_of(call, 0) = 1;
                                 return {};
                               }};

template <class R> Event copy(R& runtime, typename R::Handle from, typename R::Handle to) {
  return submit(runtime, copy_codelet, {{from, Access::read}, {to, Access::write}},
                std::int64_t{sizeof(long)});
}

/// Checks that so many kernels and copies are launched and, 2 ms later, no more, nor the event
/// done.
template <class R>
void stays(R& runtime, Event event, std::uint64_t of_kernels, std::uint64_t of_copies) {
  auto const& device = runtime.device();
  while (device.marks(kernels) < of_kernels || device.marks(copies) < of_copies)
    (void)runtime.done(event);
  for (int i = 0; i < 20; ++i) {
    CHECK_FALSE(runtime.done(event));
    nntile::detail::sleep_ns(100'000);
  }
  CHECK(device.marks(kernels) == of_kernels);
  CHECK(device.marks(copies) == of_copies);
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("a copy behind one that waits for another stream waits with it",
                        "[testing][device_behind]", DeviceRuntimes) {
  TestType runtime(RuntimeOptions{}, EmulatedOptions{});
  auto const made = runtime.allocate(sizeof(long), there), taken = runtime.allocate(8, there);
  auto const between = cell(runtime, 5), result = cell(runtime);
  Gate gate;
  Gate* const opens = &gate;
  submit(runtime, gate_codelet, {{made, Access::write}}, opens);
  copy(runtime, made, between);
  Event const last = copy(runtime, between, taken);
  stays(runtime, last, 1, 0);
  gate.open = true;
  copy(runtime, taken, result);
  CHECK(read(runtime, result) == 1);
}

TEMPLATE_LIST_TEST_CASE(
    "a copy of a whole waits for the writers of its parts on other streams, too",
    "[testing][device_behind]", DeviceRuntimes) {
  TestType runtime(RuntimeOptions{}, EmulatedOptions{});
  auto const whole = runtime.allocate(2 * sizeof(long), there);
  auto const result = runtime.allocate(2 * sizeof(long));
  auto const first = runtime.region(whole, {0, sizeof(long), {}});
  auto const second = runtime.region(whole, {sizeof(long), sizeof(long), {}});
  Gate gate;
  Gate* const opens = &gate;
  submit(runtime, gate_codelet, {{first, Access::write}}, opens);
  copy(runtime, cell(runtime, 6), second);
  Event const last = submit(runtime, copy_codelet, {{whole, Access::read}, {result, Access::write}},
                            std::int64_t{2 * sizeof(long)});
  stays(runtime, last, 1, 1);
  gate.open = true;
  auto const bytes = runtime.lock(result, Access::read);
  long values[2];
  std::memcpy(values, bytes.data(), sizeof values);
  runtime.unlock(result);
  CHECK(values[0] == 1);
  CHECK(values[1] == 6);
}

TEMPLATE_LIST_TEST_CASE("memory is freed behind the tasks that are launched",
                        "[testing][device_behind]", DeviceRuntimes) {
  TestType runtime(RuntimeOptions{}, EmulatedOptions{});
  auto const& memory = runtime.device().memory();
  auto const made = runtime.allocate(sizeof(long), there);
  Gate gate;
  Gate* const opens = &gate;
  submit(runtime, gate_codelet, {{made, Access::write}}, opens);
  Event const last = submit(runtime, step_codelet, {{made, Access::update}}, 1L);
  runtime.retire(made);
  stays(runtime, last, 2, 0);
  CHECK(memory.used(0) != 0);
  gate.open = true;
  runtime.wait_all();
  CHECK(memory.used(0) == 0);
}
