#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The tasks of a grid on any runtime: submitted one by one, or recorded once and replayed.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nntile/runtime/concept.hh"
#include "nntile/testing/taskbench/grid.hh"

namespace nntile::testing {

namespace detail {

struct GridArguments {
  Grid* grid;
  std::uint32_t step, point;
};

/// Reads its inputs, then writes; where the pattern is trivial there is no buffer.
inline Status grid_body(KernelCall const& call) noexcept {
  auto const& task = *static_cast<GridArguments const*>(call.arguments);
  std::size_t const inputs = task.grid->dependences()
                                 .inputs(static_cast<int>(task.step), static_cast<int>(task.point))
                                 .size();
  bool const ordered = task.grid->dependences().ordered();
  task.grid->execute(
      static_cast<int>(task.step), static_cast<int>(task.point),
      [&](std::size_t i) -> Cell const& { return *static_cast<Cell const*>(call.buffers[i]); },
      ordered ? static_cast<Cell*>(call.buffers[inputs]) : nullptr);
  return {};
}
inline constexpr Codelet grid_codelet{"taskbench", &grid_body, nullptr, nullptr};

/// Calls submit(uses, arguments) for each task in order; `handles` are those of the grid's cells.
template <class Handle, class Submit>
void for_each_grid_task(Grid& grid, std::vector<Handle> const& handles, Submit submit) {
  Dependences const& dependences = grid.dependences();
  std::vector<Use<Handle>> uses(static_cast<std::size_t>(dependences.width()) + 1);
  for (int step = 0; step < dependences.steps(); ++step)
    for (int point = 0; point < dependences.points(step); ++point) {
      std::size_t count = 0;
      if (dependences.ordered()) {
        Handle const* const row = handles.data() + grid.position(step + 1, 0);
        for (std::uint32_t const input : dependences.inputs(step, point))
          uses[count++] = {row[input], Access::read};
        uses[count++] = {handles[grid.position(step, point)], Access::write};
      }
      GridArguments const arguments{&grid, static_cast<std::uint32_t>(step),
                                    static_cast<std::uint32_t>(point)};
      submit(std::span<Use<Handle> const>(uses.data(), count),
             std::as_bytes(std::span(&arguments, 1)));
    }
}

template <Runtime R> std::vector<typename R::Handle> adopt_cells(R& runtime, Grid& grid) {
  std::vector<typename R::Handle> handles;
  for (Cell& cell : grid.cells())
    handles.push_back(runtime.adopt(std::as_writable_bytes(std::span(&cell, 1)), {}, {}));
  return handles;
}

}  // namespace detail

/// Each run submits all tasks and waits for all.
template <Runtime R> class GridOn {
 public:
  GridOn(R& runtime, Grid& grid)
      : runtime_(runtime), grid_(grid), handles_(detail::adopt_cells(runtime, grid)) {}
  GridOn(GridOn const&) = delete;
  ~GridOn() {
    for (auto const& handle : handles_) runtime_.retire(handle);
  }

  void prepare() {}
  void run() {
    detail::for_each_grid_task(grid_, handles_, [this](auto uses, auto arguments) {
      runtime_.submit(Task<typename R::Handle>{&detail::grid_codelet, uses, arguments, {}, {}});
    });
    runtime_.wait_all();
  }

 private:
  R& runtime_;
  Grid& grid_;
  std::vector<typename R::Handle> handles_;
};

/// All tasks are recorded at construction; each run replays them.
template <ReplayingRuntime R> class GridReplayedOn {
 public:
  GridReplayedOn(R& runtime, Grid& grid)
      : runtime_(runtime),
        handles_(detail::adopt_cells(runtime, grid)),
        program_(record(runtime, grid)) {}
  GridReplayedOn(GridReplayedOn const&) = delete;
  ~GridReplayedOn() {
    for (auto const& handle : handles_) runtime_.retire(handle);
  }

  void prepare() {}
  void run() {
    runtime_.replay(program_, handles_, {});
    runtime_.wait_all();
  }

 private:
  static typename R::Program record(R& runtime, Grid& grid) {
    struct Piece {
      std::size_t use, uses;
      detail::GridArguments arguments;
    };
    std::vector<Binding> bindings(grid.cells().size());
    for (std::size_t i = 0; i < bindings.size(); ++i) bindings[i] = static_cast<Binding>(i);
    std::vector<Use<Binding>> uses;
    std::vector<Piece> recorded;
    detail::for_each_grid_task(grid, bindings, [&](auto of, auto arguments) {
      recorded.push_back({uses.size(), of.size(), {}});
      std::copy(arguments.begin(), arguments.end(),
                std::as_writable_bytes(std::span(&recorded.back().arguments, 1)).begin());
      uses.insert(uses.end(), of.begin(), of.end());
    });
    std::vector<ProgramTask> tasks;
    for (Piece const& each : recorded)
      tasks.push_back({&detail::grid_codelet,
                       {uses.data() + each.use, each.uses},
                       std::as_bytes(std::span(&each.arguments, 1)),
                       {},
                       {}});
    return runtime.record(tasks, static_cast<std::uint32_t>(bindings.size()), {});
  }

  R& runtime_;
  std::vector<typename R::Handle> handles_;
  typename R::Program program_;
};

}  // namespace nntile::testing
