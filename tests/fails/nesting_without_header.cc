// error: orchestrate: include nest\.hh
// SPDX-License-Identifier: BSD-3-Clause
// A program that nests without the header of its runtime names the one it needs.
#ifndef NNTILE_FAIL
#include "nntile/runtime/serial/nest.hh"
#else
#include "nntile/runtime/serial/serial.hh"
#endif

using namespace nntile;

void nest(Serial& runtime) {
  (void)runtime.orchestrate([](auto& nested) { nested.wait_all(); });
}
