// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Programs of up to four tasks on a ring, checked against their serial run.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tests/runtime/model/claims.hh"
#include "tests/runtime/model/heap.hh"
#include "tests/runtime/model/queues.hh"
#include "tests/runtime/model/stage.hh"
#include "tests/runtime/model/tokens.hh"
#include "tests/runtime/model/window.hh"

namespace nntile::test::model {

/// The task of those cells, submitted where `domain` says.
template <class Domain>
auto submit_one(Domain& domain, Cells& cells, CellTask const& task, std::size_t number,
                std::vector<DataHandle> const& handles, Codelet const& codelet = run_codelet) {
  std::vector<Use<DataHandle>> uses;
  for (auto const& [cell, access] : task.uses) uses.push_back({handles[cell], access});
  return domain.submit({&codelet, uses, cells.arguments(number), task.hints, {}});
}

/// What is special about a submission.
struct How {
  bool first_is_async = false;  // another thread ends the first task
  bool retires = false;         // the buffers before it waits
};

/// Submits the tasks one by one.
template <class Policy>
void submit_all(CellTasks const& tasks, RuntimeOptions const& options, How how = {},
                WorkerKinds const& kinds = {}) {
  Cells cells(tasks);
  Stage<Policy> stage(options, kinds);
  std::vector<DataHandle> const handles = stage.adopt(cells);
  {
    std::optional<Completer> completer;
    if (how.first_is_async) completer.emplace();
    for (std::size_t t = 0; t < tasks.size(); ++t)
      (void)submit_one(stage.root.submitter, cells, tasks[t], t, handles,
                       t == 0 && how.first_is_async ? complete_codelet : run_codelet);
    if (how.retires)
      for (DataHandle const handle : handles) stage.retire(handle);
    stage.root.wait_for_everything();
  }
  cells.check(1);
  if (how.retires) cells.check_released();
}

/// Records the tasks and replays them twice, through one flight.
template <class Policy> void replay_twice(CellTasks const& tasks, RuntimeOptions const& options) {
  Cells cells(tasks);
  Stage<Policy> stage(options);
  std::vector<std::vector<Use<Binding>>> uses;
  std::vector<ProgramTask> recorded;
  for (CellTask const& task : tasks) {
    uses.emplace_back();
    for (auto const& [cell, access] : task.uses) uses.back().push_back({cell, access});
  }
  for (std::size_t t = 0; t < tasks.size(); ++t)
    recorded.push_back({&run_codelet, uses[t], cells.arguments(t), tasks[t].hints, {}});
  (void)stage.replay(recorded, stage.adopt(cells), 2);
  stage.root.wait_for_everything();
  cells.check(2);
}

/// Submits every second task into a child domain; those of two domains name no common cell.
template <class Policy>
void submit_to_domains(CellTasks const& tasks, RuntimeOptions const& options) {
  Cells cells(tasks);
  Stage<Policy> stage(options);
  std::vector<DataHandle> const handles = stage.adopt(cells);
  {
    nntile::test::ChildDomain<Policy> child(stage.machine);
    for (std::size_t t = 0; t < tasks.size(); ++t)
      if (t % 2 == 0)
        (void)submit_one(stage.root.submitter, cells, tasks[t], t, handles);
      else
        (void)submit_one(child, cells, tasks[t], t, handles);
    stage.root.wait_for_everything();
  }
  cells.check(1);
}

/// Submits a task whose body submits all but the last task, and waits for them or does not; then
/// the last one.
template <class Policy>
void submit_nested(CellTasks const& tasks, RuntimeOptions const& options, bool waits) {
  Cells cells(tasks);
  Stage<Policy> stage(options);
  std::vector<DataHandle> const handles = stage.adopt(cells);
  std::size_t const last = tasks.size() - 1;
  std::vector<Use<DataHandle>> uses;
  for (std::size_t t = 0; t < last; ++t)
    for (CellUse const& use : tasks[t].uses) uses.push_back({handles[use.cell], Access::update});
  using Nest = nntile::detail::ring::Nest<Policy>;
  auto const body = [&](Nested<Nest>& nested) {
    for (std::size_t t = 0; t < last; ++t) (void)submit_one(nested, cells, tasks[t], t, handles);
    if (!waits) return;
    nested.wait_all();
    for (std::size_t t = 0; t < last; ++t) cells.check_run(t);
  };
  (void)Nest::submit(stage.machine, stage.root.submitter, {NestingBody<Nest>(body), uses, {}, {}});
  (void)submit_one(stage.root.submitter, cells, tasks[last], last, handles);
  stage.root.wait_for_everything();
  cells.check(1);
}

/// A word for each of two blocks, which counts it.
struct BlockWords {
  Plain<int> of[2];
  void check(int value) const {
    for (Plain<int> const& word : of)
      Exploration::current->check(word == value, "a block has not run as often as its task");
  }
};
struct BlockArguments {
  nntile::detail::BlockHeader header;
  BlockWords* words;
};
inline Status count_block(KernelCall const& call, Block block) noexcept {
  auto& word = (*static_cast<BlockWords* const*>(call.arguments))->of[block.index];
  word = word + 1;
  return {};
}
inline constexpr BlockCodelet count_codelet = in_blocks<&count_block>("count");
inline constexpr Codelet check_codelet{
    "check", +[](KernelCall const& call) noexcept -> Status {
      (*static_cast<BlockWords* const*>(call.arguments))->check(1);
      return {};
    }};

/// A task of two blocks, one that checks both, and the former again.
template <class Policy>
void submit_in_blocks(RuntimeOptions const& options, WorkerKinds const& kinds) {
  BlockWords words;
  BlockArguments const arguments{{2}, &words};
  CellTasks const tasks{{w(0)}};
  Cells cells(tasks);
  Stage<Policy> stage(options, kinds);
  std::vector<DataHandle> const handles = stage.adopt(cells);
  Use<DataHandle> const uses[] = {{handles[0], Access::update}};
  Hints const hints = kinds.cube == 0 ? Hints{} : Hints{any_of(WorkerKind::cube)};
  auto const bytes = std::as_bytes(std::span(&arguments, 1));
  auto const submit = [&] {
    (void)nntile::detail::ring::Blocks<Policy>::submit(stage.machine, stage.root.submitter,
                                                       {&count_codelet, uses, bytes, hints, {}});
  };
  submit();
  (void)stage.root.submitter.submit(
      {&check_codelet, uses, std::as_bytes(std::span(&arguments.words, 1)), {}, {}});
  submit();
  stage.root.wait_for_everything();
  words.check(2);
}

inline constexpr char const* late_end = "a task has ended, and not one that it waits for";

/// Submits a first task by submit_first(stage, cells, handles) and a second that waits for it; the
/// first has ended when the second has.
template <class Policy, class SubmitFirst>
void end_in_order(RuntimeOptions const& options, SubmitFirst submit_first) {
  CellTasks const tasks{{u(0)}, {u(0)}};
  Cells cells(tasks);
  Stage<Policy> stage(options);
  std::vector<DataHandle> const handles = stage.adopt(cells);
  std::uint64_t const first = submit_first(stage, cells, handles);
  std::uint64_t const second = submit_one(stage.root.submitter, cells, tasks[1], 1, handles);
  stage.root.wait(second);
  Exploration::current->check(stage.root.over(first), late_end);
  stage.root.wait_for_everything();
  cells.check_run(1);
}
template <class Policy>
void end_one_in_order(RuntimeOptions const& options, Codelet const& codelet) {
  std::optional<Completer> completer;
  if (&codelet == &complete_codelet) completer.emplace();
  end_in_order<Policy>(options, [&](auto& stage, Cells& cells, auto const& handles) {
    return submit_one(stage.root.submitter, cells, {u(0)}, 0, handles, codelet);
  });
}
template <class Policy> void end_replay_in_order(RuntimeOptions const& options) {
  end_in_order<Policy>(options, [](auto& stage, Cells& cells, auto const& handles) {
    Use<Binding> const use{0, Access::update};
    ProgramTask const task{&run_codelet, {&use, 1}, cells.arguments(0), {}, {}};
    return stage.replay({task}, handles, 1);
  });
}
template <class Policy> void end_blocks_in_order(RuntimeOptions const& options) {
  BlockWords words;
  BlockArguments const arguments{{2}, &words};
  end_in_order<Policy>(options, [&](auto& stage, Cells&, auto const& handles) {
    Use<DataHandle> const use{handles[0], Access::update};
    return nntile::detail::ring::Blocks<Policy>::submit(
        stage.machine, stage.root.submitter,
        {&count_codelet, {&use, 1}, std::as_bytes(std::span(&arguments, 1)), {}, {}});
  });
}
/// The first submits a task; or a token's and one behind that, which have ended in order.
template <class Policy> void end_nest_in_order(RuntimeOptions const& options, bool token) {
  using Nest = nntile::detail::ring::Nest<Policy>;
  std::optional<Completer> completer;
  if (token) completer.emplace();
  CellTasks const tasks{{u(0)}, {u(0)}};
  Cells inner(tasks);
  std::vector<DataHandle> named;
  auto const body = [&](Nested<Nest>& nested) {
    Event const first =
        submit_one(nested, inner, tasks[0], 0, named, token ? complete_codelet : run_codelet);
    if (!token) return;
    nested.wait(submit_one(nested, inner, tasks[1], 1, named));
    Exploration::current->check(nested.done(first), late_end);
  };
  end_in_order<Policy>(options, [&](auto& stage, Cells&, auto const& handles) {
    named = handles;
    Use<DataHandle> const use{handles[0], Access::update};
    return Nest::submit(stage.machine, stage.root.submitter,
                        {NestingBody<Nest>(body), {&use, 1}, {}, {}});
  });
}

/// Pauses behind all but the last task, which is submitted meanwhile, once or twice.
template <class Policy>
void pause_and_resume(CellTasks const& tasks, RuntimeOptions const& options, int times) {
  Cells cells(tasks);
  Stage<Policy> stage(options);
  std::vector<DataHandle> const handles = stage.adopt(cells);
  std::size_t const last = tasks.size() - 1;
  for (std::size_t t = 0; t < last; ++t)
    (void)submit_one(stage.root.submitter, cells, tasks[t], t, handles);
  auto const all_run = [&] {
    std::uint64_t sum = 0;
    for (std::size_t t = 0; t <= last; ++t) sum += cells.times_run(t);
    return sum;
  };
  for (int i = 0; i < times; ++i) {
    stage.root.driver.pause();
    std::uint64_t const before = all_run();
    if (i == 0) (void)submit_one(stage.root.submitter, cells, tasks[last], last, handles);
    Exploration::current->yield();
    Exploration::current->check(all_run() == before, "a task runs amid a pause");
    stage.root.driver.resume();
  }
  stage.root.wait_for_everything();
  cells.check(1);
}

/// Another thread asks for the end of the first task, while later ones take its slot; once it is
/// over, what it wrote is to be seen.
template <class Policy> void ask_elsewhere(CellTasks const& tasks, RuntimeOptions const& options) {
  Cells cells(tasks);
  Stage<Policy> stage(options);
  std::vector<DataHandle> const handles = stage.adopt(cells);
  std::uint64_t const first = submit_one(stage.root.submitter, cells, tasks[0], 0, handles);
  Thread asks;
  (void)asks.start([&] {
    while (!stage.root.over(first)) Exploration::current->yield();
    cells.check_run(0);
  });
  for (std::size_t t = 1; t < tasks.size(); ++t)
    (void)submit_one(stage.root.submitter, cells, tasks[t], t, handles);
  stage.root.wait_for_everything();
  asks.join();
  cells.check(1);
}

/// Waits for the second task alone, which the driver may run while a worker runs the first; then
/// submits the others, whose producer has ended before an older task.
template <class Policy> void wait_amid(CellTasks const& tasks, RuntimeOptions const& options) {
  Cells cells(tasks);
  Stage<Policy> stage(options);
  std::vector<DataHandle> const handles = stage.adopt(cells);
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    std::uint64_t const sequence = submit_one(stage.root.submitter, cells, tasks[t], t, handles);
    if (t != 1) continue;
    stage.root.wait(sequence);
    cells.check_run(1);
  }
  stage.root.wait_for_everything();
  cells.check(1);
}

/// A program under its name, and how many preemptions the short form tries.
struct Program {
  std::string_view name;
  int preemptions;      // with the driver and one worker; below 0: any number
  int with_own_driver;  // with two workers and a driver that only waits
  std::function<void(RuntimeOptions const&)> run;
  bool is_part = false;  // has no options
};

/// All programs: 2 slots where they do not say otherwise, ids that wrap.
inline std::vector<Program> const& programs() {
  using Ring = Policy<2>;
  auto const submit = [](CellTasks tasks) {
    return [tasks](RuntimeOptions const& options) { submit_all<Ring>(tasks, options); };
  };
  auto const wide = [](CellTasks tasks) {
    return [tasks](RuntimeOptions const& options) { submit_all<Policy<4>>(tasks, options); };
  };
  auto const retired = [](CellTasks tasks) {
    return [tasks](RuntimeOptions const& options) {
      submit_all<Policy<4>>(tasks, options, {false, true});
    };
  };
  auto const token = [](CellTasks tasks) {
    return
        [tasks](RuntimeOptions const& options) { submit_all<Ring>(tasks, options, {true, true}); };
  };
  auto const replay = [](CellTasks tasks) {
    return [tasks](RuntimeOptions const& options) { replay_twice<Ring>(tasks, options); };
  };
  auto const domains = [](CellTasks tasks) {
    return [tasks](RuntimeOptions const& options) { submit_to_domains<Ring>(tasks, options); };
  };
  auto const nested = [](CellTasks tasks, bool waits) {
    return [tasks, waits](RuntimeOptions const& options) {
      submit_nested<Ring>(tasks, options, waits);
    };
  };
  auto const asked = [](CellTasks tasks) {
    return [tasks](RuntimeOptions const& options) { ask_elsewhere<Ring>(tasks, options); };
  };
  auto const of_kinds = [](CellTasks tasks) {
    return [tasks](RuntimeOptions const& options) {
      submit_all<Ring>(tasks, options, {}, {.cube = 1});
    };
  };
  auto const paused = [](CellTasks tasks, int times) {
    return [tasks, times](RuntimeOptions const& options) {
      pause_and_resume<Policy<4>>(tasks, options, times);
    };
  };
  Hints const on_cpu{any_of(WorkerKind::cpu)}, on_cube{any_of(WorkerKind::cube)};
  auto const part = [](void (*body)()) { return [body](RuntimeOptions const&) { body(); }; };
  static std::vector<Program> const all{
      {"deque", 3, 3, part(&share_deque), true},
      {"deque and sleep", -1, -1, part(&steal_or_sleep), true},
      {"queue", -1, -1, part(&share_queue), true},
      {"several of a queue", -1, -1, part(&take_several), true},
      {"offers", -1, -1, part(&take_offers), true},
      {"bodies", 2, 2, part(&offer_to_bodies), true},
      {"parking", 2, 2, part(&park_two), true},
      {"end", -1, -1, part(&wait_for_end), true},
      {"lane", -1, -1, part(&share_lane), true},
      {"edges", -1, -1, part(&link_and_complete), true},
      {"slot again", -1, -1, part(&open_again), true},
      {"two producers", -1, -1, part(&link_to_two), true},
      {"window that grows", 3, 3, part(&grow_window), true},
      {"window that grows again", -1, -1, part(&grow_again), true},
      {"claims", 3, 3, part(&claim_two<>), true},
      {"record", 2, 2, part(&share_record<Entry::returns>), true},
      {"record of one that fails", 2, 2, part(&share_record<Entry::fails>), true},
      {"record of a failure", 2, 2, part(&share_record<Entry::fails_alone>), true},
      {"completed twice", -1, -1, part(&complete_twice), true},
      {"free records", 3, 3, part(&share_free_records<3>), true},
      {"new records", 3, 3, part(&share_free_records<0>), true},
      {"quiesce", -1, -1, part(&complete_and_quiesce), true},
      {"pending one is moved", 3, 3, part(&ask_amid_moves), true},
      {"asked of a pending one", 2, 2, part(&ask_pending<1>), true},
      {"asked of 2 pending ones", 2, 2, part(&ask_pending<2>), true},
      {"asked of 8 pending ones", 1, 1, part(&ask_pending<8>), true},
      {"one task", 2, 1, submit({{w(0)}})},
      {"chain of 2", 2, 1, submit({{w(0)}, {u(0)}})},
      {"chain of 3", 2, 0, submit({{w(0)}, {u(0)}, {u(0)}})},
      {"2 independent", 2, 1, submit({{w(0)}, {w(1)}})},
      {"write after read", 2, 0, submit({{w(0)}, {r(0), w(1)}, {w(0)}})},
      {"diamond", 2, 0, submit({{w(0)}, {r(0), w(1)}, {r(0), w(2)}, {r(1), r(2), w(0)}})},
      {"join of 4 slots", 2, 0, wide({{w(0)}, {w(1)}, {r(0), r(1), w(2)}})},
      {"accumulate", 2, 0, wide({{a(0)}, {a(0)}, {r(0), w(1)}})},
      {"accumulate into 2", 2, 0, wide({{a(0), a(1)}, {a(1), a(0)}, {a(0)}, {r(0), w(1)}})},
      {"accumulate, token", 1, 0, token({{a(0)}, {a(0)}})},
      {"retired", 2, 0, retired({{w(0)}, {r(0), w(1)}, {r(0)}})},
      {"heap", 1, 0, &retire_and_allocate<Policy<4>>},
      {"scope amid a reader", 1, 0, &close_amid_a_reader<Policy<4>>},
      {"scope amid a token", 1, 0, &close_amid_a_token<Policy<4>>},
      {"hints", 1, 0, submit({{{w(0)}, {1, 0}}, {{w(1)}, {0, 1}}, {{r(0), u(1)}, {1, -1}}})},
      {"token", 1, 0, token({{w(0)}, {u(0)}})},
      {"replayed chain", 1, 0, replay({{w(0)}, {u(0)}})},
      {"replayed fork", 1, 0, replay({{w(0)}, {r(0), w(1)}, {r(0), w(2)}})},
      {"replayed join", 1, 0, replay({{w(0)}, {w(1)}, {r(0), r(1), w(2)}})},
      {"replayed priorities", 1, 0, replay({{{w(0)}, {-1, 1}}, {{w(1)}, {-1, 0}}})},
      {"domains", 1, 0, domains({{w(0)}, {w(1)}, {u(0)}, {u(1)}})},
      {"nested", 1, 0, nested({{w(0)}, {u(0)}, {u(0)}}, false)},
      {"nested join", 1, 0, nested({{w(0)}, {w(1)}, {r(0), r(1), w(2)}}, false)},
      {"nested wait", 1, 0, nested({{w(0)}, {w(1)}, {u(0)}}, true)},
      {"nested growth", 1, 0, nested({{w(0)}, {u(0)}, {u(0)}, {u(0)}}, false)},
      {"nested growth, apart", 1, 0, nested({{w(0)}, {w(1)}, {r(0), u(1)}, {u(0)}}, false)},
      {"nested growth, wait", 1, 0, nested({{w(0)}, {w(1)}, {r(0), u(1)}, {u(0)}}, true)},
      {"wait amid", 2, 1,
       [](auto const& options) { wait_amid<Policy<4>>({{w(0)}, {w(1)}, {u(1)}}, options); }},
      {"asked elsewhere", 1, 0, asked({{w(0)}, {w(1)}, {w(2)}})},
      {"kinds", 1, 1, of_kinds({{{w(0)}, on_cube}, {{w(1)}, on_cpu}})},
      {"one of a kind", 2, 1, of_kinds({{{w(0)}, on_cube}})},
      {"kinds in a chain", 1, 0, of_kinds({{{w(0)}, on_cpu}, {{u(0)}, on_cube}, {{u(0)}, on_cpu}})},
      {"block ranges", 1, 1, part(&claim_blocks<2, 1>), true},
      {"blocks of a range", 2, 2, part(&claim_blocks<1, 2>), true},
      {"blocks", 1, 0, [](auto const& options) { submit_in_blocks<Ring>(options, {}); }},
      {"blocks of a kind", 1, 0,
       [](auto const& options) { submit_in_blocks<Ring>(options, {.cube = 1}); }},
      {"ends of a chain", 2, 1,
       [](auto const& options) { end_one_in_order<Ring>(options, run_codelet); }},
      {"ends behind a token", 1, 0,
       [](auto const& options) { end_one_in_order<Ring>(options, complete_codelet); }},
      {"ends behind a void token", 2, 1,
       [](auto const& options) { end_one_in_order<Ring>(options, at_once_codelet); }},
      {"ends behind a replay", 2, 0, &end_replay_in_order<Ring>},
      {"ends behind blocks", 2, 0, &end_blocks_in_order<Ring>},
      {"ends behind a nest", 2, 0,
       [](auto const& options) { end_nest_in_order<Ring>(options, false); }},
      {"ends in a nest", 1, 0, [](auto const& options) { end_nest_in_order<Ring>(options, true); }},
      {"pause", 2, 1, paused({{w(0)}, {u(0)}}, 1)},
      {"pause amid a chain", 1, 0, paused({{w(0)}, {u(0)}, {u(0)}}, 2)},
  };
  return all;
}

}  // namespace nntile::test::model
