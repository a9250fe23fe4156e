// error: use of deleted function .*BasicRing\(const .*BasicRing|call to deleted constructor of .*Ring
// error: use of deleted function .*BasicRing|call to deleted constructor of .*Ring
// error: no matching (function for call to|constructor for initialization of) .*Ring
// error: orchestrate: the body of the task stands first, a callable as
// error: orchestrate: the body of the task stands first, a callable as
// SPDX-License-Identifier: BSD-3-Clause
// Mistakes with a ring.
#include "nntile/runtime/ring/nest.hh"

using namespace nntile;

int main() {
  Ring runtime({.workers = 1});
  [[maybe_unused]] Use<Ring::Handle> const use{runtime.allocate(8), Access::write};
#if NNTILE_FAIL == 1
  Ring const other = runtime;
#elif NNTILE_FAIL == 2
  Ring const other(2);
#elif NNTILE_FAIL == 3
  Ring const other({.worker = 2});
#elif NNTILE_FAIL == 4
  runtime.orchestrate(use, use);
#elif NNTILE_FAIL == 5
  runtime.orchestrate([](int) {}, use);
#else
  runtime.orchestrate([](auto& nested) { nested.wait_all(); }, use);
#endif
}
