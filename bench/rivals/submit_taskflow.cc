// SPDX-License-Identifier: BSD-3-Clause
// bench/submit on Taskflow, by submit_graph.hh: submit_taskflow WORKERS [rerun].

#include <taskflow/taskflow.hpp>
#include <vector>

#include "bench/rivals/submit_graph.hh"

namespace {

using namespace submit_bench;

class Taskflow {
 public:
  class Graph {
   public:
    template <class Body> void add(Case of, Triple t, Body body) {
      edges_.add(of, t, graph_.emplace([=] { body(t); }),
                 [](tf::Task from, tf::Task to) { from.precede(to); });
    }
    tf::Taskflow& graph() { return graph_; }

   private:
    tf::Taskflow graph_;
    Edges<tf::Task> edges_;
  };

  explicit Taskflow(int workers) : executor_(static_cast<std::size_t>(workers)) {}
  template <class F> void inside(F&& f) { f(); }
  void run(Graph& graph) { executor_.run(graph.graph()).wait(); }
  template <class Body> void run_all(std::vector<Triple> const& triples, Body body) {
    for (Triple const t : triples) executor_.silent_async([=] { body(t); });
    executor_.wait_for_all();
  }

 private:
  tf::Executor executor_;
};

}  // namespace

int main(int argc, char** argv) { return submit_bench::serve_graphs<Taskflow>(argc, argv); }
