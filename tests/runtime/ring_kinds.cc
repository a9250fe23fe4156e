// SPDX-License-Identifier: BSD-3-Clause
// Workers of several kinds: tasks that name one run there and nowhere else.

#include "nntile/runtime/ring/kinds.hh"

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "nntile/runtime/ring/nest.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

using enum WorkerKind;

/// The threads that tasks have run on.
struct Seen {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::vector<int> order;
  int tasks = 0;
};
struct Look {
  Seen* seen;
  int number;
};
Codelet const look_codelet{"look",
                           +[](KernelCall const& call) noexcept -> Status {
                             auto const [seen, number] = *static_cast<Look const*>(call.arguments);
                             std::lock_guard const guard(seen->mutex);
                             seen->threads.insert(std::this_thread::get_id());
                             seen->order.push_back(number);
                             ++seen->tasks;
                             return {};
                           },
                           nullptr, nullptr};

template <class R> Event look(R& ring, Seen& seen, Hints hints, int number = 0) {
  Look const look{&seen, number};
  return ring.submit({&look_codelet, {}, std::as_bytes(std::span(&look, 1)), hints, {}});
}
Hints on(WorkerKind kind, int priority = 0) { return {any_of(kind), priority}; }

/// Holds a worker until `open`.
struct Held {
  std::atomic<bool> inside{false}, open{false};
};
Codelet const hold_codelet{"hold", +[](KernelCall const& call) noexcept -> Status {
                             Held& held = **static_cast<Held* const*>(call.arguments);
                             held.inside = true;
                             while (!held.open) std::this_thread::yield();
                             return {};
                           }};
template <class R> Event hold(R& ring, Held& held, Hints hints) {
  Held* const address = &held;
  return ring.submit({&hold_codelet, {}, std::as_bytes(std::span(&address, 1)), hints, {}});
}

template <class Call> std::string refusal(Call call) {
  try {
    call();
  } catch (ValueError const& error) {
    return error.what();
  }
  return "";
}

RuntimeOptions workers(int count, bool own_driver = false) { return {count, own_driver, false}; }

}  // namespace

TEST_CASE("tasks that name a kind run on its workers alone", "[runtime][ring][kinds]") {
  Ring ring(workers(5, GENERATE(false, true)), {}, {.cube = 2, .vector = 1});
  Seen cpus, cubes, vectors, all;
  for (int i = 0; i < 300; ++i) {
    look(ring, cpus, on(cpu));
    look(ring, cubes, on(cube));
    look(ring, vectors, on(vector, i % 5 - 2));
    look(ring, all, {});
    if (i % 100 == 99) ring.wait_all();
  }
  for (Seen const* seen : {&cpus, &cubes, &vectors, &all}) CHECK(seen->tasks == 300);
  CHECK(cpus.threads.size() <= 2);
  CHECK(cubes.threads.size() <= 2);
  CHECK(vectors.threads.size() == 1);
  std::set<std::thread::id> together = cpus.threads;
  together.insert(cubes.threads.begin(), cubes.threads.end());
  together.insert(vectors.threads.begin(), vectors.threads.end());
  CHECK(together.size() == cpus.threads.size() + cubes.threads.size() + 1);
  CHECK(cubes.threads.count(std::this_thread::get_id()) == 0);
}

TEST_CASE("successors of another kind change workers", "[runtime][ring][kinds]") {
  Ring ring(workers(3, GENERATE(false, true)), {}, {.cube = 1, .vector = 1});
  auto const target = cell(ring, 0);
  long expected = 0;
  Use<DataHandle> const uses[] = {{target, Access::update}};
  for (long i = 0; i < 500; ++i) {
    expected = affine(expected, 3, i);
    ring.submit({&step_codelet,
                 uses,
                 std::as_bytes(std::span(&i, 1)),
                 i % 4 == 3 ? Hints{} : on(static_cast<WorkerKind>(i % 4)),
                 {}});
    if (i % 50 == 0) ring.wait_all();
  }
  CHECK(read(ring, target) == expected);
}

TEST_CASE("a worker keeps no successor of another kind", "[runtime][ring][kinds]") {
  Ring ring(workers(3, true), {}, {.cube = 1, .vector = 1});
  Seen seen[3];
  auto const target = cell(ring, 0);
  Use<DataHandle> const uses[] = {{target, Access::update}};
  for (int i = 0; i < 300; ++i) {
    Look const look{&seen[i % 3], i};
    ring.submit({&look_codelet,
                 uses,
                 std::as_bytes(std::span(&look, 1)),
                 on(static_cast<WorkerKind>(i % 3)),
                 {}});
  }
  ring.wait_all();
  std::set<std::thread::id> all;
  for (Seen const& one : seen) {
    CHECK(one.threads.size() == 1);
    all.insert(one.threads.begin(), one.threads.end());
  }
  CHECK(all.size() == 3);
}

TEST_CASE("a sleeping worker wakes for its kind beside sleepers of others",
          "[runtime][ring][kinds]") {
  Ring ring(workers(4, GENERATE(false, true)), {}, {.cube = 1, .vector = 1});
  Seen seen;
  for (int i = 0; i < 300; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(i % 5 * 30));
    look(ring, seen, on(i % 2 == 0 ? cube : vector));
    for (;;) {  // the driver makes no call
      std::lock_guard const guard(seen.mutex);
      if (seen.tasks == i + 1) break;
    }
  }
  ring.wait_all();
}

TEST_CASE("workers of every kind run tasks that name none", "[runtime][ring][kinds]") {
  Ring ring(workers(4, true), {}, {.cube = 1, .vector = 3});
  std::array<Held, 4> held;
  for (Held& one : held) hold(ring, one, {});
  for (Held& one : held)
    while (!one.inside) std::this_thread::yield();
  for (Held& one : held) one.open = true;
  ring.wait_all();
}

TEST_CASE("of two tasks for one kind the more urgent runs first", "[runtime][ring][kinds]") {
  Ring ring(workers(2, true), {}, {.cube = 1});
  Held held;
  hold(ring, held, on(cube));
  while (!held.inside) std::this_thread::yield();
  Seen seen;
  for (int const priority : {-9, 0, 3, 99, 1}) look(ring, seen, on(cube, priority), priority);
  held.open = true;
  ring.wait_all();
  CHECK(seen.order == std::vector<int>{99, 3, 1, 0, -9});
}

TEST_CASE("a driver that waits runs no task of another kind", "[runtime][ring][kinds]") {
  Ring ring(workers(2), {}, {.cube = 1});
  Held held;
  Seen seen, mine;
  hold(ring, held, on(cube));
  while (!held.inside) std::this_thread::yield();
  Event const behind = look(ring, seen, on(cube));
  ring.wait(look(ring, mine, on(cpu)));
  CHECK(mine.threads == std::set{std::this_thread::get_id()});
  CHECK_FALSE(ring.done(behind));
  held.open = true;
  ring.wait(behind);
  CHECK(seen.threads.count(std::this_thread::get_id()) == 0);
}

TEST_CASE("a driver that is the only worker of its kind ends its tasks by asking",
          "[runtime][ring][kinds]") {
  Ring ring(workers(3), {}, {.cube = 2});
  Seen seen;
  Event const event = look(ring, seen, on(cpu));
  for (int asked = 0; asked < 100'000 && !ring.done(event); ++asked) std::this_thread::yield();
  CHECK(ring.done(event));
  ring.wait_all();
}

TEST_CASE("a kind of which there is no worker is refused", "[runtime][ring][kinds]") {
  Ring plain(workers(2)), cubes(workers(2), {}, {.cube = 2});
  Seen seen;
  CHECK(refusal([&] { look(plain, seen, on(cube)); }) ==
        "submit: 'look' is for workers of kind cube, and the ring has 2 of kind cpu, 0 of kind "
        "cube and 0 of kind vector: ask for some (WorkerKinds)");
  CHECK(refusal([&] { look(plain, seen, {any_of(cpu) - 7, 0}); }).find("kind number 7") !=
        std::string::npos);
  CHECK(refusal([&] { look(cubes, seen, on(cpu)); }).find("0 of kind cpu") != std::string::npos);
  CHECK(plain.stats().submitted == 0);
  look(plain, seen, on(cpu));
  look(cubes, seen, on(cube));
  plain.wait_all();
  cubes.wait_all();
  CHECK(seen.tasks == 2);
}

TEST_CASE("more workers of kinds than workers are refused", "[runtime][ring][kinds]") {
  CHECK(refusal([] { Ring(workers(2), {}, {.cube = 2, .vector = 1}); }) ==
        "ring: 2 workers of kind cube and 1 of kind vector where there are 2 workers");
  CHECK(refusal([] { Ring(workers(2), {}, {.cube = -1}); }) != "");
  CHECK(refusal([] { Ring(workers(2), {}, {.vector = 2147483647}); }) != "");
}

TEST_CASE("kinds are refused inside a task and in a program", "[runtime][ring][kinds]") {
  Ring ring(workers(2), {}, {.cube = 1});
  Seen seen;
  std::string inside;
  ring.wait(ring.orchestrate([&](auto& nested) {
    inside = refusal([&] { look(nested, seen, on(cube)); });
    look(nested, seen, {});
  }));
  CHECK(inside ==
        "submit: 'look' names a kind of workers inside another task, whose body must be able to "
        "run it while it waits: name it for the outer task, too");
  Look const look{&seen, 0};
  ProgramTask const recorded[] = {
      {&look_codelet, {}, std::as_bytes(std::span(&look, 1)), on(cube), {}}};
  CHECK(refusal([&] { (void)ring.record(recorded, 0); }) ==
        "record: 'look' names a kind of workers, and tasks of a program run on any: submit it");
  CHECK(seen.tasks == 1);
}

TEST_CASE("a body names its own task's kind for its tasks, and no other",
          "[runtime][ring][kinds]") {
  Ring ring(workers(4, true), {}, {.cube = 1, .vector = 1});
  Seen cubes;
  ring.wait(look(ring, cubes, on(cube)));
  Seen seen, inner;
  std::string other, none;
  auto const sub = [&](auto& nested) {
    other = refusal([&] { look(nested, seen, on(vector)); });
    look(nested, inner, on(cube));
    (void)nested.submit_nesting(
        [&](auto& below) {
          none = refusal([&] { look(below, seen, on(cube)); });
          look(below, seen, {});
        },
        std::span<Use<DataHandle> const>{}, {});
  };
  auto const body = [&](auto& nested) {
    for (int i = 0; i < 20; ++i) look(nested, inner, on(cube, i % 3 - 1));
    (void)nested.submit_nesting(sub, std::span<Use<DataHandle> const>{}, on(cube));
  };
  (void)ring.submit_nesting(body, std::span<Use<DataHandle> const>{}, on(cube));
  ring.wait_all();
  CHECK(inner.tasks == 21);
  CHECK(seen.tasks == 1);
  CHECK(inner.threads == cubes.threads);
  for (auto const& text : {other, none})
    CHECK(text.find("name it for the outer task, too") != std::string::npos);
}

TEST_CASE("a body that waits runs tasks of its kind, the only worker of it too",
          "[runtime][ring][kinds]") {
  Ring ring(workers(3, true), {}, {.cube = 1, .vector = 1});
  for (int round = 0; round < 200; ++round) {
    Seen seen[2];
    for (WorkerKind const kind : {cube, vector}) {
      Seen& its = seen[kind == vector];
      auto const body = [&its, kind, round](auto& nested) {
        for (int i = 0; i < 1 + round % 12; ++i) look(nested, its, on(kind, i % 2));
        if (round % 3 != 0) nested.wait_all();
        nested.wait(look(nested, its, on(kind)));
      };
      (void)ring.submit_nesting(body, std::span<Use<DataHandle> const>{}, on(kind));
    }
    ring.wait_all();
    for (Seen& its : seen) {
      REQUIRE(its.tasks == 2 + round % 12);
      REQUIRE(its.threads.size() == 1);
    }
    REQUIRE(*seen[0].threads.begin() != *seen[1].threads.begin());
  }
}

TEST_CASE("a task of a body is its kind's, whatever another body left in a queue",
          "[runtime][ring][kinds]") {
  Ring ring(workers(3, true), {}, {.cube = 1, .vector = 1});
  Seen cubes, vectors;
  ring.wait(look(ring, cubes, on(cube)));
  ring.wait(look(ring, vectors, on(vector)));
  Seen helped, seen;
  std::atomic<bool> left{false}, over{false};
  auto const inner = [&](auto& nested) {  // one for each slot of a body
    for (int i = 0; i < 8; ++i) nested.wait(look(nested, helped, on(cube)));
  };
  auto const outer = [&](auto& nested) {
    nested.wait(nested.submit_nesting(inner, std::span<Use<DataHandle> const>{}, on(cube)));
    left = true;  // the tasks that the inner body took are still in the queue of cubes
    while (!over) std::this_thread::yield();
  };
  (void)ring.submit_nesting(outer, std::span<Use<DataHandle> const>{}, on(cube));
  while (!left) std::this_thread::yield();
  Hints const hints = GENERATE(on(vector), Hints{});
  auto const other = [&](auto& nested) { look(nested, seen, hints); };
  (void)ring.submit_nesting(other, std::span<Use<DataHandle> const>{}, on(vector));
  bool ran = false;
  for (int waited = 0; !ran && waited < 60'000; ++waited) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::lock_guard const guard(seen.mutex);
    ran = seen.tasks == 1;
  }
  over = true;
  ring.wait_all();
  CHECK(ran);
  CHECK(helped.threads == cubes.threads);
  CHECK(seen.threads.count(*cubes.threads.begin()) == 0);
  if (hints.worker < -1) CHECK(seen.threads == vectors.threads);
}

TEST_CASE("a body of a kind that waits runs its tasks without one", "[runtime][ring][kinds]") {
  Ring ring(workers(2, true), {}, {.cube = 1});
  Held held;
  hold(ring, held, on(cpu));
  while (!held.inside) std::this_thread::yield();
  Seen seen;
  std::atomic<bool> over{false};
  auto const body = [&](auto& nested) {
    nested.wait(look(nested, seen, {}));
    over = true;
  };
  (void)ring.submit_nesting(body, std::span<Use<DataHandle> const>{}, on(cube));
  for (int waited = 0; !over && waited < 60'000; ++waited)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(over);
  held.open = true;
  ring.wait_all();
}

TEST_CASE("a task of a body wakes the sleeping worker of its kind", "[runtime][ring][kinds]") {
  Ring ring(workers(6, true), {}, {.cube = 1});
  auto const target = cell(ring, 1);
  Use<DataHandle> const use{target, Access::update};
  for (int round = 0; round < 20; ++round) {
    Seen seen;
    TokenKeeper kept;
    TokenKeeper* const address = &kept;
    auto const body = [&](auto& nested) {
      Look const look{&seen, 0};
      nested.submit(
          {&keep_codelet, std::span(&use, 1), std::as_bytes(std::span(&address, 1)), {}, {}});
      nested.submit(
          {&look_codelet, std::span(&use, 1), std::as_bytes(std::span(&look, 1)), on(cube), {}});
    };
    (void)ring.submit_nesting(body, std::span(&use, 1), on(cube));
    Completion const token = kept.at(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(3));  // all are asleep
    token.complete();
    ring.wait_all();
    REQUIRE(seen.tasks == 1);
  }
}

TEST_CASE("a task that submits and an asynchronous one run on their kind",
          "[runtime][ring][kinds]") {
  Ring ring(workers(3, true), {}, {.cube = 1, .vector = 1});
  Seen cubes;
  ring.wait(look(ring, cubes, on(cube)));
  std::thread::id outer;
  auto const target = cell(ring, 1);
  Use<DataHandle> const uses[] = {{target, Access::update}};
  (void)ring.submit_nesting([&](auto&) { outer = std::this_thread::get_id(); }, uses, on(cube));
  TokenKeeper kept;
  TokenKeeper* const address = &kept;
  ring.submit({&keep_codelet, uses, std::as_bytes(std::span(&address, 1)), on(vector), {}});
  kept.at(0).complete();
  ring.wait_all();
  CHECK(cubes.threads.count(outer) == 1);
}

TEST_CASE("queues of a kind grow with the others", "[runtime][ring][kinds]") {
  using namespace nntile::detail::ring;
  Kinds const kinds({.cube = 1}, 2);
  Scheduler<RingPolicy> scheduler(2, 2, false, &kinds);
  std::int16_t const cubes = kinds.place(any_of(cube), "");
  scheduler.prepare(normal_level, cubes);
  for (std::uint32_t i = 0; i < 4; ++i) {
    scheduler.push_named(slot_task(0, i), normal_level, cubes);
    scheduler.reserve(1u << (3 + 3 * i));
  }
  CHECK(scheduler.next(0) == no_task);
  CHECK_FALSE(scheduler.any(0));
  CHECK(scheduler.any(1));
  std::uint32_t const group = group_of_worker(cubes);
  for (std::uint32_t i = 0; i < 4; ++i)
    CHECK(scheduler.next(1) == in_group(slot_task(0, i), group));
  CHECK_FALSE(scheduler.any(1));
}
