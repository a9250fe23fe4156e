// error: a runtime needs `void wait_all\(\)`
// note: Runtime<R> class nntile::TaskHandle|constraints not satisfied for class template 'TaskHandle'
// error: a runtime needs a type `Handle`: a copyable name of a buffer
// SPDX-License-Identifier: BSD-3-Clause
// A runtime that lacks a member fails with the name of that member.
#include "nntile/runtime/archetype.hh"
#include "nntile/runtime/task_handle.hh"

using namespace nntile;

struct Mine {
  using Handle = int;
  Handle allocate(std::size_t, Place, Lifetime) { return 0; }
  Handle adopt(std::span<std::byte>, Place, Release) { return 0; }
  void retire(Handle) {}
  Event submit(Task<Handle> const&) { return {}; }
  void wait(Event) {}
  bool done(Event) { return true; }
  std::span<std::byte> lock(Handle, Access) { return {}; }
  void unlock(Handle) {}
  Workers workers() const { return {}; }
#if NNTILE_FAIL != 1
  void wait_all() {}
#endif
};

#if NNTILE_FAIL == 2
static_assert(sizeof(TaskHandle<int>) > 0);
#else
static_assert(sizeof(TaskHandle<Mine>) > 0);
#endif
