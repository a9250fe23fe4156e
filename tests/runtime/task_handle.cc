// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/runtime/task_handle.hh"

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "nntile/runtime/archetype.hh"
#include "tests/runtime/codelets.hh"
#include "tests/runtime/models.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

template class nntile::TaskHandle<RuntimeArchetype>;  // asks for no more than the concept
template class nntile::TaskGroup<RuntimeArchetype>;

namespace {
template <class R> TaskHandle<R> step(R& runtime, typename R::Handle handle) {
  return {runtime, submit(runtime, step_codelet, {{handle, Access::update}}, 1L)};
}
template <class R> TaskHandle<R> broken(R& runtime) {
  return {runtime, submit(runtime, fail_codelet, {{cell(runtime), Access::write}})};
}
}  // namespace

TEST_CASE("a task handle moves and does not copy", "[runtime][task_handle]") {
  static_assert(std::is_nothrow_move_constructible_v<TaskHandle<Serial>>);
  static_assert(!std::is_copy_constructible_v<TaskHandle<Serial>> &&
                !std::is_copy_assignable_v<TaskHandle<Serial>>);
  TaskHandle<Serial> const none;
  CHECK(none.is_complete());
  CHECK_FALSE(static_cast<bool>(none));
}

TEMPLATE_TEST_CASE("a task handle waits for its task", "[runtime][task_handle]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  auto const a = cell(runtime, 1);
  auto task = step(runtime, a);
  task.wait();
  CHECK(task.is_complete());
  task.wait();  // at once
  CHECK(read(runtime, a) == 4);
}

TEMPLATE_TEST_CASE("a wait that is refused may be tried again", "[runtime][task_handle]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  auto task = step(runtime, cell(runtime, 1));
  TaskGroup<TestType> group;
  group.add(step(runtime, cell(runtime, 1)));
  std::string one, all;
  {
    auto const inside = runtime.drive("a test");
    std::thread([&] {
      one = message_of<LifetimeError>([&] { task.wait(); });
      all = message_of<LifetimeError>([&] { group.wait_all(); });
    }).join();
  }
  CHECK(contains(one, "is inside a test"));
  CHECK(contains(all, "is inside a test"));
  CHECK(static_cast<bool>(task));
  CHECK(group.size() == 1);
  task.wait();
  group.wait_all();
}

TEST_CASE("a task handle that dies on another thread waits for its turn, and the task",
          "[runtime][task_handle]") {
  Alone runtime;  // where nothing runs but in a call
  std::atomic<bool> begun{false}, ran{false};
  constexpr Codelet note{"note", [](KernelCall const& call) noexcept -> Status {
                           **static_cast<std::atomic<bool>* const*>(call.arguments) = true;
                           return {};
                         }};
  TaskHandle<Alone> task(runtime, submit(runtime, note, {}, &ran));
  std::thread other;
  {
    auto const inside = runtime.drive("a test");
    other = std::thread([&] {
      begun = true;
      TaskHandle<Alone> const ends = std::move(task);
    });
    while (!begun) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  other.join();
  CHECK(ran);
}

TEMPLATE_TEST_CASE("a task handle waits when it dies", "[runtime][task_handle]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  Event event;
  {
    auto const task = step(runtime, cell(runtime, 1));
    event = task.event();
  }
  CHECK(runtime.done(event));
}

TEMPLATE_TEST_CASE("a detached task runs on by itself", "[runtime][task_handle]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  TokenKeeper keeper;
  auto const a = cell(runtime, 1);
  Event event;
  {
    TaskHandle<TestType> task(runtime,
                              submit(runtime, keep_codelet, {{a, Access::update}}, &keeper));
    event = task.detach();
  }  // would hang here if it waited
  CHECK_FALSE(runtime.done(event));
  std::thread completer([&] { keeper.at(0).complete(); });
  runtime.wait_all();
  completer.join();
}

TEMPLATE_TEST_CASE("the destructor of a failed task does not throw, and wait_all reports",
                   "[runtime][task_handle]", NNTILE_TEST_MODELS) {
  TestType runtime;
  {
    auto const task = broken(runtime);
  }
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
}

TEMPLATE_TEST_CASE("assigning to a task handle waits for the task that it held",
                   "[runtime][task_handle]", NNTILE_TEST_MODELS) {
  TestType runtime;
  auto task = step(runtime, cell(runtime, 1));
  Event const first = task.event();
  task = step(runtime, cell(runtime, 2));
  CHECK(runtime.done(first));
  TaskHandle<TestType> other = std::move(task);
  other.wait();
}

TEMPLATE_TEST_CASE("a group waits for all its tasks and throws the first failure",
                   "[runtime][task_handle]", NNTILE_TEST_MODELS) {
  TestType runtime;
  auto const a = cell(runtime, 1);
  TaskGroup<TestType> group;
  group.add(step(runtime, a));
  group.add(broken(runtime));
  group.add(step(runtime, a));
  CHECK(group.size() == 3);
  CHECK_THROWS_AS(group.wait_all(), TaskError);
  CHECK(group.empty());
  CHECK(read(runtime, a) == 13);
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
}

TEMPLATE_TEST_CASE("a group whose wait was refused throws the failure that it has met",
                   "[runtime][task_handle]", NNTILE_TEST_MODELS) {
  TestType one, other;
  TaskGroup<TestType> group;
  group.add(broken(one));
  group.add(step(other, cell(other, 1)));
  std::string refused;
  {
    auto const inside = other.drive("a test");
    std::thread([&] { refused = message_of<LifetimeError>([&] { group.wait_all(); }); }).join();
  }
  CHECK(contains(refused, "is inside a test"));
  CHECK_THROWS_AS(group.wait_all(), TaskError);
  group.wait_all();  // once
  CHECK_THROWS_AS(one.wait_all(), TaskError);
}

TEMPLATE_TEST_CASE("a group throws once for a task whose runtime has ended",
                   "[runtime][task_handle]", NNTILE_TEST_MODELS) {
  std::optional<TestType> gone(std::in_place);
  TestType runtime;
  TaskGroup<TestType> any, all;
  for (TaskGroup<TestType>* const group : {&any, &all}) {
    group->add(step(*gone, cell(*gone, 1)));
    group->add(step(runtime, cell(runtime, 1)));
  }
  gone.reset();
  CHECK_THROWS_AS(any.wait_any(), LifetimeError);
  CHECK(any.wait_any() == 1);
  CHECK_THROWS_AS(any.wait_any(), ValueError);
  CHECK_THROWS_AS(all.wait_all(), LifetimeError);
  all.wait_all();
}

TEMPLATE_TEST_CASE("wait_any returns each task once", "[runtime][task_handle]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  TaskGroup<TestType> group;
  for (int i = 0; i < 5; ++i) group.add(step(runtime, cell(runtime, 1)));
  std::size_t sum = 0;
  for (int i = 0; i < 5; ++i) sum += group.wait_any();
  CHECK(sum == 10);
  CHECK_THROWS_AS(group.wait_any(), ValueError);
}

TEMPLATE_TEST_CASE("wait_any begins anew in a group that was emptied", "[runtime][task_handle]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  TaskGroup<TestType> group, other;
  for (int i = 0; i < 3; ++i) {
    group.add(step(runtime, cell(runtime, 1)));
    group.add(step(runtime, cell(runtime, 1)));
    std::size_t const first = group.wait_any();
    CHECK(first < 2);
    group.add(step(runtime, cell(runtime, 1)));
    CHECK(group.wait_any() + group.wait_any() + first == 3);
    CHECK_THROWS_AS(group.wait_any(), ValueError);
    if (i == 0)
      group.wait_all();
    else
      other = std::move(group);
  }
}

TEMPLATE_TEST_CASE("wait_any runs what only the thread that drives would run",
                   "[runtime][task_handle]", NNTILE_TEST_MODELS) {
  TestType runtime;
  TaskGroup<TestType> group;
  group.add(step(runtime, cell(runtime, 1)));
  std::atomic<bool> returned{false};
  std::thread other([&] {
    group.wait_any();
    returned = true;
  });
  for (int i = 0; i < 5000 && !returned; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(returned);
  if (!returned) runtime.wait_all();
  other.join();
}

TEMPLATE_TEST_CASE("wait_any is refused inside a task", "[runtime][task_handle]",
                   NNTILE_TEST_MODELS) {
  struct Asked {
    TaskGroup<TestType> group;
    std::string refused;
  } asked;
  static constexpr Codelet ask{"ask", +[](KernelCall const& call) noexcept -> Status {
                                 auto& its = **static_cast<Asked* const*>(call.arguments);
                                 its.refused =
                                     message_of<LifetimeError>([&] { its.group.wait_any(); });
                                 return {};
                               }};
  TestType runtime;
  asked.group.add(step(runtime, cell(runtime, 1)));
  runtime.wait(submit(runtime, ask, {}, &asked));
  CHECK(contains(asked.refused, "called inside a task"));
  CHECK(asked.group.wait_any() == 0);
}

TEMPLATE_TEST_CASE("wait_any passes a pending task over", "[runtime][task_handle]", Alone, Four,
                   Watched) {
  TestType runtime;
  TokenKeeper keeper;
  TaskGroup<TestType> group;
  group.add(
      {runtime, submit(runtime, keep_codelet, {{cell(runtime, 1), Access::update}}, &keeper)});
  group.add(step(runtime, cell(runtime, 1)));
  CHECK(group.wait_any() == 1);
  std::thread completer([&] { keeper.at(0).complete(); });
  CHECK(group.wait_any() == 0);
  completer.join();
}
