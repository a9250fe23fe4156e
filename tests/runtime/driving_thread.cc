// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/runtime/support/driving_thread.hh"

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "nntile/runtime/adaptors/check.hh"
#include "nntile/runtime/adaptors/forward.hh"
#include "nntile/runtime/adaptors/null.hh"
#include "nntile/runtime/adaptors/record.hh"
#include "nntile/runtime/adaptors/transcribe.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/runtimes.hh"

using namespace nntile;
using namespace nntile::support;

namespace {
/// A runtime that does not replay, and calls back once between two of its calls.
struct Hooked : Forward<test::Threads> {
  using Forward<test::Threads>::Forward;
  static constexpr std::string_view runtime_name = "hooked";
  static inline std::function<void()> behind_submit;

  Event submit(Task<Handle> const& task) {
    Event const event = Forward<test::Threads>::submit(task);
    if (auto const call = std::exchange(behind_submit, {})) call();
    return event;
  }
};

/// Whether the calling thread may drive.
bool may_drive(DrivingThread& thread) {
  try {
    auto const inside = thread.enter("submit");
  } catch (LifetimeError const&) {
    return false;
  }
  return true;
}

std::string text_of(std::thread::id id) { return (std::ostringstream() << id).str(); }

/// A task that runs until `open`.
struct Gate {
  std::atomic<bool> entered{false}, open{false};
};
constexpr Codelet gate_codelet{"gate",
                               +[](KernelCall const& call) noexcept -> Status {
                                 auto& gate = **static_cast<Gate* const*>(call.arguments);
                                 gate.entered = true;
                                 while (!gate.open) std::this_thread::yield();
                                 return {};
                               },
                               nullptr, nullptr};

template <class R> struct AnyRuntime : R {
  AnyRuntime() : R(RuntimeOptions{.workers = 1}) {}
};
using DrivenRuntimes =
    std::tuple<Serial, AnyRuntime<Ring>, AnyRuntime<test::Threads>, AnyRuntime<test::DynamicRing>,
#ifdef NNTILE_HAVE_STARPU
               AnyRuntime<StarPU>,
#endif
               AnyRuntime<Record<Ring>>, AnyRuntime<Check<Ring>>>;
}  // namespace

TEST_CASE("the thread that made a runtime drives it first", "[runtime][driving_thread]") {
  DrivingThread thread;
  CHECK(thread.here());
  bool elsewhere = true;
  std::thread([&] { elsewhere = thread.here(); }).join();
  CHECK_FALSE(elsewhere);
}

TEST_CASE("the next thread to call takes over driving", "[runtime][driving_thread]") {
  DrivingThread thread(2);
  bool taken = false;
  std::thread([&] {
    auto const inside = thread.enter("submit");
    taken = thread.here();
  }).join();
  CHECK(taken);
  CHECK_FALSE(thread.here());
  CHECK(may_drive(thread));
  CHECK(thread.here());
}

TEST_CASE("inside a task the driver may not drive, nested or not", "[runtime][driving_thread]") {
  DrivingThread thread;
  {
    DrivingThread::InTask const outer(thread);
    {
      DrivingThread::InTask const inner(thread);
      CHECK_FALSE(may_drive(thread));
    }
    CHECK_FALSE(may_drive(thread));
    CHECK_FALSE(thread.here());
  }
  CHECK(may_drive(thread));
}

TEST_CASE("inside a task a worker may not drive, and the driver still may",
          "[runtime][driving_thread]") {
  DrivingThread thread(4);
  std::atomic<int> inside{0}, refused{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> workers;
  for (int i = 0; i < 4; ++i)
    workers.emplace_back([&] {
      DrivingThread::InTask const task(thread);
      refused += may_drive(thread) ? 0 : 1;
      ++inside;
      while (!stop) std::this_thread::yield();
    });
  while (inside != 4) std::this_thread::yield();
  bool const driving = may_drive(thread);
  stop = true;
  for (std::thread& worker : workers) worker.join();
  CHECK(driving);
  CHECK(refused == 4);
}

TEST_CASE("the error names the call", "[runtime][driving_thread]") {
  DrivingThread thread;
  DrivingThread::InTask const task(thread);
  CHECK(test::contains(test::message_of([&] { (void)thread.enter("wait_all"); }), "wait_all"));
}

TEST_CASE("more threads inside tasks than announced do no harm", "[runtime][driving_thread]") {
  DrivingThread thread(1);
  std::atomic<int> inside{0};
  std::vector<std::thread> workers;
  for (int i = 0; i < 20; ++i)
    workers.emplace_back([&] {
      DrivingThread::InTask const task(thread);
      ++inside;
      while (inside != 20) std::this_thread::yield();
    });
  for (std::thread& worker : workers) worker.join();
  CHECK(may_drive(thread));
}

TEST_CASE("a worker that is inside many tasks at a time leaves room for others",
          "[runtime][driving_thread]") {
  DrivingThread thread(2);
  std::atomic<bool> deep{false}, over{false};
  std::thread nested([&] {
    std::deque<DrivingThread::InTask> tasks;  // each inside the one before
    for (int i = 0; i < 100; ++i) tasks.emplace_back(thread);
    deep = true;
    while (!over) std::this_thread::yield();
    while (!tasks.empty()) tasks.pop_back();
  });
  while (!deep) std::this_thread::yield();
  bool drives = true;
  std::thread([&] {
    DrivingThread::InTask const task(thread);
    drives = may_drive(thread);
  }).join();
  over = true;
  nested.join();
  CHECK_FALSE(drives);
  CHECK(may_drive(thread));
}

TEST_CASE("a call while the driver is inside throws with both threads and both calls",
          "[runtime][driving_thread]") {
  DrivingThread thread(0, nullptr, GENERATE(true, false));
  std::string text, other;
  {
    auto const inside = thread.enter("wait_all");
    std::thread([&] {
      other = text_of(std::this_thread::get_id());
      text = test::message_of<LifetimeError>([&] { (void)thread.enter("submit"); });
    }).join();
    CHECK(thread.here());
  }
  CHECK(text == "submit: called by thread " + other + " while thread " +
                    text_of(std::this_thread::get_id()) +
                    " is inside wait_all: one thread drives a runtime at a time; let the other's "
                    "call return before (join, or lock a mutex around both), or give each thread a "
                    "runtime of its own");
  CHECK(may_drive(thread));
}

TEST_CASE("a call inside another leaves the outer one in place", "[runtime][driving_thread]") {
  DrivingThread thread(0, nullptr, GENERATE(true, false));
  auto const outer = thread.enter("wait_all");
  {
    auto const inner = thread.enter("retire");
  }
  std::string text;
  std::thread([&] {
    text = test::message_of<LifetimeError>([&] { (void)thread.enter("submit"); });
  }).join();
  CHECK(test::contains(text, "is inside wait_all"));
}

TEST_CASE("a thread takes over when the last driver's thread has ended",
          "[runtime][driving_thread]") {
  DrivingThread thread(0, nullptr, GENERATE(true, false));
  for (int i = 0; i < 20; ++i) {
    bool driven = false;
    std::thread([&] { driven = may_drive(thread) && thread.here(); }).join();
    CHECK(driven);
  }
  CHECK(may_drive(thread));
}

TEST_CASE("who asks whether a task is done delays a new driver and does not stop it",
          "[runtime][driving_thread]") {
  DrivingThread thread(0, nullptr, GENERATE(true, false));
  std::atomic<bool> asks{false}, leave{false}, drives{false};
  std::thread asker([&] {
    {
      auto const inside = thread.enter("submit");
    }
    auto const inside = thread.enter_as_driver();
    asks = true;
    while (!leave) std::this_thread::yield();
    CHECK_FALSE(drives);
  });
  while (!asks) std::this_thread::yield();
  CHECK_FALSE(thread.enter_as_driver());
  std::thread driver([&] {
    auto const inside = thread.enter("submit");
    drives = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  leave = true;
  asker.join();
  driver.join();
  CHECK(drives);
}

TEST_CASE("of threads that enter at will, one is inside at a time", "[runtime][driving_thread]") {
  DrivingThread thread(0, nullptr, GENERATE(true, false));
  constexpr int threads = 2;
  constexpr auto time = std::chrono::milliseconds(300);
  std::atomic<long> entered{0};
  std::atomic<bool> stop{false};
  long guarded = 0;  // for the thread sanitizer, and lost updates
  auto const drive = [&](int self) {
    for (int i = 0; !stop.load(std::memory_order_relaxed); ++i) {
      try {
        auto const in = thread.enter("submit");
        guarded = guarded + 1;
        if (i % 16 == self) auto const nested = thread.enter("retire");
        entered.fetch_add(1, std::memory_order_relaxed);
      } catch (LifetimeError const&) {
      }
      if (i % (256 << 2 * self) == 0) std::this_thread::yield();
    }
  };
  std::vector<std::thread> callers;
  for (int t = 0; t < threads; ++t) callers.emplace_back(drive, t);
  std::this_thread::sleep_for(time);
  stop = true;
  for (std::thread& caller : callers) caller.join();
  CHECK(guarded == entered);
  CHECK(may_drive(thread));
}

TEMPLATE_LIST_TEST_CASE("a second thread is refused by every runtime, which goes on",
                        "[runtime][driving_thread]", DrivenRuntimes) {
  TestType runtime;
  auto const handle = test::cell(runtime, 7);
  Gate gate;
  std::string text, other;
  std::thread second([&] {
    other = text_of(std::this_thread::get_id());
    while (!gate.entered) std::this_thread::yield();
    while (!test::contains(text, "one thread drives a runtime"))
      text = test::message_of<LifetimeError>(
          [&] { test::submit(runtime, test::put_codelet, {{handle, Access::write}}, 8); });
    gate.open = true;
  });
  auto const call = [&](auto&& what) {  // until the second thread is not inside
    while (test::contains(test::message_of<LifetimeError>(what), "one thread drives"))
      std::this_thread::yield();
  };
  call([&] { test::submit(runtime, gate_codelet, {{handle, Access::update}}, &gate); });
  call([&] { runtime.wait_all(); });
  second.join();
  runtime.wait_all();
  CHECK(test::contains(text, "called by thread " + other));
  CHECK(test::contains(text, "while thread " + text_of(std::this_thread::get_id()) + " is inside"));
}

TEMPLATE_LIST_TEST_CASE("several drivers may come one after the other", "[runtime][driving_thread]",
                        test::AllRuntimes) {
  TestType runtime;
  auto const handle = test::cell(runtime, 0);
  for (int i = 0; i < 5; ++i)
    std::thread([&] {
      test::submit(runtime, test::step_codelet, {{handle, Access::update}}, 1);
    }).join();
  CHECK(test::read(runtime, handle) == 121);
}

TEST_CASE("Null is driven by one thread at a time, too", "[runtime][driving_thread]") {
  Null runtime;
  auto const inside = runtime.drive("two calls in one");
  std::string text;
  std::thread([&] {
    text = test::message_of<LifetimeError>([&] { (void)runtime.allocate(4); });
  }).join();
  CHECK(test::contains(text, "is inside two calls in one"));
}

TEST_CASE("a transcript is not taken while another thread drives", "[runtime][driving_thread]") {
  Transcribe<Serial> runtime;
  auto const inside = runtime.drive("a test");
  std::string text;
  std::thread([&] {
    text = test::message_of<LifetimeError>([&] { (void)runtime.transcript(); });
  }).join();
  CHECK(test::contains(text, "is inside a test"));
}

TEST_CASE("a replay that is made of single tasks is one call", "[runtime][driving_thread]") {
  Dynamic<Hooked> runtime("hooked");
  auto const handle = test::cell(runtime, 1);
  long const value = 1;
  Use<Binding> const use{0, Access::update};
  ProgramTask const task{
      &test::step_codelet, {&use, 1}, std::as_bytes(std::span(&value, 1)), {}, {}};
  auto const program = runtime.record({&task, 1}, 1, {});
  std::string text;
  Hooked::behind_submit = [&] {
    std::thread([&] {
      text = test::message_of<LifetimeError>([&] { (void)test::cell(runtime); });
    }).join();
  };
  runtime.wait(runtime.replay(program, {&handle, 1}, {}));
  CHECK(test::contains(text, "is inside replay"));
  CHECK(test::read(runtime, handle) == 4);
}
