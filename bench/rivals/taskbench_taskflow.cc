// SPDX-License-Identifier: BSD-3-Clause
// bench/taskbench on Taskflow, which infers no dependences: taskbench_taskflow WORKERS [rerun].
// Edges are given. With "rerun" a graph is made once, and only its runs are timed.

#include <cstring>
#include <memory>
#include <taskflow/taskflow.hpp>

#include "bench/rivals/taskbench.hh"

namespace {

using namespace taskbench;

struct System {
  explicit System(int workers) : executor(static_cast<std::size_t>(workers)) {}
  tf::Executor executor;
  static inline bool rerun = false;
};

class Runner {
 public:
  Runner(System& system, Grid& grid) : executor_(system.executor), grid_(grid) {}

  /// What a run has made is destroyed outside of the time, to Taskflow's advantage.
  void prepare() {
    if (System::rerun && graph_ != nullptr) return;
    graph_.reset();
    if (System::rerun) build();
  }
  void run() {
    if (graph_ == nullptr) build();
    executor_.run(*graph_).wait();
  }

 private:
  void build() {
    graph_ = std::make_unique<tf::Taskflow>();
    Dependences const& dependences = grid_.dependences();
    std::vector<std::size_t> first;
    std::vector<tf::Task> tasks;
    for (int step = 0; step < dependences.steps(); ++step) {
      first.push_back(tasks.size());
      for (int point = 0; point < dependences.points(step); ++point) {
        tf::Task task = graph_->emplace([this, step, point] { grid_.execute(step, point); });
        dependences.for_each_before(step, point, [&](GridTask before) {
          tasks[first[before.step] + before.point].precede(task);
        });
        tasks.push_back(task);
      }
    }
  }

  tf::Executor& executor_;
  Grid& grid_;
  std::unique_ptr<tf::Taskflow> graph_;
};

}  // namespace

int main(int argc, char** argv) {
  System::rerun = argc > 2 && std::strcmp(argv[2], "rerun") == 0;
  return serve<System, Runner>(argc, argv);
}
