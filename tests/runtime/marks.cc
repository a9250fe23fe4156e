// SPDX-License-Identifier: BSD-3-Clause
// Failure is dataflow.
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <atomic>
#include <span>
#include <vector>

#include "nntile/runtime/adaptors/check.hh"
#include "nntile/runtime/adaptors/record.hh"
#include "nntile/runtime/adaptors/transcribe.hh"
#include "nntile/runtime/dynamic/dynamic.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/unsubmitted.hh"
#include "tests/runtime/codelets.hh"
#include "tests/runtime/models.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

TEMPLATE_TEST_CASE("a failed task marks what it writes, and its readers are cancelled",
                   "[runtime][marks]", NNTILE_TEST_MODELS) {
  TestType runtime;
  auto const a = cell(runtime, 1), b = cell(runtime, 2);
  Event const failed = submit(runtime, fail_codelet, {{a, Access::update}});
  Event const cancelled =
      submit(runtime, copy_cell_codelet, {{b, Access::write}, {a, Access::read}});
  CHECK_THROWS_AS(runtime.wait(failed), TaskError);
  CHECK_THROWS_AS(runtime.wait(cancelled), TaskError);
  CHECK_THROWS_AS(runtime.lock(b, Access::read), TaskError);
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
}

TEMPLATE_TEST_CASE("a task that needs nothing marked runs", "[runtime][marks]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  auto const a = cell(runtime, 1), b = cell(runtime, 2);
  submit(runtime, fail_codelet, {{a, Access::update}});
  Event const fine = submit(runtime, step_codelet, {{b, Access::update}}, 1L);
  runtime.wait(fine);
  CHECK(read(runtime, b) == 7);
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
}

TEMPLATE_TEST_CASE("a complete write clears the mark, and only that", "[runtime][marks]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  auto const a = cell(runtime, 1);
  submit(runtime, fail_codelet, {{a, Access::write}});
  Event const cancelled = submit(runtime, step_codelet, {{a, Access::update}}, 1L);
  CHECK_THROWS_AS(runtime.wait(cancelled), TaskError);
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
  CHECK_THROWS_AS(runtime.lock(a, Access::update), TaskError);  // reporting clears nothing
  submit(runtime, put_codelet, {{a, Access::write}}, 8L);
  CHECK(read(runtime, a) == 8);
  runtime.wait_all();
}

TEMPLATE_TEST_CASE("a lock for write clears the mark at unlock", "[runtime][marks]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  auto const a = cell(runtime, 1);
  submit(runtime, fail_codelet, {{a, Access::write}});
  *reinterpret_cast<long*>(runtime.lock(a, Access::write).data()) = 6;
  runtime.unlock(a);
  CHECK(read(runtime, a) == 6);
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
}

TEMPLATE_TEST_CASE("a cancelled task that would have overwritten marks its target",
                   "[runtime][marks]", NNTILE_TEST_MODELS) {
  TestType runtime;
  auto const a = cell(runtime, 1), b = cell(runtime, 2);
  submit(runtime, fail_codelet, {{a, Access::write}});
  submit(runtime, copy_cell_codelet, {{b, Access::write}, {a, Access::read}});
  submit(runtime, put_codelet, {{a, Access::write}}, 3L);
  CHECK_THROWS_AS(runtime.lock(b, Access::read), TaskError);
  CHECK(read(runtime, a) == 3);
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
}

TEMPLATE_TEST_CASE("an accumulate runs over a mark and leaves it standing", "[runtime][marks]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  auto const a = cell(runtime, 1);
  submit(runtime, fail_codelet, {{a, Access::update}});
  Event const added = submit(runtime, step_codelet, {{a, Access::accumulate}}, 1L);
  runtime.wait(added);
  CHECK_THROWS_AS(runtime.lock(a, Access::read), TaskError);
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
}

TEMPLATE_TEST_CASE("wait_all reports the oldest failure, counts the others, and forgets",
                   "[runtime][marks]", NNTILE_TEST_MODELS) {
  TestType runtime;
  auto const a = cell(runtime, 1), b = cell(runtime, 2), c = cell(runtime, 3);
  Event const first = submit(runtime, fail_codelet, {{a, Access::update}}, 0L, {"weights", 4});
  submit(runtime, fail_codelet, {{b, Access::update}});
  for (int i = 0; i < 3; ++i)
    submit(runtime, copy_cell_codelet, {{c, Access::write}, {a, Access::read}});
  std::string const text = message_of<TaskError>([&] { runtime.wait_all(); });
  for (auto const* const piece :
       {"broken", "'weights'", "tile 4", "it broke", "1 failed", "3 were cancelled"}) {
    INFO(text);
    CHECK(contains(text, piece));
  }
  runtime.wait_all();
  runtime.wait(first);
}

TEMPLATE_TEST_CASE("the error of a cancelled task names itself and the cause", "[runtime][marks]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  auto const a = cell(runtime, 1), b = cell(runtime, 2);
  Event const failed = submit(runtime, fail_codelet, {{a, Access::update}}, 0L, {"h", 2});
  Event const cancelled =
      submit(runtime, copy_cell_codelet, {{b, Access::write}, {a, Access::read}});
  try {
    runtime.wait(cancelled);
    FAIL("wait did not throw");
  } catch (TaskError const& error) {
    CHECK(error.cancelled());
    CHECK(error.sequence() == cancelled.sequence);
    for (auto const* const piece : {"copy", "cancelled", "broken", "'h'", "tile 2", "it broke"})
      CHECK(contains(error.what(), piece));
    CHECK(contains(error.what(), concat("task ", failed.sequence)));
  }
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
}

TEMPLATE_TEST_CASE("a failure in words of the call's own is kept", "[runtime][marks]",
                   NNTILE_TEST_MODELS) {
  static constexpr Codelet wordy{"wordy",
                                 +[](KernelCall const& call) noexcept -> Status {
                                   for (std::size_t i = 0; i < status_text_bytes; ++i)
                                     call.text[i] = 'x';  // no end
                                   return {call.text};
                                 },
                                 nullptr, nullptr};
  TestType runtime;
  auto const a = cell(runtime);
  Event const event = submit(runtime, wordy, {{a, Access::write}});
  CHECK(contains(message_of<TaskError>([&] { runtime.wait(event); }),
                 std::string(status_text_bytes - 1, 'x')));
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
}

TEMPLATE_TEST_CASE("a codelet without an entry for a CPU is refused", "[runtime][marks]",
                   NNTILE_TEST_MODELS) {
  static constexpr Codelet none{"gpu_only", nullptr, nullptr, nullptr};
  TestType runtime;
  auto const a = cell(runtime);
  CHECK(contains(message_of<ValueError>([&] { submit(runtime, none, {{a, Access::write}}); }),
                 "gpu_only"));
}

TEMPLATE_TEST_CASE("tiles that were never submitted can be marked with a cause", "[runtime][marks]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  auto const a = cell(runtime), retired = cell(runtime);
  runtime.retire(retired);
  mark_unsubmitted(runtime, a, "gemm: out of memory", {"y", 1});
  mark_unsubmitted(runtime, retired, "nothing to mark");
  CHECK(contains(message_of<TaskError>([&] { runtime.lock(a, Access::read); }),
                 "gemm: out of memory"));
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
}

TEMPLATE_TEST_CASE("what was discarded cannot be read until it is rewritten", "[runtime][marks]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  auto const a = cell(runtime, 1), retired = cell(runtime);
  runtime.retire(retired);
  CHECK_THROWS_AS(runtime.discard(retired), LifetimeError);
  submit(runtime, step_codelet, {{a, Access::update}}, 1L);
  runtime.discard(a);
  std::string const text = "the task that should have written buffer ";
  CHECK(contains(message_of<LifetimeError>([&] { (void)runtime.lock(a, Access::read); }), text));
  CHECK(contains(
      message_of<LifetimeError>([&] { submit(runtime, step_codelet, {{a, Access::update}}, 1L); }),
      text));
  submit(runtime, put_codelet, {{a, Access::write}}, 3L);
  CHECK(read(runtime, a) == 3);
  long const value = 5;
  auto const constant = runtime.adopt(std::as_bytes(std::span(&value, 1)));
  runtime.discard(constant);  // no task writes it
  CHECK(read(runtime, constant) == 5);
  runtime.retire(constant);
  runtime.wait_all();
}

TEMPLATE_TEST_CASE("a locked tile that cannot be marked cannot be read behind its lock",
                   "[runtime][marks]", NNTILE_TEST_MODELS) {
  TestType runtime;
  auto const a = cell(runtime, 1);
  (void)runtime.lock(a, Access::read);
  mark_unsubmitted(runtime, a, "gelu: a tile is locked");
  runtime.unlock(a);
  CHECK_THROWS_AS(runtime.lock(a, Access::read), LifetimeError);
  runtime.wait_all();
}

TEMPLATE_TEST_CASE("a tile that cannot be marked for want of memory cannot be read",
                   "[runtime][marks]", NNTILE_TEST_MODELS) {
  TestType runtime;
  for (long passes = 0; passes < 4; ++passes) {
    auto const a = cell(runtime, 1);
    fail_allocation_after(passes);
    mark_unsubmitted(runtime, a, "gelu: out of memory");
    fail_allocation_after(-1);
    CHECK_THROWS_AS(runtime.lock(a, Access::read), Error);
  }
}

TEST_CASE("a buffer is discarded through what wraps its runtime", "[runtime][marks]") {
  auto const check = [](auto&& runtime) {
    auto const a = cell(runtime, 1);
    (void)runtime.lock(a, Access::read);
    mark_unsubmitted(runtime, a, "gelu: a tile is locked");
    runtime.unlock(a);
    CHECK_THROWS_AS(runtime.lock(a, Access::read), LifetimeError);
  };
  check(Dynamic<Serial, Ring>("ring", {1, false, false}));
  check(Record<Serial>());
  check(Check<Serial>());
  check(Transcribe<Serial>());
}

TEST_CASE("a buffer is discarded whatever its runtime throws", "[runtime][marks]") {
  struct Odd : RuntimeArchetype {
    bool throws = false;
    int discarded = 0;
    Event submit(Task<Handle> const&) { throw 7; }
    void discard(Handle) {
      ++discarded;
      if (throws) throw 7;
    }
  };
  Odd runtime;
  auto const a = runtime.allocate(8, host, Lifetime::persistent);
  for (bool const throws : {false, true}) {
    runtime.throws = throws;
    mark_unsubmitted(runtime, a, "a test");
  }
  CHECK(runtime.discarded == 2);
}

TEST_CASE("memory that is only read stays readable where no task can mark it", "[runtime][marks]") {
  auto const check = [](auto&& runtime) {
    long const value = 7;
    auto const a = runtime.adopt(std::as_bytes(std::span(&value, 1)));
    auto const b = cell(runtime);
    mark_unsubmitted(runtime, a, "gelu: its output is read-only");
    submit(runtime, copy_cell_codelet, {{b, Access::write}, {a, Access::read}}, 1L);
    CHECK(read(runtime, b) == 8);
  };
  check(Serial());
  check(Dynamic<Serial, Ring>("ring", {1, false, false}));
  check(Record<Serial>());
  check(Check<Serial>());
  check(Transcribe<Serial>());
}

TEMPLATE_TEST_CASE("a retired buffer takes its mark along", "[runtime][marks]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  for (int i = 0; i < 100; ++i) {
    auto const a = cell(runtime);
    submit(runtime, fail_codelet, {{a, Access::write}});
    runtime.retire(a);
  }
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
  CHECK(read(runtime, cell(runtime, 9)) == 9);
  runtime.wait_all();
}

#if defined(__x86_64__)
TEMPLATE_TEST_CASE("tasks run under the default MXCSR and the caller's comes back",
                   "[runtime][marks]", NNTILE_TEST_MODELS) {
  static constexpr Codelet mode{"mode",
                                +[](KernelCall const& call) noexcept -> Status {
                                  cell_of(call, 0) = static_cast<long>(_mm_getcsr() & 0xffc0u);
                                  _mm_setcsr(0x9fc0);  // a careless kernel
                                  return {};
                                },
                                nullptr, nullptr};
  TestType runtime;
  auto const a = cell(runtime), b = cell(runtime);
  unsigned const callers = _mm_getcsr();
  _mm_setcsr(0x9fc0);  // flush to zero, denormals are zero
  submit(runtime, mode, {{a, Access::write}});
  long const inside = read(runtime, a);
  unsigned const after = _mm_getcsr();
  _mm_setcsr(callers);
  submit(runtime, mode, {{b, Access::write}});
  CHECK(read(runtime, b) == 0x1f80);
  CHECK(inside == 0x1f80);
  CHECK(after == 0x9fc0);
  CHECK((_mm_getcsr() & 0xffc0u) == (callers & 0xffc0u));
}

TEMPLATE_TEST_CASE("a task leaves its floating-point mode to no other, however many run at once",
                   "[runtime][marks]", NNTILE_TEST_MODELS) {
  static std::atomic<int> changed;
  static constexpr Codelet careless{"careless",
                                    +[](KernelCall const&) noexcept -> Status {
                                      changed += (_mm_getcsr() & 0xffc0u) != 0x1f80;
                                      _mm_setcsr(0x9fc0);
                                      return {};
                                    },
                                    nullptr, nullptr};
  changed = 0;
  TestType runtime;
  for (int i = 0; i < 1000; ++i) runtime.submit({&careless, {}, {}, {}, {}});
  runtime.wait_all();
  if constexpr (ReplayingRuntime<TestType>) {
    std::vector<ProgramTask> const tasks(100, {&careless, {}, {}, {}, {}});
    auto const program = runtime.record(tasks, 0);
    for (int i = 0; i < 10; ++i) runtime.replay(program, {});
    runtime.wait_all();
  }
  CHECK(changed == 0);
  CHECK((_mm_getcsr() & 0xffc0u) == 0x1f80);
}

TEMPLATE_TEST_CASE("a poll runs under the default MXCSR and the caller's comes back",
                   "[runtime][marks]", NNTILE_TEST_MODELS) {
  static std::atomic<unsigned> seen;
  static constexpr Codelet polled{"polled", nullptr, nullptr,
                                  +[](KernelCall const&, Completion token) noexcept -> Status {
                                    token.poll(
                                        [](void*, Completion done) {
                                          seen = _mm_getcsr() & 0xffc0u;
                                          _mm_setcsr(0x9fc0);  // a careless one
                                          done.complete();
                                          return true;
                                        },
                                        nullptr);
                                    return {};
                                  }};
  TestType runtime;
  auto const a = cell(runtime);
  unsigned const callers = _mm_getcsr();
  for (unsigned const mode : {0x1f80u, 0x9fc0u, 0x7f80u}) {
    seen = 0;
    submit(runtime, polled, {{a, Access::write}});
    _mm_setcsr(mode);
    runtime.wait_all();
    unsigned const after = _mm_getcsr() & 0xffc0u;
    _mm_setcsr(callers);
    CHECK(seen == 0x1f80);
    CHECK(after == mode);
  }
}
#endif

TEST_CASE("a thousand failures and a hundred thousand cancelled tasks are kept in few ranges",
          "[runtime][marks]") {
  Serial runtime;
  auto const a = cell(runtime, 1), b = cell(runtime, 2);
  submit(runtime, fail_codelet, {{a, Access::update}});
  for (int i = 0; i < 100000; ++i)
    submit(runtime, copy_cell_codelet, {{b, Access::write}, {a, Access::read}});
  for (int i = 0; i < 999; ++i) submit(runtime, fail_codelet, {{b, Access::write}});
  std::string const text = message_of<TaskError>([&] { runtime.wait_all(); });
  CHECK(contains(text, "999 failed"));
  CHECK(contains(text, "100000 were cancelled"));
}
