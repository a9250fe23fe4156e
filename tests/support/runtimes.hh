// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The one list of runtimes that tests run on: TEMPLATE_LIST_TEST_CASE("...", "[...]", AllRuntimes).
// Each is built from RuntimeOptions. To add a runtime: a line in AllRuntimes.

#include <tuple>
#include <vector>

#include "nntile/runtime/dynamic/dynamic.hh"
#include "nntile/runtime/engine/engine.hh"
#include "nntile/runtime/name.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#ifdef NNTILE_HAVE_STARPU
#include "nntile/runtime/starpu/starpu.hh"
#endif
#include "tests/runtime/thread_executor.hh"

namespace nntile::test {

/// The engine over plain threads.
class Threads : public Engine<ThreadExecutor> {
 public:
  static constexpr std::string_view runtime_name = "threads";
  explicit Threads(RuntimeOptions const& options = {}) : Engine(options) {}
};

/// A ring that was chosen by name.
class DynamicRing : public Dynamic<Serial, Ring> {
 public:
  static constexpr std::string_view runtime_name = "dynamic";
  explicit DynamicRing(RuntimeOptions const& options = {}) : Dynamic("ring", options) {}
};

using AllRuntimes = std::tuple<Serial,
#ifdef NNTILE_HAVE_STARPU
                               StarPU,
#endif
                               Threads, DynamicRing, Ring>;
/// Those that do not order tasks which accumulate.
using CommutingRuntimes = std::tuple<
#ifdef NNTILE_HAVE_STARPU
    StarPU,
#endif
    Threads, DynamicRing, Ring>;

/// The most workers that tests ask for.
template <class R> inline constexpr int most_workers = 8;
template <> inline constexpr int most_workers<Serial> = 1;
#ifdef NNTILE_HAVE_STARPU
template <> inline constexpr int most_workers<StarPU> = 4;  // the limit of Debian's build
#endif

/// 1, 2, 4, ... up to `most_workers`.
template <class R> std::vector<int> worker_counts() {
  std::vector<int> counts;
  for (int workers = 1; workers <= most_workers<R>; workers *= 2) counts.push_back(workers);
  return counts;
}

}  // namespace nntile::test
