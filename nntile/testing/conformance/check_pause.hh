#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Checks: a runtime that stands still, where it models PausingRuntime.

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "nntile/testing/conformance/scene.hh"

namespace nntile::testing::checks {

inline void require_pause(Scene& scene) {
  if (!scene.runtime().pauses()) throw LeftOut{"the runtime cannot pause"};
}

/// Pauses amid bodies that take long, and behind tasks that none has begun.
inline void paused_runs_nothing(Trial const& trial) {
  std::atomic<int> inside{0}, ran{0};
  auto body = [&](KernelCall const&) {
    inside.fetch_add(1);
    for (int i = 0; i < 10; ++i) std::this_thread::yield();
    ran.fetch_add(1);
    inside.fetch_sub(1);
    return Status{};
  };
  Scene scene(trial);
  require_pause(scene);
  std::uint32_t const chain = scene.allocate();
  int submitted = 0;
  auto const submit = [&] {
    std::uint32_t const other = scene.allocate();
    scene.call({{other, write}}, body);
    scene.call({{chain, submitted == 0 ? write : update}, {other, read}}, body);
    submitted += 2;
  };
  for (int i = 0; i < 20 * trial.rounds; ++i) {
    for (int j = 0; j < i % 8; ++j) submit();
    scene.runtime().pause();
    require(inside == 0, "a body runs behind pause");
    int const before = ran;
    Event last{};
    for (int j = 0; j < 3; ++j) submit();
    last = scene.call({}, body);
    ++submitted;
    std::this_thread::sleep_for(std::chrono::microseconds(i % 4 * 200));
    require(!scene.runtime().done(last), "a task has ended on a paused runtime");
    require(ran == before && inside == 0, "a body has run on a paused runtime");
    scene.runtime().resume();
    if (i % 3 == 0) scene.runtime().wait_all();
  }
  scene.runtime().wait_all();
  require(ran == submitted, "a task submitted to a paused runtime has not run once");
}

inline void paused_waits_are_refused(Trial const& trial) {
  Scene scene(trial);
  require_pause(scene);
  Subject& runtime = scene.runtime();
  std::uint32_t const buffer = scene.allocate(), other = scene.allocate();
  Event const first = scene.task({{buffer, write}});
  scene.task({{other, write}});
  runtime.wait_all();
  runtime.pause();
  runtime.wait(first);
  runtime.wait_all();
  Event const second = scene.task({{buffer, update}});
  require_throws<LifetimeError>([&] { runtime.wait(second); }, "wait on a paused runtime");
  require_throws<LifetimeError>([&] { runtime.wait_all(); }, "wait_all on a paused runtime");
  require_throws<LifetimeError>([&] { (void)runtime.lock(scene.handle(buffer), Access::read); },
                                "a lock that waits on a paused runtime");
  (void)scene.words(other);  // waits for nothing
  require(scene.journal().times_run(2) == 0, "a task has run on a paused runtime");
  runtime.resume();
  runtime.wait(second);
  (void)scene.words(buffer);
  require(scene.journal().times_run(2) == 1, "a task did not run once behind resume");
}

inline void pausing_twice(Trial const& trial) {
  for (bool const destroys : {false, true}) {
    Scene scene(trial);
    require_pause(scene);
    std::uint32_t const buffer = scene.allocate();
    scene.runtime().resume();
    scene.task({{buffer, write}});
    scene.runtime().pause();
    scene.runtime().pause();
    scene.task({{buffer, update}});
    if (!destroys) {
      scene.runtime().resume();
      scene.runtime().resume();
      scene.runtime().wait_all();
    }
    scene.destroy();
    for (std::size_t task = 0; task < 2; ++task)
      require(scene.journal().times_run(task) == 1, "a task did not run once around a pause");
  }
}

inline std::vector<NamedCheck> pause() {
  return {{"a paused runtime runs no body until resume", paused_runs_nothing},
          {"a call that would wait on a paused runtime is refused", paused_waits_are_refused},
          {"pausing twice is pausing once, and destruction resumes", pausing_twice}};
}

}  // namespace nntile::testing::checks
