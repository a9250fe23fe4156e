// SPDX-License-Identifier: BSD-3-Clause
// Verdicts of a heap that may not grow: programs that can go on do, the others get a typed error.
//
// NNTILE_STALLS=n draws n programs of each kind, from NNTILE_STALLS_SEED on, and prints how long
// the verdicts took.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/scope.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/sanitized.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

constexpr std::size_t line = 64;

RuntimeOptions workers(int count, bool own_driver = false) { return {count, own_driver, false}; }
RingCapacities step_heap(std::size_t bytes, OnFull on_full, std::uint32_t records = 0) {
  RingCapacities options;
  options.step = {bytes, on_full};
  options.records = records;
  return options;
}

using Clock = std::chrono::steady_clock;
/// When the last task, or token, of any of these programs came to its end.
std::atomic<Clock::rep> last_end{0};
void note_end() { last_end = Clock::now().time_since_epoch().count(); }

/// first = first * 3 + value, slowly
Codelet const slow_codelet{"slow",
                           +[](KernelCall const& call) noexcept -> Status {
                             std::this_thread::sleep_for(std::chrono::microseconds(
                                 static_cast<unsigned long>(value_of(call)) % 50));
                             cell_of(call, 0) = affine(cell_of(call, 0), 3, value_of(call));
                             note_end();
                             return {};
                           },
                           nullptr, nullptr};

/// Completes tokens on a thread of its own, a while after their tasks have started.
class Completer {
 public:
  Completer() : thread_([this] { run(); }) {}
  ~Completer() {
    submit(nullptr);
    thread_.join();
  }
  void submit(Completion const* token) {
    {
      std::lock_guard guard(mutex_);
      if (token != nullptr)
        tokens_.push_back(*token);
      else
        stop_ = true;
    }
    changed_.notify_all();
  }

 private:
  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !tokens_.empty(); });
      if (tokens_.empty()) return;
      Completion token = tokens_.front();
      tokens_.pop_front();
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      note_end();
      token.complete();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Completion> tokens_;
  bool stop_ = false;
  std::thread thread_;  // last
};
Codelet const outside_codelet{"outside", nullptr, nullptr,
                              +[](KernelCall const& call, Completion token) noexcept -> Status {
                                (*static_cast<Completer* const*>(call.arguments))->submit(&token);
                                return {};
                              }};

/// A program of scopes, buffers and slow tasks, drawn from a seed so that a heap of `capacity`
/// bytes suffices wherever its buffers come to lie.
class LiveProgram {
 public:
  LiveProgram(Ring& ring, std::size_t capacity, unsigned seed, Completer* completer)
      : ring_(ring), capacity_(capacity), random_(seed), completer_(completer) {}
  ~LiveProgram() { close(0); }

  void run(int actions) {
    open();
    for (int i = 0; i < actions; ++i) switch (draw(8)) {
        case 0:
          open();
          break;
        case 1:
          close(scopes_.size() - 1);
          break;
        case 2:
          retire();
          break;
        default:
          allocate(1 + draw(capacity_ / (2 * line) * line));
          work();
          if (draw(2) == 0) work();
      }
  }

  /// Rooms of the buffers from the oldest that is not retired on, of those not retired, and the
  /// largest.
  struct Rooms {
    std::size_t all = 0, alive = 0, largest = 0;
  };
  Rooms rooms() const {
    Rooms rooms;
    for (Held const& held : held_) {
      if (rooms.all == 0 && !held.alive) continue;
      rooms.all += held.room;
      rooms.alive += held.alive ? held.room : 0;
      rooms.largest = std::max(rooms.largest, held.room);
    }
    return rooms;
  }
  static std::size_t room(std::size_t bytes) { return (bytes + line - 1) / line * line; }
  bool fits(std::size_t bytes) const {
    Rooms const now = rooms();
    return now.all + room(bytes) + std::max(now.largest, room(bytes)) <= capacity_;
  }
  void open() {
    if (scopes_.size() < 4) scopes_.push_back(scope(ring_, Lifetime::step));
  }
  void allocate(std::size_t bytes) {
    while (!fits(bytes)) close(0);
    if (scopes_.empty()) open();
    held_.push_back(
        {ring_.allocate(bytes, host, Lifetime::step), bytes, room(bytes), scopes_.size(), true});
    if (bytes >= sizeof(long)) submit(ring_, put_codelet, {{held_.back().handle, Access::write}});
  }
  void close(std::size_t first) {
    while (scopes_.size() > first) {
      scopes_.back().close();
      for (Held& held : held_)
        if (held.scope == scopes_.size()) held.alive = false;
      scopes_.pop_back();
    }
  }
  std::size_t draw(std::size_t below) { return random_() % below; }

 private:
  struct Held {
    DataHandle handle;
    std::size_t bytes, room, scope;
    bool alive;
  };

  Held* any() {
    for (int i = 0; i < 8 && !held_.empty(); ++i)
      if (Held& held = held_[draw(held_.size())]; held.alive) return &held;
    return nullptr;
  }
  void retire() {
    if (Held* const held = any()) {
      ring_.retire(held->handle);
      held->alive = false;
    }
  }
  void work() {
    Held* const held = any();
    if (held == nullptr || held->bytes < sizeof(long)) return;
    if (completer_ != nullptr && draw(4) == 0)
      submit(ring_, outside_codelet, {{held->handle, Access::write}}, completer_);
    else
      submit(ring_, slow_codelet, {{held->handle, Access::update}}, static_cast<long>(draw(100)));
  }

  Ring& ring_;
  std::size_t const capacity_;
  std::mt19937 random_;
  Completer* const completer_;
  std::vector<Scope<Ring>> scopes_;
  std::vector<Held> held_;
};

/// The seed of a test's program `i`.
unsigned seed_of(int i) {
  char const* const first = std::getenv("NNTILE_STALLS_SEED");
  return static_cast<unsigned>(first != nullptr ? std::atoi(first) : 0) + static_cast<unsigned>(i);
}

int programs(int usual) {
  char const* const asked = std::getenv("NNTILE_STALLS");
  return asked != nullptr ? std::atoi(asked) : sanitized ? usual / 10 : usual;
}

}  // namespace

TEST_CASE("slow programs that can go on get no verdict", "[runtime][stalls]") {
  Completer completer;
  std::uint64_t waits = 0;
  int const count = programs(300);
  for (int i = 0; i < count; ++i) {
    auto const seed = seed_of(i);
    std::size_t const capacity = line * (4 + seed % 13);
    Ring ring(workers(1 + i % 3, i % 3 != 0 && i % 2 == 0), step_heap(capacity, OnFull::wait));
    LiveProgram program(ring, capacity, seed, i % 2 == 0 ? &completer : nullptr);
    INFO("seed " << seed);
    REQUIRE_NOTHROW(program.run(60));
    program.close(0);
    REQUIRE_NOTHROW(ring.wait_all());
    waits += ring.stats().step.waits;
  }
  CHECK(waits > static_cast<std::uint64_t>(count));  // otherwise the heaps were too large
}

TEST_CASE("constructed deadlocks are all diagnosed, and the ring goes on", "[runtime][stalls]") {
  Completer completer;
  std::vector<double> seconds, behind;  // since the call, and since the last task's end
  int const count = programs(500);
  for (int i = 0; i < count; ++i) {
    auto const seed = seed_of(i);
    std::size_t const capacity = line * (4 + seed % 13);
    Ring ring(workers(1 + i % 3, i % 3 != 0 && i % 2 == 0), step_heap(capacity, OnFull::wait));
    LiveProgram program(ring, capacity, seed, i % 2 == 0 ? &completer : nullptr);
    program.run(30);
    // What is not retired and what is wanted do not fit, wherever they lie.
    if (program.rooms().alive == 0) program.allocate(line);
    std::size_t const alive = program.rooms().alive, wanted = capacity - alive + line;
    INFO("seed " << seed << ": " << alive << " of " << capacity << ", wanted " << wanted);
    program.open();
    auto const start = Clock::now();
    REQUIRE_THROWS_AS(ring.allocate(wanted, host, Lifetime::step), DeadlockError);
    auto const end = Clock::now();
    auto const since = [&](Clock::time_point from) {
      return std::chrono::duration<double>(end - from).count();
    };
    seconds.push_back(since(start));
    behind.push_back(since(std::max(start, Clock::time_point(Clock::duration(last_end)))));
    program.close(0);
    program.open();
    REQUIRE_NOTHROW(ring.allocate(capacity, host, Lifetime::step));
    program.close(0);
    REQUIRE_NOTHROW(ring.wait_all());
  }
  if (std::getenv("NNTILE_STALLS") == nullptr) return;
  for (auto* const samples : {&seconds, &behind}) {
    std::sort(samples->begin(), samples->end());
    std::printf("%d deadlocks: median %.3f ms, p99 %.3f ms, %s\n", count,
                1e3 * (*samples)[samples->size() / 2], 1e3 * (*samples)[samples->size() * 99 / 100],
                samples == &seconds ? "slow tasks included" : "behind the last task");
  }
}

TEST_CASE("a deadlock names scope, buffer, bytes and a capacity that would do",
          "[runtime][stalls]") {
  int const count = GENERATE(1, 2);
  Ring ring(workers(count), step_heap(1024, OnFull::wait));
  int const opened = __LINE__ + 1;
  auto outer = scope(ring, Lifetime::step);
  (void)ring.allocate(400, host, Lifetime::step);
  {
    auto const inner = scope(ring, Lifetime::step);
    (void)ring.allocate(100, host, Lifetime::step);
  }
  std::string const text =
      message_of<DeadlockError>([&] { ring.allocate(600, host, Lifetime::step); });
  for (std::string const& piece :
       {std::string("600 bytes (step)"), concat("ring_stalls.cc:", opened),
        std::string("400 bytes"), std::string("used 576, available 448, capacity 1024"),
        std::string("128 belong"), std::string("1856 bytes would do")})
    CHECK(contains(text, piece));
  Ring larger(workers(count), step_heap(1856, OnFull::wait));
  auto const again = scope(larger, Lifetime::step);
  (void)larger.allocate(400, host, Lifetime::step);
  larger.retire(larger.allocate(100, host, Lifetime::step));
  CHECK_NOTHROW(larger.allocate(600, host, Lifetime::step));
}

TEST_CASE("a scope that holds up dead bytes is named, and it is no deadlock", "[runtime][stalls]") {
  Ring ring(workers(1), step_heap(1024, OnFull::wait));
  auto const step = scope(ring, Lifetime::step);
  (void)ring.allocate(64, host, Lifetime::step);
  ring.retire(ring.allocate(640, host, Lifetime::step));
  std::string text;
  try {
    (void)ring.allocate(512, host, Lifetime::step);
  } catch (DeadlockError const&) {
    text = "a deadlock";
  } catch (OutOfMemory const& error) {
    text = error.what();
  }
  CHECK(contains(text, "ring_stalls.cc"));
  CHECK(contains(text, "(64 bytes, step)"));
}

TEST_CASE("a clock that stands still holds nothing up", "[runtime][stalls]") {
  struct Policy : RingPolicy {
    struct Clock : RingPolicy::Clock {
      static std::int64_t nanoseconds() { return 0; }
    };
  };
  for (int const count : {1, 2, 4}) {
    BasicRing<Policy> ring(workers(count, count == 4), step_heap(256, OnFull::wait));
    for (int round = 0; round < 20; ++round) {
      auto const step = scope(ring, Lifetime::step);
      auto const buffer = ring.allocate(256, host, Lifetime::step);
      submit(ring, put_codelet, {{buffer, Access::write}}, 1L);
      submit(ring, slow_codelet, {{buffer, Access::update}}, 7L);
      CHECK_THROWS_AS(ring.allocate(64, host, Lifetime::step), DeadlockError);
      CHECK(read(ring, buffer) == 10);
    }
    ring.wait_all();
  }
}

TEST_CASE("a verdict waits for tokens", "[runtime][stalls]") {
  Ring ring(workers(2), step_heap(64, OnFull::wait));
  TokenKeeper keeper;
  auto const step = scope(ring, Lifetime::step);
  auto const a = ring.allocate(64, host, Lifetime::step);
  auto const elsewhere = cell(ring, 0);
  submit(ring, keep_codelet, {{elsewhere, Access::update}}, &keeper);
  std::atomic<bool> completed{false};
  std::thread completer([&] {
    Completion token = keeper.at(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    completed = true;
    token.complete();
  });
  CHECK_THROWS_AS(ring.allocate(64, host, Lifetime::step), DeadlockError);
  CHECK(completed);
  completer.join();
  ring.retire(a);
  CHECK_NOTHROW(ring.allocate(64, host, Lifetime::step));
}

TEST_CASE("records that run out are a verdict of their own", "[runtime][stalls]") {
  Ring ring(workers(1), step_heap(1 << 16, OnFull::wait, 4));
  auto const step = scope(ring, Lifetime::step);
  std::vector<DataHandle> handles;
  for (int i = 0; i < 4; ++i) handles.push_back(ring.allocate(64, host, Lifetime::step));
  CHECK(contains(message_of<DeadlockError>([&] { ring.allocate(64, host, Lifetime::step); }),
                 "all 4 records are in use, 8 would do (RingCapacities::records)"));
  ring.retire(handles[0]);
  CHECK_NOTHROW(ring.allocate(64, host, Lifetime::step));
}

TEST_CASE("a heap that fails does so at once", "[runtime][stalls]") {
  Ring ring(workers(2, true), step_heap(64, OnFull::fail));
  TokenKeeper keeper;
  auto const step = scope(ring, Lifetime::step);
  auto const a = ring.allocate(64, host, Lifetime::step);
  submit(ring, put_codelet, {{a, Access::write}});
  submit(ring, keep_codelet, {{a, Access::update}}, &keeper);
  ring.retire(a);
  std::string const text = message_of<OutOfMemory>([&] { ring.allocate(1, host, Lifetime::step); });
  CHECK(contains(text, "until its tasks have ended"));
  keeper.at(0).complete();
  ring.wait_all();
  CHECK_NOTHROW(ring.allocate(64, host, Lifetime::step));
}

TEST_CASE("more than the capacity throws at once and says what would do", "[runtime][stalls]") {
  Ring ring(workers(1), step_heap(1000, OnFull::wait));
  auto const step = scope(ring, Lifetime::step);
  std::string const text =
      message_of<OutOfMemory>([&] { ring.allocate(1025, host, Lifetime::step); });
  for (auto const* const piece : {"1025 bytes (step)", "1024 bytes", "1088"})
    CHECK(contains(text, piece));
  CHECK_NOTHROW(ring.allocate(1024, host, Lifetime::step));
}
