// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The runtimes that the tests of this folder build by themselves, under short names.

#include "nntile/runtime/engine/engine.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/runtime/thread_executor.hh"

namespace nntile::test {

using ThreadEngine = Engine<ThreadExecutor>;
static_assert(Runtime<ThreadEngine> && ScopedRuntime<ThreadEngine>);

/// An engine whose driver executes everything.
struct Alone : ThreadEngine {
  Alone() : ThreadEngine(RuntimeOptions{1, false, false}) {}
};
/// Four workers, the driver one of them.
struct Four : ThreadEngine {
  Four() : ThreadEngine(RuntimeOptions{4, false, false}) {}
};
/// Two workers, and a driver that only waits.
struct Watched : ThreadEngine {
  Watched() : ThreadEngine(RuntimeOptions{2, true, false}) {}
};

}  // namespace nntile::test

#define NNTILE_TEST_MODELS \
  nntile::Serial, nntile::test::Alone, nntile::test::Four, nntile::test::Watched
