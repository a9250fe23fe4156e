#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Checks: failure is dataflow, so that what is cancelled depends on the program alone.

#include <atomic>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "nntile/testing/conformance/scene.hh"

namespace nntile::testing::checks {

inline void marks_travel(Trial const& trial) {
  Script script(trial.seed, 8);
  for (int i = 0; i < 3 * trial.rounds; ++i)
    script.failing({{0, write}}, Finish::returns, nap)
        .task({{0, read}, {2, write}})
        .task({{2, read}, {4, write}})
        .task({{4, read}, {1, update}})
        .task({{3, update}})
        .task({{3, read}, {5, update}})
        .wait(4)
        .wait_all();
  script.run(trial);
}

inline void late_consumers_see_marks(Trial const& trial) {
  Script script(trial.seed, 6);
  for (int i = 0; i < 3 * trial.rounds; ++i)
    script.failing({{1, update}})
        .wait()
        .task({{1, read}, {0, write}})
        .wait()
        .wait_all()
        .task({{1, update}})
        .wait()
        .task({{0, read}})
        .wait_all()
        .task({{1, write}})
        .task({{1, read}, {0, write}})
        .wait();
  script.run(trial);
}

inline void writes_clear_marks(Trial const& trial) {
  Script script(trial.seed, 6);
  for (int i = 0; i < 3 * trial.rounds; ++i)
    script.failing({{1, write}, {3, update}}, Finish::returns, nap)
        .task({{1, write}})
        .task({{1, read}, {0, write}})
        .task({{3, read}, {2, write}})
        .task({{2, write}})
        .task({{2, read}, {3, write}})
        .task({{0, read}, {3, update}})
        .failing({{5, write}})
        .failing({{5, write}})
        .task({{5, read}})
        .lock(5, write)
        .task({{5, update}});
  script.run(trial);
}

inline void a_cancelled_write_marks(Trial const& trial) {
  Script script(trial.seed, 4);
  script.failing({{1, update}}, Finish::returns, nap)
      .task({{1, read}, {0, write}, {3, write}})  // cancelled: marks 0 and 3
      .task({{0, read}})
      .task({{3, update}})
      .task({{3, write}})
      .task({{3, read}, {0, write}})
      .task({{0, read}, {3, update}});
  script.run(trial);
}

inline void accumulating_into_marks(Trial const& trial) {
  Script script(trial.seed, 6);
  for (int i = 0; i < 2 * trial.rounds; ++i)
    script.failing({{1, update}})
        .task({{1, accumulate}})
        .task({{1, accumulate}, {3, update}})
        .task({{1, read}, {5, update}})
        .task({{1, write}})
        .task({{5, write}})
        .failing({{3, accumulate}})
        .task({{3, accumulate}})
        .task({{3, read}})
        .task({{3, write}})
        .wait_all();
  script.run(trial);
}

inline void disjoint_writers_and_marks(Trial const& trial) {
  Script script(trial.seed, 6, 32);
  for (int i = 0; i < 2 * trial.rounds; ++i)
    script.task({{1, write_disjoint}})
        .failing({{1, write_disjoint}}, Finish::returns, nap)
        .task({{1, write_disjoint}, {3, update}})
        .task({{1, read}, {5, update}})
        .task({{5, write_disjoint}})
        .task({{5, read}})
        .task({{5, read}, {3, write_disjoint}})
        .task({{3, read}})
        .task({{1, write}})
        .task({{3, write}})
        .task({{5, write}})
        .wait_all();
  script.run(trial);
}

inline void unordered_accesses_and_marks(Trial const& trial) {
  Script script(trial.seed, 6);
  for (int i = 0; i < 2 * trial.rounds; ++i)
    script.failing({{1, unordered}, {3, update}})
        .wait()
        .task({{1, update}})
        .task({{3, unordered}, {5, update}})
        .wait()
        .task({{3, read}, {5, unordered}})
        .task({{5, update}})
        .task({{3, read}})
        .task({{3, write}})
        .wait_all();
  script.run(trial);
}

inline void every_way_to_fail(Trial const& trial) {
  Script script(trial.seed, 6);
  for (int i = 0; i < trial.rounds; ++i)
    for (Finish const finish : {Finish::returns, Finish::early, Finish::outside, Finish::polled,
                                Finish::polled_here, Finish::void_token})
      script.failing({{1, update}}, finish)
          .task({{1, read}, {3, update}})
          .wait()
          .task({{1, write}})
          .task({{3, write}});
  script.run(trial);
}

inline void many_failures(Trial const& trial) {
  Script script(trial.seed, 20);
  for (int i = 0; i < 300 * trial.rounds; ++i) {
    auto const b = static_cast<std::uint32_t>(i % 17);
    if (i % 3 == 0)
      script.failing({{b, write}});
    else
      script.task({{b, i % 5 == 0 ? write : i < 20 ? write : update}, {19, read}});
  }
  script.run(trial);
}

inline void retired_marks(Trial const& trial) {
  Script script(trial.seed, 4);
  for (int i = 0; i < 3 * trial.rounds; ++i)
    script.failing({{0, write}}, Finish::returns, nap)
        .task({{0, read}, {2, write}})
        .renew(0)
        .task({{0, write}})
        .task({{0, read}, {1, update}})
        .failing({{3, update}})
        .renew(3)
        .task({{3, update}})
        .task({{2, write}});
  script.run(trial);
}

inline void error_texts(Trial const& trial) {
  static constexpr char text[] = "the matrix is singular";
  auto body = [](KernelCall const& call) {
    std::memcpy(call.text, text, sizeof text);
    return Status{call.text};
  };
  Scene scene(trial);
  std::uint32_t const buffer = scene.allocate();
  Event const event = scene.call({{buffer, write}}, body, {"h1", 47});
  TaskError const error =
      task_error_of([&] { scene.runtime().wait(event); }, "waiting for a failed task");
  for (std::string const piece : {"call", "h1", "47", text})
    require(std::string(error.what()).find(piece) != std::string::npos,
            concat("the error '", error.what(), "' does not say '", piece, "'"));
  require(error.sequence() == event.sequence,
          "a TaskError has another sequence than the event waited for");
  TaskError const all =
      task_error_of([&] { scene.runtime().wait_all(); }, "wait_all after a failure");
  require(std::string(all.what()).find(text) != std::string::npos,
          concat("the error '", all.what(), "' does not say why"));
}

inline void late_error_texts(Trial const& trial) {
  auto start = [](KernelCall const&, Completion token) {
    char words[] = "the link is down";
    token.complete({words});
    std::memset(words, '#', sizeof words - 1);
    return Status{};
  };
  Scene scene(trial);
  std::uint32_t const buffer = scene.allocate();
  Event const event = scene.start({{buffer, write}}, start);
  TaskError const error =
      task_error_of([&] { scene.runtime().wait(event); }, "waiting for a failed asynchronous task");
  require(std::string(error.what()).find("the link is down") != std::string::npos,
          concat("the text of an asynchronous failure was not copied: '", error.what(), "'"));
}

/// A task, such as a transfer's, that runs although an operand is marked.
inline void runs_on_marks(Trial const& trial) {
  static constexpr Codelet codelet{
      .name = "tell", .async = detail::run_start, .runs_on_marks = true};
  std::atomic<int> marked{0}, unmarked{0}, explained{0};
  auto start = [&](KernelCall const& call, Completion token) {
    ++(call.marked ? marked : unmarked);
    explained += call.marked && std::strstr(call.text, failure_text) != nullptr;
    token.complete({});
    return Status{};
  };
  detail::StartNote const note = detail::start_note(start);
  Scene scene(trial);
  std::uint32_t const good = scene.allocate(), bad = scene.allocate();
  scene.task({{good, write}});
  scene.task({{bad, write}}, {.fails = true});
  Event const told = scene.submit(codelet, {{good, read}, {bad, read}}, detail::bytes_of(note));
  TaskError const error = task_error_of([&] { scene.runtime().wait(told); },
                                        "waiting for a task that ran on a mark and went well");
  require(marked == 1, "a task that asks to run on marks did not run once on one");
  require(explained == 1, "a task that ran on a mark was not told of the failure");
  require(error.cancelled(), "a task that ran on a mark is called failed");
  scene.runtime().wait(scene.submit(codelet, {{good, read}}, detail::bytes_of(note)));
  require(marked == 1 && unmarked == 1, "a task without a marked operand was told of a mark");
}

inline void cancelled_elsewhere(Trial const& trial) {
  static constexpr char text[] = {cancelled_mark, 'r', 'a', 'n', 'k', ' ', '7', 0};
  for (bool const returned : {false, true}) {
    auto start = [&](KernelCall const&, Completion token) {
      if (!returned) token.complete({text});
      return returned ? Status{text} : Status{};
    };
    Scene scene(trial);
    std::uint32_t const buffer = scene.allocate();
    Event const event = scene.start({{buffer, write}}, start);
    scene.task({{buffer, read}});
    TaskError const error = task_error_of([&] { scene.runtime().wait(event); },
                                          "waiting for a task that was cancelled elsewhere");
    require(error.cancelled(), "a task that was cancelled elsewhere is called failed");
    require(std::strstr(error.what(), text + 1) != nullptr,
            concat("the error '", error.what(), "' does not say why"));
    require(std::strchr(error.what(), cancelled_mark) == nullptr,
            "an error begins its cause with the mark of cancellation");
    scene.destroy();
    require(scene.journal().times_run(0) == 0, "a task read what was cancelled elsewhere");
  }
}

inline void throwing_polls(Trial const& trial) {
  struct Link {
    std::atomic<int> looks{0};
    static bool poll(void* state, Completion token) {
      int const look = ++static_cast<Link*>(state)->looks;
      if (look == 3) throw std::runtime_error("the link broke");
      if (look > 3) token.complete({});  // so that a runtime that went on ends
      return look > 3;
    }
  };
  for (bool const driver_only : {false, true}) {
    Link link;
    auto start = [&](KernelCall const&, Completion token) {
      token.poll(&Link::poll, &link, driver_only);
      return Status{};
    };
    Scene scene(trial);
    std::uint32_t const buffer = scene.allocate();
    Event const event = scene.start({{buffer, write}}, start);
    scene.task({{buffer, read}});
    TaskError const error =
        task_error_of([&] { scene.runtime().wait(event); }, "waiting for a task whose poll threw");
    require(!error.cancelled(), "a task whose poll threw is called cancelled");
    require(std::strstr(error.what(), "the link broke") != nullptr,
            concat("the error '", error.what(), "' does not say why"));
    scene.destroy();
    require(scene.journal().times_run(0) == 0, "a task read what a task with a broken poll wrote");
    require(link.looks == 3, "a poll was called after it had thrown");
  }
}

inline void oldest_first(Trial const& trial) {
  Scene scene(trial);
  std::uint32_t const good = scene.allocate();
  scene.task({{good, write}});
  Event oldest{};
  for (int i = 0; i < 5; ++i) {
    Event const event = scene.task({{scene.allocate(), write}},
                                   {.fails = true, .pauses = i == 0 ? nap : std::uint8_t{0}});
    if (i == 0) oldest = event;
    scene.task({{good, update}});
  }
  TaskError const error =
      task_error_of([&] { scene.runtime().wait_all(); }, "wait_all after failures");
  require(error.sequence() == oldest.sequence, "wait_all did not report the oldest failure");
  scene.runtime().wait_all();  // all are reported now
}

inline void reported_marks(Trial const& trial) {
  Scene scene(trial);
  std::uint32_t const bad = scene.allocate();
  scene.task({{bad, write}}, {.fails = true});
  (void)task_error_of([&] { scene.runtime().wait_all(); }, "wait_all after a failure");
  for (Access const access : {read, update})
    (void)task_error_of([&] { scene.runtime().lock(scene.handle(bad), access); },
                        "locking what a failure marked that wait_all has reported");
  scene.runtime().wait_all();
}

inline void wait_all_counts(Trial const& trial) {
  Scene scene(trial);
  std::uint32_t const good = scene.allocate();
  std::uint32_t const bad = scene.allocate();
  scene.task({{good, write}});
  scene.task({{bad, write}}, {.fails = true, .pauses = nap});
  for (int i = 0; i < 36; ++i) scene.task({{bad, update}});
  scene.task({{good, update}});
  for (int i = 0; i < 5; ++i) scene.task({{good, write}}, {.fails = true});
  TaskError const error =
      task_error_of([&] { scene.runtime().wait_all(); }, "wait_all after failures");
  std::string const text = error.what();
  bool const counts = text.find("41") != std::string::npos ||
                      (text.find("36") != std::string::npos && text.find('5') != std::string::npos);
  require(counts,
          concat("wait_all does not say that 41 others failed or were cancelled: '", text, "'"));
  scene.task({{bad, write}});
  scene.task({{good, write}});
  scene.runtime().wait_all();
}

inline void waiting_twice(Trial const& trial) {
  Scene scene(trial);
  std::uint32_t const buffer = scene.allocate();
  std::uint32_t const other = scene.allocate();
  Event const good = scene.task({{other, write}});
  Event const failed = scene.task({{buffer, write}}, {.fails = true});
  Event const cancelled = scene.task({{buffer, update}});
  for (int i = 0; i < 2; ++i) {
    scene.runtime().wait(good);
    require(!task_error_of([&] { scene.runtime().wait(failed); }, "waiting for a failed task")
                 .cancelled(),
            "a failed task is called cancelled");
    require(task_error_of([&] { scene.runtime().wait(cancelled); }, "waiting for a cancelled task")
                .cancelled(),
            "a cancelled task is called failed");
    require(scene.runtime().done(failed) && scene.runtime().done(cancelled),
            "failed and cancelled tasks are not done");
  }
  (void)task_error_of([&] { scene.runtime().lock(scene.handle(buffer), read); },
                      "locking a marked buffer to read");
  (void)task_error_of([&] { scene.runtime().lock(scene.handle(buffer), update); },
                      "locking a marked buffer to update");
  (void)task_error_of([&] { scene.runtime().wait_all(); },
                      "wait_all after a failure that wait has thrown");
}

inline void silent_destruction(Trial const& trial) {
  Adopted memory(4);
  Scene scene(trial);
  std::uint32_t const buffer = scene.adopt(memory);
  scene.task({{buffer, update}}, {.fails = true, .pauses = nap});
  scene.task({{buffer, update}});
  scene.destroy();  // must not throw
  require(memory.released == 1, "marked memory was not released once");
}

inline std::vector<NamedCheck> failure() {
  return {
      {"an error names codelet, tensor, tile and cause", error_texts},
      {"wait_all throws the oldest failure, and reports it once", oldest_first},
      {"a mark outlives its report", reported_marks},
      {"marks travel along the data and nowhere else", marks_travel},
      {"waiting for a failed task throws every time", waiting_twice},
      {"a complete write clears a mark", writes_clear_marks},
      {"tasks submitted after a failure see its marks", late_consumers_see_marks},
      {"a cancelled task marks all that it would have written", a_cancelled_write_marks},
      {"accumulating leaves a mark standing", accumulating_into_marks},
      {"writing disjoint bytes leaves a mark standing", disjoint_writers_and_marks},
      {"an access in no order neither meets a mark nor leaves one", unordered_accesses_and_marks},
      {"a mark ends with its buffer", retired_marks},
      {"wait_all counts the others that failed or were cancelled", wait_all_counts},
      {"a task may fail in every way in which it may end", every_way_to_fail},
      {"the text of an asynchronous failure is copied", late_error_texts},
      {"an exception from a poll fails its task", throwing_polls},
      {"an asynchronous task that asks for it runs on marks", runs_on_marks},
      {"an asynchronous task may say that it was cancelled elsewhere", cancelled_elsewhere},
      {"hundreds of tasks may fail", many_failures},
      {"destruction is silent about failures", silent_destruction}};
}

}  // namespace nntile::testing::checks
