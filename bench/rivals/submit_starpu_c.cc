// SPDX-License-Identifier: BSD-3-Clause
// bench/submit on StarPU's own interface: registered variables, codelets, starpu_task_create.

#include <starpu.h>

#include <cstdlib>

#include "bench/rivals/submit.hh"

namespace {

using namespace submit_bench;

std::uint64_t& value(void* buffer) {
  return *reinterpret_cast<std::uint64_t*>(STARPU_VARIABLE_GET_PTR(buffer));
}
void empty(void**, void*) {}
void count(void**, void* values) {
  static_cast<Values*>(values)->count.fetch_add(1, std::memory_order_relaxed);
}
void count_chain(void** buffers, void* values) {
  count(buffers, values);
  Values::update(value(buffers[0]));
}
void count_three(void** buffers, void* values) {
  count(buffers, values);
  Values::write(value(buffers[0]), value(buffers[1]), value(buffers[2]));
}

class StarPU {
 public:
  StarPU(int workers, Values& values) : values_(values) {
    setenv("STARPU_SILENT", "1", 1);
    starpu_conf conf;
    starpu_conf_init(&conf);
    conf.precedence_over_environment_variables = 1;
    conf.ncpus = workers;
    conf.ncuda = conf.nopencl = 0;
    if (starpu_init(&conf) != 0) std::exit(1);
    for (int i = 0; i < handles; ++i)
      starpu_variable_data_register(&handles_[i], STARPU_MAIN_RAM,
                                    reinterpret_cast<std::uintptr_t>(&values.of[Values::index(i)]),
                                    sizeof(std::uint64_t));
    for (int check = 0; check < 2; ++check)
      for (int which = 0; which < 3; ++which) {
        void (*const checked[])(void**, void*) = {count, count_chain, count_three};
        starpu_codelet& codelet = codelets_[check][which];
        starpu_codelet_init(&codelet);
        codelet.cpu_funcs[0] = check != 0 ? checked[which] : empty;
        codelet.nbuffers = which == 0 ? 0 : which == 1 ? 1 : 3;
        for (int i = 0; i < codelet.nbuffers; ++i)
          codelet.modes[i] = which == 1 ? STARPU_RW : i == 2 ? STARPU_W : STARPU_R;
      }
  }
  ~StarPU() {
    for (auto& handle : handles_) starpu_data_unregister(handle);
    starpu_shutdown();
  }

  void prepare(Case) {}
  void run(Case of) { submit(of, false); }
  /// Between runs the values are changed from outside.
  void check(Case of) {
    for (auto& handle : handles_) {
      starpu_data_acquire(handle, STARPU_RW);
      starpu_data_release(handle);
    }
    submit(of, true);
    for (auto& handle : handles_) {
      starpu_data_acquire(handle, STARPU_R);
      starpu_data_release(handle);
    }
  }

 private:
  void submit(Case of, bool check) {
    for (Triple const& t : triples_) {
      starpu_task* const task = starpu_task_create();
      task->cl = &codelets_[check ? 1 : 0][static_cast<int>(of)];
      task->cl_arg = &values_;
      if (of == Case::chain) task->handles[0] = handles_[0];
      if (of == Case::three_handles) {
        task->handles[0] = handles_[t.a];
        task->handles[1] = handles_[t.b];
        task->handles[2] = handles_[t.c];
      }
      if (starpu_task_submit(task) != 0) std::exit(1);
    }
    starpu_task_wait_for_all();
  }

  Values& values_;
  starpu_data_handle_t handles_[handles];
  starpu_codelet codelets_[2][3];
  std::vector<Triple> const triples_ = triples();
};

}  // namespace

int main(int argc, char** argv) { return submit_bench::serve<StarPU>(argc, argv); }
