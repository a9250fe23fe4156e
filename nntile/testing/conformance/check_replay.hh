#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Checks: a recorded program leaves what its tasks would have left, submitted one by one.

#include <atomic>
#include <vector>

#include "nntile/testing/conformance/draw.hh"
#include "nntile/testing/conformance/scene.hh"

namespace nntile::testing::checks {

/// Replays are checked where the runtime has them.
inline void require_replay(Trial const& trial) {
  if (!trial.replays) throw LeftOut{"the runtime does not model ReplayingRuntime"};
}

/// Three bindings: b1 = f(b0), b2 = g(b1, b2), b0 = h(b2), with a diamond of readers in between.
inline Script diamond(Trial const& trial) {
  Script tasks(trial.seed, 3);
  tasks.task({{0, read}, {1, write}}, nap).task({{1, read}, {2, update}}).task({{1, read}});
  tasks.task({{1, read}, {2, read}, {0, write}}, 2).task({{0, update}});
  return tasks;
}

inline void replay_once(Trial const& trial) {
  require_replay(trial);
  Script tasks(trial.seed, 3);
  for (std::uint32_t b = 0; b < 3; ++b) tasks.task({{b, write}});
  Script script(trial.seed, 6);
  script.record(tasks).replay({0, 1, 3}).wait();
  script.run(trial);
}

inline void replay_parameters(Trial const& trial) {
  require_replay(trial);
  Script tasks(trial.seed, 3);
  for (std::uint32_t b = 0; b < 3; ++b) tasks.task({{b, write}});
  Script script(trial.seed, 6);
  script.record(tasks);
  for (int i = 0; i < 3; ++i)
    script.replay({0, 1, 3}).wait_all().replay({2, 1, 5}).wait_all().lock(1, read);
  script.run(trial);
}

/// A replay that reads what a task before it is still writing.
inline void replay_waits(Trial const& trial) {
  require_replay(trial);
  Script tasks(trial.seed, 2);
  tasks.task({{0, read}, {1, write}});
  Script script(trial.seed, 2);
  script.record(tasks).task({{0, write}}, nap).replay({0, 1});
  script.run(trial);
}

/// A task that has ended beside one that has not.
inline void replay_is_done(Trial const& trial) {
  require_replay(trial);
  HeldTask held;
  std::atomic<int> ran{0};
  auto body = [&](KernelCall const&) {
    ++ran;
    return Status{};
  };
  Scene scene(trial);
  HeldTask::End const end{held};
  Subject& runtime = scene.runtime();
  Subject::Handle const buffers[] = {scene.handle(scene.allocate()),
                                     scene.handle(scene.allocate())};
  Use<Binding> const first[] = {{0, write}}, second[] = {{1, write}};
  detail::StartNote const start = held.note();
  CallNote const call = call_note(body);
  ProgramTask const tasks[] = {{&start_codelet, first, detail::bytes_of(start), {}, {}},
                               {&call_codelet, second, detail::bytes_of(call), {}, {}}};
  auto const program = runtime.record(tasks, 2, {});
  Event const replay = runtime.replay(program, buffers, {});
  for (int i = 0; i < 100; ++i)
    require(!runtime.done(replay), "a replay is done while one of its tasks has not ended");
  held.release();
  runtime.wait(replay);
  require(runtime.done(replay) && ran == 1, "a replay was waited for and is not done");
}

inline void replay_in_order(Trial const& trial) {
  require_replay(trial);
  Script script(trial.seed, 6);
  script.record(diamond(trial));
  for (int i = 0; i < 5 * trial.rounds; ++i)
    script.task({{1, update}}, nap)
        .replay({1, 0, 3})
        .task({{0, read}, {5, update}}, 1)
        .task({{1, read}, {3, update}}, nap)
        .replay({3, 2, 1})
        .task({{2, write}})
        .lock(3, read);
  script.run(trial);
}

inline void several_flights(Trial const& trial) {
  require_replay(trial);
  Script script(trial.seed, 24);
  script.record(diamond(trial));
  for (int i = 0; i < trial.rounds; ++i) {
    // Eight flights of one program on other buffers each, then eight that follow each other.
    for (std::uint32_t b = 0; b < 24; b += 3) {
      for (std::uint32_t const even : {b, b + 1, b + 2})
        if (even % 2 == 0) script.task({{even, write}});
      script.replay({b, b + 1, b + 2});
    }
    for (int again = 0; again < 8; ++again) script.replay({1, 0, 3});
    script.task({{0, read}, {1, read}, {3, update}});
  }
  script.run(trial);
}

inline void replay_after_readers(Trial const& trial) {
  require_replay(trial);
  Script writer(trial.seed, 1);
  writer.task({{0, write}});
  Script reader(trial.seed + 1, 2);
  reader.task({{0, read}, {1, write}}, nap).task({{0, read}});
  Script script(trial.seed, 8);
  script.record(writer).record(reader);
  for (int i = 0; i < 5 * trial.rounds; ++i)
    script.task({{1, read}, {0, write}}, nap)
        .task({{1, read}, {2, write}}, nap)
        .replay({1}, 0)
        .replay({1, 4}, 1)
        .replay({1, 6}, 1)
        .task({{1, write}})
        .replay({1, 4}, 1)
        .replay({1}, 0)
        .task({{4, read}, {6, read}, {3, update}})
        .wait(2);
  script.run(trial);
}

/// A replay of tasks that all fail, each of which counts.
inline void failures_of_a_replay_count(Trial const& trial) {
  auto body = [](KernelCall const&) { return Status{failure_text}; };
  CallNote const note = call_note(body);
  Scene scene(trial);
  std::vector<ProgramTask> const tasks(42, {&call_codelet, {}, detail::bytes_of(note), {}, {}});
  auto const program = scene.runtime().record(tasks, 0, {});
  (void)scene.runtime().replay(program, {}, {});
  std::string const text =
      task_error_of([&] { scene.runtime().wait_all(); }, "wait_all after failures").what();
  require(text.find("41") != std::string::npos,
          concat("wait_all does not say that 41 others of a replay failed: '", text, "'"));
}

inline void failing_replays(Trial const& trial) {
  require_replay(trial);
  failures_of_a_replay_count(trial);
  Script script(trial.seed, 8);
  script.record(diamond(trial));
  for (int i = 0; i < trial.rounds; ++i)
    for (int failing = 0; failing < 5; ++failing)
      script.replay({1, 0, 3}, 0, failing)
          .wait()
          .task({{1, read}, {5, update}})
          .task({{3, read}, {5, update}})
          .replay({5, 2, 7})
          .wait_all()
          .task({{1, write}})
          .task({{3, write}})
          .task({{5, write}})
          .task({{7, write}})
          .replay({1, 0, 3});
  script.run(trial);
}

inline void replay_refusals(Trial const& trial) {
  require_replay(trial);
  Script script(trial.seed, 8);
  script.record(diamond(trial));
  for (int i = 0; i < trial.rounds; ++i)
    script.replay({1, 1, 3})
        .replay({1, 0, 1})
        .replay({1, 3, 3})
        .replay({4, 1, 3})
        .replay({1, 3, 4})
        .replay({1, 4, 3})
        .task({{4, update}})
        .replay({4, 1, 3})
        .renew(4);
  script.run(trial);
}

inline void replay_unusual(Trial const& trial) {
  require_replay(trial);
  Script empty(trial.seed, 2);
  Script lone(trial.seed, 4);  // bindings 0 and 3 are in the table and unused
  lone.task({{1, update}, {2, update}, {1, read}});
  Script wide(trial.seed, max_operands);
  std::vector<Use<Binding>> all;
  std::vector<std::uint32_t> bindings;
  for (std::uint32_t b = 0; b < max_operands; ++b) {
    all.push_back({b, b % 2 == 0 ? write : update});
    bindings.push_back(b);
  }
  wide.task(all).task({{0, update}});
  Script script(trial.seed, max_operands);
  script.record(empty).record(lone).record(wide);
  for (int i = 0; i < trial.rounds; ++i)
    script.replay({0, 1}, 0)
        .wait()
        .replay({0, 1, 3, 2}, 1)
        .wait()
        .replay(bindings, 2)
        .task({{0, update}, {1, update}});
  script.run(trial);
}

inline void late_replays(Trial const& trial) {
  require_replay(trial);
  Script tasks(trial.seed, 3);
  for (Finish const finish : {Finish::early, Finish::outside, Finish::polled, Finish::polled_here})
    tasks.late({{0, update}}, finish, nap)
        .task({{0, read}, {1, write}})
        .late({{1, read}, {2, update}}, finish);
  Script script(trial.seed, 8);
  script.record(tasks);
  for (int i = 0; i < 2 * trial.rounds; ++i)
    script.replay({1, 0, 3})
        .replay({5, 2, 7})
        .task({{3, read}, {7, update}})
        .replay({7, 0, 1})
        .wait(1)
        .replay({3, 4, 5})
        .lock(5, read);
  script.run(trial);
}

inline void many_replays(Trial const& trial) {
  require_replay(trial);
  Script tasks(trial.seed, 4, 2);
  for (int i = 0; i < 50; ++i)
    tasks.task({{static_cast<std::uint32_t>(i) % 4, update},
                {static_cast<std::uint32_t>(i * 3) % 4, update}});
  Script script(trial.seed, 12, 2);
  script.record(tasks);
  for (int i = 0; i < 100 * trial.rounds; ++i)
    script.replay({1, 3, 5, 7}).replay({9, 11, 1, 3}).task({{5, read}, {9, update}});
  script.run(trial);
}

inline void random_replays(Trial const& trial) {
  require_replay(trial);
  for (int i = 0; i < 3 * trial.rounds; ++i)
    run_program(trial, draw_program(trial.seed * 1000 + 700000 + static_cast<std::uint64_t>(i),
                                    {.steps = 150,
                                     .late = i % 3 == 0 ? 20 : 0,
                                     .other = 10,
                                     .unwritten = i % 2 == 0 ? 5 : 0,
                                     .replays = 40}));
}

inline void random_failing_replays(Trial const& trial) {
  require_replay(trial);
  for (int i = 0; i < 3 * trial.rounds; ++i)
    run_program(trial, draw_program(trial.seed * 1000 + 800000 + static_cast<std::uint64_t>(i),
                                    {.steps = 150,
                                     .failing = 4,
                                     .late = i % 3 == 0 ? 20 : 0,
                                     .other = 8,
                                     .replays = 30,
                                     .replayed = 40}));
}

inline std::vector<NamedCheck> replay() {
  return {{"a replay runs every task of its program once", replay_once},
          {"a replay takes its own bindings and parameters", replay_parameters},
          {"a replay waits for the tasks before it", replay_waits},
          {"a replay is done when all of its tasks are", replay_is_done},
          {"a replay leaves each handle's last writer and readers", replay_after_readers},
          {"a replay and the tasks around it keep their order", replay_in_order},
          {"one program may be in flight several times", several_flights},
          {"a failure within a replay marks what its tasks would mark", failing_replays},
          {"bindings that alias, or are unwritten, are refused", replay_refusals},
          {"programs may be empty, leave bindings out, or have 40 of them", replay_unusual},
          {"programs may hold asynchronous tasks", late_replays},
          {"hundreds of replays queue", many_replays},
          {"random programs with replays leave what their tasks would leave", random_replays},
          {"random programs with replays and failures mark what their tasks would mark",
           random_failing_replays}};
}

}  // namespace nntile::testing::checks
