// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The runtimes that the tests of this folder build by themselves, under short names.

#include "nntile/runtime/common/engine.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/runtime/thread_executor.hh"

namespace nntile::test {

using Threads = Engine<ThreadExecutor>;
static_assert(Runtime<Threads> && ScopedRuntime<Threads>);

/// An engine whose driver executes everything.
struct Alone : Threads {
  Alone() : Threads(RuntimeOptions{1, false, false}) {}
};
/// Four workers, the driver one of them.
struct Four : Threads {
  Four() : Threads(RuntimeOptions{4, false, false}) {}
};
/// Two workers, and a driver that only waits.
struct Watched : Threads {
  Watched() : Threads(RuntimeOptions{2, true, false}) {}
};

}  // namespace nntile::test

#define NNTILE_TEST_MODELS \
  nntile::Serial, nntile::test::Alone, nntile::test::Four, nntile::test::Watched
