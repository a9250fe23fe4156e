// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous tasks, which another thread completes.
#include "nntile/runtime/support/tokens.hh"

#include <atomic>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nntile/runtime/ring/ring.hh"
#include "tests/runtime/codelets.hh"
#include "tests/runtime/models.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// Completes in the entry; a failure when the argument is not 0.
constexpr Codelet at_once{
    "at_once", nullptr, nullptr, +[](KernelCall const& call, Completion token) noexcept -> Status {
      cell_of(call, 0) = 5;
      token.complete(value_of(call) != 0 ? Status{"completed badly"} : Status{});
      return {};
    }};

/// Fails in the entry, and keeps the token all the same.
constexpr Codelet voided{"voided", nullptr, nullptr,
                         +[](KernelCall const& call, Completion token) noexcept -> Status {
                           (*static_cast<TokenKeeper* const*>(call.arguments))->add(token);
                           return {"could not start"};
                         }};

/// Completes a token when a thread is about to lock, and notes that a thread waits to quiesce.
struct MeddlingPolicy : support::TokenPolicy {
  struct Mutex : nntile::detail::Mutex {
    static inline std::optional<Completion> to_complete;
    void lock() noexcept {
      if (auto const token = std::exchange(to_complete, {})) token->complete();
      nntile::detail::Mutex::lock();
    }
  };
  struct Clock {
    static inline std::atomic<bool> waits{false};
    static void yield_core() {
      waits = true;
      nntile::detail::yield_core();
    }
  };
};
using MeddledTokens = support::BasicTokens<MeddlingPolicy>;

/// Another thread that quiesces, until it waits or is through.
struct Quiescing {
  MeddledTokens* tokens = nullptr;
  std::atomic<bool> through{false};
  bool waited = false;
  std::thread thread{};

  static void begin(void* owner, void*, Status) noexcept {
    auto& self = *static_cast<Quiescing*>(owner);
    self.thread = std::thread([&self] {
      self.tokens->quiesce();
      self.through = true;
    });
    while (!self.through && !MeddlingPolicy::Clock::waits) std::this_thread::yield();
    self.waited = !self.through;
  }
};

struct Countdown {
  std::atomic<int> left;
  std::atomic<int> calls{0};
  std::atomic<int> elsewhere{0};  // calls on a thread other than `driver`
  std::thread::id driver = std::this_thread::get_id();
};
bool count_down(void* state, Completion token) {
  auto& countdown = *static_cast<Countdown*>(state);
  ++countdown.calls;
  if (std::this_thread::get_id() != countdown.driver) ++countdown.elsewhere;
  if (--countdown.left > 0) return false;
  token.complete();
  return true;
}
template <bool driver_only>
Status start_countdown(KernelCall const& call, Completion token) noexcept {
  token.poll(&count_down, *static_cast<Countdown* const*>(call.arguments), driver_only);
  return {};
}
constexpr Codelet polled{"polled", nullptr, nullptr, &start_countdown<false>};
constexpr Codelet polled_by_driver{"polled_by_driver", nullptr, nullptr, &start_countdown<true>};

/// Drives the runtime where it may not.
template <class R> struct Trespasser {
  R* runtime;
  bool catches;
  std::string message = {};
  std::atomic<bool> refused{false};  // after which `message` may be read on any thread

  void drive() {
    try {
      (void)submit(*runtime, put_codelet, {}, 0L);
    } catch (LifetimeError const& error) {
      message = error.what();
      refused.store(true);
      if (!catches) throw;
    }
  }
  static Status start(KernelCall const& call, Completion token) noexcept {
    token.poll(&poll, *static_cast<Trespasser* const*>(call.arguments), true);
    return {};
  }
  static bool poll(void* state, Completion token) {
    static_cast<Trespasser*>(state)->drive();
    token.complete();
    return true;
  }
  static void release(void* state) noexcept { static_cast<Trespasser*>(state)->drive(); }
  static constexpr Codelet codelet{"trespass", nullptr, nullptr, &start};
};
constexpr char const* trespass =
    "submit: called inside a task (or a poll, or the release of adopted memory)";

}  // namespace

TEMPLATE_TEST_CASE("a token completed inside the entry ends the task", "[runtime][tokens]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  auto const a = cell(runtime);
  runtime.wait(submit(runtime, at_once, {{a, Access::write}}, 0L));
  CHECK(read(runtime, a) == 5);
  Event const failed = submit(runtime, at_once, {{a, Access::write}}, 1L);
  CHECK(contains(message_of<TaskError>([&] { runtime.wait(failed); }), "completed badly"));
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
}

TEMPLATE_TEST_CASE("a task behind a pending one waits for its token", "[runtime][tokens]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  TokenKeeper keeper;
  auto const a = cell(runtime, 1);
  Event const pending = submit(runtime, keep_codelet, {{a, Access::update}}, &keeper);
  Event const behind = submit(runtime, step_codelet, {{a, Access::update}}, 1L);
  CHECK_FALSE(runtime.done(pending));
  CHECK_FALSE(runtime.done(behind));
  std::thread completer([&] { keeper.at(0).complete(); });
  runtime.wait(behind);
  completer.join();
  CHECK(runtime.done(pending));
  CHECK(read(runtime, a) == 4);
}

TEMPLATE_TEST_CASE("a token that reports a failure cancels what reads behind it",
                   "[runtime][tokens]", NNTILE_TEST_MODELS) {
  TestType runtime;
  TokenKeeper keeper;
  auto const a = cell(runtime, 1);
  submit(runtime, keep_codelet, {{a, Access::update}}, &keeper);
  Event const behind = submit(runtime, step_codelet, {{a, Access::update}}, 1L);
  std::thread completer([&] {
    std::string const text = "lost the peer";  // dies before anyone reads it
    keeper.at(0).complete({text.c_str()});
  });
  CHECK(contains(message_of<TaskError>([&] { runtime.wait(behind); }), "lost the peer"));
  completer.join();
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
}

TEMPLATE_TEST_CASE("an entry that fails ends its task and voids its token", "[runtime][tokens]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  TokenKeeper keeper;
  auto const a = cell(runtime);
  Event const failed = submit(runtime, voided, {{a, Access::write}}, &keeper);
  CHECK(contains(message_of<TaskError>([&] { runtime.wait(failed); }), "could not start"));
  submit(runtime, keep_codelet, {{a, Access::write}}, &keeper);
  if (!runtime.done({&runtime, failed.sequence + 1})) (void)keeper.at(0);
  keeper.at(0).complete();  // of the voided one: ignored
  std::thread completer([&] { keeper.at(1).complete(); });
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
  completer.join();
}

TEMPLATE_TEST_CASE("completing a token twice ends one task", "[runtime][tokens]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  TokenKeeper keeper;
  auto const a = cell(runtime, 1);
  Event const first = submit(runtime, keep_codelet, {{a, Access::update}}, &keeper);
  std::thread completer([&] {
    keeper.at(0).complete();
    keeper.at(0).complete({"again"});
  });
  runtime.wait(first);
  completer.join();
  Event const second = submit(runtime, keep_codelet, {{a, Access::update}}, &keeper);
  std::thread other([&] { keeper.at(1).complete(); });
  runtime.wait(second);
  other.join();
  keeper.at(0).complete({"and again"});
  runtime.wait_all();
}

TEMPLATE_TEST_CASE("a blocked runtime polls until the poll completes its token",
                   "[runtime][tokens]", NNTILE_TEST_MODELS) {
  Countdown countdown{20};
  TestType runtime;
  auto const a = cell(runtime, 1);
  submit(runtime, polled, {{a, Access::update}}, &countdown);
  submit(runtime, step_codelet, {{a, Access::update}}, 1L);
  CHECK(read(runtime, a) == 4);
  runtime.wait_all();
  CHECK(countdown.calls == 20);
}

TEMPLATE_TEST_CASE("a driver-only poll runs on the driving thread alone", "[runtime][tokens]",
                   NNTILE_TEST_MODELS) {
  Countdown countdown{50};
  TestType runtime;
  auto const a = cell(runtime, 1);
  runtime.wait(submit(runtime, polled_by_driver, {{a, Access::update}}, &countdown));
  CHECK(countdown.calls == 50);
  CHECK(countdown.elsewhere == 0);
}

TEST_CASE("polls that take long take half of the time between bodies", "[runtime][tokens]") {
  struct Slow {
    std::int64_t all = 0, last = 0;  // ns
    Completion token{};
  };
  static constexpr Codelet polled{"polled", nullptr, nullptr,
                                  +[](KernelCall const& call, Completion token) noexcept -> Status {
                                    auto* const slow = *static_cast<Slow* const*>(call.arguments);
                                    slow->token = token;
                                    auto const poll = +[](void* state, Completion) {
                                      auto& its = *static_cast<Slow*>(state);
                                      std::int64_t const begin = nntile::detail::monotonic_ns();
                                      nntile::detail::sleep_ns(1'000'000);
                                      its.all += its.last = nntile::detail::monotonic_ns() - begin;
                                      return false;
                                    };
                                    try {
                                      token.poll(poll, slow);
                                    } catch (std::bad_alloc const&) {
                                      return {"no memory"};
                                    }
                                    return {};
                                  }};
  Serial serial;
  Slow slow;
  auto const a = cell(serial, 1);
  std::int64_t const begin = nntile::detail::monotonic_ns();
  submit(serial, polled, {}, &slow);
  for (int i = 0; i < 100; ++i) submit(serial, step_codelet, {{a, Access::update}}, 1L);
  std::int64_t const end = nntile::detail::monotonic_ns();
  CHECK(slow.all - slow.last <= (end - begin) / 2);
  slow.token.complete();
  serial.wait_all();
}

TEMPLATE_TEST_CASE("done from the driving thread polls", "[runtime][tokens]", NNTILE_TEST_MODELS) {
  Countdown countdown{10};
  TestType runtime;
  auto const a = cell(runtime, 1);
  Event const event = submit(runtime, polled_by_driver, {{a, Access::update}}, &countdown);
  while (!runtime.done(event)) std::this_thread::yield();
  CHECK(countdown.calls == 10);
}

TEMPLATE_TEST_CASE("done from another thread only looks", "[runtime][tokens]", NNTILE_TEST_MODELS) {
  Countdown countdown{1};
  TestType runtime;
  auto const a = cell(runtime, 1);
  Event const event = submit(runtime, polled_by_driver, {{a, Access::update}}, &countdown);
  bool ended = true;
  std::thread([&] { ended = runtime.done(event); }).join();
  CHECK_FALSE(ended);
  runtime.wait(event);
  std::thread([&] { ended = runtime.done(event); }).join();
  CHECK(ended);
}

TEMPLATE_TEST_CASE("a hundred thousand tasks pass one pending token that they do not need",
                   "[runtime][tokens]", NNTILE_TEST_MODELS) {
  TestType runtime;
  TokenKeeper keeper;
  auto const a = cell(runtime, 1);
  submit(runtime, keep_codelet, {{a, Access::update}}, &keeper);
  std::vector<typename TestType::Handle> cells;
  for (int i = 0; i < 10; ++i) cells.push_back(cell(runtime, 0));
  for (int i = 0; i < 100000; ++i)
    submit(runtime, step_codelet, {{cells[static_cast<std::size_t>(i % 10)], Access::update}},
           i % 2);
  std::thread completer([&] { keeper.at(0).complete(); });
  runtime.wait_all();
  completer.join();
  CHECK(read(runtime, cells[3]) == read(runtime, cells[5]));  // they had the same steps
}

TEMPLATE_TEST_CASE("what is waited for has a name", "[runtime][tokens]", NNTILE_TEST_MODELS) {
  TestType runtime;
  TokenKeeper keeper;
  auto const a = cell(runtime, 1);
  CHECK(runtime.waiting_for() == "");
  Event const event = submit(runtime, keep_codelet, {{a, Access::update}}, &keeper, {"h1", 3});
  while (runtime.waiting_for().empty())
    (void)runtime.done(event);  // until some thread has started it
  CHECK(contains(runtime.waiting_for(), "keep of tensor 'h1', tile 3"));
  std::thread completer([&] { keeper.at(0).complete(); });
  runtime.wait_all();
  completer.join();
  CHECK(runtime.waiting_for() == "");
}

TEMPLATE_TEST_CASE("tokens completed by many threads at once all count", "[runtime][tokens]",
                   NNTILE_TEST_MODELS) {
  static constexpr Codelet threaded{
      "threaded", nullptr, nullptr,
      +[](KernelCall const& call, Completion token) noexcept -> Status {
        auto* const total = *static_cast<std::atomic<int>* const*>(call.arguments);
        std::thread([=] {
          ++*total;
          token.complete();
        }).detach();
        return {};
      }};
  std::atomic<int> total{0};
  {
    TestType runtime;
    for (int i = 0; i < 200; ++i)
      submit(runtime, threaded, {{cell(runtime), Access::write}}, &total);
    runtime.wait_all();
    CHECK(total == 200);
  }
}

TEMPLATE_TEST_CASE("a poll that drives is refused", "[runtime][tokens]", NNTILE_TEST_MODELS,
                   nntile::Ring) {
  TestType runtime;
  Trespasser<TestType> poll{&runtime, true};
  runtime.wait(submit(runtime, poll.codelet, {}, &poll));
  CHECK(contains(poll.message, trespass));
}

TEMPLATE_TEST_CASE("what a poll throws fails its task", "[runtime][tokens]", NNTILE_TEST_MODELS,
                   nntile::Ring) {
  TestType runtime;
  Trespasser<TestType> poll{&runtime, false};
  Event const event = submit(runtime, poll.codelet, {}, &poll);
  CHECK(contains(message_of<TaskError>([&] { runtime.wait(event); }), trespass));
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
}

TEMPLATE_TEST_CASE("a release that drives is refused", "[runtime][tokens]", NNTILE_TEST_MODELS,
                   nntile::Ring) {
  TestType runtime;
  Trespasser<TestType> owner{&runtime, true};
  alignas(64) std::byte memory[64] = {};
  auto const handle = runtime.adopt(memory, host, {&owner.release, &owner});
  submit(runtime, step_codelet, {{handle, Access::update}}, 1L);
  runtime.retire(handle);
  for (int i = 0; i < 1000 && !owner.refused; ++i) {
    runtime.wait_all();
    runtime.retire(cell(runtime));
  }
  REQUIRE(owner.refused);
  CHECK(contains(owner.message, trespass));
}

TEST_CASE("a token that is over ends no later task", "[runtime][tokens]") {
  int ended = 0;
  support::Tokens tokens(
      &ended, +[](void* count, void*, Status) noexcept { ++*static_cast<int*>(count); });
  support::TaskBody body;
  Completion const first = tokens.open(nullptr, body);
  (void)tokens.entry_returned(first, {});
  first.complete();
  Completion const second = tokens.open(nullptr, body);
  (void)tokens.entry_returned(second, {});
  first.complete();
  first.poll(+[](void*, Completion) { return false; }, nullptr);
  CHECK(ended == 1);
  CHECK(tokens.polls() == 0);
  second.complete();
  CHECK(ended == 2);
}

TEST_CASE("a poll that answers true without completing is dropped and its token stays",
          "[runtime][tokens]") {
  support::Tokens tokens(nullptr, +[](void*, void*, Status) noexcept {});
  support::TaskBody body;
  Completion const token = tokens.open(nullptr, body);
  token.poll(+[](void*, Completion) { return true; }, nullptr);
  CHECK(tokens.polls() == 1);
  CHECK(tokens.poll(true));
  CHECK(tokens.polls() == 0);
  CHECK(tokens.outstanding() == 1);
  CHECK_FALSE(tokens.entry_returned(token, {}).ended);
  token.complete();
  CHECK(tokens.outstanding() == 0);
}

TEST_CASE("completing a token drops its polls and no other's", "[runtime][tokens]") {
  support::Tokens tokens(nullptr, +[](void*, void*, Status) noexcept {});
  support::TaskBody body;
  Completion const first = tokens.open(nullptr, body), second = tokens.open(nullptr, body);
  for (int i = 0; i < 3; ++i)
    for (Completion const& token : {first, second})
      token.poll(+[](void*, Completion) { return false; }, nullptr);
  (void)tokens.entry_returned(first, {});
  first.complete();
  CHECK(tokens.polls() == 3);
  CHECK(tokens.entry_returned(second, {"no"}).failed);
  CHECK(tokens.polls() == 0);
}

TEST_CASE("polls that end make room for others, by whomever they end", "[runtime][tokens]") {
  support::Tokens tokens(nullptr, +[](void*, void*, Status) noexcept {});
  tokens.reserve(8);
  std::uint32_t const growths = tokens.growths();
  support::TaskBody body;
  std::vector<Completion> open;
  int once = 0;
  for (int i = 0; i < 60; ++i) {
    open.push_back(tokens.open(nullptr, body));
    open.back().poll(
        +[](void* calls, Completion) { return ++*static_cast<int*>(calls) > 0; }, &once);
    open.back().poll(+[](void*, Completion) { return false; }, nullptr);
    (void)tokens.entry_returned(open.back(), {});
    if (i % 5 == 0) CHECK(tokens.poll(true));
    if (open.size() < 4) continue;
    open[static_cast<std::size_t>(i % 4)].complete();
    open.erase(open.begin() + i % 4);
    CHECK(tokens.polls() >= open.size());
    CHECK(tokens.polls() <= 2 * open.size());
  }
  CHECK(tokens.growths() == growths);
  CHECK(once > 0);
  CHECK(once <= 60);
  for (Completion const& token : open) token.complete();
  Completion const last = tokens.open(nullptr, body);  // ends in the round of its first poll's end
  last.poll(+[](void*, Completion) { return true; }, nullptr);
  last.poll(+[](void*, Completion token) { return token.complete(), true; }, nullptr);
  (void)tokens.entry_returned(last, {});
  CHECK(tokens.poll(true));
  CHECK(tokens.polls() == 0);
  CHECK(tokens.outstanding() == 0);
}

TEST_CASE("a thread that ends a task as it registers a poll is waited for", "[runtime][tokens]") {
  Quiescing quiescing;
  MeddledTokens tokens(&quiescing, &Quiescing::begin);
  quiescing.tokens = &tokens;
  Completion const token = tokens.open(nullptr, {});
  CHECK_FALSE(tokens.entry_returned(token, {}).ended);
  MeddlingPolicy::Mutex::to_complete = token;
  token.poll(+[](void*, Completion) { return false; }, nullptr);
  quiescing.thread.join();
  CHECK(quiescing.waited);
  CHECK((tokens.outstanding() == 0 && tokens.polls() == 0));
}

TEST_CASE("tasks whose names are read meanwhile end once", "[runtime][tokens]") {
  constexpr int tasks = 2000;
  std::atomic<int> ended{0};
  support::Tokens tokens(
      &ended,
      +[](void* count, void*, Status) noexcept { ++*static_cast<std::atomic<int>*>(count); });
  std::atomic<bool> over{false};
  std::thread reader([&] {
    while (!over) (void)tokens.waiting_for();
  });
  support::TaskBody body;
  Codelet const named{"named"};
  body.codelet = &named;
  int in_entry = 0;
  for (int task = 0; task < tasks; ++task) {
    Completion const token = tokens.open(nullptr, body);
    std::thread other;
    if (task % 100 == 0) other = std::thread([token] { token.complete({"badly"}); });
    if (tokens.entry_returned(token, {}).ended) ++in_entry;
    token.complete();
    if (other.joinable()) other.join();
  }
  over = true;
  reader.join();
  CHECK(in_entry + ended == tasks);
  CHECK(tokens.outstanding() == 0);
  CHECK(tokens.growths() == 1);
}
