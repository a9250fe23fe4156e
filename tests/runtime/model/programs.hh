// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Programs of a few tasks on a whole ring under exploration, checked against their serial run.

#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "nntile/runtime/ring/replay.hh"
#include "nntile/runtime/ring/submission.hh"
#include "tests/runtime/model/policy.hh"
#include "tests/runtime/ring_program.hh"

namespace nntile::test::model {

/// A ring as BasicRing has it, but for the check of the thread that calls: here all are one.
template <class Policy> struct Stage {
  explicit Stage(RuntimeOptions const& options) : machine(options) {}

  nntile::detail::ring::Machine<Policy> machine;
  nntile::detail::ring::Submission<Policy> root{machine.root};
  nntile::detail::ring::Replayer<Policy> replayer{root.domain, root.driver, root.submitter};
  nntile::detail::ring::Workers<Policy> workers{machine};

  DataHandle allocate() {
    return root.driver.reclaim().begin(
        [&] { return machine.table.add(sizeof(std::uint64_t), host, Lifetime::persistent); });
  }
};

/// What tasks compute with, in place of their buffers: cells that notice races.
struct Cells {
  std::deque<Plain<std::uint64_t>> values;
  std::deque<Plain<std::uint64_t>> times_run;  // by task
};

struct Uses {
  std::uint32_t cell;
  Access access;
};
/// A task by its uses; its number is its place in the program.
using Tasks = std::vector<std::vector<Uses>>;

struct Body {
  Cells* cells;
  std::vector<Uses> const* uses;
  std::uint64_t task;
};
/// Hashes what the task reads into what it writes.
inline Status run(KernelCall const& call) noexcept {
  Body body;
  std::memcpy(&body, call.arguments, sizeof body);
  auto& times = body.cells->times_run[body.task];
  times = times + 1;
  std::uint64_t hash = body.task + 1;
  for (auto const& [cell, access] : *body.uses)
    if (reads(access)) hash = scramble(hash, body.cells->values[cell]);
  for (auto const& [cell, access] : *body.uses)
    if (writes(access)) body.cells->values[cell] = scramble(hash, cell);
  return {};
}
inline constexpr Codelet run_codelet{"run", &run, nullptr, nullptr};

inline std::uint32_t count_cells(Tasks const& tasks) {
  std::uint32_t count = 0;
  for (auto const& uses : tasks)
    for (auto const& use : uses) count = use.cell < count ? count : use.cell + 1;
  return count;
}
inline Cells make_cells(Tasks const& tasks) {
  Cells cells;
  for (std::uint32_t c = 0; c < count_cells(tasks); ++c) cells.values.emplace_back(c);
  cells.times_run.resize(tasks.size());
  return cells;
}
/// What the cells hold after the tasks have run in order.
inline std::vector<std::uint64_t> run_in_order(Tasks const& tasks) {
  Cells cells = make_cells(tasks);
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    Body body{&cells, &tasks[t], t};
    (void)run({nullptr, reinterpret_cast<std::byte const*>(&body), nullptr});
  }
  return {cells.values.begin(), cells.values.end()};
}

/// Submits the tasks one by one and waits for them.
template <class Policy> void submit_all(Tasks const& tasks, RuntimeOptions const& options) {
  Cells cells = make_cells(tasks);
  std::vector<std::uint64_t> const expected = run_in_order(tasks);
  {
    Stage<Policy> stage(options);
    std::vector<DataHandle> handles;
    for (std::size_t c = 0; c < cells.values.size(); ++c) handles.push_back(stage.allocate());
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      std::vector<Use<DataHandle>> uses;
      // What a task reads and was not written is the cell's first value.
      for (auto const& [cell, access] : tasks[t]) uses.push_back({handles[cell], access});
      Body const body{&cells, &tasks[t], t};
      (void)stage.root.submitter.submit(
          {&run_codelet, uses, std::as_bytes(std::span(&body, 1)), {}, {}});
    }
    stage.root.wait_for_everything();
    for (std::size_t t = 0; t < tasks.size(); ++t)
      Exploration::current->check(cells.times_run[t] == 1, "a task has not run once");
    for (std::size_t c = 0; c < expected.size(); ++c)
      Exploration::current->check(cells.values[c] == expected[c], "a cell holds a wrong value");
  }
}

}  // namespace nntile::test::model
