// error: static.assert.* failed
// note: runtime\.submit\(task\)|same_as<void, nntile::Event>
// SPDX-License-Identifier: BSD-3-Clause
// A runtime whose submit returns no Event fails at its static_assert.
#include "nntile/runtime/concept.hh"

using namespace nntile;

struct Mine {
  using Handle = int;
  Handle allocate(std::size_t, Place, Lifetime) { return 0; }
  Handle adopt(std::span<std::byte>, Place, Release) { return 0; }
  void retire(Handle) {}
#ifdef NNTILE_FAIL
  void submit(Task<Handle> const&) {}
#else
  Event submit(Task<Handle> const&) { return {}; }
#endif
  void wait(Event) {}
  bool done(Event) { return true; }
  void wait_all() {}
  std::span<std::byte> lock(Handle, Access) { return {}; }
  void unlock(Handle) {}
  Workers workers() const { return {}; }
};

static_assert(Runtime<Mine>);
