// error: an executor needs `bool help\(\)`: runs one spawned job, false if there is none
// note: Executor<X>.* class nntile::Engine|constraints not satisfied for class template 'Engine'
// SPDX-License-Identifier: BSD-3-Clause
// An executor without `help` fails where the engine is named.
#include "nntile/runtime/engine/engine.hh"

using namespace nntile;

struct Mine {
  void spawn(Job job) { job(); }
#ifndef NNTILE_FAIL
  bool help() { return false; }
#endif
  Workers workers() const { return {}; }
  void on_idle(Job) {}
};

static_assert(sizeof(Engine<Mine>) > 0);
