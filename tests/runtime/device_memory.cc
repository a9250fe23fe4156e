// SPDX-License-Identifier: BSD-3-Clause
// Tasks of devices for which memory runs short as they begin: they fail, and the ring goes on.
#include <new>
#include <span>
#include <type_traits>

#include "tests/runtime/codelets.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"
#include "tests/support/device_runtimes.hh"

using namespace nntile;
using namespace nntile::test;
using testing::EmulatedDevice;
using testing::EmulatedOptions;
using testing::EmulatedUnifiedDevice;

namespace {

constexpr Codelet end_codelet{"end", nullptr, nullptr,
                              +[](KernelCall const&, Completion token) noexcept -> Status {
                                token.complete();
                                return {};
                              }};
constexpr Place there{Place::Kind::device, 0};

/// Whether a wait throws a failure, or that there is no memory for its words.
template <class Wait> bool throws(Wait wait) {
  try {
    wait();
    return false;
  } catch (TaskError const&) {
  } catch (std::bad_alloc const&) {
  }
  return true;
}

}  // namespace

TEMPLATE_TEST_CASE("a task of a device ends where memory runs short as it begins",
                   "[runtime][device_memory]", RingOn<EmulatedDevice>,
                   RingOn<EmulatedUnifiedDevice>) {
  static constexpr Use<Binding> use[] = {{0, Access::write}};
  ProgramTask const task[] = {{&end_codelet, use, {}, {}, {}}};
  auto const program = TestType::record(task, 1u);
  bool more = allocations_are_counted();
  for (long count = 0; more; ++count) {
    CAPTURE(count);
    TestType ring(RuntimeOptions{1, false, false}, EmulatedOptions{});
    DataHandle const buffer[] = {ring.allocate(sizeof(long), there)};
    Event const event = ring.replay(program, buffer);
    (void)fail_new_after(count);
    bool const first = throws([&] { ring.wait(event); });
    more = fail_new_after(-1) < 0;
    // No host runs the task on memory that it does not reach.
    bool const fails = std::is_same_v<TestType, RingOn<EmulatedDevice>>;
    CHECK((first ? fails || more : !fails));
    (void)throws([&] { ring.wait_all(); });
    (void)throws([&] { ring.wait(ring.replay(program, buffer)); });
    CHECK(throws([&] { ring.wait_all(); }) == fails);
  }
}
