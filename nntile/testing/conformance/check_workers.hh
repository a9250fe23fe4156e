#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Checks: threads, and several runtimes side by side.

#include <atomic>
#include <cfenv>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "nntile/testing/conformance/check_thread.hh"
#include "nntile/testing/conformance/draw.hh"
#include "nntile/testing/conformance/scene.hh"

namespace nntile::testing::checks {

inline void impossible_workers(Trial const& trial) {
  for (int const workers : {0, -1, 1025}) {
    RuntimeOptions options = trial.options;
    options.workers = workers;
    require_throws<Error>([&] { trial.factory(options); },
                          concat("building a runtime with ", workers, " workers"));
  }
}

/// All workers must be inside a task at one time before any of them leaves.
inline void workers_overlap(Trial const& trial) {
  if (trial.workers() < 2) throw LeftOut{"one worker runs one task at a time"};
  std::atomic<int> inside{0};
  int const all = trial.workers();
  auto body = [&](KernelCall const&) {
    inside.fetch_add(1);
    while (inside.load() < all) std::this_thread::yield();
    return Status{};
  };
  for (int i = 0; i < trial.rounds; ++i) {
    inside = 0;
    Scene scene(trial);
    for (int worker = 0; worker < all; ++worker) scene.call({{scene.allocate(), write}}, body);
    scene.runtime().wait_all();
  }
}

/// Two readers of one buffer must be able to run at one time.
inline void readers_overlap(Trial const& trial) {
  if (trial.workers() < 2) throw LeftOut{"one worker runs one task at a time"};
  std::atomic<int> inside{0};
  auto body = [&](KernelCall const&) {
    inside.fetch_add(1);
    while (inside.load() < 2) std::this_thread::yield();
    return Status{};
  };
  Scene scene(trial);
  std::uint32_t const shared = scene.allocate();
  scene.task({{shared, write}});
  scene.call({{shared, read}, {scene.allocate(), write}}, body);
  scene.call({{shared, read}, {scene.allocate(), write}}, body);
  scene.runtime().wait_all();
}

/// In every call that might run a task: a full window, too, blocks `submit`.
inline void own_driver_only_waits(Trial const& trial) {
  if (!trial.options.own_driver) throw LeftOut{"the driver executes tasks"};
  std::thread::id const driver = std::this_thread::get_id();
  std::atomic<int> on_driver{0};
  auto body = [&](KernelCall const&) {
    on_driver += std::this_thread::get_id() == driver;
    return Status{};
  };
  auto start = [&](KernelCall const& call, Completion token) {
    token.complete(body(call));
    return Status{};
  };
  Scene scene(trial);
  std::uint32_t const buffer = scene.allocate();
  scene.task({{buffer, write}});
  for (int i = 0; i < 20 * trial.rounds; ++i) {
    scene.call({}, body);
    Event const event = scene.call({{buffer, update}}, body);
    while (i % 4 == 0 && !scene.runtime().done(event)) std::this_thread::yield();
    if (i % 4 == 1) scene.runtime().wait(event);
    scene.start({{buffer, update}}, start);
    if (i % 4 == 2) (void)scene.words(buffer);
    if (i % 4 == 3) scene.runtime().wait_all();
  }
  for (int i = 0; i < 20'000; ++i) scene.call({{buffer, update}}, body);
  scene.runtime().wait_all();
  require(on_driver == 0,
          concat(on_driver.load(), " tasks ran on the driver, which is no worker here"));
}

inline void tasks_do_not_submit(Trial const& trial) {
  std::atomic<bool> threw{false};
  std::atomic<bool> threw_otherwise{false};
  std::atomic<bool> nested_ran{false};
  auto nested = [&](KernelCall const&) {
    nested_ran = true;
    return Status{};
  };
  Scene* driver = nullptr;
  auto body = [&](KernelCall const&) {
    try {
      driver->call({}, nested);
    } catch (Error const&) {
      threw = true;
    } catch (...) {
      threw_otherwise = true;
    }
    return Status{};
  };
  {
    Scene scene(trial);
    driver = &scene;
    scene.call({}, body);
    scene.runtime().wait_all();
  }
  require(!threw_otherwise, "a task's submission was refused by something that is no Error");
  require(threw != nested_ran, threw ? "a task whose submission was refused ran"
                                     : "a task submitted by a task was neither refused nor run");
}

inline void several_runtimes(Trial const& trial) {
  Program const program = draw_program(trial.seed + 5, {.steps = 120, .failing = 2});
  Journal journals[3];
  Outside outside;
  std::unique_ptr<ProgramRun> runs[3];
  {
    std::unique_ptr<Subject> runtimes[3];
    for (int i = 0; i < 3; ++i) {
      runtimes[i] = trial.make();
      runs[i] = std::make_unique<ProgramRun>(program, journals[i], outside);
    }
    for (int i = 2; i >= 0; --i) runs[i]->run(*runtimes[i]);
    runtimes[1].reset();  // neither the first made nor the last
    runtimes[0]->wait_all();
  }
  for (auto const& run : runs) run->finish();
}

inline void runtimes_in_threads(Trial const& trial) {
  std::deque<CheckThread> threads;
  for (std::uint64_t i = 0; i < 3; ++i)
    threads.emplace_back([&trial, i] {
      run_program(trial, draw_program(trial.seed + i, {.failing = 2, .unwritten = 2}));
    });
  for (auto& thread : threads) thread.join();
}

/// One thread after the other may drive.
inline void driver_moves(Trial const& trial) {
  Scene scene(trial);
  std::uint32_t const buffer = scene.allocate();
  scene.task({{buffer, write}}, {.pauses = nap});
  Event last{};
  CheckThread([&] {
    for (int i = 0; i < 20; ++i) last = scene.task({{buffer, update}}, {.pauses = 1});
    scene.runtime().wait(last);
    last = scene.task({{buffer, update}}, {.finish = Finish::polled, .pauses = nap});
  }).join();
  scene.runtime().wait(last);
  scene.task({{buffer, update}});
  require(scene.words(buffer).size() == 4, "a lock gave another size");
  CheckThread([&] {
    scene.task({{buffer, update}}, {.finish = Finish::outside, .pauses = nap});
    scene.runtime().wait_all();
  }).join();
  for (std::size_t i = 0; i < scene.tasks(); ++i)
    require(scene.journal().times_run(i) == 1, "a task did not run once when the driver changed");
  scene.destroy();
}

/// By arithmetic, because std::fegetround reads another register on some processors.
inline bool rounds_up() {
  double const volatile one = 1.0;
  double const volatile tiny = 1e-30;
  return one + tiny > 1.0;
}

inline void floating_point_mode(Trial const& trial) {
  struct Restore {
    std::fenv_t environment;
    Restore() { std::fegetenv(&environment); }
    ~Restore() { std::fesetenv(&environment); }
  } const restore;
  std::atomic<int> rounding_up{0};
  auto body = [&](KernelCall const&) {
    rounding_up += rounds_up();
    std::fesetround(FE_UPWARD);  // a careless one
    return Status{};
  };
  auto start = [&](KernelCall const& call, Completion token) {
    token.complete(body(call));
    return Status{};
  };
  std::fesetround(FE_UPWARD);
  Scene scene(trial);  // threads inherit the mode of the thread that makes them
  for (int i = 0; i < 20; ++i) {
    scene.call({{scene.allocate(), write}}, body);
    scene.start({{scene.allocate(), write}}, start);
  }
  scene.runtime().wait_all();
  require(rounding_up == 0,
          concat(rounding_up.load(),
                 " of 40 tasks ran under the rounding mode of the caller or of a task before"));
  require(rounds_up(), "the caller's rounding mode was not restored");
}

/// Fails unless the body has `bytes` of its own while it runs.
template <std::size_t bytes> Status paint_workspace(KernelCall const& call) noexcept {
  if (call.workspace == nullptr) return {"was lent no workspace"};
  if (reinterpret_cast<std::uintptr_t>(call.workspace) % 64 != 0)
    return {"was lent a misaligned workspace"};
  static std::atomic<std::uint64_t> bodies{0};
  std::uint64_t const mine = ++bodies;
  auto* const words = static_cast<std::uint64_t*>(call.workspace);
  constexpr std::size_t count = bytes / sizeof mine, last = count - 1, stride = count / 64 + 1;
  for (std::size_t at = 0; at < count; at += stride) words[at] = words[last] = mine;
  for (int i = 0; i < 10; ++i) std::this_thread::yield();
  for (std::size_t at = 0; at < count; at += stride)
    if (words[at] != mine || words[last] != mine) return {"shared its workspace with another body"};
  return {};
}
template <std::size_t bytes>
inline constexpr Codelet paint_codelet{"paint", &paint_workspace<bytes>, nullptr, nullptr, bytes};

inline void workspaces(Trial const& trial) {
  Scene scene(trial);
  std::size_t const lent = scene.runtime().workspace_bytes();
  constexpr std::size_t least = 64;
  if (lent < least) throw LeftOut{"the runtime lends no workspaces"};
  Codelet const& codelet =
      lent < max_workspace_bytes ? paint_codelet<least> : paint_codelet<max_workspace_bytes>;
  for (int i = 0; i < 20 * trial.rounds; ++i)
    scene.submit(codelet, {{scene.allocate(), write}}, {});
  scene.runtime().wait_all();
}

inline std::vector<NamedCheck> workers() {
  return {{"0, -1 and 1,025 workers are an error", impossible_workers},
          {"as many tasks run at one time as there are workers", workers_overlap},
          {"two readers of a buffer run at one time", readers_overlap},
          {"a driver that only waits executes no task", own_driver_only_waits},
          {"a task that submits is refused, or nested", tasks_do_not_submit},
          {"several runtimes live side by side", several_runtimes},
          {"several threads drive a runtime each", runtimes_in_threads},
          {"one thread after the other may drive", driver_moves},
          {"tasks run under the default floating-point mode, and the caller's is restored",
           floating_point_mode},
          {"each body has a workspace of its own, where the runtime lends any", workspaces}};
}

}  // namespace nntile::testing::checks
