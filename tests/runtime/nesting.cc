// SPDX-License-Identifier: BSD-3-Clause
// Tasks that submit tasks, on every runtime that nests them.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/nesting.hh"
#include "tests/support/sanitized.hh"
#include "tests/support/skip.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

using Handle = DataHandle;

template <class Submitter> Event put(Submitter& submitter, Handle handle, long value) {
  return submit(submitter, put_codelet, {writing(handle)}, value);
}

constexpr Codelet sum_codelet{"sum",
                              +[](KernelCall const& call) noexcept -> Status {
                                *static_cast<long*>(call.buffers[2]) =
                                    *static_cast<long const*>(call.buffers[0]) +
                                    *static_cast<long const*>(call.buffers[1]);
                                return {};
                              },
                              nullptr, nullptr};

/// The Fibonacci numbers by tasks that wait nowhere.
struct Fibonacci {
  int n;
  Handle result;
  void operator()(auto& nested) const {
    if (n < 2) {
      put(nested, result, n);
      return;
    }
    Handle const one = nested.allocate(sizeof(long)), other = nested.allocate(sizeof(long));
    nested.orchestrate(Fibonacci{n - 1, one}, writing(one));
    nested.orchestrate(Fibonacci{n - 2, other}, writing(other));
    submit(nested, sum_codelet, {reading(one), reading(other), writing(result)});
    nested.retire(one);
    nested.retire(other);
  }
};
/// The same by tasks that wait for their own.
struct WaitingFibonacci {
  int n;
  Handle result;
  void operator()(auto& nested) const {
    if (n < 2) {
      put(nested, result, n);
      return;
    }
    Handle const parts[] = {nested.allocate(sizeof(long)), nested.allocate(sizeof(long))};
    Event const first = nested.orchestrate(WaitingFibonacci{n - 1, parts[0]}, writing(parts[0]));
    nested.orchestrate(WaitingFibonacci{n - 2, parts[1]}, writing(parts[1]));
    nested.wait(first);
    long const sum = read(nested, parts[0]) + read(nested, parts[1]);
    put(nested, result, sum);
  }
};

/// Calls check(runtime) for every number of workers, with and without a driver of its own.
template <class R, class Check> void on_each(Check check, bool all = true) {
  for (bool const own : {false, true})
    for (int const workers : worker_counts<R>()) {
      if (own && std::same_as<R, Serial>) continue;
      if (!all && workers != (own ? 2 : 1)) continue;
      R runtime(RuntimeOptions{.workers = workers, .own_driver = own});
      check(runtime);
    }
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("recursive tasks compute Fibonacci numbers", "[runtime][nesting]",
                        NestingRuntimes) {
  on_each<TestType>([](auto& runtime) {
    Handle const result = runtime.allocate(sizeof(long));
    runtime.orchestrate(Fibonacci{14, result}, writing(result));
    CHECK(read(runtime, result) == 377);
    runtime.orchestrate(WaitingFibonacci{10, result}, writing(result));
    CHECK(read(runtime, result) == 55);
    runtime.wait_all();
  });
}

TEMPLATE_LIST_TEST_CASE("a task that submits locks and unlocks as the driver does",
                        "[runtime][nesting]", NestingRuntimes) {
  on_each<TestType>([](auto& runtime) {
    Handle const handle = cell(runtime, 1);
    std::string unlocked, left;
    runtime.orchestrate(
        [&, handle](auto& nested) {
          unlocked = message_of<LifetimeError>([&] { nested.unlock(handle); });
          (void)nested.lock(handle, Access::update);
          left = message_of<LifetimeError>([&] { nested.wait_all(); });
          nested.unlock(handle);
          nested.wait_all();
        },
        updating(handle));
    runtime.wait_all();
    CHECK(contains(unlocked, "unlock: "));
    CHECK(contains(unlocked, " is not locked"));
    CHECK(left == "wait_all: 1 handles are locked: unlock them first");
  });
}

TEMPLATE_LIST_TEST_CASE("an outer task ends when its tasks have, and its body need not wait",
                        "[runtime][nesting]", NestingRuntimes) {
  on_each<TestType>([](auto& runtime) {
    Handle const handle = cell(runtime, 1);
    TokenKeeper keeper;
    TokenKeeper* const address = &keeper;
    Event const outer = runtime.orchestrate(
        [=](auto& nested) {
          Use<Handle> const uses[] = {updating(handle)};
          nested.submit({&keep_codelet, uses, std::as_bytes(std::span(&address, 1)), {}, {}});
          submit(nested, step_codelet, {updating(handle)}, 5);
        },
        updating(handle));
    Event const behind = submit(runtime, step_codelet, {updating(handle)}, 7);
    while (keeper.count() == 0) (void)runtime.done(outer);
    CHECK_FALSE(runtime.done(outer));
    CHECK_FALSE(runtime.done(behind));
    keeper.at(0).complete({});
    runtime.wait(outer);
    CHECK(read(runtime, handle) == affine(affine(1, 3, 5), 3, 7));
    runtime.wait_all();
  });
}

TEMPLATE_LIST_TEST_CASE("tasks inside a task keep their order by what they do to buffers",
                        "[runtime][nesting]", NestingRuntimes) {
  on_each<TestType>([](auto& runtime) {
    Handle const a = cell(runtime, 1), b = cell(runtime, 2);
    long expected = 1;
    for (long t = 0; t < 300; ++t) expected = affine(expected, 3, t);
    runtime.orchestrate(
        [=](auto& nested) {
          for (long t = 0; t < 300; ++t) submit(nested, step_codelet, {updating(a)}, t);
          submit(nested, copy_cell_codelet, {writing(b), reading(a)}, 1);
        },
        updating(a), writing(b));
    submit(runtime, step_codelet, {updating(b)}, 3);
    CHECK(read(runtime, a) == expected);
    CHECK(read(runtime, b) == affine(affine(expected, 1, 1), 3, 3));
    runtime.wait_all();
  });
}

TEMPLATE_LIST_TEST_CASE("a body is refused what its task did not declare, and the task fails",
                        "[runtime][nesting]", NestingRuntimes) {
  on_each<TestType>([](auto& runtime) {
    Handle const declared = cell(runtime, 1), other = cell(runtime, 2), out = cell(runtime, 3);
    std::string texts[6];
    Event const caught = runtime.orchestrate(
        [&, declared, other, out](auto& nested) {
          Handle gone = nested.allocate(8);
          nested.retire(gone);
          texts[0] = message_of<LifetimeError>(
              [&] { submit(nested, step_codelet, {updating(other)}, 1); });
          texts[1] = message_of<ValueError>(
              [&] { submit(nested, step_codelet, {updating(declared)}, 1); });
          texts[2] =
              message_of<LifetimeError>([&] { nested.orchestrate([](auto&) {}, writing(other)); });
          texts[3] = message_of<LifetimeError>([&] { nested.lock(out, Access::read); });
          texts[4] = message_of<LifetimeError>([&] { nested.retire(declared); });
          texts[5] = message_of<LifetimeError>([&] { put(nested, gone, 1); });
          put(nested, out, 9);
        },
        reading(declared), writing(out));
    runtime.wait(caught);
    CHECK(read(runtime, out) == 9);
    CHECK(contains(texts[0], concat("step: operand 0 (update): buffer ", other.index,
                                    " is neither an operand of orchestrate (task ")));
    CHECK(contains(texts[1], concat("(update): buffer ", declared.index,
                                    " was declared for read by orchestrate (task ")));
    CHECK(contains(texts[2], "orchestrate: operand 0 (write)"));
    CHECK(contains(texts[3], concat("lock (read): nothing has written buffer ", out.index)));
    CHECK(contains(texts[4], "which may retire what it has allocated itself"));
    CHECK(contains(texts[5], "of domain "));

    Event const failed = runtime.orchestrate(
        [=](auto& nested) { submit(nested, step_codelet, {updating(other)}, 1); }, updating(out));
    CHECK(contains(message_of<TaskError>([&] { runtime.wait(failed); }),
                   "failed: submit: step: operand 0 (update): buffer "));
    CHECK_THROWS_AS(runtime.lock(out, Access::read), TaskError);
    CHECK_THROWS_AS(runtime.wait_all(), TaskError);
    put(runtime, out, 4);
    CHECK(read(runtime, out) == 4);
    runtime.wait_all();
  });
}

TEMPLATE_LIST_TEST_CASE("a task whose tasks failed fails, unless that was reported to its body",
                        "[runtime][nesting]", NestingRuntimes) {
  on_each<TestType>([](auto& runtime) {
    Handle const a = cell(runtime, 1), b = cell(runtime, 2);
    std::atomic<int> cancelled = 0;
    auto const broken = [=, &cancelled](auto& nested) {
      submit(nested, fail_codelet, {writing(a)});
      nested.orchestrate([&](auto&) { ++cancelled; }, reading(a));
      put(nested, b, 5);
    };
    Event const silent = runtime.orchestrate(broken, updating(a), writing(b));
    CHECK(contains(message_of<TaskError>([&] { runtime.wait(silent); }), "failed: it broke"));
    CHECK_THROWS_AS(runtime.lock(b, Access::read), TaskError);
    CHECK(contains(message_of<TaskError>([&] { runtime.wait_all(); }), "orchestrate"));
    runtime.wait_all();
    put(runtime, a, 1);

    std::string text;
    Event const reported = runtime.orchestrate(
        [&, broken](auto& nested) {
          broken(nested);
          text = message_of<TaskError>([&] { nested.wait_all(); });
          nested.wait_all();
        },
        updating(a), writing(b));
    runtime.wait(reported);
    CHECK(contains(text, "of the other tasks 0 failed and 1 were cancelled"));
    CHECK(read(runtime, b) == 5);
    CHECK(contains(message_of<TaskError>([&] { runtime.lock(a, Access::read); }), "it broke"));
    runtime.wait_all();

    put(runtime, a, 1);
    Event const mended = runtime.orchestrate(
        [=](auto& nested) {
          submit(nested, fail_codelet, {writing(a)});
          (void)message_of<TaskError>([&] { nested.wait_all(); });
          put(nested, a, 6);
        },
        updating(a));
    runtime.wait(mended);
    CHECK(read(runtime, a) == 6);
    CHECK(cancelled == 0);

    submit(runtime, fail_codelet, {writing(a)});
    runtime.orchestrate([&](auto&) { ++cancelled; }, reading(a), writing(b));
    CHECK_THROWS_AS(runtime.wait_all(), TaskError);
    CHECK_THROWS_AS(runtime.lock(b, Access::read), TaskError);
    CHECK(cancelled == 0);
  });
}

TEMPLATE_LIST_TEST_CASE("a body that throws fails its task, behind the tasks that it submitted",
                        "[runtime][nesting]", NestingRuntimes) {
  on_each<TestType>([](auto& runtime) {
    Handle const a = cell(runtime, 1);
    std::atomic<int> ran = 0;
    Event const thrown = runtime.orchestrate(
        [=, &ran](auto& nested) {
          nested.orchestrate([&](auto&) { ++ran; }, updating(a));
          throw std::runtime_error("out of ideas");
        },
        updating(a));
    CHECK(contains(message_of<TaskError>([&] { runtime.wait(thrown); }), "failed: out of ideas"));
    CHECK(ran == 1);
    Event const odd = runtime.orchestrate([](auto&) { throw 3; });
    CHECK(contains(message_of<TaskError>([&] { runtime.wait(odd); }), "no std::exception"));
    CHECK_THROWS_AS(runtime.wait_all(), TaskError);
  });
}

/// Something that a body holds: counts, where it ends, that a call is refused there as in a task.
template <class R> struct HeldByBody {
  R* runtime;
  Handle handle;
  std::atomic<int>* refused;
  HeldByBody(R& its, Handle a, std::atomic<int>& count)
      : runtime(&its), handle(a), refused(&count) {}
  HeldByBody(HeldByBody&& other) noexcept
      : runtime(std::exchange(other.runtime, nullptr)),
        handle(other.handle),
        refused(other.refused) {}
  ~HeldByBody() {
    if (runtime == nullptr) return;
    auto const text = message_of<LifetimeError>([&] { runtime->retire(handle); });
    *refused += contains(text, "inside a task");
  }
};

TEMPLATE_LIST_TEST_CASE("what a body holds ends inside its task, though that was cancelled",
                        "[runtime][nesting]", NestingRuntimes) {
  on_each<TestType>([](auto& runtime) {
    Handle const a = cell(runtime, 1), b = cell(runtime, 2);
    std::atomic<int> refused = 0;
    using Held = HeldByBody<TestType>;
    runtime.wait(runtime.orchestrate([held = Held(runtime, b, refused)](auto&) {}, updating(a)));
    CHECK(refused == 1);
    submit(runtime, fail_codelet, {writing(a)});
    Event const outer =
        runtime.orchestrate([held = Held(runtime, b, refused)](auto&) {}, updating(a));
    CHECK_THROWS_AS(runtime.wait(outer), TaskError);
    CHECK(refused == 2);
    runtime.orchestrate([&, b](auto& nested) {
      Handle const own = nested.allocate(sizeof(long));
      submit(nested, fail_codelet, {writing(own)});
      nested.orchestrate([held = Held(runtime, b, refused)](auto&) {}, updating(own));
    });
    CHECK_THROWS_AS(runtime.wait_all(), TaskError);
    CHECK(refused == 3);
    CHECK(read(runtime, b) == 2);
  });
}

TEMPLATE_LIST_TEST_CASE("a Nested is refused behind its body, elsewhere, and inside its own tasks",
                        "[runtime][nesting]", NestingRuntimes) {
  on_each<TestType>([](auto& runtime) {
    Handle const a = cell(runtime, 1);
    std::function<void()> put_later;  // through the Nested of a body that has returned
    std::string elsewhere, within, foreign, runtimes, later, below, is_below_done;
    bool was_done = false;
    Event const root = submit(runtime, step_codelet, {updating(a)}, 1);
    runtime.orchestrate(
        [&, a](auto& nested) {
          put_later = [nested, a]() mutable { put(nested, a, 1); };
          std::thread([&] {
            elsewhere = message_of<LifetimeError>([&] { put(nested, a, 1); });
          }).join();
          Event innermost;
          Event const inner = nested.orchestrate(
              [&, a](auto& own) {
                innermost = put(own, a, 3);
                within = message_of<LifetimeError>([&] { put(nested, a, 1); });
              },
              writing(a));
          nested.wait(inner);
          nested.wait(Event{});
          was_done = nested.done(inner);
          foreign = message_of<LifetimeError>([&] { nested.wait(root); });
          below = message_of<LifetimeError>([&] { nested.wait(innermost); });
          is_below_done = message_of<LifetimeError>([&] { (void)nested.done(innermost); });
          runtimes = message_of<LifetimeError>([&] { put(runtime, a, 2); });
        },
        updating(a));
    runtime.wait_all();
    CHECK(contains(elsewhere, "another one"));
    CHECK((contains(within, "submit through that task's own Nested") ||
           contains(within, "another one")));
    for (std::string const& text : {foreign, below, is_below_done})
      CHECK(contains(text, "not of a task that the calling body has submitted"));
    CHECK(contains(runtimes, "inside a task"));
    CHECK(contains(message_of<LifetimeError>(put_later), "has returned"));
    runtime.orchestrate([&](auto&) { later = message_of<LifetimeError>(put_later); });
    runtime.wait_all();
    CHECK(contains(later, "has returned"));
    CHECK(was_done);
    CHECK(read(runtime, a) == 3);
  });
}

TEMPLATE_LIST_TEST_CASE("the driver may look at a task inside another, and waits for it in vain",
                        "[runtime][nesting]", NestingRuntimes) {
  on_each<TestType>([](auto& runtime) {
    static constexpr bool ring =
        !std::same_as<TestType, Serial> && !std::same_as<TestType, Threads>;
    static constexpr int rounds = 300;  // of few slots, which are used again meanwhile
    Handle const a = cell(runtime, 1);
    std::atomic<std::uint64_t> newest = 0, first = 0;
    Event const outer = runtime.orchestrate(
        [&, a](auto& nested) {
          for (int round = 0; round < rounds; ++round) {
            Event const event = submit(nested, step_codelet, {updating(a)}, 1);
            newest = event.sequence;  // before `first`, behind which the driver looks at it
            if (round == 0) first = event.sequence;
            nested.wait(event);
          }
        },
        updating(a));
    while (first == 0) (void)runtime.done(outer);
    auto const inner = [&](std::uint64_t sequence) { return Event{outer.runtime, sequence}; };
    while (!runtime.done(outer)) {
      CHECK_THROWS_AS(runtime.wait(inner(newest)), LifetimeError);
      if (ring) (void)runtime.done(inner(newest));
    }
    if (ring) CHECK(runtime.done(inner(first)));
    CHECK(contains(message_of<LifetimeError>([&] { runtime.wait(inner(first)); }),
                   ring ? "its body alone may wait for it" : "was never given by this runtime"));
    runtime.wait_all();
  });
}

namespace {

struct Deep {
  int levels;
  Handle result;
  void operator()(auto& nested) const {
    if (levels == 0)
      put(nested, result, 42);
    else
      nested.orchestrate(Deep{levels - 1, result}, writing(result));
  }
};
struct DeepWaits {
  int levels;
  std::atomic<int>* deepest;
  std::atomic<bool>* stop;
  void operator()(auto& nested) const {
    ++*deepest;
    if (levels == 0 || *stop) return;
    nested.orchestrate(DeepWaits{levels - 1, deepest, stop});
    try {
      nested.wait_all();
    } catch (OutOfMemory const&) {
      *stop = true;
      throw;
    }
  }
};

}  // namespace

TEMPLATE_LIST_TEST_CASE("ten thousand levels that wait in no body need little memory, and no stack",
                        "[runtime][nesting]", NestingRuntimes) {
  on_each<TestType>([](auto& runtime) {
    Handle const result = runtime.allocate(sizeof(long));
    int const levels = test::sanitized ? 500 : 10'000;
    runtime.orchestrate(Deep{levels, result}, writing(result));
    CHECK(read(runtime, result) == 42);
    runtime.wait_all();
  });
}

TEMPLATE_LIST_TEST_CASE("waits nested deeper than the stack are an error of the innermost",
                        "[runtime][nesting]", NestingRuntimes) {
  if (test::sanitized && !test::address_sanitized)
    return test::skip("the thread sanitizer takes minutes for stacks that are thousands deep");
  on_each<TestType>(
      [](auto& runtime) {
        std::atomic<int> deepest = 0;
        std::atomic<bool> stop = false;
        Event const outer = runtime.orchestrate(DeepWaits{1'000'000, &deepest, &stop});
        CHECK(contains(message_of<TaskError>([&] { runtime.wait(outer); }),
                       "waits in the bodies of tasks are nested so deep that of "));
        CHECK(deepest > 100);
        CHECK_THROWS_AS(runtime.wait_all(), TaskError);
        stop = false;
        runtime.orchestrate(DeepWaits{10, &deepest, &stop});
        runtime.wait_all();
      },
      !test::sanitized);
}

TEMPLATE_LIST_TEST_CASE("inside a task a number that is no access is refused", "[runtime][nesting]",
                        NestingRuntimes) {
  TestType runtime;
  Handle const out = runtime.allocate(sizeof(long));
  std::string text;
  runtime.wait(runtime.orchestrate(
      [&](auto& nested) {
        Use<Handle> const use{out, static_cast<Access>(17)};
        text = message_of<ValueError>([&] { submit(nested, put_codelet, {use}, 1L); });
        put(nested, out, 2);
      },
      writing(out)));
  CHECK(contains(text, "operand 0 (?): 17 is no access"));
  CHECK(read(runtime, out) == 2);
}
