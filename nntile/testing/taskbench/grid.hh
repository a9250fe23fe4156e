#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A grid of tasks that check their inputs: what every runtime of a task bench runs.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "nntile/core/random.hh"
#include "nntile/testing/taskbench/patterns.hh"

namespace nntile::testing {

/// The value that a task writes and the next step reads; a buffer of its own.
struct alignas(64) Cell {
  std::uint64_t run = 0;
  std::uint32_t step = 0, point = 0;
  double value = 0;  // of the kernel
};

/// `iterations` times 16 independent multiply-adds, in registers; Task Bench's compute-bound
/// kernel. A call does 32 flops an iteration.
[[gnu::noinline]] inline double multiply_add(std::int64_t iterations, double seed) {
  double a[16];
  for (int i = 0; i < 16; ++i) a[i] = seed + i;
  for (std::int64_t n = 0; n < iterations; ++n)
    for (double& each : a) each = each * 0.999 + 0.5;
  double sum = 0;
  for (double const each : a) sum += each;
  return sum;
}

/// Runs the tasks of a pattern, with kernels of a given number of iterations. Each task checks
/// that its inputs are those of the step before of the same run, and counts itself.
class Grid {
 public:
  Grid(Pattern pattern, int width, int steps)
      : dependences_(pattern, width, steps),
        cells_(static_cast<std::size_t>(Dependences::rows * width)) {
    for (int step = 0; step < steps; ++step)
      for (int point = 0; point < dependences_.points(step); ++point) {
        ++expected_.tasks;
        expected_.sum += number(step, point);
      }
  }
  Grid(Grid const&) = delete;
  Grid& operator=(Grid const&) = delete;

  Dependences const& dependences() const { return dependences_; }
  std::uint64_t tasks() const { return expected_.tasks; }
  /// The cells of all rows, row by row.
  std::span<Cell> cells() { return cells_; }
  /// The position among them of the cell that a task writes.
  std::size_t position(int step, int point) const {
    return static_cast<std::size_t>(step % Dependences::rows * dependences_.width() + point);
  }

  /// Begins a run; no task of another is left.
  void begin(std::int64_t iterations) {
    ++run_;
    iterations_ = iterations;
    complaints_ = 0;
    std::lock_guard const hold(mutex_);
    for (Tally& tally : tallies_) tally = {};
  }

  /// Body of a task. `inputs(i)` is the cell of its i-th input, `output` its own; of `trivial`
  /// there are none.
  template <class Inputs> void execute(int step, int point, Inputs inputs, Cell* output) noexcept {
    std::span<std::uint32_t const> const points = dependences_.inputs(step, point);
    for (std::size_t i = 0; i < points.size(); ++i) {
      Cell const& input = inputs(i);
      if (input.run != run_ || input.step != static_cast<std::uint32_t>(step - 1) ||
          input.point != points[i])
        complain(step, point, points[i], input);
    }
    double const value = iterations_ > 0 ? multiply_add(iterations_, point) : 0;
    Tally& tally = mine();
    ++tally.tasks;
    tally.sum += number(step, point);
    tally.value += value;
    if (output != nullptr)
      *output = {run_, static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(point), value};
  }
  /// The same on the grid's own cells.
  void execute(int step, int point) noexcept {
    bool const ordered = dependences_.ordered();
    Cell const* const row = cells_.data() + (ordered ? position(step + 1, 0) : 0);
    std::span<std::uint32_t const> const points = dependences_.inputs(step, point);
    execute(
        step, point, [&](std::size_t i) -> Cell const& { return row[points[i]]; },
        ordered ? cells_.data() + position(step, point) : nullptr);
  }

  /// Ends a run: every task must have run once, and found its inputs. Throws Error.
  void verify() {
    std::lock_guard const hold(mutex_);
    if (complaints_ != 0)
      throw Error(concat("taskbench: ", name_of(dependences_.pattern()), ": ", complaint_, "; ",
                         complaints_.load(), " inputs were wrong"));
    Tally all;
    for (Tally const& tally : tallies_) {
      all.tasks += tally.tasks;
      all.sum += tally.sum;
    }
    if (all.tasks != expected_.tasks || all.sum != expected_.sum)
      throw Error(concat("taskbench: ", name_of(dependences_.pattern()), ": ", all.tasks,
                         " tasks ran where ", expected_.tasks, " were submitted",
                         all.tasks == expected_.tasks ? ", some twice and some never" : ""));
  }

 private:
  /// Counts of the tasks of one thread.
  struct alignas(128) Tally {
    std::uint64_t tasks = 0;
    std::uint64_t sum = 0;  // of their numbers
    double value = 0;       // of their kernels, so that none is left out
  };

  /// Mixed, since numbers of two neighbours add up to twice that of the one between.
  static std::uint64_t number(int step, int point) {
    return mix_bits(static_cast<std::uint64_t>(step) << 16 | static_cast<std::uint64_t>(point));
  }
  /// Of the calling thread.
  Tally& mine() noexcept {
    struct Mine {
      std::uint64_t grid;
      Tally* tally;
    };
    thread_local Mine mine{0, nullptr};
    if (mine.grid != identity_) {
      std::lock_guard const hold(mutex_);
      mine = {identity_, &tallies_.emplace_back()};
    }
    return *mine.tally;
  }
  static std::uint64_t next_identity() {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
  }

  void complain(int step, int point, std::uint32_t wanted, Cell const& input) noexcept {
    if (complaints_++ != 0) return;
    std::lock_guard const hold(mutex_);
    complaint_ = concat("task ", point, " of step ", step, " read ",
                        input.run == run_ ? concat("point ", input.point, " of step ", input.step)
                                          : std::string("what an earlier run left"),
                        " where point ", wanted, " of step ", step - 1, " should be");
  }

  Dependences const dependences_;
  std::vector<Cell> cells_;
  Tally expected_;
  std::uint64_t run_ = 0;
  std::int64_t iterations_ = 0;
  std::uint64_t const identity_ = next_identity();
  std::mutex mutex_;
  std::deque<Tally> tallies_;  // one a thread, which never move
  std::atomic<std::uint64_t> complaints_{0};
  std::string complaint_;
};

}  // namespace nntile::testing
