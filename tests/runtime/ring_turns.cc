// SPDX-License-Identifier: BSD-3-Clause
// Chains that one worker runs, and the tasks that wait beside them.

#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

#include "nntile/runtime/ring/blocks.hh"
#include "nntile/runtime/ring/nest.hh"
#include "nntile/runtime/ring/ring.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

constexpr int length = 200;  // less than a lone driver submits ahead
constexpr int most = RingSizes::most_kept;

/// Whose task has run, in turn. Tasks that hold wait until `open`.
struct Log {
  std::vector<char> order;
  std::atomic<bool> open{true};

  auto count_before(char task, char before) const {
    return std::count(order.begin(), std::find(order.begin(), order.end(), task), before);
  }
};
struct Entry {
  Log* log;
  char name;
};
Codelet const note_codelet{"note",
                           +[](KernelCall const& call) noexcept -> Status {
                             auto const [log, name] = *static_cast<Entry const*>(call.arguments);
                             while (!log->open) std::this_thread::yield();
                             log->order.push_back(name);  // of one worker
                             return {};
                           },
                           nullptr, nullptr};

void note(Ring& ring, Log& log, char name, std::vector<Use<DataHandle>> const& uses,
          Hints hints = {}) {
  Entry const entry{&log, name};
  ring.submit({&note_codelet, uses, std::as_bytes(std::span(&entry, 1)), hints, {}});
}

/// Calls submit(ring, log) for a ring whose one worker is the driver, and for one where it is
/// another, which starts when all has been submitted; checks the log of each.
template <class Submit, class Check> void try_both(Submit submit, Check check) {
  for (bool const own_driver : {false, true}) {
    Ring ring({.workers = 1, .own_driver = own_driver});
    Log log;
    log.order.reserve(4 * length);
    log.open = !own_driver;
    submit(ring, log);
    log.open = true;
    ring.wait_all();
    INFO("own_driver " << own_driver);
    check(log);
  }
}

/// words[index] = 3 * words[index] + 1
Status step_block(KernelCall const& call, Block block) noexcept {
  long& word = static_cast<long*>(call.buffers[0])[block.index];
  word = affine(word, 3, 1);
  return {};
}
constexpr BlockCodelet step_blocks = in_blocks<&step_block>("step_blocks");
constexpr std::uint32_t blocks = 16;
constexpr Codelet zero_codelet{"zero",
                               +[](KernelCall const& call) noexcept -> Status {
                                 std::fill_n(static_cast<long*>(call.buffers[0]), blocks, 0);
                                 return {};
                               },
                               nullptr, nullptr};
/// Their sum.
constexpr Codelet sum_codelet{"sum",
                              +[](KernelCall const& call) noexcept -> Status {
                                auto const* const words = static_cast<long*>(call.buffers[0]);
                                cell_of(call, 1) = std::accumulate(words, words + blocks, 0L);
                                return {};
                              },
                              nullptr, nullptr};

/// Every task of a chain lets another go before it.
struct TurnsPolicy : RingPolicy {
  struct Sizes : RingSizes {
    static constexpr std::uint32_t most_kept = 1;
  };
};

}  // namespace

TEST_CASE("a task that is ready waits for few tasks of a chain", "[runtime][ring]") {
  for (Hints const hints :
       {Hints{}, Hints{.worker = 0}, Hints{.worker = any_of(WorkerKind::cpu)}, Hints{.priority = 2},
        Hints{.worker = any_of(WorkerKind::cpu), .priority = 2}, Hints{.priority = -1}})
    try_both(
        [&](Ring& ring, Log& log) {
          auto const counter = cell(ring);
          Hints const same{.priority = hints.priority};
          note(ring, log, 'c', {{counter, Access::write}}, same);
          for (int i = 1; i < length; ++i) note(ring, log, 'c', {{counter, Access::update}}, same);
          note(ring, log, 'x', {}, hints);
        },
        [&](Log const& log) {
          INFO("worker " << hints.worker << ", priority " << hints.priority);
          CHECK(log.order.size() == length + 1);
          CHECK(log.count_before('x', 'c') <= most);
        });
}

TEST_CASE("a less urgent task waits for the whole chain, and a more urgent one for a task of it",
          "[runtime][ring]") {
  try_both(
      [&](Ring& ring, Log& log) {
        auto const counter = cell(ring);
        note(ring, log, 'c', {{counter, Access::write}});
        for (int i = 1; i < length; ++i) note(ring, log, 'c', {{counter, Access::update}});
        note(ring, log, 'x', {}, {.priority = -1});
        note(ring, log, 'y', {}, {.priority = 1});
      },
      [&](Log const& log) {
        CHECK(log.count_before('x', 'c') == length);
        CHECK(log.count_before('y', 'c') <= 1);
      });
}

TEST_CASE("chains on one worker take turns, and leave none of its own tasks behind",
          "[runtime][ring]") {
  try_both(
      [&](Ring& ring, Log& log) {
        DataHandle const counters[] = {cell(ring), cell(ring)}, beside = cell(ring);
        note(ring, log, 'a', {{counters[0], Access::write}});
        note(ring, log, 'b', {{counters[1], Access::write}, {beside, Access::write}});
        for (int i = 1; i < length; ++i) {
          note(ring, log, 'a', {{counters[0], Access::update}});
          note(ring, log, 'b', {{counters[1], Access::update}});
          // Ready with the chain's second task: the worker keeps that one.
          if (i == 1) note(ring, log, 'x', {{beside, Access::read}});
        }
      },
      [&](Log const& log) {
        CHECK(log.order.size() == 2 * length + 1);
        CHECK(log.count_before('b', 'a') <= most);
        auto const early = std::count(log.order.begin(), log.order.begin() + length, 'a');
        CHECK(early >= length / 2 - most);
        CHECK(early <= length / 2 + most);
        CHECK(log.count_before('x', 'a') + log.count_before('x', 'b') <= 3 * most);
      });
}

TEST_CASE("a replay's chain leaves few tasks behind", "[runtime][ring]") {
  try_both(
      [&](Ring& ring, Log& log) {
        auto const counter = cell(ring, 0);
        Entry const chain{&log, 'c'}, other{&log, 'x'};
        Use<Binding> const uses[] = {{0, Access::update}};
        ProgramTask const link{&note_codelet, uses, std::as_bytes(std::span(&chain, 1)), {}, {}};
        std::vector<ProgramTask> tasks(length, link);
        tasks.push_back({&note_codelet, {}, std::as_bytes(std::span(&other, 1)), {}, {}});
        ring.replay(ring.record(tasks, 1), {&counter, 1});
      },
      [&](Log const& log) {
        CHECK(log.order.size() == length + 1);
        CHECK(log.count_before('x', 'c') <= most);
      });
}

TEST_CASE("blocks and tasks of bodies run once before a chain's, paused or with urgent ones about",
          "[runtime][ring]") {
  for (bool const own_driver : {false, true}) {
    BasicRing<TurnsPolicy> ring({.workers = 2, .own_driver = own_driver});
    DataHandle const chain = cell(ring, 1);
    std::vector<DataHandle> cells, urgent;
    std::vector<Use<DataHandle>> uses;
    for (int i = 0; i < 8; ++i) {
      cells.push_back(cell(ring, 1));
      urgent.push_back(cell(ring, 1));
      uses.push_back({cells.back(), Access::update});
    }
    DataHandle const words = ring.allocate(blocks * sizeof(long), host, Lifetime::persistent);
    submit(ring, zero_codelet, {{words, Access::write}});
    long of_chain = 1, of_others = 1, of_words = 0;
    for (long round = 0; round < 2000; ++round) {
      ring.orchestrate(
          [cells, round](auto& nested) {
            for (DataHandle const each : cells)
              submit(nested, step_codelet, {{each, Access::update}}, round);
          },
          uses[0], uses[1], uses[2], uses[3], uses[4], uses[5], uses[6], uses[7]);
      Use<DataHandle> const in_blocks[] = {{words, Access::update}};
      submit_blocks(ring, step_blocks, blocks, in_blocks, {});
      of_words = affine(of_words, 3, 1);
      for (std::size_t t = 0; t < urgent.size(); ++t) {
        submit(ring, step_codelet, {{chain, Access::update}}, round);
        of_chain = affine(of_chain, 3, round);
        Use<DataHandle> const alone[] = {{urgent[t], Access::update}};
        ring.submit(
            {&step_codelet, alone, std::as_bytes(std::span(&round, 1)), {.priority = 3}, {}});
      }
      if (round % 4 == 0) {
        ring.pause();
        ring.resume();
      }
      of_others = affine(of_others, 3, round);
    }
    DataHandle const sum = cell(ring);
    submit(ring, sum_codelet, {{words, Access::read}, {sum, Access::write}});
    INFO("own_driver " << own_driver);
    CHECK(read(ring, sum) == blocks * of_words);
    CHECK(read(ring, chain) == of_chain);
    for (DataHandle const each : cells) CHECK(read(ring, each) == of_others);
    for (DataHandle const each : urgent) CHECK(read(ring, each) == of_others);
    ring.wait_all();
  }
}
