#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Efficiency against the size of tasks, and from it METG: the minimum effective task granularity.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/testing/taskbench/grid.hh"

namespace nntile::testing {

/// `task_ns`: wall time times workers, by tasks. `efficiency`: kernels done in that time, as a
/// share of what as many threads do that run nothing else.
struct EfficiencyPoint {
  double task_ns, efficiency;
};

/// METG(target): the smallest duration of a task at which the efficiency is at least `target`. None
/// where no point reaches it. Between points efficiency goes linearly with 1 / task_ns, which is
/// exact where a task costs the same whatever its size.
/// Source: Slaughter et al., SC 2020, section IV.
inline std::optional<double> metg(std::vector<EfficiencyPoint> points, double target = 0.5) {
  std::sort(points.begin(), points.end(),
            [](auto const& a, auto const& b) { return a.task_ns < b.task_ns; });
  auto const at = std::find_if(points.begin(), points.end(),
                               [=](auto const& p) { return p.efficiency >= target; });
  if (at == points.end()) return std::nullopt;
  if (at == points.begin()) return at->task_ns;
  auto const& below = *(at - 1);
  double const share = (target - below.efficiency) / (at->efficiency - below.efficiency);
  return 1 / (1 / below.task_ns + share * (1 / at->task_ns - 1 / below.task_ns));
}

/// Nanoseconds that a kernel's iteration takes a thread while `threads` run kernels at once; the
/// best of several tries. Throws ValueError without threads, Error where the system has not as
/// many. Blocks: about 20 ms.
inline double iteration_ns(int threads) {
  if (threads < 1)
    throw ValueError(concat("taskbench: kernels on ", threads,
                            " threads; a runtime with 1 CPU worker or more is measured"));
  constexpr std::int64_t iterations = 500'000;
  using Clock = std::chrono::steady_clock;
  double best = 0;
  std::atomic<double> sink{0};
  for (int attempt = 0; attempt < 8; ++attempt) {
    std::vector<double> rates(static_cast<std::size_t>(threads));
    std::atomic<int> ready{0};
    auto const work = [&](std::size_t t) {
      for (++ready; ready < threads;) std::this_thread::yield();
      auto const begin = Clock::now();
      sink = multiply_add(iterations, static_cast<double>(t));
      std::chrono::duration<double, std::nano> const took = Clock::now() - begin;
      rates[t] = static_cast<double>(iterations) / took.count();
    };
    std::vector<std::thread> others;
    auto const join = [&] {
      for (std::thread& other : others) other.join();
    };
    for (std::size_t t = 1; t < rates.size(); ++t) try {
        others.emplace_back(work, t);
      } catch (std::system_error const& error) {
        ready = threads;  // the others wait for no more
        join();
        throw Error(concat("taskbench: worker ", t, " of ", threads,
                           " has no thread to measure it on: ", error.what()));
      }
    work(0);
    join();
    double sum = 0;
    for (double const rate : rates) sum += rate;
    best = std::max(best, sum);
  }
  return threads / best;
}

/// Runs the tasks of a grid: prepare() comes before each run and is not timed, run() starts all of
/// them and returns when all have ended.
template <class X>
concept GridRunner = requires(X& runner) {
  runner.prepare();
  runner.run();
};

struct SweepOptions {
  /// Durations of kernels, as multiples of what an empty task takes its worker.
  std::vector<double> kernels{0.25, 0.5, 1, 2, 4};
  double largest = 32;  // doubled up to there while the efficiency is below one half and grows
  int empty_runs = 3;   // the median of which is `ns_per_task`
  double seconds = 60;  // behind which no run begins but the first of empty tasks
};

struct Sweep {
  double ns_per_task = 0;               // wall time of a run of empty tasks, by tasks
  std::vector<EfficiencyPoint> points;  // from empty tasks on
};

/// Runs a grid with kernels of growing size, and verifies each run. `iteration` is what
/// iteration_ns says of as many threads. Throws Error where a run was wrong, ValueError for kernels
/// below 0, iterations of no time, and either without end.
template <GridRunner X>
Sweep sweep(X& runner, Grid& grid, int workers, double iteration,
            SweepOptions const& options = {}) {
  if (workers < 1 || !(iteration > 0 && std::isfinite(iteration)))
    throw ValueError(concat("taskbench: iterations of ", iteration, " ns on ", workers,
                            " workers; above 0, and 1 or more"));
  for (double const kernel : options.kernels)
    if (!(kernel >= 0 && std::isfinite(kernel)))
      throw ValueError(
          concat("taskbench: a kernel of ", kernel, " times what an empty task takes; 0 or more"));
  using Clock = std::chrono::steady_clock;
  Clock::time_point const start = Clock::now();
  auto const late = [&] {
    return std::chrono::duration<double>(Clock::now() - start).count() > options.seconds;
  };
  auto const tasks = static_cast<double>(grid.tasks());
  auto const time = [&](std::int64_t iterations) {
    grid.begin(iterations);
    runner.prepare();
    Clock::time_point const begin = Clock::now();
    runner.run();
    std::chrono::duration<double, std::nano> const took = Clock::now() - begin;
    grid.verify();
    return took.count();
  };
  time(1);  // warms up
  std::vector<double> empty;
  do empty.push_back(time(0));
  while (static_cast<int>(empty.size()) < options.empty_runs && !late());
  std::nth_element(empty.begin(), empty.begin() + static_cast<std::ptrdiff_t>(empty.size() / 2),
                   empty.end());
  double const overhead = empty[empty.size() / 2] / tasks * workers;
  Sweep result{overhead / workers, {{overhead, 0}}};
  auto const add = [&](double kernel) {
    auto const iterations =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(kernel * overhead / iteration));
    double const each = time(iterations) / tasks * workers;
    result.points.push_back({each, static_cast<double>(iterations) * iteration / each});
    return result.points.back().efficiency;
  };
  double last = 0;
  for (double const kernel : options.kernels)
    if (!late()) last = add(kernel);
  // An efficiency that no longer grows is that of a busy machine.
  for (double kernel = options.kernels.empty() ? 1 : 2 * options.kernels.back(), before = 0;
       last < 0.5 && last >= 1.05 * before && kernel <= options.largest && !late(); kernel *= 2) {
    before = last;
    last = add(kernel);
  }
  return result;
}

}  // namespace nntile::testing
