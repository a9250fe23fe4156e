// SPDX-License-Identifier: BSD-3-Clause
// Bodies that submit more tasks than their domain has slots at first: they go on with more, and
// wait for none.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "nntile/runtime/support/event_name.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/nesting.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

using Handle = DataHandle;
constexpr int many = 200;  // below the slots that a domain of a body may have

constexpr Codelet count_codelet{"count",
                                +[](KernelCall const& call) noexcept -> Status {
                                  ++**static_cast<std::atomic<int>* const*>(call.arguments);
                                  return {};
                                },
                                nullptr, nullptr};

/// More operands and arguments than a slot has room for: adds the first of the latter to each cell,
/// and whether all others are as the first.
constexpr std::size_t wide_cells = 9;
using WideArguments = std::array<long, 30>;
constexpr Codelet wide_codelet{"wide",
                               +[](KernelCall const& call) noexcept -> Status {
                                 auto const& values =
                                     *static_cast<WideArguments const*>(call.arguments);
                                 for (long const value : values)
                                   if (value != values[0]) return {"values differ"};
                                 for (std::size_t i = 0; i < wide_cells; ++i)
                                   *static_cast<long*>(call.buffers[i]) += values[0];
                                 return {};
                               },
                               nullptr, nullptr};

/// The same of one cell.
constexpr Codelet long_codelet{"long",
                               +[](KernelCall const& call) noexcept -> Status {
                                 auto const& values =
                                     *static_cast<WideArguments const*>(call.arguments);
                                 for (long const value : values)
                                   if (value != values[0]) return {"values differ"};
                                 cell_of(call, 0) += values[0];
                                 return {};
                               },
                               nullptr, nullptr};

template <class Submitter>
Event submit_with(Submitter& submitter, Codelet const& codelet, auto const* pointer,
                  std::vector<Use<Handle>> const& uses = {}) {
  return submitter.submit({&codelet, uses, std::as_bytes(std::span(&pointer, 1)), {}, {}});
}

void put(Ring& ring, Handle handle, long value) {
  submit(ring, put_codelet, {{handle, Access::write}}, value);
}

/// Calls check(ring) with and without a driver of its own.
template <class Check> void on_rings(std::initializer_list<int> worker_counts, Check check) {
  for (bool const own : {false, true})
    for (int const workers : worker_counts) {
      Ring ring(RuntimeOptions{.workers = workers, .own_driver = own});
      check(ring);
    }
}

}  // namespace

TEST_CASE("the only worker runs no task of a body that it is in, however many there are",
          "[runtime][nesting][nesting_growth]") {
  on_rings({1}, [](Ring& ring) {
    Handle const handle = cell(ring, 0);
    std::atomic<int> ran = 0;
    int amid = -1, held = -1;
    ring.orchestrate(
        [&, handle](auto& nested) {
          for (int t = 0; t < many; ++t)
            submit_with(nested, count_codelet, &ran, {reading(handle)});  // joins, too
          amid = ran;
        },
        reading(handle));
    ring.orchestrate(
        [&, handle](auto& nested) {
          WideArguments const values{};
          std::array<Handle, wide_cells> cells;
          for (Handle& each : cells) {
            each = nested.allocate(sizeof(long));
            submit(nested, put_codelet, {{each, Access::write}}, 0);
          }
          std::vector<Use<Handle>> uses;
          for (Handle const each : cells) uses.push_back(updating(each));
          int const before = ran;
          for (int t = 0; t < many; ++t) {  // more bytes than are kept for arguments at first
            nested.submit({&wide_codelet, uses, std::as_bytes(std::span(&values, 1)), {}, {}});
            submit_with(nested, count_codelet, &ran, {reading(handle)});
            if (t == 90) held = ran - before;
          }
        },
        reading(handle));
    ring.wait_all();
    CHECK(amid == 0);
    CHECK(held == 0);
    CHECK(ran == 2 * many);
  });
}

TEST_CASE("a body goes on while its oldest task has not ended",
          "[runtime][nesting][nesting_growth]") {
  on_rings({1, 2, 8}, [](Ring& ring) {
    Handle const a = cell(ring, 1), b = cell(ring, 2);
    for (int round = 0; round < 20; ++round) {
      put(ring, a, 1), put(ring, b, 2);
      TokenKeeper keeper;
      bool early = true, late = false;
      Event const outer = ring.orchestrate(
          [&, a, b](auto& nested) {
            Event const first = submit_with(nested, keep_codelet, &keeper, {updating(a)});
            std::vector<Event> events;
            for (long t = 0; t < many; ++t) {
              events.push_back(submit(nested, step_codelet, {updating(t % 3 == 0 ? a : b)}, t));
              if (t % 50 == 7)
                nested.orchestrate(
                    [a, t](auto& inner) {
                      for (int i = 0; i < 20; ++i) submit(inner, step_codelet, {updating(a)}, t);
                    },
                    updating(a));
            }
            early = nested.done(first) || nested.done(events.front());
            while (keeper.count() == 0) (void)nested.done(first);
            keeper.at(0).complete({});
            nested.wait(first);
            nested.wait(events[3]);  // in a slot of before
            nested.wait(events.front());
            late = nested.done(first) && nested.done(events[3]);
            if (round % 2 == 0) nested.wait_all();
          },
          updating(a), updating(b));
      ring.wait(outer);
      CHECK_FALSE(early);
      CHECK(late);
      long expected[] = {1, 2};
      for (long t = 0; t < many; ++t) {
        long& value = expected[t % 3 == 0 ? 0 : 1];
        value = affine(value, 3, t);
        if (t % 50 == 7)
          for (int i = 0; i < 20; ++i) expected[0] = affine(expected[0], 3, t);
      }
      CHECK(read(ring, a) == expected[0]);
      CHECK(read(ring, b) == expected[1]);
    }
    ring.wait_all();
  });
}

TEST_CASE("what tasks hold in the first slots comes back when they have ended, not before",
          "[runtime][nesting][nesting_growth]") {
  on_rings({1, 2, 8}, [](Ring& ring) {
    Handle const sum = cell(ring, 0);
    for (int round = 0; round < 20; ++round) {
      put(ring, sum, 0);
      TokenKeeper keeper;
      ring.orchestrate(
          [&, sum](auto& nested) {
            Event const first = submit_with(nested, keep_codelet, &keeper, {updating(sum)});
            for (long t = 0; t < 4; ++t) {  // in the first slots
              WideArguments values;
              values.fill(10 + t);
              submit(nested, long_codelet, {updating(sum)}, values);
            }
            std::array<Handle, wide_cells> cells;
            for (long round_of_cells = 0; round_of_cells < 8; ++round_of_cells) {
              for (Handle& each : cells) {
                each = nested.allocate(sizeof(long));
                submit(nested, copy_cell_codelet, {{each, Access::write}, reading(sum)}, 1);
              }
              std::vector<Use<Handle>> uses;
              for (Handle const each : cells) uses.push_back(updating(each));
              WideArguments values;
              values.fill(round_of_cells);
              nested.submit({&wide_codelet, uses, std::as_bytes(std::span(&values, 1)), {}, {}});
              values.fill(-1);
              submit(nested, copy_cell_codelet, {{sum, Access::write}, reading(cells[4])}, 1);
              for (Handle const each : cells) nested.retire(each);
            }
            while (keeper.count() == 0) (void)nested.done(first);
            keeper.at(0).complete({});
          },
          updating(sum));
      long expected = 10 + 11 + 12 + 13;
      for (long t = 0; t < 8; ++t) expected = affine(affine(expected, 1, 1) + t, 1, 1);
      CHECK(read(ring, sum) == expected);
    }
    ring.wait_all();
  });
}

TEST_CASE("a buffer whose last task is in the first slots comes back behind it",
          "[runtime][nesting][nesting_growth]") {
  on_rings({1, 2, 8}, [](Ring& ring) {
    Handle const a = cell(ring, 1);
    for (int round = 0; round < 5; ++round) {
      TokenKeeper keeper;
      std::uint32_t old = 0, amid = 0, behind = 0;
      ring.orchestrate(
          [&, a](auto& nested) {
            Event const first = submit_with(nested, keep_codelet, &keeper, {updating(a)});
            Handle const held = nested.allocate(sizeof(long));
            old = held.index;
            submit(nested, copy_cell_codelet, {{held, Access::write}, reading(a)}, 1);
            nested.retire(held);
            for (long t = 0; t < 20; ++t) submit(nested, step_codelet, {updating(a)}, t);
            Handle const other = nested.allocate(sizeof(long));
            amid = other.index;
            while (keeper.count() == 0) (void)nested.done(first);
            keeper.at(0).complete({});
            nested.wait_all();
            behind = nested.allocate(sizeof(long)).index;
          },
          updating(a));
      ring.wait_all();
      CHECK(amid != old);
      CHECK(behind == old);  // its record is used again
    }
  });
}

TEST_CASE("the end of tasks in the first slots gives back their arguments, and no others'",
          "[runtime][nesting][nesting_growth]") {
  on_rings({1, 2}, [](Ring& ring) {
    Handle const a = cell(ring, 0), b = cell(ring, 0);
    constexpr long first = 6, all = 240;  // the latter about as much as there is room for
    ring.orchestrate(
        [a, b](auto& nested) {
          TokenKeeper keeper;
          Event last;
          auto const add = [&](Handle to, long value) {
            WideArguments values;
            values.fill(value);
            last = submit(nested, long_codelet, {updating(to)}, values);
          };
          Event const one = submit_with(nested, keep_codelet, &keeper, {updating(a)});
          while (keeper.count() == 0) (void)nested.done(one);
          Event const two = submit_with(nested, keep_codelet, &keeper, {updating(b)});
          while (keeper.count() == 1) (void)nested.done(two);
          for (long t = 0; t < first; ++t) add(b, t);
          Event const behind = last;
          for (long t = 0; t < 8; ++t) add(a, t);
          keeper.at(1).complete({});
          nested.wait(behind);
          (void)nested.allocate(8);  // looks for what has come back
          for (long t = 8; t < all; ++t) add(a, t);
          keeper.at(0).complete({});
          nested.wait_all();
        },
        updating(a), updating(b));
    CHECK(read(ring, a) == all * (all - 1) / 2);
    CHECK(read(ring, b) == first * (first - 1) / 2);
    ring.wait_all();
  });
}

TEST_CASE("slots that are borrowed know nothing of the tasks that had them before",
          "[runtime][nesting][nesting_growth]") {
  on_rings({1, 2}, [](Ring& ring) {
    Handle const a = cell(ring, 1);
    auto const steps = [a](auto& nested) {
      TokenKeeper keeper;
      Event const first = submit_with(nested, keep_codelet, &keeper, {updating(a)});
      for (long t = 0; t < many; ++t) submit(nested, step_codelet, {updating(a)}, t);
      while (keeper.count() == 0) (void)nested.done(first);
      for (int i = 0; i < many; ++i) (void)nested.done(first);  // one that could run would
      keeper.at(0).complete({});
      nested.wait_all();
    };
    Event const alone = ring.orchestrate(steps, updating(a));
    ring.wait(alone);
    // In another domain, with the same numbers for its tasks.
    ring.orchestrate([=](auto& outer) { outer.orchestrate(steps, updating(a)); }, updating(a));
    long expected = 1;
    for (long t = 0; t < 2 * many; ++t) expected = affine(expected, 3, t % many);
    CHECK(read(ring, a) == expected);
    ring.wait_all();
  });
}

TEST_CASE("slots that are borrowed are others' when their body has ended",
          "[runtime][nesting][nesting_growth]") {
  Ring ring(RuntimeOptions{.workers = 1});
  Handle const a = cell(ring, 1);
  Event inner;
  auto const grow = [a](auto& nested) {
    for (long t = 0; t < 20; ++t) submit(nested, step_codelet, {updating(a)}, t);
  };
  for (int body = 0; body < 20; ++body) ring.orchestrate(grow, updating(a));
  ring.orchestrate(
      [&inner, a](auto& outer) {
        outer.orchestrate(
            [&inner, a](auto& nested) { inner = submit(nested, step_codelet, {updating(a)}, 1); },
            updating(a));
      },
      updating(a));
  ring.wait_all();
  // Of the body of 20 tasks, of its further slots, and of the body inside another.
  CHECK(support::EventName::unpack(inner.sequence).domain <= 3);
}

TEST_CASE("a failure of a task in the first slots is reported, and cancels those in later ones",
          "[runtime][nesting][nesting_growth]") {
  on_rings({1, 2, 8}, [](Ring& ring) {
    Handle const a = cell(ring, 1), b = cell(ring, 2);
    std::string text;
    Event const outer = ring.orchestrate(
        [&, a, b](auto& nested) {
          submit(nested, fail_codelet, {{a, Access::write}});
          for (long t = 0; t < 20; ++t) submit(nested, step_codelet, {updating(a)}, t);
          submit(nested, put_codelet, {{b, Access::write}}, 5);
          text = message_of<TaskError>([&] { nested.wait_all(); });
          nested.wait_all();
        },
        updating(a), updating(b));
    ring.wait(outer);
    CHECK(contains(text, "of the other tasks 0 failed and 20 were cancelled"));
    CHECK(read(ring, b) == 5);
    CHECK_THROWS_AS(ring.lock(a, Access::read), TaskError);
    put(ring, a, 1);
    ring.wait_all();
  });
}

TEST_CASE("a task that has ended stays so for others while its domain grows and shrinks",
          "[runtime][nesting][nesting_growth]") {
  on_rings({2, 8}, [](Ring& ring) {
    Handle const a = cell(ring, 1);
    for (int round = 0; round < 100; ++round) {
      std::atomic<bool> known = false;
      Event first;
      Event const outer = ring.orchestrate(
          [&, a](auto& nested) {
            first = submit(nested, step_codelet, {updating(a)}, 1);
            known.store(true, std::memory_order_release);
            for (long t = 0; t < 40; ++t) submit(nested, step_codelet, {updating(a)}, t);
          },
          updating(a));
      for (bool over = false; !ring.done(outer);) {
        if (!known.load(std::memory_order_acquire)) continue;
        bool const now = ring.done(first);
        CHECK((now || !over));
        over = now;
      }
      CHECK(ring.done(first));
    }
    ring.wait_all();
  });
}
