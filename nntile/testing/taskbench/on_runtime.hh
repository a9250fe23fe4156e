#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The tasks of a grid on any runtime: submitted one by one, or recorded once and replayed.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nntile/runtime/concept.hh"
#include "nntile/testing/taskbench/grid.hh"
#include "nntile/testing/waits.hh"

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

/// Memory of a bench, adopted element by element. Its end waits for the tasks that an exception has
/// left behind, and retires it. Throws what check_waits does.
template <Runtime R> class BenchBuffers {
 public:
  template <class T> BenchBuffers(R& runtime, std::span<T> memory) : runtime_(runtime) {
    check_waits(runtime);
    handles_.reserve(memory.size());
    try {
      for (T& each : memory)
        handles_.push_back(runtime.adopt(std::as_writable_bytes(std::span(&each, 1)), {}, {}));
    } catch (...) {
      end();
      throw;
    }
  }
  BenchBuffers(BenchBuffers const&) = delete;
  ~BenchBuffers() { end(); }
  std::vector<typename R::Handle> const& handles() const { return handles_; }

 private:
  void end() noexcept {
    wait_all();
    for (auto const& handle : handles_) try {
        runtime_.retire(handle);
      } catch (...) {  // the runtime does not keep the law
      }
    wait_all();  // the memory is released then
  }
  void wait_all() noexcept {
    try {
      runtime_.wait_all();
    } catch (...) {  // of tasks that have ended
    }
  }

  R& runtime_;
  std::vector<typename R::Handle> handles_;
};

}  // namespace detail

/// Each run submits all tasks and waits for all.
template <Runtime R> class GridOn {
 public:
  GridOn(R& runtime, Grid& grid)
      : runtime_(runtime), grid_(grid), buffers_(runtime, grid.cells()) {}

  void prepare() {}
  void run() {
    detail::for_each_grid_task(grid_, buffers_.handles(), [this](auto uses, auto arguments) {
      runtime_.submit(Task<typename R::Handle>{&detail::grid_codelet, uses, arguments, {}, {}});
    });
    runtime_.wait_all();
  }

 private:
  R& runtime_;
  Grid& grid_;
  detail::BenchBuffers<R> const buffers_;
};

/// All tasks are recorded at construction; each run replays them.
template <ReplayingRuntime R> class GridReplayedOn {
 public:
  GridReplayedOn(R& runtime, Grid& grid)
      : runtime_(runtime), program_(record(runtime, grid)), buffers_(runtime, grid.cells()) {}

  void prepare() {}
  void run() {
    runtime_.replay(program_, buffers_.handles(), {});
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
  typename R::Program program_;
  detail::BenchBuffers<R> const buffers_;  // last: tasks that are left end before the program
};

}  // namespace nntile::testing
