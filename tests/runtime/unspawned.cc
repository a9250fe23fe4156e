// SPDX-License-Identifier: BSD-3-Clause
// The engine over an executor that has no memory for jobs.
#include "nntile/runtime/engine/unspawned.hh"

#include <atomic>
#include <cstddef>
#include <new>

#include "nntile/runtime/engine/nest.hh"
#include "tests/runtime/codelets.hh"
#include "tests/runtime/thread_executor.hh"
#include "tests/support/catch.hh"
#include "tests/support/cramped.hh"
#include "tests/support/nesting.hh"
#include "tests/support/sanitized.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// Has no memory for jobs from some moment on.
struct Full : ThreadExecutor {
  using ThreadExecutor::ThreadExecutor;
  void spawn(Job job) {
    if (full) throw std::bad_alloc();
    ThreadExecutor::spawn(job);
  }
  std::atomic<bool> full{false};
};
using FullEngine = Engine<Full>;
constexpr RuntimeOptions alone{1, false, false};
constexpr long tasks = 10'000;

/// Room for a few tasks inside of each other, not for thousands.
constexpr std::size_t stack_bytes = sanitized ? 4 << 20 : 256 << 10;

}  // namespace

TEST_CASE("tasks that an executor does not take run one behind the other", "[runtime][unspawned]") {
  long end = 0;
  call_on_stack_of(stack_bytes, [&] {
    FullEngine runtime(alone);
    TokenKeeper keeper;
    auto const a = cell(runtime, 0);
    Event const pending = submit(runtime, keep_codelet, {updating(a)}, &keeper);
    while (keeper.count() == 0) (void)runtime.done(pending);
    for (long i = 0; i < tasks; ++i)
      submit(runtime, copy_cell_codelet, {updating(a), reading(a)}, 1L);
    runtime.executor().full = true;
    keeper.at(0).complete();
    end = read(runtime, a);
  });
  CHECK(end == tasks);
}

TEST_CASE("so do tasks that submit, and those that they submit", "[runtime][unspawned]") {
  long ends[2] = {};
  call_on_stack_of(stack_bytes, [&] {
    FullEngine runtime(alone);
    TokenKeeper keeper;
    auto const a = cell(runtime, 0), b = cell(runtime, 0);
    Event const pending = submit(runtime, keep_codelet, {updating(a)}, &keeper);
    while (keeper.count() == 0) (void)runtime.done(pending);
    for (long i = 0; i < tasks; ++i)
      runtime.orchestrate(
          [a](auto& nested) { submit(nested, copy_cell_codelet, {updating(a), reading(a)}, 1L); },
          updating(a));
    Event const outer = runtime.orchestrate(
        [b, keeper_address = &keeper](auto& nested) {
          submit(nested, keep_codelet, {updating(b)}, keeper_address);
          for (long i = 0; i < 4000; ++i)
            submit(nested, copy_cell_codelet, {updating(b), reading(b)}, 1L);
        },
        updating(b));
    while (keeper.count() == 1) (void)runtime.done(outer);
    runtime.executor().full = true;
    keeper.at(0).complete();
    ends[0] = read(runtime, a);
    keeper.at(1).complete();
    ends[1] = read(runtime, b);
  });
  CHECK(ends[0] == tasks);
  CHECK(ends[1] == 4000);
}
