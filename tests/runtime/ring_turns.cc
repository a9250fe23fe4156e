// SPDX-License-Identifier: BSD-3-Clause
// Chains that one worker runs, and the tasks that wait beside them.

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "nntile/runtime/ring/blocks.hh"
#include "nntile/runtime/ring/nest.hh"
#include "nntile/runtime/ring/ring.hh"
#include "tests/runtime/codelets.hh"
#include "tests/runtime/forked.hh"
#include "tests/support/catch.hh"
#include "tests/support/sanitized.hh"
#include "tests/support/skip.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

constexpr int length = 200;
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
/// another; either starts when all has been submitted. Checks the log of each.
template <class Submit, class Check> void try_both(Submit submit, Check check) {
  for (bool const own_driver : {false, true}) {
    Ring ring({.workers = 1, .own_driver = own_driver});
    Log log;
    log.order.reserve(4 * length);
    log.open = !own_driver;
    if (!own_driver) ring.pause();
    submit(ring, log);
    log.open = true;
    if (!own_driver) ring.resume();
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
                                cell_of(call, 1) = std::accumulate(
                                    words, words + blocks, 0L,
                                    [](long sum, long word) { return affine(sum, 1, word); });
                                return {};
                              },
                              nullptr, nullptr};

/// Every task of a chain lets another go before it.
struct TurnsPolicy : RingPolicy {
  struct Sizes : RingSizes {
    static constexpr std::uint32_t most_kept = 1;
  };
};

using TurnsRing = BasicRing<TurnsPolicy>;

/// Calls the function whose address is its argument.
Codelet const call_codelet{"call", +[](KernelCall const& call) noexcept -> Status {
                             (**static_cast<std::function<void()> const* const*>(call.arguments))();
                             return {};
                           }};
template <class R>
Event submit_call(R& ring, std::function<void()> const& function,
                  std::vector<Use<DataHandle>> const& uses, Hints hints = {}) {
  auto const* const argument = &function;
  return ring.submit({&call_codelet, uses, std::as_bytes(std::span(&argument, 1)), hints, {}});
}
std::function<void()> const nothing = [] {};
void wait_for(std::atomic<bool> const& flag) {
  while (!flag) std::this_thread::yield();
}

/// The oldest task of a ring, in the slot whose number that of another domain's first task, or the
/// number of a block, is mistaken for.
struct Oldest {
  explicit Oldest(TurnsRing& ring) { ring.wait(submit_call(ring, run, {})); }
  /// Waits for an event; true if the task runs again before.
  bool runs_again_before(TurnsRing& ring, Event event) const {
    while (!ring.done(event) && runs == 1) std::this_thread::yield();
    return runs != 1;
  }

  std::atomic<int> runs{0};
  std::function<void()> const run = [this] { ++runs; };
};

/// A worker lets a task of a body go before those of a chain while an urgent one waits: 0 if all
/// run once.
int let_a_task_of_a_body_go_first() {
  std::atomic<bool> body_runs{false}, chain_waits{false}, chain_runs{false}, urgent_waits{false};
  std::function<void()> const run_first = [&] {
    chain_runs = true;
    wait_for(urgent_waits);
  };
  TurnsRing ring({.workers = 1, .own_driver = true});
  Oldest const oldest(ring);
  DataHandle const chain = cell(ring, 1), of_body = cell(ring, 1);
  ring.wait_all();
  auto const body = [&](auto& nested) {
    body_runs = true;
    wait_for(chain_waits);
    long const value = 1;
    Use<DataHandle> const use{of_body, Access::update};
    nested.submit(
        {&step_codelet, {&use, 1}, std::as_bytes(std::span(&value, 1)), {.priority = 1}, {}});
  };
  Use<DataHandle> const in_chain{chain, Access::update};
  Event const outer = ring.orchestrate(body, Use<DataHandle>{of_body, Access::update});
  wait_for(body_runs);
  (void)submit_call(ring, run_first, {in_chain}, {.priority = 1});
  (void)submit_call(ring, nothing, {in_chain}, {.priority = 1});
  chain_waits = true;  // the body's task comes behind the chain's first
  wait_for(chain_runs);
  (void)submit_call(ring, nothing, {}, {.priority = 3});
  urgent_waits = true;
  if (oldest.runs_again_before(ring, outer)) _exit(1);  // the body's task never runs
  ring.wait_all();
  return 0;
}

/// The first of two blocks waits for the other.
std::atomic<bool> first_block_runs{false}, second_block_has_run{false};
Status wait_for_second(KernelCall const&, Block block) noexcept {
  (block.index == 0 ? first_block_runs : second_block_has_run) = true;
  wait_for(second_block_has_run);
  return {};
}
constexpr BlockCodelet wait_in_blocks = in_blocks<&wait_for_second>("wait_in_blocks");

/// The same for a block: one worker is in the chain when the other begins the blocks.
int let_a_block_go_first() {
  std::atomic<bool> chain_runs{false}, urgent_waits{false};
  std::function<void()> const run_first = [&] {
    chain_runs = true;
    wait_for(urgent_waits);
  };
  TurnsRing ring({.workers = 2, .own_driver = true});
  Oldest const oldest(ring);
  DataHandle const chain = cell(ring, 1), of_blocks = cell(ring, 1);
  ring.wait_all();
  Use<DataHandle> const in_chain{chain, Access::update},
      in_blocks[] = {{of_blocks, Access::update}};
  (void)submit_call(ring, run_first, {in_chain});
  (void)submit_call(ring, nothing, {in_chain});
  wait_for(chain_runs);
  Event const task = submit_blocks(ring, wait_in_blocks, 2, in_blocks, {});
  wait_for(first_block_runs);
  (void)submit_call(ring, nothing, {}, {.priority = 3});
  urgent_waits = true;
  if (oldest.runs_again_before(ring, task)) _exit(1);  // the second block never runs
  ring.wait_all();
  return 0;
}

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

TEST_CASE("blocks and tasks of bodies that go before a chain's run once", "[runtime][ring]") {
  if (test::sanitized) return test::skip("a thread is held while the process ends");
  CHECK(in_child(&let_a_task_of_a_body_go_first) == 0);
  CHECK(in_child(&let_a_block_go_first) == 0);
}

TEST_CASE("chains, blocks and tasks of bodies run once, paused or with urgent ones about",
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
    CHECK(read(ring, sum) == affine(of_words, blocks, 0));
    CHECK(read(ring, chain) == of_chain);
    for (DataHandle const each : cells) CHECK(read(ring, each) == of_others);
    for (DataHandle const each : urgent) CHECK(read(ring, each) == of_others);
    ring.wait_all();
  }
}
