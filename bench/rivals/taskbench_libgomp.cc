// SPDX-License-Identifier: BSD-3-Clause
// bench/taskbench on OpenMP tasks with `depend`: GNU's libgomp where g++ compiles this.

#include "bench/rivals/taskbench.hh"

namespace {

using namespace taskbench;

struct OpenMP {
  explicit OpenMP(int count) : workers(count) {}
  int const workers;
};

class Runner {
 public:
  Runner(OpenMP const& system, Grid& grid) : workers_(system.workers), grid_(grid) {}

  void prepare() {}
  void run() {
#pragma omp parallel num_threads(workers_)
#pragma omp single
    for (int step = 0; step < grid_.dependences().steps(); ++step)
      for (int point = 0; point < grid_.dependences().points(step); ++point) submit(step, point);
  }

 private:
  /// Dependences go by the cells' addresses.
  void submit(int step, int point) {
    Grid* const grid = &grid_;
    if (!grid->dependences().ordered()) {
#pragma omp task firstprivate(grid, step, point)
      grid->execute(step, point);
      return;
    }
    auto const inputs = grid->dependences().inputs(step, point);
    [[maybe_unused]] Cell* const row = grid->cells().data() + grid->position(step + 1, 0);
    [[maybe_unused]] Cell* const output = grid->cells().data() + grid->position(step, point);
    auto const count = static_cast<int>(inputs.size());
    if (count == 0) {
#pragma omp task firstprivate(grid, step, point) depend(out : output[0])
      grid->execute(step, point);
      return;
    }
    std::uint32_t const* const points = inputs.data();
#pragma omp task firstprivate(grid, step, point) depend(out : output[0]) \
    depend(iterator(i = 0 : count), in : row[points[i]])
    grid->execute(step, point);
  }

  int const workers_;
  Grid& grid_;
};

}  // namespace

int main(int argc, char** argv) { return serve<OpenMP, Runner>(argc, argv); }
