// SPDX-License-Identifier: BSD-3-Clause
// Tasks of many blocks: on runtimes that share them among workers, and on those that do not.

#include "nntile/runtime/blocks.hh"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "nntile/runtime/ring/blocks.hh"
#include "nntile/runtime/ring/nest.hh"
#include "tests/runtime/codelets.hh"
#include "tests/runtime/models.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

template <int Workers, bool OwnDriver> struct RingOf : Ring {
  RingOf() : Ring(RuntimeOptions{Workers, OwnDriver, false}) {}
};
#define NNTILE_BLOCK_MODELS \
  NNTILE_TEST_MODELS, (RingOf<1, false>), (RingOf<4, false>), (RingOf<3, true>)

static_assert(BlockRuntime<Ring> && !BlockRuntime<Serial>);

/// words[index] = 3 * words[index] + value, of the operand
Status step_block(KernelCall const& call, Block block) noexcept {
  long& word = static_cast<long*>(call.buffers[0])[block.index];
  word = affine(word, 3, value_of(call)) + block.count;
  return {};
}
constexpr BlockCodelet step_blocks = in_blocks<&step_block>("step_blocks");

/// second = sum of the first's words, whose number is the argument
constexpr Codelet sum_codelet{"sum",
                              +[](KernelCall const& call) noexcept -> Status {
                                cell_of(call, 1) = 0;
                                for (long i = 0; i < value_of(call); ++i)
                                  cell_of(call, 1) += static_cast<long*>(call.buffers[0])[i];
                                return {};
                              },
                              nullptr, nullptr};
constexpr Codelet zero_codelet{"zero",
                               +[](KernelCall const& call) noexcept -> Status {
                                 for (long i = 0; i < value_of(call); ++i)
                                   static_cast<long*>(call.buffers[0])[i] = i;
                                 return {};
                               },
                               nullptr, nullptr};

template <class R> Event step(R& runtime, DataHandle buffer, std::uint32_t blocks, long value) {
  Use<DataHandle> const uses[] = {{buffer, Access::update}};
  return submit_blocks(runtime, step_blocks, blocks, uses, std::as_bytes(std::span(&value, 1)));
}
template <class R> DataHandle words(R& runtime, long count) {
  DataHandle const buffer =
      runtime.allocate(static_cast<std::size_t>(count) * sizeof(long), host, Lifetime::persistent);
  submit(runtime, zero_codelet, {{buffer, Access::write}}, count);
  return buffer;
}

/// What blocks share with the test.
struct Meeting {
  std::atomic<std::uint32_t> inside{0}, left{0};
  std::uint32_t wanted = 0;  // blocks that wait for each other
  std::atomic<bool> open{true};
  std::array<std::atomic<int>, 64> runs{};
};
Status meet(KernelCall const& call, Block block) noexcept {
  Meeting& meeting = **static_cast<Meeting* const*>(call.arguments);
  ++meeting.runs[block.index];
  ++meeting.inside;
  while (meeting.inside < meeting.wanted || !meeting.open) std::this_thread::yield();
  ++meeting.left;
  return {};
}
constexpr BlockCodelet meet_blocks = in_blocks<&meet>("meet");
template <class R>
Event meet(R& runtime, Meeting& meeting, std::uint32_t blocks, Hints hints = {},
           std::span<Use<DataHandle> const> uses = {}) {
  Meeting* const address = &meeting;
  return submit_blocks(runtime, meet_blocks, blocks, uses, std::as_bytes(std::span(&address, 1)),
                       hints);
}

/// The blocks of odd index fail, with a text of their own.
Status fail_block(KernelCall const& call, Block block) noexcept {
  ++static_cast<long*>(call.buffers[0])[block.index];
  if (block.index % 2 == 0) return {};
  (void)std::snprintf(call.text, status_text_bytes, "block %u", block.index);
  return {call.text};
}
constexpr BlockCodelet fail_blocks = in_blocks<&fail_block>("fail_blocks");

/// Adds 1 in the last of three blocks, all of which notice another task's.
std::atomic<int> adding;
Status add_block(KernelCall const& call, Block block) noexcept {
  if (adding.fetch_add(1) >= 3) return {"two tasks at one time"};
  if (block.index == 2) ++cell_of(call, 0);
  std::this_thread::yield();
  adding.fetch_sub(1);
  return {};
}
constexpr BlockCodelet add_blocks = in_blocks<&add_block>("add");

}  // namespace

TEMPLATE_TEST_CASE("every block runs once, between the tasks before and those behind",
                   "[runtime][blocks]", NNTILE_BLOCK_MODELS) {
  TestType runtime;
  for (std::uint32_t const blocks : {1u, 2u, 7u, 300u}) {
    auto const count = static_cast<long>(blocks);
    auto const buffer = words(runtime, count), sum = cell(runtime);
    long expected = 0;
    for (long i = 0; i < count; ++i) {
      long word = i;
      for (long value = 1; value <= 20; ++value) word = affine(word, 3, value) + count;
      expected += word;
    }
    for (long value = 1; value <= 20; ++value) step(runtime, buffer, blocks, value);
    submit(runtime, sum_codelet, {{buffer, Access::read}, {sum, Access::write}}, count);
    CHECK(read(runtime, sum) == expected);
  }
}

TEMPLATE_TEST_CASE("a task whose blocks fail has failed once, as the first of them",
                   "[runtime][blocks]", NNTILE_BLOCK_MODELS) {
  TestType runtime;
  auto const buffer = words(runtime, 40), sum = cell(runtime);
  Use<DataHandle> const uses[] = {{buffer, Access::update}};
  Event const failed = submit_blocks(runtime, fail_blocks, 40, uses);
  Event const behind =
      submit(runtime, sum_codelet, {{buffer, Access::read}, {sum, Access::write}}, 40L);
  CHECK(message_of<TaskError>([&] { runtime.wait(failed); }).find("block 1") != std::string::npos);
  CHECK_THROWS_AS(runtime.wait(behind), TaskError);
  Event const cancelled = step(runtime, buffer, 40, 1);
  std::string const all = message_of<TaskError>([&] { runtime.wait_all(); });
  INFO(all);
  CHECK(all.find("fail_blocks") != std::string::npos);
  CHECK(all.find("block 1") != std::string::npos);
  CHECK(all.find("block 11") == std::string::npos);
  runtime.wait_all();
  submit(runtime, zero_codelet, {{buffer, Access::write}}, 40L);
  submit(runtime, sum_codelet, {{buffer, Access::read}, {sum, Access::write}}, 40L);
  CHECK(read(runtime, sum) == 780);
  CHECK(runtime.done(cancelled));
}

TEMPLATE_TEST_CASE("a task of no blocks is refused, and nothing has changed", "[runtime][blocks]",
                   NNTILE_BLOCK_MODELS) {
  TestType runtime;
  auto const buffer = words(runtime, 2);
  CHECK(message_of<ValueError>([&] { step(runtime, buffer, 0, 1); }) ==
        "submit: 'step_blocks' in 0 blocks where 1 to 268435455 are possible");
  CHECK_THROWS_AS(step(runtime, buffer, max_blocks + 1, 1), ValueError);
  step(runtime, buffer, 2, 1);
  runtime.retire(buffer);
  CHECK_THROWS_AS(step(runtime, buffer, 2, 1), LifetimeError);
  CHECK_THROWS_AS(step(runtime, buffer, 1, 1), LifetimeError);
  runtime.wait_all();
}

TEST_CASE("the blocks of a task run on all workers at one time", "[runtime][blocks]") {
  for (bool const own_driver : {false, true}) {
    Ring ring({4, own_driver, false});
    for (int round = 0; round < 50; ++round) {
      if (round % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      Meeting meeting;
      meeting.wanted = 4;
      ring.wait(meet(ring, meeting, 4 + static_cast<std::uint32_t>(round)));
      for (std::size_t i = 0; i < meeting.runs.size(); ++i)
        CHECK(meeting.runs[i] == (i < 4 + static_cast<std::size_t>(round) ? 1 : 0));
    }
  }
}

TEST_CASE("the end of a task of blocks waits for the last of them", "[runtime][blocks]") {
  Ring ring({3, true, false});
  Meeting meeting;
  meeting.open = false;
  auto const buffer = words(ring, 8), sum = cell(ring);
  Use<DataHandle> const uses[] = {{buffer, Access::update}};
  Event const event = meet(ring, meeting, 3, {}, uses);
  Event const behind =
      submit(ring, sum_codelet, {{buffer, Access::read}, {sum, Access::write}}, 8L);
  while (meeting.inside != 3) std::this_thread::yield();
  CHECK_FALSE(ring.done(event));
  CHECK_FALSE(ring.done(behind));
  meeting.open = true;
  CHECK(read(ring, sum) == 28);
  CHECK(meeting.left == 3);
}

TEST_CASE("more tasks of blocks than are open at a time run nevertheless", "[runtime][blocks]") {
  Ring ring({4, true, false});
  Meeting meeting;
  meeting.open = false;
  for (int i = 0; i < 100; ++i) meet(ring, meeting, 40);
  while (meeting.inside < 4) std::this_thread::yield();
  meeting.open = true;
  ring.wait_all();
  for (std::size_t i = 0; i < 40; ++i) CHECK(meeting.runs[i] == 100);
}

TEST_CASE("a task of blocks is one task beside others", "[runtime][blocks]") {
  Ring ring({2, false, false});
  for (int round = 0; round < 50; ++round) {
    auto const wide = words(ring, 30);
    auto const narrow = cell(ring, 0), both = cell(ring);
    for (long i = 0; i < 20; ++i) {
      step(ring, wide, 30, i);
      submit(ring, step_codelet, {{narrow, Access::update}}, i);
    }
    submit(ring, copy_cell_codelet, {{both, Access::write}, {wide, Access::read}}, 0L);
    long first = 0, alone = 0;
    for (long i = 0; i < 20; ++i) first = affine(first, 3, i) + 30, alone = affine(alone, 3, i);
    CHECK(read(ring, both) == first);
    CHECK(read(ring, narrow) == alone);
    ring.retire(wide);
  }
}

TEST_CASE("blocks accumulate under the claims of their task", "[runtime][blocks]") {
  Ring ring({4, false, false});
  auto const target = cell(ring, 0);
  Use<DataHandle> const uses[] = {{target, Access::accumulate}};
  adding = 0;
  for (int i = 0; i < 100; ++i) submit_blocks(ring, add_blocks, 3, uses);
  CHECK(read(ring, target) == 100);
}

TEST_CASE("blocks run on workers of the kind that their task names", "[runtime][blocks]") {
  Ring ring({3, true, false}, {}, {.cube = 2});
  Meeting meeting;
  meeting.wanted = 2;
  meet(ring, meeting, 20, {any_of(WorkerKind::cube)});
  ring.wait_all();
  meeting.wanted = 0;
  meeting.open = false;
  meet(ring, meeting, 20, {any_of(WorkerKind::cube)});
  while (meeting.inside != 22) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  CHECK(meeting.inside == 22);  // the worker of kind cpu takes none
  meeting.open = true;
  ring.wait_all();
}

TEST_CASE("blocks wake the sleeping workers of their kind", "[runtime][blocks]") {
  Ring ring({6, true, false}, {}, {.cube = 2});
  WorkerKind const kind = GENERATE(WorkerKind::cpu, WorkerKind::cube);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // all are asleep
  Meeting meeting;
  meeting.open = false;
  meet(ring, meeting, 2, {any_of(kind)});
  for (int waited = 0; meeting.inside != 2 && waited < 20'000; ++waited)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(meeting.inside == 2);
  meeting.open = true;
  ring.wait_all();
}

TEST_CASE("a pause comes between the blocks of a task", "[runtime][blocks][pause]") {
  Ring ring({2, true, false});
  for (int round = 0; round < 20; ++round) {
    auto const buffer = words(ring, 500);
    Event const event = step(ring, buffer, 500, 1);
    ring.pause();
    bool const over = ring.done(event);
    std::this_thread::yield();
    CHECK(ring.done(event) == over);
    ring.resume();
    ring.wait(event);
    ring.retire(buffer);
  }
}

TEST_CASE("inside a task and in a program blocks run in order", "[runtime][blocks]") {
  Ring ring({3, false, false});
  auto const buffer = words(ring, 10), sum = cell(ring);
  ring.wait(ring.orchestrate([&](auto& nested) { step(nested, buffer, 10, 0); },
                             Use<DataHandle>{buffer, Access::update}));
  submit(ring, sum_codelet, {{buffer, Access::read}, {sum, Access::write}}, 10L);
  CHECK(read(ring, sum) == 3 * 45 + 100);
}

TEST_CASE("destruction waits for blocks", "[runtime][blocks]") {
  Meeting meeting;
  for (int i = 0; i < 20; ++i) {
    Ring ring({3, i % 2 == 0, false});
    for (int j = 0; j < 5; ++j) meet(ring, meeting, 60);
  }
  for (std::size_t i = 0; i < 60; ++i) CHECK(meeting.runs[i] == 100);
}
