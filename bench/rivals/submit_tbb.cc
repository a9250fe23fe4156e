// SPDX-License-Identifier: BSD-3-Clause
// bench/submit on oneTBB: a task_group where tasks are independent, else a flow graph, made and run
// each time. oneTBB infers no dependences: readers and writers are tracked here
// (submit_edges.hh). With "rerun" behind the number of workers the graph is made once, and only its
// runs are timed.

#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <cstring>
#include <memory>

#include "bench/rivals/submit_edges.hh"

namespace {

using namespace submit_bench;
using tbb::flow::continue_msg;
using Node = tbb::flow::continue_node<continue_msg>;

/// A flow graph over tasks submitted one by one.
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

class Tbb {
 public:
  static inline bool rerun = false;

  Tbb(int workers, Values& values)
      : values_(values),
        limit_(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(workers)),
        arena_(workers) {}

  /// What a run has made is destroyed outside of the time, to oneTBB's advantage.
  void prepare(Case of) {
    bool const made = graph_ != nullptr && made_ == of;
    if (rerun && made) return;
    arena_.execute([&] {
      graph_.reset();
      if (rerun) build(of, [](Triple) {});
    });
  }
  void run(Case of) {
    arena_.execute([&] {
      if (rerun) return graph_->run();
      submit(of, [](Triple) {});
    });
  }
  void check(Case of) {
    arena_.execute([&] {
      submit(of, [this, of](Triple t) {
        values_.count.fetch_add(1, std::memory_order_relaxed);
        values_.compute(of, t);
      });
      graph_.reset();
    });
  }

 private:
  template <class Body> void submit(Case of, Body body) {
    if (of == Case::independent) {
      tbb::task_group group;
      for (Triple const t : triples_) group.run([=] { body(t); });
      return static_cast<void>(group.wait());
    }
    build(of, body);
    graph_->run();
  }
  template <class Body> void build(Case of, Body body) {
    graph_ = std::make_unique<Graph>();
    made_ = of;
    for (Triple const t : triples_) graph_->add(of, of == Case::chain ? chain_triple : t, body);
  }

  Values& values_;
  tbb::global_control limit_;
  tbb::task_arena arena_;
  std::unique_ptr<Graph> graph_;
  Case made_ = Case::independent;
  std::vector<Triple> const triples_ = triples();
};

}  // namespace

int main(int argc, char** argv) {
  Tbb::rerun = argc > 2 && std::strcmp(argv[2], "rerun") == 0;
  return submit_bench::serve<Tbb>(argc, argv);
}
