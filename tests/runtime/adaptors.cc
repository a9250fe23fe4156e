// SPDX-License-Identifier: BSD-3-Clause
// Runtimes that wrap runtimes: what they add, and that they take nothing away.
#include <array>
#include <new>
#include <string>
#include <vector>

#include "nntile/runtime/adaptors/check.hh"
#include "nntile/runtime/adaptors/null.hh"
#include "nntile/runtime/adaptors/record.hh"
#include "nntile/runtime/adaptors/transcribe.hh"
#include "nntile/runtime/ring/nest.hh"
#include "nntile/runtime/serial/nest.hh"
#include "nntile/testing/conformance.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"
#include "tests/support/runtimes.hh"
#include "tests/support/sanitized.hh"
#include "tests/testing/broken.hh"

namespace {

using namespace nntile;
using test::Broken;
using test::cell;
using test::Defect;
using test::submit;
using Kind = LoggedCall::Kind;

static_assert(ReplayingRuntime<Record<Ring>> && ScopedRuntime<Record<Ring>>);
static_assert(RegionRuntime<Record<Ring>> && RegionRuntime<Record<Serial>>);
static_assert(!RegionRuntime<Record<RuntimeArchetype>>);
static_assert(PausingRuntime<Record<Ring>> && !PausingRuntime<Record<Serial>>);
static_assert(NestingRuntime<Record<Ring>> && !NestingRuntime<Record<RuntimeArchetype>>);
static_assert(!ReplayingRuntime<Record<test::Threads>> && !ReplayingRuntime<Check<Ring>>);
static_assert(bool(HintedRuntime<Record<Ring>>) == bool(HintedRuntime<Ring>));
static_assert(bool(HintedRuntime<Check<Serial>>) == bool(HintedRuntime<Serial>));

/// Reads costs, and says that it moves values between memories.
struct Priced : Serial {
  static constexpr bool heeds_hints = true, coherent = true, reads_costs = true;
  Event submit(Task<Handle> const& task) {
    costs.push_back(task.cost);
    return Serial::submit(task);
  }
  std::vector<Cost> costs;
};
static_assert(CoherentRuntime<Record<Priced>> && CostedRuntime<Record<Priced>>);
static_assert(!CoherentRuntime<Record<Serial>> && !CostedRuntime<Record<Serial>>);
static_assert(CostedRuntime<Check<Priced>> && !CostedRuntime<Check<Serial>>);

template <class R> testing::Report battery() {
  testing::ConformanceOptions options;
  options.max_workers = 2;
  options.own_driver = false;
  options.heavy = false;
  options.rounds = 1;
  return testing::conformance([](RuntimeOptions const& o) { return R(o); }, options);
}

/// Writes to its first operand, whatever it was said to do, and to what its argument points to.
constexpr Codelet scribble_codelet{"scribble",
                                   +[](KernelCall const& call) noexcept -> Status {
                                     test::cell_of(call, 0) = 99;
                                     long* const other = *static_cast<long* const*>(call.arguments);
                                     if (other != nullptr) *other = 98;
                                     return {};
                                   },
                                   nullptr, nullptr};

}  // namespace

TEMPLATE_TEST_CASE("an adaptor keeps the law", "[runtime][adaptors]", Record<Ring>, Check<Serial>,
                   Check<Record<Ring>>, Transcribe<Ring>) {
  if (test::sanitized && std::is_same_v<TestType, Record<Ring>>) return;  // Check's is one
  auto const report = battery<TestType>();
  INFO(to_string(report));
  CHECK(report.passed());
}

TEST_CASE("check finds no fault with a task that runs on marks", "[runtime][adaptors]") {
  static int told = 0;
  constexpr Codelet tell_codelet{.name = "tell",
                                 .async =
                                     [](KernelCall const& call, Completion token) noexcept {
                                       told += call.marked;
                                       token.complete();
                                       return Status{};
                                     },
                                 .runs_on_marks = true};
  Check<Serial> runtime;
  auto const a = cell(runtime, 1);
  submit(runtime, test::fail_codelet, {{a, Access::update}}, 0);
  submit(runtime, test::step_codelet, {{a, Access::update}}, 1);  // cancelled: it writes nothing
  submit(runtime, tell_codelet, {{a, Access::read}}, 0);
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
  CHECK(told == 1);
  CHECK(runtime.problems().empty());
}

TEST_CASE("check lets go of a task whose poll throws", "[runtime][adaptors]") {
  static bool completes = false;
  constexpr Codelet codelet{.name = "watch",
                            .async = [](KernelCall const&, Completion token) noexcept {
                              token.poll(
                                  [](void*, Completion given) -> bool {
                                    if (completes) given.complete();
                                    throw ValueError("the link broke");
                                  },
                                  nullptr);
                              return Status{};
                            }};
  Check<Serial> runtime;
  auto const a = cell(runtime, 1);
  Event const watched = submit(runtime, codelet, {{a, Access::read}}, 0);
  CHECK_THROWS_WITH(runtime.wait(watched), Catch::Contains("the link broke"));
  submit(runtime, test::step_codelet, {{a, Access::update}}, 1);  // its reader has ended
  completes = true;
  submit(runtime, codelet, {{a, Access::read}}, 0);
  submit(runtime, test::step_codelet, {{a, Access::update}}, 2);
  CHECK_THROWS_WITH(runtime.wait_all(), "checked (task 2) failed: watch: the link broke");
  CHECK(runtime.problems().empty());
}

TEST_CASE("check ignores a token whose task has ended", "[runtime][adaptors]") {
  Check<Serial> runtime;
  test::TokenKeeper keeper;
  auto const a = cell(runtime, 1);
  submit(runtime, test::keep_codelet, {{a, Access::update}}, &keeper);
  keeper.at(0).complete();
  Event const second = submit(runtime, test::keep_codelet, {{a, Access::update}}, &keeper);
  keeper.at(0).complete({"again"});
  keeper.at(0).poll([](void*, Completion) -> bool { throw ValueError("polled"); }, nullptr);
  CHECK_FALSE(runtime.done(second));
  keeper.at(1).complete();
  runtime.wait_all();
  CHECK(runtime.problems().empty());
}

TEST_CASE("check takes an entry at its word, whatever becomes of its token",
          "[runtime][adaptors]") {
  static test::TokenKeeper keeper;
  static bool completes = false;
  constexpr Codelet codelet{.name = "begin",
                            .async = [](KernelCall const&, Completion token) noexcept -> Status {
                              keeper.add(token);
                              if (completes) token.complete();
                              return {"could not start"};
                            }};
  Check<Serial> runtime;
  auto const a = cell(runtime, 1);
  for (std::size_t i = 0; i < 2; ++i) {
    completes = i == 1;
    Event const failed = submit(runtime, codelet, {{a, Access::write}}, 0);
    CHECK_THROWS_WITH(runtime.wait(failed), Catch::Contains("begin: could not start"));
    Event const next = submit(runtime, test::keep_codelet, {{a, Access::write}}, &keeper);
    keeper.at(2 * i).complete();
    CHECK_FALSE(runtime.done(next));
    keeper.at(2 * i + 1).complete();
    runtime.wait(next);
  }
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
  CHECK(runtime.problems().empty());
}

TEST_CASE("check calls each poll of a task", "[runtime][adaptors]") {
  static int calls[2] = {};
  constexpr Codelet codelet{.name = "watch",
                            .async = [](KernelCall const&, Completion token) noexcept -> Status {
                              for (int& count : calls)
                                token.poll(
                                    [](void* state, Completion given) -> bool {
                                      ++*static_cast<int*>(state);
                                      if (calls[0] == 0 || calls[1] == 0) return false;
                                      given.complete();
                                      return true;
                                    },
                                    &count);
                              return {};
                            }};
  Check<Serial> runtime;
  Event const watched = submit(runtime, codelet, {}, 0);
  for (int i = 0; i < 10 && !runtime.done(watched); ++i) {
  }
  CHECK(calls[0] != 0);
  CHECK(calls[1] != 0);
  calls[0] = calls[1] = 1;
  runtime.wait_all();
}

TEST_CASE("record counts and logs what orders tasks", "[runtime][adaptors]") {
  Record<Serial> runtime;
  auto const a = cell(runtime, 1);
  Event const event = submit(runtime, test::step_codelet, {{a, Access::update}}, 5, {"h1", 3});
  runtime.wait(event);
  (void)runtime.lock(a, Access::read);
  runtime.unlock(a);
  runtime.wait_all();
  runtime.retire(a);
  CHECK(runtime.counts() ==
        CallCounts{
            .allocates = 1, .retires = 1, .submits = 2, .waits = 1, .wait_alls = 1, .locks = 1});
  REQUIRE(runtime.log().size() == 5);
  CHECK(runtime.log()[1] ==
        LoggedCall{Kind::submit, event.sequence, &test::step_codelet, "h1", 3, 1});
  CHECK(runtime.log()[2] == LoggedCall{.kind = Kind::wait, .sequence = event.sequence});
  CHECK(runtime.log()[3] == LoggedCall{.kind = Kind::lock});
  CHECK(runtime.log()[4] == LoggedCall{.kind = Kind::wait_all});
  runtime.clear();
  CHECK(runtime.counts() == CallCounts{});
  CHECK(runtime.log().empty());
}

TEST_CASE("record logs a submission only if it was accepted", "[runtime][adaptors]") {
  Record<Serial> runtime;
  auto const unwritten = runtime.allocate(sizeof(long));
  CHECK_THROWS_AS(submit(runtime, test::step_codelet, {{unwritten, Access::update}}, 0),
                  LifetimeError);
  CHECK(runtime.counts().submits == 0);
  CHECK(runtime.log().empty());
}

TEST_CASE("record passes tasks that submit on, and counts each as one", "[runtime][adaptors]") {
  Record<Ring> runtime(RuntimeOptions{.workers = 1});
  auto const a = cell(runtime);
  auto const body = [a](nested_t<Record<Ring>>& nested) {
    for (int i = 0; i < 3; ++i) submit(nested, test::put_codelet, {{a, Access::write}}, i);
  };
  Event const event = runtime.orchestrate(body, Use<DataHandle>{a, Access::write});
  CHECK(test::read(runtime, a) == 2);
  CHECK(runtime.counts().submits == 1);
  CHECK(runtime.log().at(0) ==
        LoggedCall{.kind = Kind::submit, .sequence = event.sequence, .operands = 1});
}

TEST_CASE("record counts replays and their recordings", "[runtime][adaptors]") {
  Record<Ring> runtime(RuntimeOptions{.workers = 1});
  auto const a = cell(runtime, 1);
  long const value = 2;
  Use<Binding> const uses[] = {{0, Access::update}};
  ProgramTask const tasks[] = {
      {&test::step_codelet, uses, std::as_bytes(std::span(&value, 1)), {}, {}}};
  auto const program = runtime.record(tasks, 1, {});
  runtime.wait(runtime.replay(program, std::array{a}, {}));
  CHECK(runtime.counts().records == 1);
  CHECK(runtime.counts().replays == 1);
  CHECK(runtime.counts().submits == 1);
}

TEST_CASE("null counts what it is asked for and runs nothing", "[runtime][adaptors]") {
  Null runtime;
  auto const a = runtime.allocate(100);
  auto const b = runtime.allocate(60);
  submit(runtime, test::fail_codelet, {{a, Access::write}, {b, Access::read}}, 0);
  submit(runtime, test::fail_codelet, {{b, Access::update}}, 0);
  runtime.retire(a);
  (void)runtime.allocate(10);
  runtime.wait_all();
  CHECK(runtime.costs() == NullCosts{.tasks = 2,
                                     .operands = 3,
                                     .bytes_read = 120,
                                     .bytes_written = 160,
                                     .allocations = 3,
                                     .live_bytes = 70,
                                     .peak_bytes = 160});
}

TEST_CASE("null counts the tasks of a replay", "[runtime][adaptors]") {
  Null runtime;
  auto const a = runtime.allocate(8);
  Use<Binding> const uses[] = {{0, Access::update}};
  ProgramTask const tasks[] = {{&test::step_codelet, uses, {}, {}, {}},
                               {&test::step_codelet, uses, {}, {}, {}}};
  auto const program = runtime.record(tasks, 1, {});
  runtime.replay(program, std::array{a}, {});
  CHECK(runtime.costs().replays == 1);
  CHECK(runtime.costs().tasks == 2);
  CHECK(runtime.costs().bytes_written == 16);
}

TEST_CASE("null releases adopted memory once, and gives zeros to a lock", "[runtime][adaptors]") {
  int released = 0;
  std::array<std::byte, 8> memory{};
  Release const release{[](void* count) noexcept { ++*static_cast<int*>(count); }, &released};
  {
    Null runtime;
    runtime.retire(runtime.adopt(memory, host, release));
    (void)runtime.adopt(memory, host, release);
    for (std::byte const byte : runtime.lock(runtime.allocate(100), Access::read))
      CHECK(byte == std::byte{0});
  }
  CHECK(released == 2);
}

TEST_CASE("check finds nothing in a lawful run", "[runtime][adaptors]") {
  Check<Ring> runtime(RuntimeOptions{.workers = 2});
  auto const a = cell(runtime, 1);
  auto const b = cell(runtime, 2);
  for (int i = 0; i < 50; ++i) {
    submit(runtime, test::step_codelet, {{a, Access::update}}, i);
    submit(runtime, test::copy_cell_codelet, {{b, Access::write}, {a, Access::read}}, i);
  }
  runtime.wait_all();
  CHECK(runtime.problems().empty());
}

TEST_CASE("check finds a task that writes what it may only read", "[runtime][adaptors]") {
  Check<Serial> runtime;
  auto const a = cell(runtime, 1);
  long* const none = nullptr;
  Use<Check<Serial>::Handle> const uses[] = {{a, Access::read}};
  Event const event =
      runtime.submit({&scribble_codelet, uses, std::as_bytes(std::span(&none, 1)), {}, {}});
  CHECK_THROWS_AS(runtime.wait(event), TaskError);
  REQUIRE(runtime.problems().size() == 1);
  CHECK(runtime.problems()[0] ==
        "scribble: operand 0, buffer 0, changed during the task, which may only read it");
}

TEST_CASE("check finds a write to a buffer that was not named", "[runtime][adaptors]") {
  Check<Serial> runtime;
  auto const a = cell(runtime, 1);
  auto const b = cell(runtime, 2);
  long* const other = reinterpret_cast<long*>(runtime.lock(b, Access::read).data());
  runtime.unlock(b);
  Use<Check<Serial>::Handle> const uses[] = {{a, Access::write}};
  runtime.submit({&scribble_codelet, uses, std::as_bytes(std::span(&other, 1)), {}, {}});
  CHECK(runtime.problems().empty());  // found at the next access only
  submit(runtime, test::step_codelet, {{b, Access::update}}, 0);
  REQUIRE(runtime.problems().size() == 1);
  CHECK(runtime.problems()[0] ==
        "step: operand 0, buffer 1, changed before the task, though no task "
        "or lock that names it wrote");
}

TEST_CASE("check finds every dropped order", "[runtime][adaptors]") {
  for (Defect const defect : {Defect::drops_write_after_read, Defect::reorders_two_writers,
                              Defect::skips_read_after_write, Defect::takes_updates_for_reads}) {
    Check<Broken> runtime(defect);
    auto const a = cell(runtime, 1);
    auto const b = cell(runtime, 2);
    for (long i = 0; i < 3; ++i) {
      submit(runtime, test::put_codelet, {{a, Access::write}}, i);
      submit(runtime, test::step_codelet, {{a, Access::update}}, i);
      submit(runtime, test::copy_cell_codelet, {{b, Access::write}, {a, Access::read}}, i);
    }
    INFO("defect " << static_cast<int>(defect));
    CHECK_THROWS_AS(runtime.wait_all(), TaskError);
    CHECK_FALSE(runtime.problems().empty());
  }
}

TEST_CASE("check finds writers that overlap", "[runtime][adaptors]") {
  test::TokenKeeper keeper;
  test::TokenKeeper* const address = &keeper;
  Check<Broken> runtime(Defect::runs_accumulates_at_once);
  auto const a = cell(runtime, 1);
  Use<Check<Broken>::Handle> const uses[] = {{a, Access::accumulate}};
  Event last;
  for (int i = 0; i < 2; ++i)
    last =
        runtime.submit({&test::keep_codelet, uses, std::as_bytes(std::span(&address, 1)), {}, {}});
  CHECK_FALSE(runtime.done(last));
  while (runtime.problems().empty()) (void)runtime.done(last);
  CHECK(runtime.problems()[0].find("entered to accumulate operand 0") != std::string::npos);
  keeper.at(0).complete();
  keeper.at(1).complete();
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
}

TEST_CASE("check refuses unwritten and retired buffers on a runtime that accepts all",
          "[runtime][adaptors]") {
  Check<Null> runtime;
  auto const a = runtime.allocate(8);
  CHECK_THROWS_AS(submit(runtime, test::step_codelet, {{a, Access::update}}, 0), LifetimeError);
  submit(runtime, test::put_codelet, {{a, Access::write}}, 0);
  submit(runtime, test::step_codelet, {{a, Access::update}}, 0);
  runtime.retire(a);
  CHECK_THROWS_AS(submit(runtime, test::step_codelet, {{a, Access::update}}, 0), LifetimeError);
  CHECK(runtime.inner().costs().tasks == 2);
}

TEST_CASE("check speaks of a task whose codelet has no name", "[runtime][adaptors]") {
  static constexpr Codelet nameless{
      nullptr, +[](KernelCall const&) noexcept -> Status { return {"out of luck"}; }, nullptr,
      nullptr};
  Check<Serial> runtime;
  auto const a = runtime.allocate(sizeof(long));
  CHECK_THROWS_WITH(submit(runtime, nameless, {{a, Access::read}}, 0),
                    Catch::Contains("check: task is to read buffer 0"));
  submit(runtime, nameless, {{a, Access::write}}, 0);
  CHECK_THROWS_WITH(runtime.wait_all(), Catch::Contains("task: out of luck"));
}

TEST_CASE("check refuses an empty handle in every call", "[runtime][adaptors]") {
  Check<Serial> runtime;
  Check<Serial>::Handle const none{};
  CHECK_THROWS_AS(submit(runtime, test::put_codelet, {{none, Access::write}}, 0), LifetimeError);
  CHECK_THROWS_AS(runtime.lock(none, Access::write), LifetimeError);
  CHECK_THROWS_AS(runtime.unlock(none), LifetimeError);
  CHECK_THROWS_AS(runtime.retire(none), LifetimeError);
}

TEMPLATE_TEST_CASE("an adaptor passes the cost of a task on", "[runtime][adaptors]", Record<Priced>,
                   Check<Priced>) {
  TestType runtime;
  Use<typename TestType::Handle> const uses[] = {{runtime.allocate(sizeof(long)), Access::write}};
  long const value = 1;
  runtime.submit({&test::put_codelet, uses, std::as_bytes(std::span(&value, 1)), {}, {}, {3, 8}});
  CHECK(runtime.inner().costs == std::vector<Cost>{{3, 8}});
}

TEST_CASE("check fails a task for which it has no memory", "[runtime][adaptors]") {
  if (!test::allocations_are_counted()) return;
  static constexpr Codelet late{"late", nullptr, nullptr,
                                +[](KernelCall const&, Completion token) noexcept -> Status {
                                  token.complete();
                                  return {};
                                }};
  for (Codelet const* const codelet : {&test::put_codelet, &late}) {
    int failed = 0;
    for (long count = 0; count < 20; ++count) {
      Check<Serial> runtime;
      auto const a = cell(runtime, 1);
      Use<Check<Serial>::Handle> const use{a, Access::write};
      long const value = 2;
      (void)test::fail_allocation_after(count);
      try {
        runtime.wait(
            runtime.submit({codelet, {&use, 1}, std::as_bytes(std::span(&value, 1)), {}, {}, {}}));
      } catch (std::bad_alloc const&) {
      } catch (TaskError const&) {
        ++failed;
      }
      (void)test::fail_allocation_after(-1);
    }
    CHECK(failed != 0);
  }
}

TEST_CASE("check needs no memory where a task ends", "[runtime][adaptors]") {
  static test::TokenKeeper keeper;
  static bool scribbles = false;
  constexpr Codelet late{"late", nullptr, nullptr,
                         +[](KernelCall const& call, Completion token) noexcept -> Status {
                           if (scribbles) test::cell_of(call, 0) = 99;
                           keeper.add(token);
                           return {};
                         }};
  for (bool const reads_only : {false, true})
    for (long count = 0; count < 4; ++count) {
      scribbles = reads_only;
      Check<Serial> runtime;
      auto const a = cell(runtime, 1);
      Event const event = submit(runtime, late, {{a, reads_only ? Access::read : Access::update}});
      Completion const token = keeper.at(keeper.count() - 1);
      (void)test::fail_allocation_after(count);
      token.complete(reads_only ? Status{} : Status{"the link to the other side is down"});
      (void)test::fail_allocation_after(-1);
      CHECK(runtime.done(event));
      CHECK_THROWS_AS(runtime.wait(event), TaskError);
    }
}
