// error: use of deleted function .*BasicRing\(const .*BasicRing|call to deleted constructor of .*Ring
// error: use of deleted function .*BasicRing|call to deleted constructor of .*Ring
// error: no matching (function for call to|constructor for initialization of) .*Ring
// error: orchestrate: the body of the task stands first, a callable as
// error: orchestrate: the body of the task stands first, a callable as
// error: Sizes of a ring's policy derive from RingSizes: powers of two for window
// error: Sizes of a ring's policy derive from RingSizes: powers of two for window
// error: Trace of a ring's policy derives from RingNoTrace; its begin\(\) takes
// error: a policy of a ring derives from RingPolicy, and replaces parts of it
// SPDX-License-Identifier: BSD-3-Clause
// Mistakes with a ring.
#include "nntile/runtime/ring/policy.hh"

#include "nntile/runtime/ring/nest.hh"

using namespace nntile;

struct MyPolicy
#if NNTILE_FAIL != 9
    : RingPolicy
#endif
{
  struct Sizes : RingSizes {
#if NNTILE_FAIL == 6
    static constexpr std::uint32_t window = 1000;
#elif NNTILE_FAIL == 7
    static constexpr std::uint32_t timed_every = 0;
#endif
  };
  struct Trace : RingNoTrace {
    using RingNoTrace::RingNoTrace;
#if NNTILE_FAIL == 8
    void begin(int, std::uint64_t) {}
#endif
  };
};

int main() {
  using Mine = BasicRing<MyPolicy>;
  static_assert(sizeof(Mine) > 0);
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
