#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The dependence patterns of Task Bench: which tasks of the step before a task reads.
// Source: Slaughter et al., "Task Bench: A Parameterized Benchmark for Evaluating Parallel Runtime
// Performance", SC 2020, table II; radix, period and share of random_nearest as its programs have.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "nntile/core/error.hh"

namespace nntile::testing {

/// `chain` is what Task Bench calls no_comm.
enum class Pattern {
  trivial,
  chain,
  stencil_1d,
  fft,
  tree,
  nearest,
  spread,
  random_nearest,
  all_to_all
};

inline constexpr std::array<std::string_view, 9> pattern_names{
    "trivial", "chain",  "stencil_1d",     "fft",       "tree",
    "nearest", "spread", "random_nearest", "all_to_all"};

inline std::string_view name_of(Pattern pattern) {
  return pattern_names[static_cast<std::size_t>(pattern)];
}

inline std::vector<Pattern> all_patterns() {
  std::vector<Pattern> all;
  for (std::size_t i = 0; i < pattern_names.size(); ++i) all.push_back(static_cast<Pattern>(i));
  return all;
}

/// Throws ValueError for a name that is none.
inline Pattern pattern_of(std::string_view name) {
  auto const at = std::find(pattern_names.begin(), pattern_names.end(), name);
  if (at == pattern_names.end()) throw ValueError(concat("taskbench: no pattern '", name, "'"));
  return static_cast<Pattern>(at - pattern_names.begin());
}

/// A task: `point` of `step`.
struct GridTask {
  std::uint32_t step, point;
  bool operator==(GridTask const&) const = default;
};

namespace detail {

inline constexpr int radix = 5;  // inputs of nearest and spread, candidates of random_nearest
inline constexpr int spread_period = 3;   // steps after which spread and random_nearest repeat
inline constexpr double connected = .25;  // share of the candidates that random_nearest reads

/// A number from 0 to 1 that depends on nothing but its arguments. Source: SplitMix64, Steele et
/// al., OOPSLA 2014.
inline double draw(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  std::uint64_t z = (a << 40 | b << 20 | c) + 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

inline int log2_up(int width) {
  int bits = 0;
  while ((1 << bits) < width) ++bits;
  return bits;
}

/// Steps after which a pattern repeats.
inline int period_of(Pattern pattern, int width) {
  if (pattern == Pattern::fft) return std::max(1, log2_up(width));
  return pattern == Pattern::spread || pattern == Pattern::random_nearest ? spread_period : 1;
}

/// The points of the step before that a point reads, none twice.
inline std::vector<int> inputs_of(Pattern pattern, int width, int step, int point) {
  std::vector<int> inputs;
  auto const add = [&](int other) {
    if (other >= 0 && other < width) inputs.push_back(other);
  };
  auto const add_range = [&](int first, int last, auto condition) {
    for (int other = first; other <= last; ++other)
      if (condition(other)) add(other);
  };
  auto const always = [](int) { return true; };
  int const set = step % period_of(pattern, width);
  switch (pattern) {
    case Pattern::trivial:
      break;
    case Pattern::chain:
      add(point);
      break;
    case Pattern::stencil_1d:
      add_range(point - 1, point + 1, always);
      break;
    case Pattern::fft: {
      int const distance =
          1 << ((step + period_of(pattern, width) - 1) % period_of(pattern, width));
      for (int const other : {point - distance, point, point + distance}) add(other);
      break;
    }
    case Pattern::tree:
      add(point / 2);
      break;
    case Pattern::nearest:
      add_range(point - radix / 2, point + (radix - 1) / 2, always);
      break;
    case Pattern::spread:
      for (int i = 0; i < radix; ++i)
        if (int const other = (point + i * width / radix + (i > 0 ? set : 0)) % width;
            std::find(inputs.begin(), inputs.end(), other) == inputs.end())
          add(other);
      break;
    case Pattern::random_nearest:
      add_range(point - radix / 2, point + (radix - 1) / 2, [&](int other) {
        auto const u = [](int i) { return static_cast<std::uint64_t>(i); };
        return other == point || (other >= 0 && draw(u(set), u(other), u(point)) < connected);
      });
      break;
    case Pattern::all_to_all:
      add_range(0, width - 1, always);
      break;
  }
  return inputs;
}

}  // namespace detail

/// The tasks of a pattern and what orders them. Each task but those of `trivial` writes a cell of
/// two rows of cells, in turn: so it also comes behind those that read or wrote that cell.
class Dependences {
 public:
  static constexpr int rows = 2;

  /// Throws ValueError: a width that is not 1 to 4,096, or no steps.
  Dependences(Pattern pattern, int width, int steps)
      : pattern_(pattern),
        width_(checked(width, steps)),
        steps_(steps),
        period_(detail::period_of(pattern, width)),
        // Until then the tree grows, or a cell has no user yet.
        head_(detail::log2_up(width) + rows) {
    int const distinct = head_ + period_;
    for (int step = 0; step < distinct; ++step) {
      of_.emplace_back(static_cast<std::size_t>(points(step)));
      if (!ordered() || step == 0) continue;
      std::vector<std::vector<int>> const readers = readers_of(step - 1);
      for (int point = 0; point < points(step); ++point)
        find(step, point, readers[static_cast<std::size_t>(point)]);
    }
    for (int step = 0; step < distinct; ++step)
      for (int later = step + 1; later <= step + rows; ++later)
        for (int point = 0; point < points(later); ++point)
          for (GridTask const before : predecessors(later, point))
            if (static_cast<int>(before.step) == step)
              entry(step, static_cast<int>(before.point))
                  .after.push_back(task(later - step, point));  // steps ahead
  }

  Pattern pattern() const { return pattern_; }
  int width() const { return width_; }
  int steps() const { return steps_; }
  /// Tasks of a step.
  int points(int step) const {
    return pattern_ == Pattern::tree && step < detail::log2_up(width_) ? 1 << step : width_;
  }
  int tasks() const {
    int count = 0;
    for (int step = 0; step < steps_; ++step) count += points(step);
    return count;
  }
  /// Whether tasks have cells that order them.
  bool ordered() const { return pattern_ != Pattern::trivial; }

  /// Points of the step before that this task reads.
  std::span<std::uint32_t const> inputs(int step, int point) const {
    return entry(step, point).inputs;
  }
  /// The number of tasks that must have ended before this one starts.
  int count_before(int step, int point) const {
    return static_cast<int>(entry(step, point).before.size());
  }
  /// Calls f(GridTask) for each of them.
  template <class F> void for_each_before(int step, int point, F f) const {
    for (GridTask const back : entry(step, point).before)
      f(task(step - static_cast<int>(back.step), static_cast<int>(back.point)));
  }
  /// Calls f(GridTask) for each task that waits for this one.
  template <class F> void for_each_after(int step, int point, F f) const {
    for (GridTask const ahead : entry(step, point).after)
      if (int const later = step + static_cast<int>(ahead.step); later < steps_)
        f(task(later, static_cast<int>(ahead.point)));
  }

 private:
  struct Entry {
    std::vector<std::uint32_t> inputs;
    std::vector<GridTask> before, after;  // step: how many steps back, ahead
  };

  static int checked(int width, int steps) {
    if (width >= 1 && width <= 4096 && steps >= 1) return width;
    throw ValueError(concat("taskbench: a grid of width ", width, " and ", steps,
                            " steps; width is 1 to 4,096, and there is a step"));
  }
  static GridTask task(int step, int point) {
    return {static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(point)};
  }
  std::size_t row(int step) const {
    return static_cast<std::size_t>(step < head_ ? step : head_ + (step - head_) % period_);
  }
  Entry& entry(int step, int point) { return of_[row(step)][static_cast<std::size_t>(point)]; }
  Entry const& entry(int step, int point) const {
    return of_[row(step)][static_cast<std::size_t>(point)];
  }
  std::vector<GridTask> predecessors(int step, int point) const {
    std::vector<GridTask> tasks;
    for_each_before(step, point, [&](GridTask before) { tasks.push_back(before); });
    return tasks;
  }

  /// The points of a step that read each point of the step before.
  std::vector<std::vector<int>> readers_of(int step) const {
    std::vector<std::vector<int>> readers(static_cast<std::size_t>(width_));
    for (int reader = 0; reader < points(step); ++reader)
      for (std::uint32_t const input : inputs(step, reader)) readers[input].push_back(reader);
    return readers;
  }
  /// `readers`: of the cell that this task overwrites.
  void find(int step, int point, std::vector<int> const& readers) {
    Entry& mine = entry(step, point);
    std::vector<int> before = detail::inputs_of(pattern_, width_, step, point);
    mine.inputs.assign(before.begin(), before.end());
    before.insert(before.end(), readers.begin(), readers.end());
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    for (int const other : before) mine.before.push_back(task(1, other));
    if (readers.empty() && step >= rows && point < points(step - rows))
      mine.before.push_back(task(rows, point));
  }

  Pattern const pattern_;
  int const width_, steps_, period_, head_;
  std::vector<std::vector<Entry>> of_;  // by row, by point
};

}  // namespace nntile::testing
