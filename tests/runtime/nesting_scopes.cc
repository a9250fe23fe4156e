// SPDX-License-Identifier: BSD-3-Clause
// Scopes and buffers of bodies that submit, on every runtime that nests.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/nesting.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

using Handle = DataHandle;

/// Calls check(runtime) for 1, 2 and 8 workers.
template <class R, class Check> void on_each(Check check) {
  for (int const workers : {1, 2, 8}) {
    if (workers > most_workers<R>) continue;
    R runtime(RuntimeOptions{.workers = workers});
    check(runtime);
  }
}

constexpr std::size_t scratch_longs = 200;

/// Fills an array from its second operand: a sequence that depends on it and the argument.
constexpr Codelet spread_codelet{"spread",
                                 +[](KernelCall const& call) noexcept -> Status {
                                   auto* const all = static_cast<long*>(call.buffers[0]);
                                   long x = cell_of(call, 1);
                                   for (std::size_t i = 0; i < scratch_longs; ++i)
                                     all[i] = x = affine(x, 5, value_of(call));
                                   return {};
                                 },
                                 nullptr, nullptr};
/// first = first * 3 + the sum of the array
constexpr Codelet gather_codelet{"gather",
                                 +[](KernelCall const& call) noexcept -> Status {
                                   auto const* const all = static_cast<long*>(call.buffers[1]);
                                   long sum = 0;
                                   for (std::size_t i = 0; i < scratch_longs; ++i)
                                     sum = affine(sum, 1, all[i]);
                                   cell_of(call, 0) = affine(cell_of(call, 0), 3, sum);
                                   return {};
                                 },
                                 nullptr, nullptr};

long gathered(long result, long x, long step) {
  long sum = 0;
  for (std::size_t i = 0; i < scratch_longs; ++i) sum = affine(sum, 1, x = affine(x, 5, step));
  return affine(result, 3, sum);
}

/// A tree of tasks: each spreads its result over a scratch array, gathers that, and goes on with
/// two of them into cells of a scope of its own, which waits nowhere unless asked to.
struct Tree {
  int depth;
  bool waits;
  Handle result;
  void operator()(auto& nested) const {
    auto const step = scope(nested, Lifetime::step);
    Handle const parts[] = {nested.allocate(sizeof(long), host, Lifetime::step),
                            nested.allocate(sizeof(long), host, Lifetime::step)};
    {
      auto scratch = scope(nested, Lifetime::scratch);
      Handle const array = scratch.allocate(scratch_longs * sizeof(long));
      submit(nested, spread_codelet, {writing(array), reading(result)}, depth);
      submit(nested, gather_codelet, {updating(result), reading(array)}, 0);
    }
    for (Handle const part : parts) {
      submit(nested, copy_cell_codelet, {writing(part), reading(result)}, depth);
      if (depth > 0) {
        Event const inner = nested.orchestrate(Tree{depth - 1, waits, part}, updating(part));
        if (waits) nested.wait(inner);
      }
    }
    for (Handle const part : parts) {
      auto scratch = scope(nested, Lifetime::scratch);
      Handle const array = scratch.allocate(scratch_longs * sizeof(long));
      submit(nested, spread_codelet, {writing(array), reading(part)}, depth);
      submit(nested, gather_codelet, {updating(result), reading(array)}, 0);
    }
  }
  /// The oracle: the same as a function.
  static long value(int depth, long result) {
    result = gathered(result, result, depth);
    long parts[2];
    for (long& part : parts) {
      part = affine(result, 1, depth);
      if (depth > 0) part = value(depth - 1, part);
    }
    for (long const part : parts) result = gathered(result, part, depth);
    return result;
  }
};

}  // namespace

TEMPLATE_LIST_TEST_CASE("a recursion with scratch in each body computes what a function does",
                        "[runtime][nesting_scopes]", NestingRuntimes) {
  on_each<TestType>([](auto& runtime) {
    for (bool const waits : {false, true}) {
      Handle const result = cell(runtime, 7);
      runtime.orchestrate(Tree{6, waits, result}, updating(result));
      CHECK(read(runtime, result) == Tree::value(6, 7));
    }
    runtime.wait_all();
  });
}

TEMPLATE_LIST_TEST_CASE("errors name the lines of a body's scopes", "[runtime][nesting_scopes]",
                        NestingRuntimes) {
  on_each<TestType>([](auto& runtime) {
    std::string texts[5];
    int line = 0;
    Event const task = runtime.orchestrate([&](auto& nested) {
      ScopeName const outer = nested.open_scope(Lifetime::step), inner = [&] {
        line = __LINE__ + 1;
        return nested.open_scope(Lifetime::scratch);
      }();
      texts[0] = message_of<LifetimeError>([&] { nested.close_scope(Lifetime::step, outer); });
      texts[1] = message_of<LifetimeError>([&] { nested.close_scope(Lifetime::staging); });
      texts[2] = message_of<LifetimeError>([&] { nested.allocate(8, host, Lifetime::staging); });
      Handle const gone = nested.allocate(8, host, Lifetime::scratch);
      nested.close_scope(Lifetime::scratch, inner);
      texts[3] = message_of<LifetimeError>([&] { nested.close_scope(Lifetime::scratch, inner); });
      texts[4] =
          message_of<LifetimeError>([&] { submit(nested, put_codelet, {writing(gone)}, 1); });
    });
    runtime.wait(task);
    CHECK(contains(texts[0], concat("nesting_scopes.cc:", line)));
    CHECK(contains(texts[0], "of lifetime step (opened at "));
    CHECK(contains(texts[0], "close scopes in reverse order"));
    CHECK(contains(texts[1], "no open scope of lifetime staging"));
    CHECK(contains(texts[2], "no open scope of lifetime staging"));
    CHECK(contains(texts[3], "has been closed before"));
    CHECK(contains(texts[4], "nor has its scope closed"));
    runtime.wait_all();
  });
}

TEMPLATE_LIST_TEST_CASE("a body opens no scope of a number that is no lifetime",
                        "[runtime][nesting_scopes]", NestingRuntimes) {
  on_each<TestType>([](auto& runtime) {
    for (int const number : {5, 17, 255}) {
      auto const lifetime = static_cast<Lifetime>(number);
      std::string opened, closed;
      runtime.wait(runtime.orchestrate([&](auto& nested) {
        opened = message_of<ValueError>([&] { nested.open_scope(lifetime); });
        closed = message_of<LifetimeError>([&] { nested.close_scope(lifetime); });
      }));
      CHECK(opened == concat("open_scope: ", number, " is no lifetime"));
      CHECK(contains(closed, "no open scope"));
    }
    runtime.wait_all();
  });
}

TEMPLATE_LIST_TEST_CASE("a buffer of a body is refused behind its task, and by other bodies",
                        "[runtime][nesting_scopes]", NestingRuntimes) {
  on_each<TestType>([](auto& runtime) {
    for (Lifetime const lifetime : {Lifetime::persistent, Lifetime::step, Lifetime::scratch}) {
      std::optional<Handle> kept;
      auto const keeps = [&](auto& nested) {
        if (lifetime != Lifetime::persistent) {
          if (!contains(message_of([&] { nested.allocate(8, host, lifetime); }), "no open scope"))
            throw std::logic_error("a scope of another body is open here");
          nested.open_scope(lifetime);
        }
        kept = nested.allocate(sizeof(long), host, lifetime);
        submit(nested, put_codelet, {writing(*kept)}, 3);
      };
      runtime.wait(runtime.orchestrate(keeps));
      Handle const old = *kept;
      CHECK_THROWS_AS(runtime.lock(old, Access::read), LifetimeError);
      CHECK_THROWS_AS(runtime.retire(old), LifetimeError);
      CHECK_THROWS_AS(submit(runtime, put_codelet, {writing(old)}, 3), LifetimeError);
      std::string texts[3];
      runtime.wait(runtime.orchestrate([&](auto& nested) {
        keeps(nested);
        texts[0] = message_of<LifetimeError>([&] { nested.retire(old); });
        texts[1] = message_of<LifetimeError>([&] { nested.lock(old, Access::read); });
        texts[2] =
            message_of<LifetimeError>([&] { submit(nested, put_codelet, {writing(old)}, 3); });
        submit(nested, step_codelet, {updating(*kept)}, 3);  // the new one is there
      }));
      for (std::string const& text : texts) CHECK(contains(text, "is neither an operand of "));
      runtime.wait_all();
    }
  });
}

TEMPLATE_LIST_TEST_CASE("a body closes no scope by the name that another body's has",
                        "[runtime][nesting_scopes]", NestingRuntimes) {
  on_each<TestType>([](auto& runtime) {
    std::string text;
    runtime.wait(runtime.orchestrate([&](auto& nested) {
      ScopeName const outer = nested.open_scope(Lifetime::step);
      nested.wait(nested.orchestrate([&, outer](auto& inner) {
        ScopeName const own = inner.open_scope(Lifetime::step);
        text = message_of<LifetimeError>([&] { inner.close_scope(Lifetime::step, outer); });
        inner.close_scope(Lifetime::step, own);
      }));
      nested.close_scope(Lifetime::step, outer);
    }));
    CHECK(contains(text, "is another runtime's"));
    runtime.wait_all();
  });
}

TEMPLATE_LIST_TEST_CASE("a scope of a body outlives neither its body nor a failure in it",
                        "[runtime][nesting_scopes]", NestingRuntimes) {
  on_each<TestType>([](auto& runtime) {
    Handle const out = cell(runtime, 1);
    Event const throws = runtime.orchestrate(
        [=](auto& nested) {
          auto scratch = scope(nested, Lifetime::scratch);
          Handle const own = scratch.allocate(sizeof(long));
          submit(nested, put_codelet, {writing(own)}, 2);
          submit(nested, copy_cell_codelet, {writing(out), reading(own)}, 1);
          throw std::runtime_error("left amid a scope");
        },
        writing(out));
    CHECK(contains(message_of<TaskError>([&] { runtime.wait(throws); }), "left amid a scope"));
    CHECK_THROWS_AS(runtime.wait_all(), TaskError);
    Event const goes_on = runtime.orchestrate(
        [=](auto& nested) {
          for (int i = 0; i < 3; ++i) {
            auto scratch = scope(nested, Lifetime::scratch);
            Handle const own = scratch.allocate(sizeof(long));
            submit(nested, i == 1 ? fail_codelet : put_codelet, {writing(own)}, i);
            if (i != 1) submit(nested, copy_cell_codelet, {writing(out), reading(own)}, 40);
            try {
              nested.wait_all();
            } catch (TaskError const&) {  // the mark ends with its buffer
            }
          }
        },
        writing(out));
    runtime.wait(goes_on);
    CHECK(read(runtime, out) == 42);
    runtime.wait_all();
  });
}

TEMPLATE_LIST_TEST_CASE("a scope that is kept behind its body closes nothing",
                        "[runtime][nesting_scopes]", NestingRuntimes) {
  on_each<TestType>([](auto& runtime) {
    std::function<void()> close;
    runtime.wait(runtime.orchestrate([&](auto& nested) {
      auto first = scope(nested, Lifetime::step);
      auto moved = std::move(first);
      (void)moved.allocate(8);
      first.close();
      moved.close();
      moved.close();
      using Kept = decltype(moved);
      auto const kept = std::make_shared<Kept>(scope(nested, Lifetime::step));
      close = [kept] { kept->close(); };
    }));
    CHECK_THROWS_AS(close(), LifetimeError);
    close = {};
    runtime.wait_all();
  });
}

TEMPLATE_LIST_TEST_CASE("a buffer that takes over a retired one's record leaves its scope",
                        "[runtime][nesting_scopes]", NestingRuntimes) {
  on_each<TestType>([](auto& runtime) {
    Handle const out = cell(runtime, 1);
    runtime.orchestrate(
        [=](auto& nested) {
          for (std::size_t const bytes : {std::size_t{0}, sizeof(long)}) {
            auto scratch = scope(nested, Lifetime::scratch);
            Handle const gone[] = {scratch.allocate(bytes), scratch.allocate(bytes)};
            nested.retire(gone[0]);
            nested.retire(gone[1]);
            nested.wait_all();
            Handle const kept[] = {nested.allocate(sizeof(long)), nested.allocate(sizeof(long))};
            for (Handle const each : kept) submit(nested, put_codelet, {writing(each)}, 4);
            scratch.close();
            for (Handle const each : kept)
              submit(nested, copy_cell_codelet, {writing(out), reading(each)}, 1);
          }
        },
        writing(out));
    CHECK(read(runtime, out) == 5);
    CHECK_NOTHROW(runtime.wait_all());
  });
}

TEMPLATE_LIST_TEST_CASE("what a body retires behind its last task is memory for others",
                        "[runtime][nesting_scopes]", NestingRuntimes) {
  bool const used = GENERATE(false, true);
  std::atomic<bool> over{false};
  std::uint32_t most = 0;
  TokenKeeper keeper;
  std::thread other([&] {
    Completion const token = keeper.at(0);
    while (!over) std::this_thread::yield();
    token.complete();
  });
  TestType runtime(RuntimeOptions{.workers = 1});
  runtime.orchestrate([&](auto& nested) {
    auto const held = nested.allocate(sizeof(long));
    submit(nested, keep_codelet, {writing(held)}, &keeper);
    nested.retire(held);  // holds up no other
    for (int i = 0; i < 100; ++i) {
      auto const buffer = nested.allocate(sizeof(long));
      if (used) nested.wait(submit(nested, put_codelet, {writing(buffer)}, 1L));
      nested.retire(buffer);
      most = std::max(most, buffer.index << 1);  // without the bit of what a body has allocated
    }
    over = true;
  });
  runtime.wait_all();
  other.join();
  CHECK(most < 20);
}

TEMPLATE_LIST_TEST_CASE("a body may have opened thousands of scopes inside another",
                        "[runtime][nesting_scopes]", NestingRuntimes) {
  on_each<TestType>([](auto& runtime) {
    Handle const out = cell(runtime, 1);
    runtime.orchestrate(
        [=](auto& nested) {
          auto const step = scope(nested, Lifetime::step);
          Handle const outer = nested.allocate(0, host, Lifetime::step);
          submit(nested, put_codelet, {writing(out), writing(outer)}, 3);
          for (int count = 0; count < 5'000; ++count) {
            nested.open_scope(Lifetime::scratch);
            nested.retire(
                nested.allocate(count % 2 == 0 ? 0 : sizeof(long), host, Lifetime::scratch));
            Handle const kept = nested.allocate(sizeof(long));  // may have the record
            nested.close_scope(Lifetime::scratch);
            nested.retire(kept);
          }
          submit(nested, step_codelet, {updating(out), reading(outer)}, 1);
        },
        writing(out));
    CHECK(read(runtime, out) == 10);
    runtime.wait_all();
  });
}

TEMPLATE_LIST_TEST_CASE("an empty buffer of a body's scope is a buffer",
                        "[runtime][nesting_scopes]", NestingRuntimes) {
  on_each<TestType>([](auto& runtime) {
    Handle const out = cell(runtime, 1);
    runtime.orchestrate(
        [=](auto& nested) {
          auto scratch = scope(nested, Lifetime::scratch);
          Handle const none = scratch.allocate(0), other = scratch.allocate(0);
          submit(nested, put_codelet, {writing(out), writing(none), writing(other)}, 5);
          if (!nested.lock(none, Access::read).empty()) throw std::logic_error("it has bytes");
          nested.unlock(none);
          nested.retire(none);
          submit(nested, step_codelet, {updating(out), reading(other)}, 1);
        },
        writing(out));
    CHECK(read(runtime, out) == 16);
    runtime.wait_all();
  });
}
