// SPDX-License-Identifier: BSD-3-Clause
// bench/taskbench on a runtime of ours: taskbench_nntile WORKERS serial|ring|ring_replay|starpu.

#include <cstdio>
#include <string_view>

#include "bench/rivals/taskbench.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#include "nntile/testing/taskbench/on_runtime.hh"
#ifdef NNTILE_HAVE_STARPU
#include "nntile/runtime/starpu/starpu.hh"
#endif

namespace {

using namespace nntile;

/// A runtime that is made of a number of workers.
template <class R> struct Of : R {
  explicit Of(int workers) : R({.workers = workers}) {}
};
template <class R, template <class> class On> struct Runner : On<R> {
  Runner(R& runtime, testing::Grid& grid) : On<R>(runtime, grid) {}
};
template <class R, template <class> class On = testing::GridOn> int serve(int argc, char** argv) {
  return taskbench::serve<Of<R>, Runner<R, On>>(argc, argv);
}

}  // namespace

int main(int argc, char** argv) {
  std::string_view const runtime = argc > 2 ? argv[2] : "";
  if (runtime == "serial") return serve<Serial>(argc, argv);
  if (runtime == "ring") return serve<Ring>(argc, argv);
  if (runtime == "ring_replay") return serve<Ring, testing::GridReplayedOn>(argc, argv);
#ifdef NNTILE_HAVE_STARPU
  if (runtime == "starpu") return serve<StarPU>(argc, argv);
#endif
  std::fprintf(stderr, "usage: %s WORKERS serial|ring|ring_replay|starpu\n", argv[0]);
  return 2;
}
