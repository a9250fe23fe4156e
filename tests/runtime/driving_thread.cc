// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/runtime/common/driving_thread.hh"

#include <atomic>
#include <thread>
#include <vector>

#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::common;

namespace {
/// Whether the calling thread may drive.
bool may_drive(DrivingThread& thread) {
  try {
    thread.enter("submit");
  } catch (LifetimeError const&) {
    return false;
  }
  return true;
}
}  // namespace

TEST_CASE("the thread that made a runtime drives it first", "[runtime][driving_thread]") {
  DrivingThread thread;
  CHECK(thread.here());
  bool elsewhere = true;
  std::thread([&] { elsewhere = thread.here(); }).join();
  CHECK_FALSE(elsewhere);
}

TEST_CASE("whoever calls next takes over driving", "[runtime][driving_thread]") {
  DrivingThread thread(2);
  bool taken = false;
  std::thread([&] {
    thread.enter("submit");
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
  CHECK(test::contains(test::message_of([&] { thread.enter("wait_all"); }), "wait_all"));
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
