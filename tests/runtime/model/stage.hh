// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A whole ring under exploration, and tasks that hash cells which notice races.

#include <cstdint>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "nntile/runtime/ring/blocks.hh"
#include "nntile/runtime/ring/nest.hh"
#include "nntile/runtime/ring/recorder.hh"
#include "nntile/runtime/ring/replay.hh"
#include "nntile/runtime/ring/submission.hh"
#include "tests/runtime/child_domain.hh"
#include "tests/runtime/model/policy.hh"
#include "tests/runtime/ring_program.hh"

namespace nntile::test::model {

struct CellUse {
  std::uint32_t cell;
  Access access;
};
constexpr CellUse w(std::uint32_t cell) { return {cell, Access::write}; }
constexpr CellUse r(std::uint32_t cell) { return {cell, Access::read}; }
constexpr CellUse u(std::uint32_t cell) { return {cell, Access::update}; }
constexpr CellUse a(std::uint32_t cell) { return {cell, Access::accumulate}; }

struct CellTask {
  CellTask(std::initializer_list<CellUse> its_uses, Hints its_hints = {})
      : uses(its_uses), hints(its_hints) {}
  std::vector<CellUse> uses;
  Hints hints;
};
using CellTasks = std::vector<CellTask>;

/// What the tasks compute with, in place of their buffers.
class Cells {
 public:
  struct Arguments {
    Cells* cells;
    std::uint64_t task;
  };

  explicit Cells(CellTasks const& tasks)
      : tasks_(tasks), submitted_(tasks.size()), times_run_(tasks.size()) {
    for (CellTask const& task : tasks)
      for (CellUse const& use : task.uses)
        while (cells_.size() <= use.cell) cells_.emplace_back(cells_.size());
    for (std::size_t t = 0; t < tasks.size(); ++t) arguments_.push_back({this, t});
  }

  std::size_t size() const { return cells_.size(); }
  /// Memory that is named in place of the cell, and what is called when it is given back.
  std::span<std::byte> memory(std::size_t cell) {
    return std::as_writable_bytes(std::span(&cells_[cell].memory, 1));
  }
  Release release(std::size_t cell) {
    return {+[](void* released) noexcept { static_cast<Cell*>(released)->released = true; },
            &cells_[cell]};
  }
  /// What the task is to be submitted with; the thread that asks is the one that submits.
  std::span<std::byte const> arguments(std::size_t task) {
    submitted_[task] = true;
    return std::as_bytes(std::span(&arguments_[task], 1));
  }
  /// Hashes what the task reads into what it writes.
  void run(std::size_t task) {
    Exploration::current->check(submitted_[task], "a task runs that was not submitted");
    times_run_[task] = times_run_[task] + 1;
    std::uint64_t hash = task + 1;
    for (auto const& [cell, access] : tasks_[task].uses) {
      Exploration::current->check(!cells_[cell].released, "a task runs on memory given back");
      if (reads(access) && access != Access::accumulate) hash = scramble(hash, cells_[cell].value);
    }
    for (auto const& [cell, access] : tasks_[task].uses)
      if (writes(access))
        cells_[cell].value =
            scramble(hash, cell) +
            (access == Access::accumulate ? static_cast<std::uint64_t>(cells_[cell].value) : 0);
  }
  /// How often that task has run; nothing may run now.
  std::uint64_t times_run(std::size_t task) const { return times_run_[task]; }
  /// Fails unless that task has run.
  void check_run(std::size_t task) {
    Exploration::current->check(times_run_[task] == 1, "a task that is over has not run");
  }
  /// All tasks are over: fails unless each has run as often, and left what it would have in order.
  void check(std::uint64_t times) {
    Cells in_order(tasks_);
    for (std::size_t t = 0; t < tasks_.size(); ++t) (void)in_order.arguments(t);
    for (std::uint64_t i = 0; i < times; ++i)
      for (std::size_t t = 0; t < tasks_.size(); ++t) in_order.run(t);
    for (auto const& run : times_run_)
      Exploration::current->check(run == times, "a task has not run as often as submitted");
    for (std::size_t c = 0; c < cells_.size(); ++c)
      Exploration::current->check(cells_[c].value == in_order.cells_[c].value,
                                  "a cell holds a wrong value");
  }
  void check_released() const {
    for (Cell const& cell : cells_)
      Exploration::current->check(cell.released, "retired memory is not given back");
  }

 private:
  struct Cell {
    explicit Cell(std::uint64_t first) : value(first) {}
    Plain<std::uint64_t> value;
    Plain<bool> released;
    std::uint64_t memory = 0;
  };

  CellTasks const& tasks_;
  std::deque<Cell> cells_;
  std::deque<Plain<bool>> submitted_;           // by task
  std::deque<Plain<std::uint64_t>> times_run_;  // by task
  std::vector<Arguments> arguments_;
};

/// A ring as BasicRing has it, but for the check of the thread that calls: here all are one.
template <class Policy> struct Stage {
  explicit Stage(RuntimeOptions const& options, WorkerKinds const& kinds = {})
      : machine(options, nullptr, kinds) {
    machine.owner = this;
  }
  ~Stage() { root.wait_for_everything(); }

  nntile::detail::ring::Machine<Policy> machine;
  nntile::detail::ring::Submission<Policy> root{machine.root};
  nntile::detail::ring::Replayer<Policy> replayer{root.domain, root.driver, root.submitter};
  nntile::detail::ring::Workers<Policy> workers{machine};

  /// A buffer for each cell.
  std::vector<DataHandle> adopt(Cells& cells) {
    std::vector<DataHandle> handles;
    while (handles.size() < cells.size())
      handles.push_back(root.driver.reclaim().begin([&] {
        std::size_t const cell = handles.size();
        return machine.table.adopt(cells.memory(cell), host, cells.release(cell));
      }));
    return handles;
  }
  void retire(DataHandle handle) {
    root.driver.reclaim().collect();
    root.driver.reclaim().retire(machine.table.begin_retire(handle));
  }
  std::uint64_t replay(std::vector<ProgramTask> const& tasks,
                       std::vector<DataHandle> const& handles, int times) {
    using nntile::detail::ring::Image;
    auto const image = std::make_shared<Image const>(
        nntile::detail::ring::Recorder(tasks, static_cast<std::uint32_t>(handles.size()), {})
            .image());
    std::uint64_t last = 0;
    while (times-- > 0) last = replayer.replay(image, handles, {});
    return last;
  }
};

inline Cells::Arguments cell_arguments(KernelCall const& call) {
  Cells::Arguments arguments;
  std::memcpy(&arguments, call.arguments, sizeof arguments);
  return arguments;
}
inline Status run_cells(KernelCall const& call) noexcept {
  auto const [cells, task] = cell_arguments(call);
  cells->run(task);
  return {};
}
inline constexpr Codelet run_codelet{"run", &run_cells, nullptr, nullptr};

/// A thread besides the ring's that ends one task.
class Completer {
 public:
  Completer() {
    current = this;
    (void)thread_.start([this] {
      while (!given_.load(std::memory_order_acquire)) Exploration::current->yield();
      arguments_.cells->run(arguments_.task);
      token_.complete({});
    });
  }
  ~Completer() { thread_.join(); }
  void give(KernelCall const& call, Completion token) {
    arguments_ = cell_arguments(call);
    token_ = token;
    given_.store(true, std::memory_order_release);
  }
  static inline Completer* current = nullptr;

 private:
  Cells::Arguments arguments_{};
  Completion token_;
  Atomic<bool> given_{false};
  Thread thread_;
};
inline constexpr Codelet complete_codelet{
    "complete", nullptr, nullptr, +[](KernelCall const& call, Completion token) noexcept -> Status {
      Completer::current->give(call, token);
      return {};
    }};
/// Ends before its entry returns.
inline constexpr Codelet at_once_codelet{
    "at once", nullptr, nullptr, +[](KernelCall const& call, Completion token) noexcept -> Status {
      (void)run_cells(call);
      token.complete({});
      return {};
    }};

}  // namespace nntile::test::model
