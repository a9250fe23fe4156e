// error: Runtime<R> class nntile::TaskHandle|constraints not satisfied for class template 'TaskHandle'
// note: runtime\.wait_all\(\)
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
#ifndef NNTILE_FAIL
  void wait_all() {}
#endif
};

static_assert(sizeof(TaskHandle<Mine>) > 0);
