#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Checks: tasks that end asynchronously, and queries of events.

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "nntile/testing/conformance/check_order.hh"
#include "nntile/testing/conformance/check_thread.hh"
#include "nntile/testing/conformance/scene.hh"

namespace nntile::testing::checks {

inline void late_accumulates(Trial const& trial) {
  Script script(trial.seed, 4, 200);
  for (int i = 0; i < 4 * trial.rounds; ++i)
    script.late({{1, accumulate}}, Finish::outside, nap)
        .late({{1, accumulate}}, Finish::polled)
        .task({{1, accumulate}});
  script.task({{1, read}, {3, update}});
  script.run(trial);
}

inline void every_blocking_place_polls(Trial const& trial) {
  Script script(trial.seed, 4);
  for (int i = 0; i < trial.rounds; ++i)
    for (Finish const finish : late_finishes)
      script.late({{1, update}}, finish)
          .wait()
          .late({{1, update}}, finish)
          .lock(1, read)
          .late({{1, update}}, finish)
          .wait_all()
          .late({{1, read}, {0, write}}, finish)
          .task({{0, read}, {3, update}})
          .wait();
  script.run(trial);
}

inline void asking_is_enough(Trial const& trial) {
  Scene scene(trial);
  std::uint32_t const buffer = scene.allocate();
  scene.task({{buffer, write}});
  for (int i = 0; i < 3 * trial.rounds; ++i)
    for (Finish const finish :
         {Finish::returns, Finish::early, Finish::outside, Finish::polled, Finish::polled_here}) {
      scene.task({{buffer, update}}, {.finish = finish});
      Event const event = scene.task({{buffer, update}});
      while (!scene.runtime().done(event)) std::this_thread::yield();
    }
  scene.runtime().wait_all();
}

inline void events(Trial const& trial) {
  Scene scene(trial, 20000);
  require(scene.runtime().done(Event{}), "a default event is not done");
  scene.runtime().wait(Event{});
  scene.runtime().wait_all();  // nothing to wait for
  std::uint32_t const buffer = scene.allocate();
  Event first;
  {
    Outside::Hold const hold(scene.outside());
    first = scene.task({{buffer, write}}, {.finish = Finish::outside});
    Event const second = scene.task({{buffer, update}});
    require(second.sequence > first.sequence, "sequences do not grow with the order of submission");
    for (int i = 0; i < 100; ++i)
      require(!scene.runtime().done(first) && !scene.runtime().done(second),
              "a task that has not ended is done");
    std::atomic<bool> seen{false};
    CheckThread([&] { seen = scene.runtime().done(first); }).join();
    require(!seen, "another thread was told that a pending task is done");
  }
  scene.runtime().wait_all();
  std::atomic<bool> seen{false};
  CheckThread([&] { seen = scene.runtime().done(first); }).join();
  require(seen, "another thread was told that a finished task is not done");
  for (int i = 0; i < 10000; ++i) scene.task({{buffer, update}});
  scene.runtime().wait_all();
  scene.runtime().wait(first);  // long ago
  require(scene.runtime().done(first), "a task that ended long ago is not done");
}

inline void asked_from_outside(Trial const& trial) {
  Scene scene(trial, 3000);
  std::uint32_t const buffer = scene.allocate();
  Event last = scene.task({{buffer, write}});
  for (int i = 0; i < 500; ++i) last = scene.task({{buffer, update}});
  std::atomic<bool> over{false};
  CheckThread watcher([&] {
    while (!over && !scene.runtime().done(last)) std::this_thread::yield();
  });
  struct End {  // of the watcher, where the driver's calls throw
    std::atomic<bool>& over;
    ~End() { over = true; }
  } const end{over};
  for (int i = 0; i < 500; ++i) scene.task({{buffer, update}}, {.pauses = 1});
  scene.runtime().wait(last);
  watcher.join();
  scene.runtime().wait_all();
}

inline void waits_for_one(Trial const& trial) {
  Scene scene(trial);
  Outside::Hold const hold(scene.outside());
  std::uint32_t const held = scene.allocate();
  std::uint32_t const free = scene.allocate();
  Event const pending = scene.task({{held, write}}, {.finish = Finish::outside});
  scene.runtime().wait(scene.task({{free, write}}));
  Event const behind = scene.task({{held, update}});
  scene.runtime().wait(scene.task({{free, update}}, {.finish = Finish::polled}));
  require(scene.words(free).size() == 4, "a lock gave another size");
  require(!scene.runtime().done(pending) && !scene.runtime().done(behind), "a held task is done");
}

inline void past_a_pending_token(Trial const& trial) {
  std::size_t const count = 100000;
  Scene scene(trial, count + 2);
  {
    Outside::Hold const hold(scene.outside());
    std::uint32_t const held = scene.allocate();
    scene.task({{held, write}}, {.finish = Finish::outside});
    std::vector<std::uint32_t> buffers;
    for (int i = 0; i < 64; ++i) buffers.push_back(scene.allocate(1));
    for (std::size_t i = 0; i < count; ++i)
      scene.task({{buffers[i % 64], i < 64 ? write : update}});
    scene.task({{held, update}});
  }
  scene.runtime().wait_all();
  for (std::size_t i = 0; i < scene.tasks(); ++i)
    require(scene.journal().times_run(i) == 1,
            concat("task ", i, " ran ", scene.journal().times_run(i), " times"));
}

inline void behind_a_pending_token(Trial const& trial) {
  std::size_t const count =
      20000;  // more than fit into any window: submit blocks until the token comes
  Scene scene(trial, count + 1);
  std::uint32_t const buffer = scene.allocate(1);
  scene.task({{buffer, write}}, {.finish = Finish::outside, .pauses = nap});
  for (std::size_t i = 0; i < count; ++i) scene.task({{buffer, i % 2 == 0 ? read : update}});
  scene.runtime().wait_all();
  require(scene.journal().times_run(count) == 1, "the last of 20,000 tasks did not run once");
}

inline void many_tokens(Trial const& trial) {
  int const count = 500 * trial.rounds;
  Scene scene(trial, static_cast<std::size_t>(2 * count));
  std::vector<std::uint32_t> buffers;
  for (int i = 0; i < 32; ++i) buffers.push_back(scene.allocate(2));
  for (int i = 0; i < count; ++i) {
    auto const at = static_cast<std::size_t>(i);
    scene.task({{buffers[at % 32], i < 32 ? write : update}}, {.finish = late_finishes[at % 4]});
    scene.task({{buffers[at % 32], read}});
  }
  scene.runtime().wait_all();
  for (std::size_t i = 0; i < scene.tasks(); ++i)
    require(scene.journal().times_run(i) == 1,
            concat("task ", i, " ran ", scene.journal().times_run(i), " times"));
}

inline void completed_in_any_order(Trial const& trial) {
  Scene scene(trial);
  std::vector<Event> events;
  {
    Outside::Hold const hold(
        scene.outside());  // all begin before one ends; then they end in random order
    for (int i = 0; i < 100; ++i) {
      std::uint32_t const buffer = scene.allocate(2);
      scene.task({{buffer, write}}, {.finish = Finish::outside});
      events.push_back(scene.task({{buffer, update}}));
    }
  }
  for (std::size_t i = events.size(); i-- > 0;) {
    scene.runtime().wait(events[i]);
    require(scene.journal().times_run(2 * i + 1) == 1, "wait returned before its task had run");
    require(scene.runtime().done(events[i]), "a task that was waited for is not done");
  }
}

inline void destruction_waits(Trial const& trial) {
  for (Finish const finish : late_finishes) {
    Adopted memory(4);
    Scene scene(trial);
    std::uint32_t const buffer = scene.adopt(memory);
    scene.task({{buffer, update}}, {.finish = finish, .pauses = nap});
    scene.task({{buffer, update}}, {.pauses = nap});
    scene.destroy();
    require(scene.journal().times_run(0) == 1 && scene.journal().times_run(1) == 1,
            "a runtime was destroyed before its tasks had run");
    require(memory.released == 1, "a runtime was destroyed before it released adopted memory");
  }
}

inline std::vector<NamedCheck> completion() {
  return {
      {"accumulating asynchronous tasks exclude each other until they end", late_accumulates},
      {"wait, wait_all and lock poll", every_blocking_place_polls},
      {"asking done again and again ends a task", asking_is_enough},
      {"events say what is done, soon and long after", events},
      {"any thread may ask whether a task is done", asked_from_outside},
      {"wait waits for its task alone", waits_for_one},
      {"a hundred thousand tasks are submitted past a pending token", past_a_pending_token, true},
      {"twenty thousand tasks queue behind a token", behind_a_pending_token},
      {"hundreds of tokens end in every way", many_tokens},
      {"tokens may be completed in any order", completed_in_any_order},
      {"destruction waits for tasks and tokens", destruction_waits}};
}

}  // namespace nntile::testing::checks
