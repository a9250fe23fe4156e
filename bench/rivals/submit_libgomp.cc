// SPDX-License-Identifier: BSD-3-Clause
// bench/submit on OpenMP tasks with `depend`: GNU's libgomp where g++ compiles this.

#include "bench/rivals/submit.hh"

namespace {

using namespace submit_bench;

class OpenMP {
 public:
  OpenMP(int workers, Values& values) : workers_(workers), values_(values) {}

  void prepare(Case) {}
  void run(Case of) {
    submit(of, [](Triple) {});
  }
  void check(Case of) {
    submit(of, [this, of](Triple t) {
      values_.count.fetch_add(1, std::memory_order_relaxed);
      values_.compute(of, t);
    });
  }

 private:
  template <class Body> void submit(Case of, Body body) {
    char* const h = handles_;
#pragma omp parallel num_threads(workers_)
#pragma omp single
    for (Triple const t : triples_) {
      if (of == Case::independent) {
#pragma omp task firstprivate(t, body)
        body(t);
      } else if (of == Case::chain) {
#pragma omp task firstprivate(body) depend(inout : h[0])
        body(chain_triple);
      } else {
#pragma omp task firstprivate(t, body) depend(in : h[t.a], h[t.b]) depend(out : h[t.c])
        body(t);
      }
    }
  }

  int const workers_;
  Values& values_;
  char handles_[handles] = {};  // dependences go by address
  std::vector<Triple> const triples_ = triples();
};

}  // namespace

int main(int argc, char** argv) { return submit_bench::serve<OpenMP>(argc, argv); }
