// SPDX-License-Identifier: BSD-3-Clause
// A ring that stands still: what is refused meanwhile, what goes on, and that no core is used.

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "nntile/runtime/ring/nest.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/task_handle.hh"
#include "nntile/runtime/unsubmitted.hh"
#include "nntile/tile/tile.hh"
#include "tests/runtime/codelets.hh"
#include "tests/runtime/quiet.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

RuntimeOptions workers(int count, bool own_driver = false) { return {count, own_driver, false}; }

/// first += 1
Codelet const count_codelet{"count",
                            +[](KernelCall const& call) noexcept -> Status {
                              ++cell_of(call, 0);
                              return {};
                            },
                            nullptr, nullptr};

/// Holds a task until `open`.
struct Held {
  std::atomic<bool> open{false};
};
Codelet const hold_codelet{"hold",
                           +[](KernelCall const& call) noexcept -> Status {
                             Held const& held = **static_cast<Held* const*>(call.arguments);
                             while (!held.open) std::this_thread::yield();
                             cell_of(call, 0) = 1;
                             return {};
                           },
                           nullptr, nullptr};
Codelet const see_codelet{"see", +[](KernelCall const&) noexcept -> Status { return {}; }, nullptr,
                          nullptr};

/// What the call throws.
template <class Call> std::string refusal(Call call) {
  try {
    call();
  } catch (LifetimeError const& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a paused ring takes as many tasks as it has slots, and refuses the next one",
          "[runtime][ring][pause]") {
  Ring ring(workers(GENERATE(1, 3), GENERATE(false, true)), {.window = 8});
  auto const target = cell(ring, 0);
  ring.wait_all();
  ring.pause();
  for (int i = 0; i < 8; ++i) submit(ring, step_codelet, {{target, Access::update}}, 1L);
  std::string const text =
      refusal([&] { submit(ring, step_codelet, {{target, Access::update}}, 1L); });
  CHECK(text ==
        "submit: would wait for tasks that have not ended (8 of 8 slots are taken), and the ring "
        "is paused, so that none of them can: call resume()");
  ring.resume();
  submit(ring, step_codelet, {{target, Access::update}}, 1L);
  CHECK(read(ring, target) == 9841);  // 1 + 3 + ... + 3^8: the one refused is not among them
}

TEST_CASE("a join for which a paused ring has no slot stands for no other's producers",
          "[runtime][ring][pause]") {
  Ring ring(workers(4, true), {.window = 64});
  std::vector<DataHandle> cells;
  for (int i = 0; i < 26; ++i) cells.push_back(cell(ring));
  ring.pause();
  Held early, late;
  auto const fill = [&](std::uint64_t slots) {
    while (ring.stats().submitted < slots)
      submit(ring, put_codelet, {{cells[25], Access::write}}, 1L);
  };
  fill(20);  // they make room later
  submit(ring, hold_codelet, {{cells[24], Access::write}}, &late);
  submit(ring, hold_codelet, {{cells[23], Access::write}}, &early);
  // Three sets of producers with the first and the last in common; the last set waits for `late`.
  for (std::size_t i = 0; i < 23; ++i)
    submit(ring, copy_cell_codelet,
           {{cells[i], Access::write}, {cells[i / 7 == 2 ? 24 : 23], Access::read}}, 0L);
  auto const submit_wide = [&](std::size_t set) {
    std::vector<Use<DataHandle>> uses{{cells[21], Access::read}};
    for (std::size_t i = 7 * set; i < 7 * set + 7; ++i) uses.push_back({cells[i], Access::read});
    uses.push_back({cells[22], Access::read});
    return ring.submit({&see_codelet, uses, {}, {}, {}});
  };
  submit_wide(0);
  Event const second = submit_wide(1);
  fill(63);
  CHECK(refusal([&] { submit_wide(2); }).find("64 of 64 slots") != std::string::npos);
  ring.resume();
  Event const third = submit_wide(2);
  early.open = true;
  ring.wait(second);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(ring.done(third));
  late.open = true;
  ring.wait_all();
}

TEST_CASE("waiting on a paused ring names the call", "[runtime][ring][pause]") {
  RingCapacities heaps;
  heaps.step = {128, OnFull::wait};
  Ring ring(workers(2), heaps);
  ring.open_scope(Lifetime::step);
  auto const held = ring.allocate(128, host, Lifetime::step);
  auto const target = cell(ring, 0);
  ring.wait_all();
  ring.pause();
  Event const event = submit(ring, step_codelet, {{target, Access::update}}, 1L);
  submit(ring, put_codelet, {{held, Access::write}}, 1L);
  ring.retire(held);
  CHECK(refusal([&] { ring.wait(event); }).starts_with("wait: would wait for"));
  CHECK(refusal([&] { ring.wait_all(); }).starts_with("wait_all: would wait for"));
  CHECK(refusal([&] { (void)ring.lock(target, Access::read); }).starts_with("lock: would"));
  CHECK(refusal([&] {
          (void)ring.allocate(128, host, Lifetime::step);
        }).starts_with("allocate: would wait for"));
  CHECK_FALSE(ring.done(event));
  ring.resume();
  (void)ring.allocate(128, host, Lifetime::step);
  CHECK(read(ring, target) == 1);
  ring.close_scope(Lifetime::step);
}

TEST_CASE("the end of a tile over the caller's memory resumes a paused ring for its tasks",
          "[runtime][ring][pause]") {
  std::vector<std::int64_t> memory(1, 1), other(1, 1);
  Ring ring(workers(GENERATE(1, 3), GENERATE(false, true)));
  auto const target = ring.allocate(sizeof(long));
  ring.pause();
  {
    Tile<std::int64_t, Ring> const unused(ring, {1}, std::span(other));
  }
  CHECK(refusal([&] { ring.wait(submit(ring, put_codelet, {{target, Access::write}}, 1L)); }) !=
        "");  // it is paused still
  {
    Tile<std::int64_t, Ring> const tile(ring, {1}, std::span(memory));
    submit(ring, count_codelet, {{tile.handle(), Access::update}}, 0L);
  }
  CHECK(memory[0] == 2);
  CHECK_NOTHROW(ring.wait_all());
}

TEST_CASE("a task handle that dies on a paused ring lets its task go", "[runtime][ring][pause]") {
  Ring ring(workers(GENERATE(1, 3), GENERATE(false, true)));
  auto const target = cell(ring, 1);
  ring.wait_all();
  ring.pause();
  Event const event =
      TaskHandle<Ring>(ring, submit(ring, count_codelet, {{target, Access::update}})).event();
  CHECK_FALSE(ring.done(event));
  ring.resume();
  CHECK(read(ring, target) == 2);
}

TEST_CASE("a group whose tasks are all of paused rings is not waited for",
          "[runtime][ring][pause]") {
  Ring ring(workers(GENERATE(1, 3), GENERATE(false, true))), other(workers(2));
  auto const target = cell(ring, 1), there = cell(other, 1);
  ring.wait_all();
  ring.pause();
  TaskGroup<Ring> group;
  group.add({ring, submit(ring, count_codelet, {{target, Access::update}})});
  CHECK(refusal([&] { group.wait_any(); }).starts_with("wait: would wait for"));
  group.add({other, submit(other, count_codelet, {{there, Access::update}})});
  CHECK(group.wait_any() == 1);
  CHECK(refusal([&] { group.wait_any(); }).starts_with("wait: would wait for"));
  ring.resume();
  CHECK(group.wait_any() == 0);
}

TEST_CASE("a paused ring uses no core, however many tasks come", "[runtime][ring][pause]") {
  Ring ring(workers(4, true));
  auto const target = cell(ring, 0);
  ring.wait_all();
  ring.pause();
  for (int i = 0; i < 100; ++i) submit(ring, step_codelet, {{target, Access::update}}, 1L);
  CHECK(cpu_until_quiet() < 0.002);
  ring.resume();
  ring.wait_all();
}

TEST_CASE("pause and resume are refused inside a task, and may come from another thread",
          "[runtime][ring][pause]") {
  struct Calls {
    Ring ring{workers(2)};
    std::string thrown;
  } calls;
  static constexpr Codelet call{"call", +[](KernelCall const& in) noexcept -> Status {
                                  auto& its = **static_cast<Calls* const*>(in.arguments);
                                  its.thrown = refusal([&] { its.ring.pause(); }).substr(0, 28) +
                                               refusal([&] { its.ring.resume(); }).substr(0, 29);
                                  return {};
                                }};
  Ring& ring = calls.ring;
  ring.wait(submit(ring, call, {}, &calls));
  CHECK(calls.thrown == "pause: called inside a task resume: called inside a task ");
  std::thread([&] { ring.pause(); }).join();
  auto const target = ring.allocate(sizeof(long));
  submit(ring, put_codelet, {{target, Access::write}}, 4L);
  CHECK(refusal([&] { ring.wait_all(); }) != "");
  std::thread([&] { ring.resume(); }).join();
  CHECK(read(ring, target) == 4);
}

TEST_CASE("a paused ring stands still beside others that go on", "[runtime][ring][pause]") {
  Ring still(workers(2)), going(workers(2));
  auto const a = cell(still, 0), b = cell(going, 0);
  still.wait_all();
  still.pause();
  for (int i = 0; i < 100; ++i) {
    submit(still, count_codelet, {{a, Access::update}});
    submit(going, count_codelet, {{b, Access::update}});
  }
  CHECK(read(going, b) == 100);
  CHECK(still.stats().executed == 1);
  still.resume();
  CHECK(read(still, a) == 100);
}

TEST_CASE("a token may end on a paused ring, and its successors wait for resume",
          "[runtime][ring][pause]") {
  TokenKeeper kept;
  Ring ring(workers(2, true));
  auto const target = cell(ring, 1);
  Event const event = submit(ring, keep_codelet, {{target, Access::update}}, &kept);
  Event const next = submit(ring, step_codelet, {{target, Access::update}}, 1L);
  Completion const token = kept.at(0);
  ring.pause();
  CHECK_FALSE(ring.done(event));
  token.complete();
  ring.wait(event);
  CHECK(ring.done(event));
  CHECK_FALSE(ring.done(next));
  ring.resume();
  CHECK(read(ring, target) == 4);
}

TEST_CASE("a pause waits for a body that waits for its own tasks", "[runtime][ring][pause]") {
  Ring ring(workers(GENERATE(2, 4), GENERATE(false, true)));
  std::atomic<bool> began{false}, ended{false};
  auto const target = cell(ring, 0);
  ring.wait_all();
  (void)ring.orchestrate(
      [&](auto& nested) {
        began = true;
        std::this_thread::sleep_for(std::chrono::microseconds(300));
        for (int i = 0; i < 50; ++i) submit(nested, count_codelet, {{target, Access::update}});
        nested.wait_all();
        ended = true;
      },
      Use<DataHandle>{target, Access::update});
  if (ring.workers().cpu > 2) {
    while (!began) std::this_thread::yield();
  }
  ring.pause();
  CHECK(began == ended);
  ring.resume();
  CHECK(read(ring, target) == 50);
}

TEST_CASE("a replay amid which a ring pauses goes on behind it", "[runtime][ring][pause]") {
  Ring ring(workers(GENERATE(1, 3), GENERATE(false, true)));
  std::vector<ProgramTask> tasks;
  std::vector<Use<Binding>> const uses{{0, Access::update}};
  for (int i = 0; i < 100; ++i) tasks.push_back({&count_codelet, uses, {}, {}, {}});
  auto const program = ring.record(tasks, 1);
  DataHandle const bound[] = {cell(ring, 0)};
  for (int i = 0; i < 20; ++i) {
    Event const event = ring.replay(program, bound);
    ring.pause();
    bool const over = ring.done(event);
    std::this_thread::yield();
    CHECK(ring.done(event) == over);
    ring.resume();
  }
  CHECK(read(ring, bound[0]) == 2000);
}

TEST_CASE("tiles that a paused ring refuses to write, and to mark, cannot be read",
          "[runtime][ring][pause]") {
  Ring ring(workers(GENERATE(1, 2)), {.window = 4});
  DataHandle cells[8];
  for (DataHandle& each : cells) each = cell(ring, 1);
  ring.wait_all();
  ring.pause();
  int written = 0;
  for (DataHandle const each : cells) {
    try {
      submit(ring, put_codelet, {{each, Access::write}}, 7L);
      ++written;
    } catch (LifetimeError const& error) {
      mark_unsubmitted(ring, each, error.what());
    }
  }
  CHECK(written == 4);
  ring.resume();
  for (int i = 0; i < 8; ++i) {
    if (i < written)
      CHECK(read(ring, cells[i]) == 7);
    else
      CHECK_THROWS_AS(submit(ring, step_codelet, {{cells[i], Access::update}}, 1L), LifetimeError);
  }
  submit(ring, put_codelet, {{cells[7], Access::write}}, 5L);
  CHECK(read(ring, cells[7]) == 5);
}

TEST_CASE("a task that submits and is refused keeps nothing that its body has captured",
          "[runtime][ring][pause]") {
  Ring ring(workers(1), {.window = 2});
  auto const target = cell(ring, 0);
  ring.wait_all();
  ring.pause();
  for (int i = 0; i < 2; ++i) submit(ring, count_codelet, {{target, Access::update}});
  auto const captured = std::make_shared<int>(1);
  CHECK_THROWS_AS(ring.orchestrate([captured](auto&) {}), LifetimeError);
  CHECK(captured.use_count() == 1);
  std::uint64_t const tokens = ring.stats().growths.tokens;
  for (int i = 0; i < 20; ++i) CHECK_THROWS_AS(ring.orchestrate([](auto&) {}), LifetimeError);
  CHECK(ring.stats().growths.tokens == tokens);
}
