// error: a runtime needs `Event submit\(Task<Handle> const&\)`
// note: is_required_runtime<.*evaluated to .?false
// error: a runtime needs `std::span<std::byte> lock\(Handle, Access\)`
// error: a runtime needs `Workers workers\(\) const`
// SPDX-License-Identifier: BSD-3-Clause
// A runtime whose submit returns no Event fails at its static_assert.
#include "nntile/runtime/concept.hh"

using namespace nntile;

struct Mine {
  using Handle = int;
  Handle allocate(std::size_t, Place, Lifetime) { return 0; }
  Handle adopt(std::span<std::byte>, Place, Release) { return 0; }
  void retire(Handle) {}
#if NNTILE_FAIL == 1
  void submit(Task<Handle> const&) {}
#else
  Event submit(Task<Handle> const&) { return {}; }
#endif
  void wait(Event) {}
  bool done(Event) { return true; }
  void wait_all() {}
#if NNTILE_FAIL == 2
  std::byte* lock(Handle, Access) { return nullptr; }
#else
  std::span<std::byte> lock(Handle, Access) { return {}; }
#endif
  void unlock(Handle) {}
#if NNTILE_FAIL == 3
  Workers workers() { return {}; }
#else
  Workers workers() const { return {}; }
#endif
};

static_assert(RequiredRuntime<Mine>);
