// SPDX-License-Identifier: BSD-3-Clause
// bench/submit on Taskflow: asynchronous tasks where they are independent, else a graph, made and
// run each time. Taskflow infers no dependences: readers and writers are tracked here
// (submit_edges.hh). With "rerun" behind the number of workers the graph is made once, and only its
// runs are timed.

#include <cstring>
#include <memory>
#include <taskflow/taskflow.hpp>

#include "bench/rivals/submit_edges.hh"

namespace {

using namespace submit_bench;

class Taskflow {
 public:
  static inline bool rerun = false;

  Taskflow(int workers, Values& values)
      : values_(values), executor_(static_cast<std::size_t>(workers)) {}

  /// What a run has made is destroyed outside of the time, to Taskflow's advantage.
  void prepare(Case of) {
    bool const made = graph_ != nullptr && made_ == of;
    if (rerun && made) return;
    graph_.reset();
    if (rerun) build(of, [](Triple) {});
  }
  void run(Case of) {
    if (rerun) return executor_.run(*graph_).wait();
    submit(of, [](Triple) {});
  }
  void check(Case of) {
    submit(of, [this, of](Triple t) {
      values_.count.fetch_add(1, std::memory_order_relaxed);
      values_.compute(of, t);
    });
    graph_.reset();
  }

 private:
  template <class Body> void submit(Case of, Body body) {
    if (of == Case::independent) {
      for (Triple const t : triples_) executor_.silent_async([=] { body(t); });
      return executor_.wait_for_all();
    }
    build(of, body);
    executor_.run(*graph_).wait();
  }
  template <class Body> void build(Case of, Body body) {
    graph_ = std::make_unique<tf::Taskflow>();
    made_ = of;
    Edges<tf::Task> edges;
    for (Triple const drawn : triples_) {
      Triple const t = of == Case::chain ? chain_triple : drawn;
      edges.add(of, t, graph_->emplace([=] { body(t); }),
                [](tf::Task from, tf::Task to) { from.precede(to); });
    }
  }

  Values& values_;
  tf::Executor executor_;
  std::unique_ptr<tf::Taskflow> graph_;
  Case made_ = Case::independent;
  std::vector<Triple> const triples_ = triples();
};

}  // namespace

int main(int argc, char** argv) {
  Taskflow::rerun = argc > 2 && std::strcmp(argv[2], "rerun") == 0;
  return submit_bench::serve<Taskflow>(argc, argv);
}
