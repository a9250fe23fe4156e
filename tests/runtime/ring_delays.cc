// SPDX-License-Identifier: BSD-3-Clause
// Random programs on rings whose atomics wait at random, so that threads meet in orders that a
// quiet machine hardly ever shows. A ring that hangs is named, and ends the test program.
//
// NNTILE_DELAYED_RUNS=1000000 test_runtime '[delays]' is the long form; NNTILE_DELAYED_SEED=2 draws
// other programs and delays. Its figures are in bench/results/ring_delays.txt.

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "nntile/runtime/ring/ring.hh"
#include "tests/runtime/interrupted_atomic.hh"
#include "tests/runtime/ring_program.hh"
#include "tests/support/catch.hh"
#include "tests/support/setting.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// How many replays or submissions a test makes.
std::uint64_t runs(std::uint64_t in_the_suite) {
  return setting("NNTILE_DELAYED_RUNS", in_the_suite);
}
std::uint64_t seed() { return setting("NNTILE_DELAYED_SEED", 1); }

/// Waits before and after operations: seldom, and longest where a lane opens (a released word of 64
/// bits) and where a worker has just read which flights are active (a sequentially consistent one).
struct Delays {
  static void before(Operation, std::size_t, std::memory_order) { any(); }
  static void after(Operation operation, std::size_t bytes, std::memory_order order) {
    any();
    if (bytes != sizeof(std::uint64_t)) return;
    bool const opens = operation == Operation::store && order == std::memory_order_release,
               reads = operation == Operation::load && order == std::memory_order_seq_cst;
    if (opens && random() % 15 == 0) sleep_below(1000);
    if (reads && random() % 60 == 0) sleep_below(4000);
  }

 private:
  static std::uint32_t random() {
    static std::atomic<std::uint64_t> threads{0};
    static thread_local std::uint64_t state = scramble(seed(), ++threads);
    state = scramble(state, 1);
    return static_cast<std::uint32_t>(state >> 32);
  }
  static void sleep_below(std::uint32_t microseconds) { (void)usleep(random() % microseconds); }
  static void any() {
    std::uint32_t const drawn = random() % 40000;
    if (drawn == 0) return sleep_below(2000);
    if (drawn < 20)
      for (std::uint32_t i = random() % 2000; i-- > 0;) detail::ring::relax();
    else if (drawn < 40)
      (void)sched_yield();
  }
};

struct DelayedPolicy : RingPolicy {
  template <class T> using Atomic = InterruptedAtomic<T, Delays>;
  struct Sizes : RingSizes {
    // Bodies are tiny, every one or every second of them:
    static constexpr std::uint32_t timed_every = 2;
    static constexpr std::int64_t tiny_ns = std::int64_t{1} << 40;
    static constexpr std::uint32_t most_rounds = 32;
    static constexpr std::uint32_t deque = 2;
    static constexpr std::uint32_t argument_bytes = 256;
    static constexpr std::uint32_t flights = 2;
    static constexpr std::uint64_t first_sequence = (std::uint64_t{1} << 32) - 5;
    static constexpr std::int64_t spin_ns = 2000;
  };
};

using DelayedRing = BasicRing<DelayedPolicy>;

/// Ends the test program, saying what it was at, when nothing has ended for a minute: a thread that
/// waits in vain cannot be called back.
class Watchdog {
 public:
  explicit Watchdog(char const* what) : what_(what), thread_([this] { watch(); }) {}
  ~Watchdog() {
    {
      std::lock_guard const guard(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void made_progress() { progress_.fetch_add(1); }
  std::uint64_t progress() const { return progress_.load(); }
  void now_with(int workers) { workers_.store(workers); }

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    for (std::uint64_t last = ~std::uint64_t{0};;) {
      if (changed_.wait_for(lock, std::chrono::seconds(60), [this] { return over_; })) return;
      std::uint64_t const now = progress_.load();
      if (now == last) {
        std::fprintf(stderr, "%s: HANGS after %llu, with %d workers, seed %llu\n", what_,
                     static_cast<unsigned long long>(now), workers_.load(),
                     static_cast<unsigned long long>(seed()));
        std::abort();
      }
      last = now;
    }
  }

  char const* const what_;
  std::atomic<std::uint64_t> progress_{0};
  std::atomic<int> workers_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

/// A task whose entry has returned: another thread does its work, then ends it.
struct Pending {
  MixArguments arguments;
  void* buffers[4];
  Completion token;
  int polls_left = 0;
};
void finish(Pending* pending) {
  Status const status = mix({pending->buffers, &pending->arguments, nullptr});
  Completion const token = pending->token;
  delete pending;
  token.complete(status);
}
Pending* pending_of(KernelCall const& call, Completion token) {
  auto* const pending = new Pending;
  std::memcpy(&pending->arguments, call.arguments, sizeof pending->arguments);
  std::copy_n(call.buffers, pending->arguments.operands, pending->buffers);
  pending->token = token;
  pending->polls_left = static_cast<int>(pending->arguments.salt % 4);
  return pending;
}

/// Threads that are none of the ring's and end tasks.
class Completers {
 public:
  Completers() {
    for (auto& thread : threads_) thread = std::thread([this] { work(); });
  }
  ~Completers() {
    {
      std::lock_guard const guard(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    for (auto& thread : threads_) thread.join();
  }
  void add(Pending* pending) {
    {
      std::lock_guard const guard(mutex_);
      pending_.push_back(pending);
    }
    changed_.notify_one();
  }
  static inline Completers* current = nullptr;

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return over_ || !pending_.empty(); });
      if (pending_.empty()) return;
      Pending* const pending = pending_.front();
      pending_.pop_front();
      lock.unlock();
      finish(pending);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Pending*> pending_;
  bool over_ = false;
  std::thread threads_[2];
};

constexpr Codelet elsewhere{"mix_elsewhere", nullptr, nullptr,
                            +[](KernelCall const& call, Completion token) noexcept -> Status {
                              Completers::current->add(pending_of(call, token));
                              return {};
                            }};
template <bool driver_only>
constexpr Codelet polled{"mix_polled", nullptr, nullptr,
                         +[](KernelCall const& call, Completion token) noexcept -> Status {
                           token.poll(
                               +[](void* state, Completion) {
                                 auto* const pending = static_cast<Pending*>(state);
                                 if (pending->polls_left-- > 0) return false;
                                 finish(pending);
                                 return true;
                               },
                               pending_of(call, token), driver_only);
                           return {};
                         }};
constexpr Codelet const* kinds[] = {&mix_codelet,   &mix_codelet, &mix_codelet,  &elsewhere,
                                    &polled<false>, &mix_codelet, &polled<true>, &mix_codelet};

/// The same tasks, some of them ended by others.
std::vector<ProgramTask> with_tokens(RandomProgram& drawn) {
  std::vector<ProgramTask> tasks(drawn.tasks().begin(), drawn.tasks().end());
  for (ProgramTask& task : tasks) task.codelet = kinds[drawn.random() % std::size(kinds)];
  return tasks;
}

struct Cells {
  DelayedRing& ring;
  std::vector<DataHandle> handles;
  std::vector<std::uint64_t> expected;

  Cells(DelayedRing& runtime, std::uint32_t count) : ring(runtime) {
    for (std::uint32_t c = 0; c < count; ++c) {
      handles.push_back(ring.allocate(sizeof(std::uint64_t)));
      expected.push_back(scramble(c, 7));
      std::memcpy(ring.lock(handles[c], Access::write).data(), &expected[c], sizeof(std::uint64_t));
      ring.unlock(handles[c]);
    }
  }
  bool as_expected(std::size_t c) {
    std::uint64_t value;
    std::memcpy(&value, ring.lock(handles[c], Access::read).data(), sizeof value);
    ring.unlock(handles[c]);
    return value == expected[c];
  }
  /// Gives them back; how many were wrong.
  std::uint64_t count_wrong() {
    std::uint64_t wrong = 0;
    for (std::size_t c = 0; c < handles.size(); ++c) {
      if (!as_expected(c)) ++wrong;
      ring.retire(handles[c]);
    }
    return wrong;
  }
};

RuntimeOptions options_of(std::uint64_t number) {
  return {2 + static_cast<int>(number % 7), number % 3 == 0, false};
}

/// Says what the long form has done.
void tell(char const* what, Watchdog const& watchdog, std::uint64_t wrong) {
  if (std::getenv("NNTILE_DELAYED_RUNS") != nullptr)
    std::printf("%s: %llu, 2 to 8 workers, seed %llu, %llu wrong cells\n", what,
                static_cast<unsigned long long>(watchdog.progress()),
                static_cast<unsigned long long>(seed()), static_cast<unsigned long long>(wrong));
}

/// Replays two programs in turn on two sets of cells, without waiting in between.
std::uint64_t replay_twos(DelayedRing& ring, std::uint64_t number, Watchdog& watchdog) {
  auto const tasks = static_cast<std::uint32_t>(1 + number % 12),
             bindings = static_cast<std::uint32_t>(4 + number % 5);
  RandomProgram first(number, tasks, bindings, 3, number % 4 != 0),
      second(number * 31, 1 + tasks % 5, bindings, 3, number % 4 != 1);
  auto const some = number % 5 == 0
                        ? with_tokens(first)
                        : std::vector<ProgramTask>(first.tasks().begin(), first.tasks().end());
  auto const one = ring.record(some, bindings), other = ring.record(second.tasks(), bindings);
  Cells cells[] = {{ring, bindings}, {ring, bindings}};
  for (std::uint64_t k = 0; k < 8; ++k) {
    auto& on = cells[(k * 5 + number) % 2];
    bool const is_first = (k + number) % 3 != 0;
    (void)ring.replay(is_first ? one : other, on.handles);
    (is_first ? first : second).run(on.expected, {});
    watchdog.made_progress();
  }
  ring.wait_all();
  return cells[0].count_wrong() + cells[1].count_wrong();
}

/// Submits the tasks of a program one by one, and waits now and then for some event or cell.
std::uint64_t submit_and_wait(DelayedRing& ring, std::uint64_t number, Watchdog& watchdog) {
  auto const count = static_cast<std::uint32_t>(1 + number % 60),
             bindings = static_cast<std::uint32_t>(2 + number % 9);
  RandomProgram drawn(number, count, bindings, 4, number % 2 == 0);
  auto const tasks = with_tokens(drawn);
  Cells cells(ring, bindings);
  drawn.run(cells.expected, {});
  std::vector<Event> events;
  for (ProgramTask const& task : tasks) {
    std::vector<Use<DataHandle>> uses;
    for (Use<Binding> const& use : task.uses)
      uses.push_back({cells.handles[use.handle], use.access});
    events.push_back(
        ring.submit({task.codelet,
                     uses,
                     task.arguments,
                     {static_cast<std::int16_t>(drawn.random() % 9) - 4, task.hints.priority},
                     task.label}));
    watchdog.made_progress();
    Event const some = events[drawn.random() % events.size()];
    auto const what = drawn.random() % 24;
    if (what == 0) ring.wait(some);
    if (what == 1)
      while (!ring.done(some)) continue;
    if (what == 2) {
      auto const handle = cells.handles[drawn.random() % bindings];
      (void)ring.lock(handle, Access::read);
      ring.unlock(handle);
    }
  }
  if (number % 2 == 0) ring.wait_all();
  return cells.count_wrong();
}

/// Calls body(ring, number) until there are enough runs, with a new ring every 30 times.
template <class Body>
std::uint64_t repeat(std::uint32_t window, std::uint64_t most, Watchdog& watchdog, Body body) {
  Completers completers;
  Completers::current = &completers;
  std::uint64_t wrong = 0;
  for (std::uint64_t number = 1000 * seed(); watchdog.progress() < most;) {
    RuntimeOptions const options = options_of(number / 30);
    watchdog.now_with(*options.workers);
    DelayedRing ring(options, {.window = window});
    do wrong += body(ring, number, watchdog);
    while (++number % 30 != 0 && watchdog.progress() < most);
  }
  return wrong;
}

}  // namespace

TEST_CASE("a delayed ring ends every replay with priorities", "[runtime][ring][delays]") {
  Watchdog watchdog("delayed replays");
  auto const wrong = repeat(4, runs(300), watchdog, replay_twos);
  tell("delayed replays", watchdog, wrong);
  REQUIRE(wrong == 0);
}

TEST_CASE("a delayed ring ends every submission, token and nested wait",
          "[runtime][ring][delays]") {
  Watchdog watchdog("delayed submissions, tokens and waits");
  auto const wrong = repeat(16, runs(1500), watchdog, submit_and_wait);
  tell("delayed submissions", watchdog, wrong);
  REQUIRE(wrong == 0);
}
