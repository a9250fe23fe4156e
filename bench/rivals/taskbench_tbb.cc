// SPDX-License-Identifier: BSD-3-Clause
// bench/taskbench on oneTBB, which infers no dependences: taskbench_tbb WORKERS flow|group
// [rerun]. Edges are given, of a flow graph or of tasks of a task_group that count their
// predecessors. With "rerun" a graph is made once, and only its runs are timed.

#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <cstring>
#include <deque>
#include <memory>

#include "bench/rivals/taskbench.hh"

namespace {

using namespace taskbench;

struct Tbb {
  explicit Tbb(int workers)
      : limit(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(workers)),
        arena(workers) {}
  tbb::global_control limit;
  tbb::task_arena arena;
  static inline bool rerun = false;
};

/// Numbers of the tasks before and after a task, in the order of their steps.
class Numbers {
 public:
  explicit Numbers(Dependences const& dependences) {
    for (int step = 0; step < dependences.steps(); ++step) {
      first_.push_back(count_);
      count_ += static_cast<std::size_t>(dependences.points(step));
    }
  }
  std::size_t of(GridTask task) const { return first_[task.step] + task.point; }
  std::size_t count() const { return count_; }

 private:
  std::vector<std::size_t> first_;
  std::size_t count_ = 0;
};

/// A node a task.
class Flow {
 public:
  explicit Flow(Grid& grid) : numbers_(grid.dependences()) {
    Dependences const& dependences = grid.dependences();
    for (int step = 0; step < dependences.steps(); ++step)
      for (int point = 0; point < dependences.points(step); ++point) {
        Node& node =
            nodes_.emplace_back(graph_, [&grid, step, point](tbb::flow::continue_msg const&) {
              grid.execute(step, point);
              return tbb::flow::continue_msg();
            });
        if (dependences.count_before(step, point) == 0) roots_.push_back(&node);
        dependences.for_each_before(step, point, [&](GridTask before) {
          tbb::flow::make_edge(nodes_[numbers_.of(before)], node);
        });
      }
  }
  void run() {
    for (Node* const root : roots_) root->try_put(tbb::flow::continue_msg());
    graph_.wait_for_all();
  }

 private:
  using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;

  Numbers const numbers_;
  tbb::flow::graph graph_;
  std::deque<Node> nodes_;
  std::vector<Node*> roots_;
};

/// Tasks that count their predecessors down; the last of those runs them.
class Group {
 public:
  explicit Group(Grid& grid) : grid_(grid), numbers_(grid.dependences()), nodes_(numbers_.count()) {
    Dependences const& dependences = grid.dependences();
    std::size_t number = 0;
    for (int step = 0; step < dependences.steps(); ++step)
      for (int point = 0; point < dependences.points(step); ++point, ++number) {
        Node& node = nodes_[number];
        node.step = step;
        node.point = point;
        dependences.for_each_before(step, point, [&](GridTask before) {
          ++node.before;
          Node& from = nodes_[numbers_.of(before)];
          edges_.push_back({&node, from.last_edge});
          from.last_edge = edges_.size();
        });
        node.missing.store(node.before, std::memory_order_relaxed);
      }
  }
  void run() {
    for (Node& node : nodes_)
      if (node.before == 0) group_.run([this, &node] { execute(&node); });
    group_.wait();
  }

 private:
  struct Node {
    std::atomic<int> missing{0};
    int before = 0;
    int step = 0, point = 0;
    std::size_t last_edge = 0;  // from 1, 0: none
  };
  struct Edge {
    Node* to;
    std::size_t next;
  };

  /// One of the tasks that become ready runs here, the others where there is room.
  void execute(Node* node) {
    while (node != nullptr) {
      grid_.execute(node->step, node->point);
      node->missing.store(node->before, std::memory_order_relaxed);  // for the next run
      Node* next = nullptr;
      for (std::size_t e = node->last_edge; e != 0; e = edges_[e - 1].next) {
        Node* const to = edges_[e - 1].to;
        if (to->missing.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
        if (next != nullptr) group_.run([this, next] { execute(next); });
        next = to;
      }
      node = next;
    }
  }

  Grid& grid_;
  Numbers const numbers_;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  tbb::task_group group_;
};

template <class Graph> class Runner {
 public:
  Runner(Tbb& system, Grid& grid) : arena_(system.arena), grid_(grid) {}
  ~Runner() {
    arena_.execute([&] { graph_.reset(); });
  }

  /// What a run has made is destroyed outside of the time, to oneTBB's advantage.
  void prepare() {
    if (Tbb::rerun && graph_ != nullptr) return;
    arena_.execute([&] {
      graph_.reset();
      if (Tbb::rerun) graph_ = std::make_unique<Graph>(grid_);
    });
  }
  void run() {
    arena_.execute([&] {
      if (graph_ == nullptr) graph_ = std::make_unique<Graph>(grid_);
      graph_->run();
    });
  }

 private:
  tbb::task_arena& arena_;
  Grid& grid_;
  std::unique_ptr<Graph> graph_;
};

}  // namespace

int main(int argc, char** argv) {
  Tbb::rerun = argc > 3 && std::strcmp(argv[3], "rerun") == 0;
  if (argc > 2 && std::strcmp(argv[2], "flow") == 0) return serve<Tbb, Runner<Flow>>(argc, argv);
  if (argc > 2 && std::strcmp(argv[2], "group") == 0) return serve<Tbb, Runner<Group>>(argc, argv);
  std::fprintf(stderr, "usage: %s WORKERS flow|group [rerun]\n", argv[0]);
  return 2;
}
