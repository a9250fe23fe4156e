// SPDX-License-Identifier: BSD-3-Clause
// bench/taskbench on StarPU's own interface: registered variables, codelets, starpu_task_create.

#include <starpu.h>

#include <cstdlib>

#include "bench/rivals/taskbench.hh"

namespace {

using namespace taskbench;

struct StarPU {
  explicit StarPU(int workers) {
    setenv("STARPU_SILENT", "1", 1);
    starpu_conf conf;
    starpu_conf_init(&conf);
    conf.precedence_over_environment_variables = 1;
    conf.ncpus = workers;
    conf.ncuda = conf.nopencl = 0;
    if (starpu_init(&conf) != 0) std::exit(1);
  }
  ~StarPU() { starpu_shutdown(); }
};

/// What a body is given, one a task.
struct Argument {
  Grid* grid;
  int step, point;
};

Cell* cell(void* buffer) { return reinterpret_cast<Cell*>(STARPU_VARIABLE_GET_PTR(buffer)); }
void body(void** buffers, void* argument) {
  auto const& task = *static_cast<Argument const*>(argument);
  Dependences const& dependences = task.grid->dependences();
  std::size_t const inputs = dependences.inputs(task.step, task.point).size();
  task.grid->execute(
      task.step, task.point, [&](std::size_t i) -> Cell const& { return *cell(buffers[i]); },
      dependences.ordered() ? cell(buffers[inputs]) : nullptr);
}

class Runner {
 public:
  Runner(StarPU&, Grid& grid) {
    for (Cell& each : grid.cells())
      starpu_variable_data_register(&handles_.emplace_back(), STARPU_MAIN_RAM,
                                    reinterpret_cast<std::uintptr_t>(&each), sizeof(Cell));
    Dependences const& dependences = grid.dependences();
    for (int step = 0; step < dependences.steps(); ++step)
      for (int point = 0; point < dependences.points(step); ++point)
        arguments_.push_back({&grid, step, point});
    for (int count = 0; count <= fixed + 1; ++count) {
      starpu_codelet& codelet = codelets_[count];
      starpu_codelet_init(&codelet);
      codelet.cpu_funcs[0] = body;
      codelet.nbuffers = count <= fixed ? count : STARPU_VARIABLE_NBUFFERS;
      for (int i = 0; i < std::min(count, fixed); ++i)
        codelet.modes[i] = i + 1 == count ? STARPU_W : STARPU_R;
    }
  }
  ~Runner() {
    for (auto const handle : handles_) starpu_data_unregister(handle);
  }

  void prepare() {}
  void run() {
    for (Argument& argument : arguments_) submit(argument);
    starpu_task_wait_for_all();
  }

 private:
  static constexpr int fixed = STARPU_NMAXBUFS;  // buffers that need no memory of their own

  void submit(Argument& argument) {
    Grid& grid = *argument.grid;
    Dependences const& dependences = grid.dependences();
    auto const inputs = dependences.inputs(argument.step, argument.point);
    std::size_t const count = dependences.ordered() ? inputs.size() + 1 : 0;
    starpu_task* const task = starpu_task_create();
    task->cl = &codelets_[std::min<std::size_t>(count, fixed + 1)];
    task->cl_arg = &argument;
    starpu_data_handle_t* handles = task->handles;
    if (count > fixed) {  // StarPU frees both
      task->nbuffers = static_cast<int>(count);
      handles = task->dyn_handles =
          static_cast<starpu_data_handle_t*>(std::malloc(count * sizeof *task->dyn_handles));
      task->dyn_modes =
          static_cast<starpu_data_access_mode*>(std::malloc(count * sizeof *task->dyn_modes));
      for (std::size_t i = 0; i < count; ++i)
        task->dyn_modes[i] = i + 1 == count ? STARPU_W : STARPU_R;
    }
    if (count > 0) {
      starpu_data_handle_t const* const row = handles_.data() + grid.position(argument.step + 1, 0);
      for (std::size_t i = 0; i < inputs.size(); ++i) handles[i] = row[inputs[i]];
      handles[count - 1] = handles_[grid.position(argument.step, argument.point)];
    }
    if (starpu_task_submit(task) != 0) std::exit(1);
  }

  std::vector<starpu_data_handle_t> handles_;
  std::vector<Argument> arguments_;
  starpu_codelet codelets_[fixed + 2];
};

}  // namespace

int main(int argc, char** argv) { return serve<StarPU, Runner>(argc, argv); }
