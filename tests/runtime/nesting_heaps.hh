// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What tests of the heaps of tasks that submit, on a ring, share.

#include <atomic>
#include <cstddef>
#include <thread>

#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"
#include "tests/support/nesting.hh"

namespace nntile::test {

using Handle = DataHandle;

inline RingCapacities bodies(std::size_t bytes, OnFull on_full) {
  RingCapacities capacities;
  capacities.bodies = {bytes, on_full};
  return capacities;
}
template <class Check> void on_rings(RingCapacities const& capacities, Check check) {
  for (int const workers : {1, 2, 8}) {
    INFO(workers << " workers");
    Ring ring(RuntimeOptions{.workers = workers}, capacities);
    check(ring);
    CHECK(ring.stats().bodies.used == 0);
  }
}
/// Runs a body on a ring, which it must not fail.
template <class Body> void run(Ring& ring, Body body) {
  ring.orchestrate(body);
  ring.wait_all();
}

/// Ends when the flag whose address is the argument is set.
inline constexpr Codelet gate_codelet{
    "gate",
    +[](KernelCall const& call) noexcept -> Status {
      auto& open = **static_cast<std::atomic<bool>* const*>(call.arguments);
      while (!open) std::this_thread::yield();
      return {};
    },
    nullptr, nullptr};

/// Steps a cell through scratch buffers so often, each of which ends behind its tasks.
struct Rounds {
  int rounds;
  int depth;
  std::size_t bytes;
  Handle result;
  void operator()(auto& nested) const {
    for (int i = 0; i < rounds; ++i) {
      auto own = scope(nested, Lifetime::scratch);
      Handle const array = own.allocate(bytes);
      submit(nested, copy_cell_codelet, {writing(array), reading(result)}, i);
      if (depth > 0) nested.orchestrate(Rounds{3, depth - 1, bytes, array}, updating(array));
      submit(nested, step_codelet, {updating(array)}, i);
      submit(nested, copy_cell_codelet, {writing(result), reading(array)}, 1);
    }
  }
  static long value(int rounds, int depth, long x) {
    for (int i = 0; i < rounds; ++i) {
      x = affine(x, 1, i);
      if (depth > 0) x = value(3, depth - 1, x);
      x = affine(affine(x, 3, i), 1, 1);
    }
    return x;
  }
};

}  // namespace nntile::test
