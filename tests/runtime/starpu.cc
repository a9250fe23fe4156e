// SPDX-License-Identifier: BSD-3-Clause
// What is StarPU's own. The law that it shares with other runtimes is tested in conformance.cc.
#ifdef NNTILE_HAVE_STARPU
#include "nntile/runtime/starpu/starpu.hh"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <starpu.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/starpu/process.hh"
#include "nntile/core/computation.hh"
#include "nntile/core/machine_model.hh"
#include "tests/runtime/codelets.hh"
#include "tests/runtime/forked.hh"
#include "tests/runtime/starpu_tasks.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using nntile::test::contains;
using nntile::test::message_of;

namespace {

using namespace nntile::test::on_starpu;
using nntile::test::on_starpu::submit;  // beside the other below

/// The work of a task without operands, given by a pointer in its arguments.
struct Action {
  virtual Status run() = 0;
  virtual ~Action() = default;
};
Status run_action(KernelCall const& call) noexcept {
  Action* action;
  std::memcpy(&action, call.arguments, sizeof action);
  return action->run();
}
constexpr Codelet action_codelet{"action", run_action, nullptr, nullptr};

template <class Body> struct Doing final : Action {
  explicit Doing(Body what) : body(std::move(what)) {}
  Status run() override {
    body();
    return {};
  }
  Body body;
};

std::span<std::byte const> bytes_of(Action* const& action) {
  return std::as_bytes(std::span(&action, 1));
}
Event submit(StarPU& runtime, Action& action, Hints hints = {}) {
  Action* const pointer = &action;
  return runtime.submit({&action_codelet, {}, bytes_of(pointer), hints, {}});
}

Status keep_token(KernelCall const& call, Completion token) noexcept {
  std::atomic<Completion*>* kept;
  std::memcpy(&kept, call.arguments, sizeof kept);
  kept->store(new Completion(token));
  return {};
}
constexpr Codelet keep_codelet{"keep", nullptr, nullptr, keep_token};

/// An asynchronous task that ends when the test says so.
class Kept {
 public:
  Event submit(StarPU& runtime, Uses const& uses) {
    auto* const pointer = &token_;
    return runtime.submit({&keep_codelet, uses, std::as_bytes(std::span(&pointer, 1)), {}, {}});
  }
  void complete(Status status = {}) {
    while (token_.load() == nullptr) std::this_thread::yield();
    Completion* const token = token_.exchange(nullptr);
    token->complete(status);
    delete token;
  }

 private:
  std::atomic<Completion*> token_{nullptr};
};

std::size_t virtual_bytes() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

TEST_CASE("more workers than StarPU was built with are an error that names the limit",
          "[runtime][starpu]") {
  int const limit = starpu_shim::worker_limit();
  auto const text = message_of<ValueError>([&] { StarPU runtime({.workers = limit + 1}); });
  CHECK(contains(text, concat("workers=", limit + 1)));
  CHECK(contains(text, concat("at most ", limit)));
}

TEST_CASE("a second object shares the workers of the first, and may ask for no others",
          "[runtime][starpu]") {
  StarPU const first({.workers = 2});
  CHECK(StarPU().workers().cpu == 2);
  CHECK(StarPU({.workers = 2}).workers().cpu == 2);
  CHECK(contains(message_of<ValueError>([] { StarPU({.workers = 1}); }), "ask for 2"));
}

TEST_CASE("StarPU starts again after its last object has ended", "[runtime][starpu]") {
  for (int const workers : {1, 2, 1}) {
    StarPU runtime({.workers = workers});
    DataHandle const buffer = runtime.allocate(sizeof(long));
    submit(runtime, clear_codelet, {{buffer, Access::write}});
    submit(runtime, increment_codelet, {{buffer, Access::update}});
    CHECK(value_of(runtime, buffer) == 1);
  }
}

TEST_CASE("a folder that StarPU cannot write to is an error", "[runtime][starpu]") {
  std::string const too_long = "/tmp/" + std::string(200, 'x');
  for (char const* const folder : {"/dev/null", "/proc/nntile", too_long.c_str()}) {
    Variable const home("STARPU_HOME", folder);
    auto const text = message_of<ValueError>([] { StarPU(); });
    CHECK(contains(text, folder));
    CHECK(contains(text, "set STARPU_HOME"));
  }
}

TEST_CASE("a process that was forked while StarPU started keeps no other from starting",
          "[runtime][starpu]") {
  std::string const file = concat(getenv("STARPU_HOME"), "/.starpu/sampling/bus/nntile.lock");
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  std::optional<starpu_shim::EnvironmentCalibrationLock> starting(std::in_place);
  pid_t const child = fork();
  if (child == 0) {  // until the parent has looked
    char byte;
    close(ends[1]);
    _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
  }
  starting.reset();
  int const descriptor = open(file.c_str(), O_RDWR);
  bool is_free = false;  // soon, as other tests start StarPU as well
  for (int i = 0; i < 3000 && !is_free; ++i) {
    is_free = flock(descriptor, LOCK_EX | LOCK_NB) == 0;
    if (!is_free) detail::sleep_ns(10'000'000);
  }
  CHECK(is_free);
  close(descriptor);
  close(ends[1]);
  close(ends[0]);
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("a signal does not end the wait for another process that starts StarPU",
          "[runtime][starpu]") {
  std::string const file = concat(getenv("STARPU_HOME"), "/.starpu/sampling/bus/nntile.lock");
  starpu_shim::EnvironmentCalibrationLock();  // makes the file
  struct sigaction action{}, before{};
  action.sa_handler = [](int) {};
  REQUIRE(sigaction(SIGUSR1, &action, &before) == 0);
  int const other = open(file.c_str(), O_RDWR);
  REQUIRE(flock(other, LOCK_EX) == 0);
  std::atomic<bool> locked{false};
  std::thread starter([&] {
    starpu_shim::EnvironmentCalibrationLock const lock;
    locked = true;
  });
  for (int i = 0; i < 50 && !locked; ++i) {
    detail::sleep_ns(1'000'000);
    pthread_kill(starter.native_handle(), SIGUSR1);
  }
  CHECK(!locked);
  close(other);
  starter.join();
  CHECK(locked);
  (void)sigaction(SIGUSR1, &before, nullptr);
}

TEST_CASE("environment variables change neither the number of workers nor the policy's safety",
          "[runtime][starpu]") {
  Variable const count("STARPU_NCPU", "1"), bind("STARPU_MAIN_THREAD_BIND", "1");
  for (char const* const policy : {"dmdas", "heteroprio", "prio", "eager", "ws"}) {
    Variable const scheduler("STARPU_SCHED", policy);
    StarPU runtime({.workers = 2});
    CHECK(runtime.workers().cpu == 2);
    DataHandle const buffer = runtime.allocate(sizeof(long));
    submit(runtime, clear_codelet, {{buffer, Access::write}});
    Uses const uses{{buffer, Access::update}};
    for (int priority : {-7, 0, 1'000'000})
      runtime.submit({&increment_codelet, uses, {}, {.priority = priority}, {}});
    Kept kept;
    kept.submit(runtime, uses);
    submit(runtime, increment_codelet, uses);
    std::thread([&] { kept.complete(); }).join();
    CHECK(value_of(runtime, buffer) == 4);
  }
}

TEST_CASE("a task that hints at a worker runs there, and one that hints at none there is runs",
          "[runtime][starpu]") {
  StarPU runtime({.workers = 2});
  std::mutex mutex;
  std::vector<std::thread::id> threads;
  auto note = Doing([&] {
    std::lock_guard const guard(mutex);
    threads.push_back(std::this_thread::get_id());
  });
  for (int i = 0; i < 50; ++i) submit(runtime, note, {.worker = 1});
  runtime.wait_all();
  CHECK(std::count(threads.begin(), threads.end(), threads.front()) == 50);
  submit(runtime, note, {.worker = 0});
  runtime.wait_all();
  CHECK(threads.back() != threads.front());
  submit(runtime, note, {.worker = 17});
  runtime.wait_all();
  CHECK(threads.size() == 52);
}

TEST_CASE("of two tasks that are ready the one of higher priority goes first",
          "[runtime][starpu]") {
  StarPU runtime({.workers = 1});
  std::atomic<bool> open{false};
  std::vector<int> order;
  auto gate = Doing([&] {
    while (!open) std::this_thread::yield();
  });
  auto low = Doing([&] { order.push_back(0); });
  auto high = Doing([&] { order.push_back(1); });
  submit(runtime, gate);
  submit(runtime, low, {.priority = -1});
  submit(runtime, high, {.priority = 1});
  open = true;
  runtime.wait_all();
  CHECK(order == std::vector{1, 0});
}

TEST_CASE("ten thousand adopted buffers are each released once", "[runtime][starpu]") {
  constexpr std::size_t count = 10'000;
  static std::atomic<int> releases[count];
  std::vector<long> memory(count);
  {
    StarPU runtime({.workers = 2});
    for (std::size_t i = 0; i < count; ++i) {
      DataHandle const buffer = runtime.adopt(
          std::as_writable_bytes(std::span(&memory[i], 1)), host,
          {[](void* state) noexcept { ++*static_cast<std::atomic<int>*>(state); }, &releases[i]});
      submit(runtime, increment_codelet, {{buffer, Access::update}});
      if (i % 3 != 0) runtime.retire(buffer);
    }
  }
  CHECK(std::count(std::begin(releases), std::end(releases), 1) == count);
  CHECK(std::count(memory.begin(), memory.end(), 1) == count);
}

TEST_CASE("a transient buffer has storage from its first writer on", "[runtime][starpu]") {
  StarPU runtime({.workers = 2});
  runtime.open_scope(Lifetime::scratch);
  [[maybe_unused]] std::size_t const before = virtual_bytes();
  std::size_t const large = std::size_t{1} << 28;
  for (int i = 0; i < 8; ++i) runtime.allocate(large, host, Lifetime::scratch);
#ifndef __SANITIZE_ADDRESS__  // which keeps what was freed
  CHECK(virtual_bytes() < before + large);
#endif
  DataHandle const small = runtime.allocate(sizeof(long), host, Lifetime::scratch);
  submit(runtime, clear_codelet, {{small, Access::write}});
  auto const bytes = runtime.lock(small, Access::update);
  CHECK(reinterpret_cast<std::uintptr_t>(bytes.data()) % 64 == 0);
  CHECK(bytes.size() == sizeof(long));
  runtime.unlock(small);
  runtime.close_scope(Lifetime::scratch);
  CHECK_THROWS_AS(runtime.lock(small, Access::read), LifetimeError);
}

TEST_CASE("a transient buffer that nothing has written is waited for and retired",
          "[runtime][starpu]") {
  StarPU runtime({.workers = 1});
  runtime.open_scope(Lifetime::scope);
  for (Lifetime const lifetime : {Lifetime::scope, Lifetime::persistent}) {
    DataHandle const buffer = runtime.allocate(64, host, lifetime);
    runtime.wait_and_retire(buffer);
    CHECK_THROWS_AS(runtime.lock(buffer, Access::write), LifetimeError);
  }
  runtime.close_scope(Lifetime::scope);
}

TEST_CASE("a runtime that ends while buffers are locked releases them", "[runtime][starpu]") {
  long value = 3;
  static std::atomic<int> released;
  released = 0;
  {
    StarPU runtime({.workers = 1});
    DataHandle const buffer = runtime.adopt(std::as_writable_bytes(std::span(&value, 1)), host,
                                            {[](void*) noexcept { ++released; }, nullptr});
    runtime.lock(buffer, Access::update);
  }
  CHECK(released == 1);
}

TEST_CASE("a forked child may destroy the runtime, any call there throws, and it makes no other",
          "[runtime][starpu]") {
  test::TokenKeeper keeper;
  test::HeldThreads held;
  auto runtime = std::make_unique<StarPU>(RuntimeOptions{.workers = 1});
  DataHandle const a = test::cell(*runtime, 1);
  Event const first = test::submit(*runtime, test::keep_codelet, {{a, Access::update}}, &keeper);
  (void)keeper.at(0);
  held.hold(*runtime, 1);
  int const right = test::in_child([&] {
    auto const refused = test::refused_in_child<std::function<void()>>;
    int count = refused("submit", [&] { test::submit(*runtime, test::step_codelet, {}); });
    count += refused("wait", [&] { runtime->wait(first); });
    count += refused("done", [&] { (void)runtime->done(first); });
    count += refused("lock", [&] { (void)runtime->lock(a, Access::read); });
    count += refused("retire", [&] { runtime->retire(a); });
    count += contains(message_of<LifetimeError>([] { StarPU other; }), "forked from process");
    runtime.reset();
    return count;
  });
  CHECK(right == 6);
  held.let_go();
  keeper.at(0).complete();
  CHECK(test::read(*runtime, a) == 1);
}

TEST_CASE("inside a task of one object another is out of bounds", "[runtime][starpu]") {
  StarPU outer({.workers = 2}), inner({.workers = 2});
  std::string from_wait, from_start;
  auto nest = Doing([&] {
    from_wait = message_of<LifetimeError>([&] { inner.wait_all(); });
    from_start = message_of<LifetimeError>([&] { StarPU runtime; });
  });
  outer.wait(submit(outer, nest));
  CHECK(contains(from_wait, "inside a task"));
  CHECK(contains(from_start, "inside a task"));
}

TEST_CASE("workers sleep while nothing is in flight, and wake for the next task",
          "[runtime][starpu]") {
  StarPU runtime({.workers = 2});
  auto nothing = Doing([] {});
  auto const cpu_seconds = [] {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  };
  for (int round = 0; round < 3; ++round) {
    runtime.wait(submit(runtime, nothing));
    double used = 1;
    while (used > 0.001) {  // s of CPU time in 20 ms, of which two spinning workers take up to 0.04
      double const before = cpu_seconds();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      used = cpu_seconds() - before;
    }
  }
  SUCCEED("they slept three times, and ran each task in between");
}

TEST_CASE("a driver that waits for room goes on while a token is out", "[runtime][starpu]") {
  StarPU runtime({.workers = 2});
  DataHandle const buffer = runtime.allocate(sizeof(long));
  submit(runtime, clear_codelet, {{buffer, Access::write}});
  Kept kept;
  kept.submit(runtime, {{buffer, Access::update}});
  constexpr long count = 70'000;  // more than may be in flight otherwise
  for (long i = 0; i < count; ++i) submit(runtime, increment_codelet, {{buffer, Access::update}});
  kept.complete();
  CHECK(value_of(runtime, buffer) == count);
}

/// What StarPU knows of the task that runs.
struct Seen {
  starpu_codelet* codelet = nullptr;
  double microseconds = 0;  // that it expects
};
Seen seen_task;
Status look(KernelCall const&) noexcept {
  starpu_task* const task = starpu_task_get_current();
  auto* const worker =
      starpu_worker_get_perf_archtype(starpu_worker_get_id(), STARPU_NMAX_SCHED_CTXS);
  seen_task = {task->cl, starpu_task_expected_length(task, worker, 0)};
  return {};
}
Status look_again(KernelCall const& call) noexcept { return look(call); }

Seen seen(StarPU& runtime, Codelet const& codelet, Uses const& uses = {}, Cost cost = {}) {
  seen_task = {};
  runtime.wait(runtime.submit({&codelet, uses, {}, {}, {}, cost}));
  return seen_task;
}

TEST_CASE("codelets of one computation are one codelet of StarPU", "[runtime][starpu]") {
  static constexpr Computation one{"one"}, other{"other"};
  static constexpr Codelet for_v3{"one", look, nullptr, nullptr, 0, &one},
      for_v4{"one", look_again, nullptr, nullptr, 0, &one},
      another{"other", look, nullptr, nullptr, 0, &other}, alone{"alone", look, nullptr, nullptr};
  StarPU runtime({.workers = 2});
  starpu_codelet* const codelet = seen(runtime, for_v3).codelet;
  REQUIRE(codelet != nullptr);
  CHECK(seen(runtime, for_v4).codelet == codelet);
  CHECK(seen(runtime, another).codelet != codelet);
  CHECK(seen(runtime, alone).codelet != codelet);
}

TEST_CASE("codelets of one computation keep entries of their own", "[runtime][starpu]") {
  static constexpr Computation one{"one"};
  static constexpr Codelet clears{"one", clear, nullptr, nullptr, 0, &one},
      increments{"one", increment, nullptr, nullptr, 0, &one};
  StarPU runtime({.workers = 2});
  DataHandle const buffer = runtime.allocate(sizeof(long));
  submit(runtime, clears, {{buffer, Access::write}});
  submit(runtime, increments, {{buffer, Access::update}});
  CHECK(value_of(runtime, buffer) == 1);
}

TEST_CASE("StarPU expects of a task what its cost says", "[runtime][starpu]") {
  static constexpr Codelet codelet{"look", look, nullptr, nullptr};
  for (int start = 0; start < 2; ++start) {  // models outlive StarPU
    StarPU runtime({.workers = 2});
    for (Cost const cost : {Cost{0, 1 << 20}, Cost{1 << 28, 1 << 20}}) {
      double const wanted = 1e6 * task_seconds(cost, MachineModel{});
      double const expected = seen(runtime, codelet, {}, cost).microseconds;
      CHECK(std::abs(expected - wanted) < 1e-6 * wanted);
    }
  }
}

TEST_CASE("StarPU expects of a task without a cost what its operands take", "[runtime][starpu]") {
  static constexpr Codelet codelet{"look", look, nullptr, nullptr};
  StarPU runtime({.workers = 2});
  DataHandle const x = runtime.allocate(1 << 20), y = runtime.allocate(1 << 16);
  submit(runtime, clear_codelet, {{y, Access::write}});
  double const expected =
      seen(runtime, codelet, {{x, Access::write}, {y, Access::update}}).microseconds;
  double const wanted = 1e6 * task_seconds({0, (1 << 20) + 2 * (1 << 16)}, MachineModel{});
  CHECK(std::abs(expected - wanted) < 1e-6 * wanted);
}

TEST_CASE("buffers are locked and retired where memory runs short", "[runtime][starpu]") {
  for (Lifetime const lifetime : {Lifetime::persistent, Lifetime::scratch})
    for (long count = 0; count < 4; ++count) {
      INFO("call " << count << " of operator new fails");
      StarPU runtime({.workers = 1});
      runtime.open_scope(Lifetime::scratch);
      DataHandle const handle = runtime.allocate(8, host, lifetime);
      (void)test::fail_new_after(count);
      (void)runtime.lock(handle, Access::write);
      runtime.unlock(handle);
      runtime.retire(handle);
      (void)test::fail_new_after(-1);
      CHECK_THROWS_AS(runtime.retire(handle), LifetimeError);
    }
}

TEST_CASE("StarPU ends where memory runs short in its destructor", "[runtime][starpu]") {
  auto runtime = std::make_unique<StarPU>(RuntimeOptions{.workers = 1});
  DataHandle const handle = runtime->allocate(8);
  submit(*runtime, clear_codelet, {{handle, Access::write}});
  runtime->wait_all();
  (void)test::fail_new_after(0);
  runtime.reset();
  CHECK(test::fail_new_after(-1) == 0);
}
#else
#include "tests/support/catch.hh"
#include "tests/support/skip.hh"

TEST_CASE("StarPU runs tasks", "[runtime][starpu]") {
  nntile::test::skip("built without StarPU (-Dstarpu=disabled, or libstarpu-dev is not installed)");
}
#endif
