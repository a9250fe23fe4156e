// SPDX-License-Identifier: BSD-3-Clause
// The failure log by itself: ranges, references, failures reported out of order.
#include "nntile/runtime/support/failures.hh"

#include <algorithm>
#include <array>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "nntile/runtime/support/buffer_table.hh"
#include "nntile/runtime/support/nested_buffers.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::support;
using test::contains;
using test::message_of;

namespace {

constexpr Codelet gelu{"gelu", nullptr, nullptr, nullptr};
constexpr Codelet add{"add", nullptr, nullptr, nullptr};

/// A task that reads the first buffer and writes the second.
struct ReadWrite {
  std::array<Use<Buffer*>, 2> uses;
  TaskBody body;
  ReadWrite(std::uint64_t sequence, Buffer& in, Buffer& out, Codelet const& codelet = gelu)
      : uses{{{&in, Access::read}, {&out, Access::write}}} {
    body.codelet = &codelet;
    body.sequence = sequence;
    body.uses = uses;
  }
};

}  // namespace

TEST_CASE("tasks cancelled in any order leave what they leave in sequence", "[runtime][failures]") {
  Failures log;
  std::array<Buffer, 2> buffers;
  log.fail(ReadWrite(1, buffers[1], buffers[0]).body, "it broke");
  std::vector<std::uint64_t> order;
  for (std::uint64_t i = 2; i < 2000; ++i)
    if (i % 7 != 0) order.push_back(i);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  for (std::uint64_t const i : order)
    CHECK(log.cancel_if_marked(ReadWrite(i, buffers[0], buffers[1]).body));
  for (std::uint64_t i = 2; i < 2000; ++i)
    CHECK((message_of<TaskError>([&] { log.throw_if_failed(i); })[0] == 'g') == (i % 7 != 0));
  CHECK(contains(message_of<TaskError>([&] { log.report(); }),
                 concat(order.size(), " were cancelled")));
}

TEST_CASE("beyond a thousand ranges neighbours of several ops are joined", "[runtime][failures]") {
  Failures log;
  std::array<Buffer, 2> buffers;
  log.fail(ReadWrite(1, buffers[1], buffers[0]).body, "it broke");
  for (std::uint64_t i = 2; i <= 5000; ++i)
    CHECK(log.cancel_if_marked(ReadWrite(i, buffers[0], buffers[1], i % 2 == 0 ? gelu : add).body));
  CHECK(contains(message_of<TaskError>([&] { log.throw_if_failed(2); }), "gelu (task 2)"));
  CHECK(contains(message_of<TaskError>([&] { log.throw_if_failed(4999); }),
                 "(task 4999) was cancelled"));
  CHECK(contains(message_of<TaskError>([&] { log.report(); }), "4999 were cancelled"));
}

TEST_CASE("of two marks the older failure is the cause, whichever came first",
          "[runtime][failures]") {
  Failures log;
  std::array<Buffer, 4> buffers;
  log.fail(ReadWrite(8, buffers[3], buffers[1]).body, "the younger one");
  log.fail(ReadWrite(5, buffers[3], buffers[0]).body, "the older one");
  std::array<Use<Buffer*>, 3> const uses{
      {{&buffers[1], Access::read}, {&buffers[0], Access::update}, {&buffers[2], Access::write}}};
  TaskBody body;
  body.codelet = &add;
  body.sequence = 9;
  body.uses = uses;
  CHECK(log.cancel_if_marked(body));
  CHECK(contains(message_of<TaskError>([&] { log.throw_if_failed(9); }), "the older one"));
}

TEST_CASE("accumulates that fail in any order leave the oldest failure", "[runtime][failures]") {
  for (bool const swapped : {false, true}) {
    Failures log;
    std::array<Buffer, 1> buffers;
    std::array<Use<Buffer*>, 1> const uses{{{&buffers[0], Access::accumulate}}};
    for (std::uint64_t const sequence : {swapped ? 4u : 3u, swapped ? 3u : 4u}) {
      TaskBody body;
      body.codelet = &add;
      body.sequence = sequence;
      body.uses = uses;
      log.fail(body, "it broke");
    }
    CHECK(contains(message_of<TaskError>([&] { log.check_lock(buffers[0], Access::read); }),
                   "task 3"));
  }
}

TEST_CASE("a mark keeps its text after the report, and nothing after the rewrite",
          "[runtime][failures]") {
  Failures log;
  std::array<Buffer, 2> buffers;
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    log.fail(ReadWrite(i, buffers[1], buffers[0]).body, "it broke");
    CHECK_THROWS_AS(log.report(), TaskError);
    CHECK(contains(message_of<TaskError>([&] { log.check_lock(buffers[0], Access::read); }),
                   concat("task ", i)));
    log.succeed(ReadWrite(i + 1, buffers[1], buffers[0]).body);
    CHECK_FALSE(log.any_marked());
  }
  log.check_lock(buffers[0], Access::read);
}

TEST_CASE("thousands of buffers have records with stable addresses", "[runtime][failures]") {
  Failures log;
  BufferTable table(log);
  DataHandle const first = table.add(8, host, Lifetime::persistent);
  Buffer* const record = &table.find(first, "find");
  for (int i = 0; i < 5000; ++i) (void)table.add(8, host, Lifetime::persistent);
  CHECK(&table.find(first, "find") == record);
  table.reclaim(table.begin_retire(first));
  DataHandle const next = table.add(8, host, Lifetime::persistent);
  CHECK(next.index == first.index);
  CHECK(next.generation != first.generation);
}

TEST_CASE("tasks of one sequence, as a replay's are, leave ranges that are disjoint",
          "[runtime][failures]") {
  Failures log;
  std::array<Buffer, 4> buffers;
  log.fail(ReadWrite(1, buffers[3], buffers[0]).body, "it broke");
  CHECK(log.cancel_if_marked(ReadWrite(5, buffers[0], buffers[1]).body));
  CHECK(log.cancel_if_marked(ReadWrite(6, buffers[0], buffers[1]).body));
  CHECK(log.cancel_if_marked(ReadWrite(7, buffers[0], buffers[1]).body));
  CHECK(log.cancel_if_marked(ReadWrite(6, buffers[0], buffers[2], add).body));
  CHECK_THROWS_AS(log.throw_if_failed(7), TaskError);
  log.fail(ReadWrite(6, buffers[3], buffers[2], add).body, "it broke as well");
  CHECK(contains(message_of<TaskError>([&] { log.throw_if_failed(5); }), "was cancelled"));
  CHECK(contains(message_of<TaskError>([&] { log.throw_if_failed(6); }), "it broke as well"));
  CHECK(contains(message_of<TaskError>([&] { log.throw_if_failed(7); }), "was cancelled"));
  log.throw_if_failed(8);
  CHECK(contains(message_of<TaskError>([&] { log.report(); }), "1 failed and 4 were cancelled"));
}

TEST_CASE("each failure of one sequence counts, until it is reported", "[runtime][failures]") {
  Failures log;
  std::array<Buffer, 2> buffers;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 3; ++i) log.fail(ReadWrite(6, buffers[1], buffers[0]).body, "it broke");
    CHECK(log.cancel_if_marked(ReadWrite(6, buffers[0], buffers[1]).body));
    CHECK(contains(message_of<TaskError>([&] { log.report(); }), "2 failed and 1 were cancelled"));
    CHECK(log.unreported() == 0);
  }
}

TEST_CASE("a failure that there was no memory to record is thrown all the same",
          "[runtime][failures]") {
  bool more = test::allocations_are_counted();
  for (long count = 0; more; ++count) {
    Failures log;
    std::array<Buffer, 2> buffers;
    (void)test::fail_allocation_after(count);
    log.fail(ReadWrite(5, buffers[0], buffers[1]).body, "it broke");
    more = test::fail_allocation_after(-1) < 0;
    INFO(count << " allocations before the one that fails");
    log.throw_if_failed(4);
    log.throw_if_failed(6);
    CHECK_THROWS_AS(log.throw_if_failed(5), TaskError);
    CHECK_THROWS_AS(log.report(3, 7), TaskError);  // as the body of a task does at its end
    (void)message_of<TaskError>([&] { log.report(); });
    log.throw_if_failed(5);
    CHECK(log.unreported() == 0);
  }
}

TEST_CASE("what there was no memory to report is reported later", "[runtime][failures]") {
  bool more = test::allocations_are_counted();
  for (long count = 0; more; ++count) {
    Failures log;
    std::array<Buffer, 2> buffers;
    log.fail(ReadWrite(1, buffers[1], buffers[0]).body, "it broke");
    CHECK(log.cancel_if_marked(ReadWrite(2, buffers[0], buffers[1]).body));
    bool told = true;
    (void)test::fail_allocation_after(count);
    try {
      log.report();
    } catch (TaskError const&) {
    } catch (std::bad_alloc const&) {
      told = false;
    }
    more = test::fail_allocation_after(-1) < 0;
    INFO(count << " allocations before the one that fails");
    CHECK(log.unreported() == (told ? 0 : 2));
    std::string const later = message_of<TaskError>([&] { log.report(); });
    if (!told) CHECK(contains(later, "0 failed and 1 were cancelled"));
  }
}

TEST_CASE("a body's failures have a text where there is no memory for it", "[runtime][failures]") {
  bool more = test::allocations_are_counted();
  for (long count = 0; more; ++count) {
    Failures log;
    std::array<Buffer, 2> buffers;
    CHECK(log.reported(1, 2).empty());
    log.fail(ReadWrite(1, buffers[1], buffers[0]).body, "it broke");
    (void)test::fail_allocation_after(count);
    std::string const text = log.reported(1, 2);
    more = test::fail_allocation_after(-1) < 0;
    CHECK_FALSE(text.empty());
  }
}

TEST_CASE("a body that had no memory to begin leaves no operands to the next one",
          "[runtime][failures]") {
  Failures log;
  std::array<Buffer, 20> operands;
  std::array<DataHandle, 20> handles;
  std::vector<Use<Buffer*>> uses;
  for (std::uint32_t i = 0; i < 20; ++i) {
    handles[i] = {i, 0};
    uses.push_back({&operands[i], Access::read});
  }
  TaskBody parent;
  parent.uses = uses;
  bool more = test::allocations_are_counted();
  for (long count = 0; more; ++count) {
    NestedBuffers buffers(log);
    (void)test::fail_allocation_after(count);
    try {
      buffers.begin(1, parent, handles);  // also where its runtime has no memory behind it
    } catch (std::bad_alloc const&) {
    }
    more = test::fail_allocation_after(-1) < 0;
    buffers.begin(1, parent, {&handles[19], 1});
    CHECK(buffers.count() == 1);
    CHECK_THROWS_AS(buffers.check_lock(handles[0], Access::read), LifetimeError);
  }
}
