// SPDX-License-Identifier: BSD-3-Clause
// bench/submit on oneTBB, by submit_graph.hh, a task_group where tasks are independent:
// submit_tbb WORKERS [rerun].

#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <memory>
#include <vector>

#include "bench/rivals/submit_graph.hh"

namespace {

using namespace submit_bench;
using tbb::flow::continue_msg;
using Node = tbb::flow::continue_node<continue_msg>;

class Tbb {
 public:
  class Graph {
   public:
    template <class Body> void add(Case of, Triple t, Body body) {
      nodes_.push_back(std::make_unique<Node>(
          graph_, [=](continue_msg const&) { return body(t), continue_msg(); }));
      Node* const node = nodes_.back().get();
      bool root = true;
      edges_.add(of, t, node, [&](Node* from, Node* to) {
        tbb::flow::make_edge(*from, *to);
        root = false;
      });
      if (root) roots_.push_back(node);
    }
    void run() {
      for (Node* const root : roots_) root->try_put(continue_msg());
      graph_.wait_for_all();
    }

   private:
    tbb::flow::graph graph_;
    std::vector<std::unique_ptr<Node>> nodes_;
    std::vector<Node*> roots_;
    Edges<Node*> edges_;
  };

  explicit Tbb(int workers)
      : limit_(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(workers)),
        arena_(workers) {}
  template <class F> void inside(F&& f) { arena_.execute(f); }
  void run(Graph& graph) { graph.run(); }
  template <class Body> void run_all(std::vector<Triple> const& triples, Body body) {
    tbb::task_group group;
    for (Triple const t : triples) group.run([=] { body(t); });
    group.wait();
  }

 private:
  tbb::global_control limit_;
  tbb::task_arena arena_;
};

}  // namespace

int main(int argc, char** argv) { return submit_bench::serve_graphs<Tbb>(argc, argv); }
