#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// bench/submit on a library that infers no dependences: asynchronous tasks where they are
// independent, else a graph, made and run each time, whose edges submit_edges.hh finds. With
// "rerun" behind the number of workers the graph is made once, and only its runs are timed.

#include <cstring>
#include <memory>
#include <vector>

#include "bench/rivals/submit_edges.hh"

namespace submit_bench {

/// A `Library` is made with a number of workers. Its `Graph` takes tasks one by one, by add(case,
/// handles, body), and runs them; inside(f) calls f where that is done best, and
/// run_all(handles, body) runs independent tasks.
template <class Library> class OnGraphs {
 public:
  static inline bool rerun = false;

  OnGraphs(int workers, Values& values) : values_(values), library_(workers) {}

  /// What a run has made is destroyed outside of the time, to the library's advantage.
  void prepare(Case of) {
    bool const made = graph_ != nullptr && made_ == of;
    if (rerun && made) return;
    library_.inside([&] {
      graph_.reset();
      if (rerun) build(of, [](Triple) {});
    });
  }
  void run(Case of) {
    library_.inside([&] {
      if (rerun) return library_.run(*graph_);
      submit(of, [](Triple) {});
    });
  }
  void check(Case of) {
    library_.inside([&] {
      submit(of, [this, of](Triple t) {
        values_.count.fetch_add(1, std::memory_order_relaxed);
        values_.compute(of, t);
      });
      graph_.reset();
    });
  }

 private:
  template <class Body> void submit(Case of, Body body) {
    if (of == Case::independent) return library_.run_all(triples_, body);
    build(of, body);
    library_.run(*graph_);
  }
  template <class Body> void build(Case of, Body body) {
    graph_ = std::make_unique<typename Library::Graph>();
    made_ = of;
    for (Triple const t : triples_) graph_->add(of, of == Case::chain ? chain_triple : t, body);
  }

  Values& values_;
  Library library_;
  std::unique_ptr<typename Library::Graph> graph_;
  Case made_ = Case::independent;
  std::vector<Triple> const triples_ = triples();
};

template <class Library> int serve_graphs(int argc, char** argv) {
  OnGraphs<Library>::rerun = argc > 2 && std::strcmp(argv[2], "rerun") == 0;
  return serve<OnGraphs<Library>>(argc, argv);
}

}  // namespace submit_bench
