#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// How a program that runs the grids of bench/taskbench answers.
//
// usage of each: taskbench_NAME WORKERS. A line "PATTERN WIDTH STEPS SECONDS EMPTY_RUNS
// KERNEL..." is answered by a line: nanoseconds a task, then pairs of task size in nanoseconds and
// efficiency, for empty tasks and for kernels of KERNEL times their overhead each. "wrong TEXT"
// answers a run that broke a dependence.

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

#include "nntile/testing/taskbench/sweep.hh"

namespace taskbench {

using namespace nntile::testing;

/// Answers standard input. A `System` is made of the number of workers, and a `Runner`, which is a
/// GridRunner, of system and grid.
template <class System, class Runner> int serve(int argc, char** argv) {
  int const workers = argc > 1 ? std::atoi(argv[1]) : 1;
  double const iteration = iteration_ns(workers);  // before there are threads that spin
  System system(workers);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string pattern;
    int width = 0, steps = 0;
    SweepOptions options;
    words >> pattern >> width >> steps >> options.seconds >> options.empty_runs;
    options.kernels.clear();
    for (double kernel; words >> kernel;) options.kernels.push_back(kernel);
    try {
      Grid grid(pattern_of(pattern), width, steps);
      Runner runner(system, grid);
      Sweep const done = sweep(runner, grid, workers, iteration, options);
      std::printf("%.3f", done.ns_per_task);
      for (EfficiencyPoint const& point : done.points)
        std::printf(" %.3f %.5f", point.task_ns, point.efficiency);
      std::puts("");
    } catch (nntile::Error const& error) {
      std::printf("wrong %s\n", error.what());
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace taskbench
