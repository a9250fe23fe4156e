// SPDX-License-Identifier: BSD-3-Clause
// Adaptors that keep a log, where there is no memory for it: a call that throws has done nothing.
#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "nntile/runtime/adaptors/check.hh"
#include "nntile/runtime/adaptors/record.hh"
#include "nntile/runtime/adaptors/transcribe.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// Makes calls of every kind, each once more where the `passes`-th allocation is refused; returns
/// what the tasks have left.
template <class R> long make_calls(R& runtime, long passes, long& memory) {
  typename R::Handle a, b;
  memory = 0;
  Retry retry;
  (void)fail_new_after(passes);
  retry([&] { a = runtime.allocate(sizeof(long)); });
  retry([&] { std::ranges::fill(runtime.lock(a, Access::write), std::byte{}); });
  retry([&] { runtime.unlock(a); });
  retry([&] { b = runtime.adopt(std::as_writable_bytes(std::span(&memory, 1))); });
  retry([&] { runtime.open_scope(Lifetime::step); });
  for (int i = 0; i < 5; ++i)
    retry([&] {
      submit(runtime, step_codelet, {{b, Access::update}}, 1, {"a long name of a tensor", i});
    });
  retry([&] { runtime.close_scope(Lifetime::step); });
  retry([&] { runtime.wait_all(); });
  retry([&] { runtime.retire(a); });
  (void)fail_new_after(-1);
  return memory;
}
constexpr long five_steps = 1 + 3 + 9 + 27 + 81;  // of x * 3 + 1

}  // namespace

TEST_CASE("a transcript has each call that was made, whatever memory there was",
          "[runtime][adaptors]") {
  long memory = 0, other = 0;
  Transcribe<Serial> whole;
  REQUIRE(make_calls(whole, -1, memory) == five_steps);
  Transcript const expected = whole.transcript();
  for (long passes = 0; passes < 80; ++passes) {
    Transcribe<Serial> runtime;
    INFO(passes);
    CHECK(make_calls(runtime, passes, other) == five_steps);
    CHECK(runtime.transcript() == expected);
  }
}

TEST_CASE("a record has each call that was made, whatever memory there was",
          "[runtime][adaptors]") {
  long memory = 0, other = 0;
  Record<Serial> whole;
  REQUIRE(make_calls(whole, -1, memory) == five_steps);
  for (long passes = 0; passes < 60; ++passes) {
    Record<Serial> runtime;
    INFO(passes);
    CHECK(make_calls(runtime, passes, other) == five_steps);
    CHECK(runtime.log() == whole.log());
    CHECK(runtime.counts() == whole.counts());
  }
}

TEST_CASE("check adopts memory once, whatever memory there was", "[runtime][adaptors]") {
  for (long passes = 0; passes < 100; ++passes) {
    long memory = 0;
    Check<Serial> runtime;
    for (long before = 0; before < passes / 10; ++before) (void)runtime.allocate(1);
    Check<Serial>::Handle handle;
    Retry retry;
    (void)fail_new_after(passes % 10);
    retry([&] { handle = runtime.adopt(std::as_writable_bytes(std::span(&memory, 1))); });
    (void)fail_new_after(-1);
    INFO(passes);
    submit(runtime, step_codelet, {{handle, Access::update}}, 1);
    CHECK(memory == 1);
  }
}
