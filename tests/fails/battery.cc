// error: a runtime needs a type `Handle`: a copyable name of a buffer
// error: a runtime needs a type `Handle`: a copyable name of a buffer
// SPDX-License-Identifier: BSD-3-Clause
// The battery and the benches of one's own name what a type lacks that is no runtime.
#include "nntile/runtime/serial/serial.hh"
#include "nntile/testing/bench.hh"
#include "nntile/testing/conformance.hh"

using namespace nntile;

struct NotARuntime {};

int main() {
#if NNTILE_FAIL == 1
  return testing::conformance([](RuntimeOptions const&) { return NotARuntime(); }).passed();
#elif NNTILE_FAIL == 2
  NotARuntime mine;
  return static_cast<int>(testing::bench_submit(mine, "mine").size());
#else
  Serial mine;
  return static_cast<int>(testing::bench_submit(mine, "mine").size());
#endif
}
